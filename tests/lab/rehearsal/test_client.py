"""The producer of a rehearsal, against the broker that its own library brings for tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka

from lab.rehearsal.client import Output, write
from lab.rehearsal.facts import Sent
from lab.rehearsal.series import SENT, GrowingSeries

PARTITIONS_THERE = 4
"""Of each topic of the library's own broker."""
DEADLINE_S = 30.0
UNKNOWN_PARTITION = confluent_kafka.KafkaError._UNKNOWN_PARTITION


class EnoughSeen:
    """Set as soon as a series holds what is waited for, or at the deadline."""

    def __init__(self, series: GrowingSeries[Sent], wanted: Any) -> None:
        self._series, self._wanted = series, wanted
        self._end = time.monotonic() + DEADLINE_S

    @property
    def is_set(self) -> bool:
        return self._wanted(self._series.read()) or time.monotonic() > self._end


def test_messages_for_a_partition_that_is_gone_are_errors_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sent.bin"
    series = GrowingSeries(file, Sent, SENT)

    def is_enough(sent: list[Sent]) -> bool:
        refused = [one for one in sent if one.error]
        return len(refused) > 3 and sent[-1].is_acked

    with file.open("wb") as opened:
        write(
            {
                "topic": "orders",
                "partitions": PARTITIONS_THERE + 1,
                "rate": 200,
                "size": 40,
                "keys": PARTITIONS_THERE + 1,
                "first_key": 0,
                "client": {"test.mock.num.brokers": 1, "log_level": 0},
            },
            Output(opened),
            EnoughSeen(series, is_enough),
        )

    sent = series.read()
    assert {one.error for one in sent if one.partition == PARTITIONS_THERE} == {UNKNOWN_PARTITION}
    assert all(one.is_acked for one in sent if one.partition < PARTITIONS_THERE)


def test_an_acknowledgement_without_an_offset_is_one(tmp_path: Path) -> None:
    # A broker gives none for acks=0, nor for a batch that it got before and no longer remembers.
    file = tmp_path / "sent.bin"
    series = GrowingSeries(file, Sent, SENT)

    with file.open("wb") as opened:
        write(
            {
                "topic": "orders",
                "partitions": PARTITIONS_THERE,
                "rate": 200,
                "size": 40,
                "keys": PARTITIONS_THERE,
                "first_key": 0,
                "client": {"test.mock.num.brokers": 1, "log_level": 0, "acks": 0},
            },
            Output(opened),
            EnoughSeen(series, lambda sent: len(sent) > 3),
        )

    sent = series.read()
    assert len(sent) > 3
    assert all(one.is_acked for one in sent)
