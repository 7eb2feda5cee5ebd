"""Records that compaction keeps of a batch, and its bytes by Apache Kafka's own filter."""

from __future__ import annotations

import pytest

from jbodlab.record_batch.compression import decompress
from jbodlab.record_batch.record_batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    build_batch,
    crc_is_valid,
    iterate_records,
    read_header,
)
from jbodlab.record_batch.record_slices import slice_records
from jbodlab.storage.compaction.cleaned_transactions import CleanedTransactions
from jbodlab.storage.compaction.compacted_batch import BatchFilter, LastBatch, empty, rewrite
from jbodlab.storage.compaction.offset_map import OffsetMap
from jbodlab.storage.log.transactions import AbortedTransaction
from jbodlab.vocabulary.errors import DecodeError
from tests.jbodlab.storage.compaction.batches import batch_of, record

NOW = 9_000
RETENTION = 86_400_000


RECORDS = (record(0, 0, b"a", None), record(1, 10, b"b", b"1"), record(2, 20, b"c", b"2"))


def filter_of(
    newest: dict[bytes, int] | None = None,
    *,
    mapped_end: int = 1_000,
    round_end: int = 1_000,
    now_ms: int = NOW,
    producers: dict[int, LastBatch] | None = None,
    aborted: tuple[AbortedTransaction, ...] = (),
    keeps_deletes: bool = False,
) -> BatchFilter:
    offsets = OffsetMap(1 << 16)
    for key, offset in (newest or {}).items():
        offsets.put(key, offset)
    return BatchFilter(
        offsets=offsets,
        mapped_end=mapped_end,
        round_end=round_end,
        producers=producers or {},
        transactions=CleanedTransactions(aborted),
        now_ms=now_ms,
        keeps_deletes=keeps_deletes,
        delete_retention_ms=RETENTION,
    )


def keep(batch: bytes, rules: BatchFilter) -> bytes | None:
    left = rules.keep(memoryview(batch), read_header(batch))
    return None if left is None else bytes(left)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_with_a_surviving_tombstone_gets_a_horizon_and_the_records_keep_their_times(codec):
    left = keep(batch_of(*RECORDS, codec=codec), filter_of({b"c": 500}))

    header = read_header(left)
    assert (header.base_offset, header.last_offset_delta) == (100, 2)
    assert header.attributes == 0x40 | codec
    assert (header.base_timestamp, header.max_timestamp) == (86_409_000, 5_010)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 1, 7)
    assert (header.partition_leader_epoch, header.records_count) == (3, 2)
    slices = slice_records(decompress(codec, left[HEADER_SIZE:]), 2)
    assert [each.timestamp_delta for each in slices] == [-86_404_000, -86_403_990]
    assert [each.offset_delta for each in slices] == [0, 1]
    assert [(each.offset, each.timestamp) for each in iterate_records(left)] == [
        (100, 5_000),
        (101, 5_010),
    ]
    assert crc_is_valid(left, 0, header)


def test_a_batch_whose_header_alone_stays_has_61_bytes():
    rules = filter_of({b"a": 500, b"b": 500, b"c": 500}, producers={42: LastBatch(102, 1)})

    left = keep(batch_of(*RECORDS), rules)

    assert left is not None
    assert len(left) == 61
    header = read_header(left)
    assert (header.base_offset, header.last_offset_delta, header.attributes) == (100, 2, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 5_020)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 1, 7)
    assert header.records_count == 0
    assert crc_is_valid(left, 0, header)
    assert list(iterate_records(left)) == []


def test_the_first_record_that_stays_gives_the_base_timestamp():
    values = (record(0, 0, b"a", b"0"), *RECORDS[1:])

    left = keep(batch_of(*values), filter_of({b"a": 500}))

    header = read_header(left)
    assert (header.base_timestamp, header.max_timestamp, header.attributes) == (5_010, 5_020, 0)
    assert [(each.offset, each.timestamp) for each in iterate_records(left)] == [
        (101, 5_010),
        (102, 5_020),
    ]


