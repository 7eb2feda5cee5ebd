"""The producer of a rehearsal, against the broker that its own library brings for tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka

from lab.rehearsal.client import Output, write, write_transactions
from lab.rehearsal.facts import Outcome, Sent, Transaction
from lab.rehearsal.series import SENT, TRANSACTION, GrowingRecords, GrowingSeries

PARTITIONS_THERE = 4
"""Of each topic of the library's own broker."""
DEADLINE_S = 30.0
UNKNOWN_PARTITION = confluent_kafka.KafkaError._UNKNOWN_PARTITION
MESSAGES_FAILED = confluent_kafka.KafkaError._INCONSISTENT


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


def transactions_of(
    folder: Path, partitions: int, wanted: Any
) -> tuple[list[Sent], list[Transaction]]:
    """Write transactions until the messages are as wanted; return them, and the transactions."""
    series = GrowingSeries(folder / "sent.bin", Sent, SENT)
    with (folder / "sent.bin").open("wb") as opened:
        write_transactions(
            {
                "topic": "orders",
                "partitions": partitions,
                "rate": 200,
                "size": 40,
                "keys": partitions,
                "first_key": 0,
                "commit": 0.05,
                "transactions": str(folder / "transactions.bin"),
                "client": {
                    "test.mock.num.brokers": 1,
                    "log_level": 0,
                    "transactional.id": "writers",
                },
            },
            Output(opened),
            EnoughSeen(series, wanted),
        )
    found = GrowingRecords(folder / "transactions.bin", Transaction, TRANSACTION)
    return series.read(), found.read()


def test_a_message_is_answered_when_its_transaction_is_committed(tmp_path: Path) -> None:
    sent, found = transactions_of(tmp_path, PARTITIONS_THERE, lambda sent: len(sent) > 40)

    assert all(one.is_acked for one in sent)
    assert len(found) > 2
    assert {one.outcome for one in found} == {Outcome.COMMITTED}
    # Each message is in one transaction, and has the time of its answer.
    members = [n for one in found for n in range(one.first, one.first + one.messages)]
    assert members == list(range(len(sent)))
    done = [one.done_ns for one in found for _ in range(one.messages)]
    assert [one.done_ns for one in sent] == done
    assert all(one.begun_ns < one.asked_ns <= one.done_ns for one in found)


def test_a_transaction_with_a_message_that_is_refused_is_aborted_and_the_next_one_begins(
    tmp_path: Path,
) -> None:
    sent, found = transactions_of(tmp_path, PARTITIONS_THERE + 1, lambda sent: len(sent) > 10)

    assert {one.outcome for one in found} == {Outcome.ABORTED}
    # A commit that comes before the client has counted the refusal has an error of its own.
    assert {one.error for one in found} <= {UNKNOWN_PARTITION, MESSAGES_FAILED}
    assert {one.error for one in sent} == {UNKNOWN_PARTITION}
    assert len(found) > 1
    assert not any(one.is_fatal for one in found)
