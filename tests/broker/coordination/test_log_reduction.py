"""Records left in a log when each key has its last record."""

from __future__ import annotations

import struct

import pytest

from broker.coordination.log_reduction import LogReduction
from jbodlab.record_batch.record_batch import CONTROL, TRANSACTIONAL, build_batch
from jbodlab.vocabulary import large_dict
from jbodlab.vocabulary.errors import DecodeError

Written = tuple[str, str | None]
"""Key and value."""


class Log:
    """Batches one after the other."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def add(self, *records: Written, producer: int = -1, gap: int = 0) -> None:
        self._append(
            [(key.encode(), None if v is None else v.encode()) for key, v in records],
            TRANSACTIONAL if producer >= 0 else 0,
            producer,
            gap,
        )

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        marker = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
        self._append([marker], TRANSACTIONAL | CONTROL, producer, 0)

    def _append(
        self, records: list[tuple[bytes, bytes | None]], attributes: int, producer: int, gap: int
    ) -> None:
        self.end += gap
        self.data += build_batch(
            records,
            base_offset=self.end,
            timestamp_ms=0,
            attributes=attributes,
            producer_id=producer,
            producer_epoch=0,
        )
        self.end += len(records)


def reduced(log: Log, high_watermark: int | None = None) -> LogReduction:
    reduction = LogReduction(log.end if high_watermark is None else high_watermark)
    assert reduction.take(log.data, 0) == log.end
    return reduction


def left(reduction: LogReduction) -> list[Written]:
    return [(r.key.decode(), r.value and r.value.decode()) for r in reduction.records()]


@pytest.fixture
def log() -> Log:
    return Log()


def test_last_record_of_each_key_stays_in_the_order_of_the_log(log: Log) -> None:
    log.add(("a", "1"), ("b", "1"), ("c", "1"))
    log.add(("a", "2"), ("c", None), gap=5)

    reduction = reduced(log)

    found = [(record.offset, record.key, record.value) for record in reduction.records()]
    assert found == [(1, b"b", b"1"), (8, b"a", b"2")]
    assert left(reduction) == []
    assert reduction.record_count == 5


def test_keys_that_are_arranged_part_by_part_stay_in_the_order_of_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_dict, "UNDIVIDED_MAX", 1)
    log.add(("a", "1"), ("b", "1"), ("c", "1"))
    log.add(("a", "2"), ("c", None))
    reduction = reduced(log)

    were_left = [reduction.arrange() for _ in range(large_dict.PARTS + 1)]

    assert were_left == [True] * large_dict.PARTS + [False]
    assert left(reduction) == [("b", "1"), ("a", "2")]


def test_what_lies_above_the_high_watermark_is_kept_whole(log: Log) -> None:
    log.add(("a", "1"), ("b", "1"))
    log.add(("a", "2"))
    log.add(("a", None), ("b", "2"))

    reduction = reduced(log, high_watermark=2)

    assert left(reduction) == [("a", "1"), ("b", "1")]
    assert [(end, [r.key for r in records]) for end, records in reduction.above] == [
        (3, [b"a"]),
        (5, [b"a", b"b"]),
    ]


def test_piece_that_begins_in_front_of_what_was_read_repeats_nothing(log: Log) -> None:
    log.add(("a", "1"), ("b", "1"))
    first = len(log.data)
    log.add(("a", "2"))
    reduction = LogReduction(log.end)

    assert reduction.take(log.data[:first], 0) == 2
    assert reduction.take(log.data, 2) == 3

    assert reduction.record_count == 3


def test_records_of_a_transaction_count_from_its_marker_on(log: Log) -> None:
    log.add(("a", "committed"), producer=1)
    log.add(("b", "aborted"), producer=2)
    log.add(("c", "open"), producer=3)
    log.add(("a", "later"), ("d", "older"), producer=4)
    log.add(("d", "newer"))
    log.end_transaction(1, commit=True)
    log.end_transaction(2, commit=False)
    log.end_transaction(4, commit=True)

    reduction = reduced(log)

    assert left(reduction) == [("d", "newer"), ("a", "later")]
    assert [(producer, r.key) for producer, r in reduction.open_records()] == [(3, b"c")]


@pytest.mark.parametrize("high_watermark", range(5))
def test_record_of_a_transaction_replaces_none_that_is_newer(log: Log, high_watermark: int) -> None:
    log.add(("a", "older"), producer=1)
    log.add(("b", "gone"), producer=2)
    log.add(("a", "newer"), ("b", None))
    log.end_transaction(1, commit=True)
    log.end_transaction(2, commit=True)

    reduction = reduced(log, high_watermark)

    found = {r.key: r.value for _, records in reduction.above for r in records}
    assert {b"a": b"newer", b"b": None, **found} == {b"a": b"newer", b"b": None}


def test_a_tombstone_takes_the_records_of_open_transactions_away_as_well(log: Log) -> None:
    log.add(("a", "open"), ("b", "open"), producer=1)
    log.add(("a", None))
    log.add(("a", "later"), producer=2)
    log.add(("b", "plain"))

    reduction = reduced(log)

    found = [(producer, r.key, r.value) for producer, r in reduction.open_records()]
    assert found == [(1, b"b", b"open"), (2, b"a", b"later")]


@pytest.mark.parametrize("at", [17, 70])
def test_damaged_batch_is_never_taken_for_a_short_log(log: Log, at: int) -> None:
    log.add(("a", "1"), ("b", "1"))
    data = bytearray(log.data)
    data[at] ^= 1

    with pytest.raises(DecodeError, match="offset 0"):
        LogReduction(log.end).take(bytes(data), 0)