def test_times_of_appends_stay_what_they_are():
    batch = batch_of(*RECORDS, attributes=LOG_APPEND_TIME, max_timestamp=7_777)

    left = keep(batch, filter_of({b"c": 500}))

    header = read_header(left)
    assert (header.max_timestamp, header.base_timestamp) == (7_777, 86_409_000)
    assert [each.timestamp for each in iterate_records(left)] == [7_777, 7_777]


VALUES = (record(0, 0, b"a", b"0"), record(1, 10, b"b", b"1"), record(2, 20, b"c", b"2"))
KEYLESS = b"\x0e\0\0\0\x01\x02v\0"
OLD_TOMBSTONE = {"attributes": DELETE_HORIZON, "base_timestamp": NOW}
LATE_TOMBSTONE = {"attributes": DELETE_HORIZON, "base_timestamp": NOW + 1}


@pytest.mark.parametrize(
    ("records", "fields", "rules", "offsets"),
    [
        pytest.param(VALUES, {}, {}, [100, 101, 102], id="keys that are not in the map stay"),
        pytest.param(VALUES, {}, {"newest": {b"a": 100}}, [100, 101, 102], id="the newest stays"),
        pytest.param(VALUES, {}, {"newest": {b"a": 101}}, [101, 102], id="superseded goes"),
        pytest.param(
            VALUES,
            {},
            {"newest": {b"a": 500, b"b": 500, b"c": 500}, "mapped_end": 101},
            [101, 102],
            id="what was not mapped stays",
        ),
        pytest.param((KEYLESS,), {}, {}, None, id="without a key it goes"),
        pytest.param((KEYLESS,), {}, {"mapped_end": 100}, [100], id="keyless but not mapped"),
        pytest.param(RECORDS[:1], {}, {"newest": {b"a": 500}}, None, id="superseded tombstone"),
        pytest.param(RECORDS[:1], {}, {}, [100], id="first round with a tombstone"),
        pytest.param(RECORDS[:1], LATE_TOMBSTONE, {}, [100], id="tombstone before its horizon"),
        pytest.param(RECORDS[:1], OLD_TOMBSTONE, {}, None, id="tombstone past its horizon"),
        pytest.param(
            RECORDS[:1],
            OLD_TOMBSTONE,
            {"keeps_deletes": True},
            [100],
            id="tombstone past its horizon that a replica may not have seen",
        ),
        pytest.param(RECORDS, OLD_TOMBSTONE, {}, [101, 102], id="values past a horizon"),
        pytest.param(VALUES[:1], {}, {"newest": {b"a": 500}, "round_end": 101}, [], id="round end"),
        pytest.param(VALUES[:1], {}, {"newest": {b"a": 500}}, None, id="nothing left"),
        pytest.param(
            VALUES[:1],
            {},
            {"newest": {b"a": 500}, "producers": {42: LastBatch(99, 1)}},
            None,
            id="not the last batch of its producer",
        ),
        pytest.param((), {"last_offset_delta": 0}, {}, None, id="header nobody needs any more"),
        pytest.param(
            (),
            {"last_offset_delta": 0},
            {"producers": {42: LastBatch(100, 1)}},
            [],
            id="header somebody needs",
        ),
    ],
)
def test_which_records_stay(records, fields, rules, offsets):
    left = keep(batch_of(*records, **fields), filter_of(**rules))

    found = None if left is None else [each.offset for each in iterate_records(left)]
    assert found == offsets


def test_a_batch_that_loses_nothing_is_the_same_bytes():
    batch = batch_of(*VALUES, codec=4)

    assert keep(batch, filter_of()) == batch


def test_a_horizon_is_set_once():
    batch = batch_of(RECORDS[0], **LATE_TOMBSTONE)

    assert keep(batch, filter_of()) == batch


