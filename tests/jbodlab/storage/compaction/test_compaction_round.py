"""Rounds of compaction on real segments: readers miss nothing but what was superseded."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from jbodlab.record_batch.record_batch import DELETE_HORIZON, build_batch, read_header
from jbodlab.storage.compaction.compaction import dirty_range
from jbodlab.storage.compaction.compaction_plan import CleaningStoppedError, RoundPlan
from jbodlab.storage.compaction.compaction_round import CompactionRound
from jbodlab.storage.compaction.offset_map import SLOT_BYTES
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.producer_state import Duplicate
from jbodlab.vocabulary.errors import CorruptRecordError
from tests.jbodlab.storage.compaction.cleaning import CompactedLog

KEYS = 10
VERSIONS = 1_000


@pytest.fixture
def log(tmp_path):
    made = CompactedLog(tmp_path, segment_bytes=4_000, index_interval_bytes=200)
    yield made
    made.log.abandon()


def key(number: int) -> bytes:
    return b"key %d" % (number % KEYS)


def test_compact_basic(log):
    """Of 10 keys with 1000 versions 10 records and the active segment are left."""
    for number in range(KEYS * VERSIONS):
        if number % 20 == 0:
            log.append(*[(key(n), b"%d" % n) for n in range(number, number + 20)])
    before, end, closed = log.table(), log.end, log.log.segment_count - 1
    assert closed > 3
    active = log.log.state.active.base_offset

    mapped = log.clean()

    assert log.table() == before
    assert log.end == end
    assert mapped.end == active
    assert mapped.keys == KEYS
    assert log.log.segment_count > 2
    log.clean()
    assert log.log.segment_count == 2
    below = [record for record in log.records() if record[0] < active]
    assert [key for _, key, _ in below] == [key(n) for n in range(active, active + KEYS)]
    assert log.names(".cleaned") == log.names(".swap") == []
    log.reopen()
    assert log.table() == before
    assert log.end == end


def test_a_second_round_reads_on_where_the_first_has_ended(log):
    for number in range(200):
        log.append((key(number), b"%d" % number))
    log.roll()
    first = log.clean()
    for number in range(200, 260):
        log.append((key(number), b"%d" % number))
    log.roll()
    table = log.table()

    dirty = dirty_range(log.log.state, log.end, 10_000)
    second = log.clean()

    assert first.end == dirty.first_dirty == 200
    assert dirty.first_uncleanable == second.end == 260
    assert log.table() == table
    assert [offset for offset, _, _ in log.records()] == list(range(250, 260))
    assert dirty_range(log.log.state, log.end, 10_000).ratio == 0


def test_compact_tombstone(log):
    """A deleted key stays deleted; its tombstone outlives the horizon of its first round."""
    log.append((b"a", b"1"), (b"b", b"1"))
    log.append((b"a", None))
    log.append((b"z", b"end"))
    log.roll()

    log.clean(now_ms=10_000)
    assert log.records() == [(1, b"b", b"1"), (2, b"a", None), (3, b"z", b"end")]
    horizon = [each for each in log.headers() if each.attributes & DELETE_HORIZON]
    assert [(each.base_offset, each.base_timestamp) for each in horizon] == [(2, 11_000)]
    log.clean(now_ms=10_999)
    assert (2, b"a", None) in log.records()
    log.clean(now_ms=11_000)

    assert log.records() == [(1, b"b", b"1"), (3, b"z", b"end")]
    assert log.end == 4


def test_compact_transactions(log):
    """Aborted data is gone, markers stay while data is there, an open transaction is as it was."""
    log.append((b"a", b"committed"), producer=1, transactional=True)
    log.append((b"b", b"aborted"), producer=2, transactional=True)
    log.append((b"filler", b"x" * 3_000))
    log.append((b"c", b"aborted"), producer=2, transactional=True)
    log.append((b"a", b"plain"))
    log.append((b"d", b"committed"), producer=1, transactional=True)
    log.append((b"filler", b"x" * 3_000))
    aborted_at = log.abort(2)
    committed_at = log.commit(1)
    log.append((b"b", b"2"), producer=2, transactional=True)
    log.commit(2)
    log.roll()
    log.append((b"e", b"open"), producer=3, transactional=True)
    log.roll()
    before, entries = log.table(), log.aborted()
    state = log.log.state.last_stable_offset(log.end)

    for now_ms in (10_000, 10_500, 12_000, 14_000):
        log.clean(now_ms)

        assert log.table() == before
        assert b"aborted" not in {value for _, _, value in log.committed()}
        assert log.log.state.last_stable_offset(log.end) == state
        offsets = [header.base_offset for header in log.headers()]
        assert log.end - 1 in offsets
        if now_ms == 10_000:
            assert {aborted_at, committed_at} <= set(offsets)
            assert log.aborted() == entries
        markers = {header.base_offset for header in log.headers() if header.is_control}
        assert committed_at in markers
    assert log.aborted() == []
    assert aborted_at not in {header.base_offset for header in log.headers()}
    log.reopen(clean=False)
    assert log.table() == before


def test_a_transaction_over_two_groups_keeps_its_marker(log):
    log.use(segment_bytes=100)
    log.append((b"a", b"1"), producer=1, transactional=True)
    log.roll()
    log.append((b"b", b"1"))
    log.roll()
    at = log.commit(1)
    log.roll()

    for now_ms in (10_000, 20_000, 40_000):
        log.clean(now_ms)

    marker = next(header for header in log.headers() if header.base_offset == at)
    assert (marker.is_control, marker.records_count, marker.attributes & DELETE_HORIZON) == (
        True,
        1,
        0,
    )


def test_an_aborted_transaction_whose_marker_is_not_cleaned_yet_leaves_nothing_behind(log):
    log.append((b"a", b"1"))
    log.roll()
    log.append((b"a", b"aborted"), producer=2, transactional=True)
    log.roll()
    log.abort(2)

    log.clean()

    assert log.table() == {b"a": b"1"}
    assert (1, b"a", b"aborted") not in log.records()


def test_compact_producer_state(log):
    """The last batch of a producer stays as a header; after a restart it is known."""
    log.append((b"a", b"1"), (b"b", b"1"), producer=7)
    log.append((b"a", b"2"), (b"b", b"2"))
    log.roll()
    known = log.log.state.producers.entry(7)

    log.clean()
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    log.reopen(clean=False)

    entry = log.log.state.producers.entry(7)
    assert (entry.epoch, entry.last_sequence) == (known.epoch, known.last_sequence)
    assert [header.records_count for header in log.headers()] == [0, 2]
    again = read_header(
        build_batch(
            [(b"a", b"1"), (b"b", b"1")],
            timestamp_ms=5_000,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        )
    )
    assert log.log.state.producers.check(again) == Duplicate(
        base_offset=0, last_offset=1, timestamp=5_000
    )
    log.log.state.producers.expire(10**9, 1)
    assert log.log.state.producers.expire(10**9 + 1, 1) > 0
    log.roll()
    log.append((b"c", b"3"))
    log.roll()
    log.clean(10**9)
    assert [header.base_offset for header in log.headers()] == [2, 4]


def test_of_a_log_that_is_never_the_same_for_two_rounds_the_table_stays(log):
    """I15, after any schedule of appends, deletions, transactions and rounds."""
    for seed in range(8):
        choose = random.Random(seed)
        now_ms, open_ones = 10_000, {}
        for _ in range(60):
            kind = choose.randrange(12)
            name = b"%d" % choose.randrange(8)
            if kind < 6:
                value = None if choose.random() < 0.3 else b"%d" % log.end
                log.append((name, value), (b"s", b"%d" % log.end))
            elif kind == 6:
                log.append((name, b"idempotent"), producer=9)
            elif kind == 7:
                producer = choose.randrange(3)
                log.append((name, b"t%d" % log.end), producer=producer, transactional=True)
                open_ones[producer] = True
            elif kind == 8 and open_ones:
                producer, _ = open_ones.popitem()
                log.mark(producer, choose.randrange(2))
            elif kind == 9:
                log.roll()
            else:
                before, end = log.table(), log.end
                stable = log.log.state.last_stable_offset(end)
                memory = choose.choice((1 << 20, 4 * SLOT_BYTES))
                now_ms += choose.randrange(2_000)

                log.clean(now_ms, memory)

                assert log.table() == before, f"seed {seed}"
                assert log.end == end
                assert log.log.state.last_stable_offset(end) == stable
                if kind == 11:
                    producers = log.log.state.producers.entries
                    log.reopen(clean=choose.random() < 0.5)
                    found = log.log.state.producers.entries
                    assert [each[0] for each in found] == [each[0] for each in producers]
                    assert [each.last_sequence for _, each in found] == [
                        each.last_sequence for _, each in producers
                    ]
                    assert log.table() == before, f"seed {seed}"
                    assert log.end == end


def test_a_map_that_is_full_ends_the_round_in_the_middle_of_a_batch_and_others_go_on(log):
    for number in range(6):
        log.append(*[(b"%d" % n, b"%d" % number) for n in range(10)])
    log.roll()
    table = log.table()

    ends = [log.clean(map_bytes=5 * SLOT_BYTES).end for _ in range(3)]

    assert ends == [4, 8, 12]
    assert log.table() == table
    while log.clean(map_bytes=5 * SLOT_BYTES).end < log.end:
        assert log.table() == table
    assert log.table() == table


def test_a_consumer_gets_past_segments_of_which_nothing_is_left(log):
    log.use(segment_bytes=200)
    log.append((b"first", b"1"))
    log.roll()
    for number in range(4):
        log.append((b"a", b"%d" % number * 80))
        log.roll()
    log.append((b"end", b"1"))

    log.clean()

    assert [offset for offset, _, _ in log.records()] == [0, 4, 5]
    assert read_header(log.log.read(1, 1)).base_offset == 4


def test_what_does_not_fit_goes_to_another_segment(log):
    """A batch that is compressed anew may be larger (KAFKA-20036)."""
    log.append(*[(b"%d" % n, b"v") for n in range(10)], (b"s", b"1"))
    log.append(*[(b"k%d" % n, b"v") for n in range(10)], (b"s", b"2"))
    log.append((b"s", b"3"))
    log.roll()
    table = log.table()
    log.use(segment_index_bytes=8, index_interval_bytes=0)

    log.clean()

    assert log.log.segment_base_offsets == (0, 11, 22, 23)
    assert log.table() == table
    log.reopen()
    assert log.table() == table


def test_a_log_that_was_compacted_opens_with_another_policy(log):
    for number in range(40):
        log.append((key(number), b"x" * 300))
    log.roll()
    log.append((b"z", b"1"))
    log.clean()
    table = log.table()
    cleaned_to = checkpointed.cleaned_to(log.log.state)
    log.log.close(clean=True)

    found = type(log.log).load(
        log.fs,
        log.directory,
        replace(log.config, cleanup_policy="delete"),
        clean=True,
        recovery_point=log.end,
        log_start_offset=0,
        shared=None,
        cleaned_to=cleaned_to,
    )

    log.log = found
    assert log.table() == table
    assert log.names(".damaged") == []


def test_a_round_that_is_called_off_leaves_the_log_as_it_was(log):
    for number in range(100):
        log.append((key(number), b"x" * 100))
    log.roll()
    before, names = log.records(), log.names()

    def stop(_size):
        nonlocal looks
        looks -= 1
        if not looks:
            raise CleaningStoppedError("cancelled")

    state, looks = log.log.state, 105
    plan = RoundPlan.of(
        state, log.directory, dirty_range(state, log.end, 1), now_ms=1, map_bytes=1 << 20
    )
    cleaning = CompactionRound(log.fs, plan, stop)
    cleaning.begin()
    with pytest.raises(CleaningStoppedError):
        cleaning.clean(0)

    assert log.records() == before
    assert log.names(".cleaned")
    log.reopen(clean=False)
    assert log.names(".cleaned") == []
    assert set(log.names(".log")) == {name for name in names if name.endswith(".log")}


@pytest.mark.parametrize("at", [5, 30])
def test_a_damaged_batch_ends_the_round_and_is_not_made_valid(log, at):
    log.append((b"a", b"x" * 100))
    log.append((b"a", b"x" * 100))
    log.roll()
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-at] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptRecordError):
        log.clean()

    assert path.read_bytes() == data


def test_a_segment_that_is_gone_calls_the_round_off(log):
    log.append((b"a", b"1"))
    log.roll()
    (log.directory / "00000000000000000000.log").unlink()

    with pytest.raises(CleaningStoppedError):
        log.clean()


def test_the_log_begins_where_it_did_although_nothing_is_left_there(log):
    log.append((b"a", b"1"))
    log.roll()
    log.use(segment_bytes=70)
    log.append((b"a", b"2"))
    log.roll()

    log.clean()
    log.log.retention(10**12, log.end)

    assert log.log.segment_base_offsets == (0, 1, 2)
    assert log.log.log_start_offset == 0
    log.log.advance_start_to(1)
    log.log.retention(10**12, log.end)
    assert log.log.segment_base_offsets == (1, 2)


def test_a_follower_notes_that_its_log_has_gaps_and_opens_again_whatever_the_policy(log):
    log.use(segment_bytes=200)
    log.append((b"a", b"1"))
    assert checkpointed.cleaned_to(log.log.state) is None
    for offset in (7, 30):
        batch = build_batch(
            [(b"k", b"x" * 150)], base_offset=offset, leader_epoch=0, timestamp_ms=1
        )
        log.log.append([batch], [read_header(batch)])
    records = log.records()

    assert checkpointed.cleaned_to(log.log.state) == 0
    log.reopen(config=replace(log.config, cleanup_policy="delete"))

    assert log.records() == records
    assert [offset for offset, _, _ in records] == [0, 7, 30]
    assert log.names(".damaged") == []