def test_a_rewritten_batch_keeps_the_horizon_that_it_has():
    left = keep(batch_of(*RECORDS, **LATE_TOMBSTONE), filter_of({b"c": 500}))

    assert left is not None
    header = read_header(left)
    assert (header.base_timestamp, header.attributes) == (NOW + 1, DELETE_HORIZON)


def marker(kind: int, offset: int = 200, **fields: int) -> bytes:
    return build_batch(
        [(b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\x07")],
        base_offset=offset,
        timestamp_ms=5_000,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=42,
        producer_epoch=1,
        **fields,
    )


def with_horizon(batch: bytes, horizon_ms: int) -> bytes:
    header = read_header(batch)
    return rewrite(header, batch[HEADER_SIZE:], slice_records(batch[HEADER_SIZE:], 1), horizon_ms)


DATA = batch_of(VALUES[0], attributes=TRANSACTIONAL)
ABORTED = (AbortedTransaction(42, 100, 200, 201),)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_marker_stays_as_it_is_while_a_batch_of_its_transaction_is_met(kind):
    rules = filter_of(aborted=ABORTED if kind == 0 else ())
    keep(DATA, rules)

    assert keep(marker(kind), rules) == marker(kind)
    assert rules.transactions.take_kept() == (list(ABORTED) if kind == 0 else [])
    assert rules.transactions.take_kept() == []


@pytest.mark.parametrize("kind", [0, 1])
def test_a_marker_of_no_batch_gets_a_horizon_and_goes_after_it(kind):
    rules = filter_of(aborted=ABORTED if kind == 0 else ())
    marked = keep(marker(kind), rules)

    assert marked is not None
    header = read_header(marked)
    assert (header.attributes, header.base_timestamp) == (
        TRANSACTIONAL | CONTROL | DELETE_HORIZON,
        NOW + RETENTION,
    )
    assert rules.transactions.take_kept() == []
    assert keep(marked, filter_of(now_ms=NOW + RETENTION - 1)) == marked
    assert keep(marked, filter_of(now_ms=NOW + RETENTION, keeps_deletes=True)) == marked
    assert keep(marked, filter_of(now_ms=NOW + RETENTION)) is None


def test_a_marker_that_carries_its_producers_epoch_stays_as_a_header():
    marked = with_horizon(marker(1), NOW)

    left = keep(marked, filter_of(producers={42: LastBatch(None, 1)}))

    assert left == empty(read_header(marked))
    assert keep(left, filter_of(producers={42: LastBatch(None, 1)})) == left
    assert keep(left, filter_of()) is None


def test_markers_are_not_matched_by_their_keys():
    rules = filter_of({b"\0\0\0\x01": 900})
    keep(DATA, rules)

    assert keep(marker(1), rules) == marker(1)


def test_control_batches_of_other_kinds_stay():
    assert keep(marker(5), filter_of()) == marker(5)


def test_nothing_stays_of_what_an_aborted_transaction_wrote():
    assert keep(DATA, filter_of(aborted=ABORTED)) is None
    assert keep(DATA, filter_of()) == DATA


def test_another_producers_batch_in_between_is_not_aborted():
    other = batch_of(VALUES[0], attributes=TRANSACTIONAL, producer_id=43)
    plain = batch_of(VALUES[0])

    assert keep(other, filter_of(aborted=ABORTED)) == other
    assert keep(plain, filter_of(aborted=ABORTED)) == plain


def test_after_its_marker_a_producer_is_not_aborting_any_more():
    rules = filter_of(aborted=ABORTED)
    keep(DATA, rules)
    keep(marker(0), rules)
    later = build_batch(
        [(b"k", b"v")],
        base_offset=300,
        timestamp_ms=1,
        attributes=TRANSACTIONAL,
        producer_id=42,
        producer_epoch=1,
    )

    assert keep(later, rules) == later


def test_a_damaged_batch_is_not_made_valid():
    batch = bytearray(batch_of(*VALUES))
    batch[-2] ^= 1

    with pytest.raises(DecodeError, match="wrong CRC"):
        keep(bytes(batch), filter_of({b"a": 500}))
