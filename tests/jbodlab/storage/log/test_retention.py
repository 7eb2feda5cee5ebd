from __future__ import annotations

import pytest
from msgspec.structs import replace

NEVER = {"retention_ms": -1, "retention_bytes": -1}


@pytest.fixture
def fill(make_log):
    """Return a function that makes a log of three segments with two batches each."""

    def make(**config):
        box = make_log(segment_bytes=200, **{**NEVER, **config})
        for number in range(6):
            box.append(timestamp=1000 * (number + 1), producer=(7, 0, number))
        assert box.log.segment_base_offsets == (0, 2, 4)
        return box

    return make


def test_nothing_is_deleted_without_limits(fill):
    box = fill()

    assert not box.log.retention(10**12, 6)
    assert box.log.segment_count == 3


def test_segments_older_than_the_retention_time_are_deleted(fill):
    box = fill(retention_ms=5000)

    assert not box.log.retention(7000, 6)
    assert box.log.retention(7001, 6)
    assert box.log.segment_base_offsets == (2, 4)
    assert box.log.log_start_offset == 2
    assert box.log.epochs.entries == ((0, 2),)
    assert box.content() == b"".join(box.batches[2:])


def test_the_last_segment_is_rolled_before_it_is_deleted(fill):
    box = fill(retention_ms=5000)

    assert box.log.retention(10**9, 6)

    assert box.log.segment_base_offsets == (6,)
    assert (box.log.log_start_offset, box.log.log_end_offset) == (6, 6)
    assert not box.log.retention(10**9, 6)
    assert box.log.producers.entry(7).last_sequence == 5
    box.append(producer=(7, 0, 6))
    assert box.log.log_end_offset == 7


def test_a_time_in_the_future_counts_as_the_time_of_the_append(make_log):
    box = make_log(segment_bytes=200, retention_ms=5000, retention_bytes=-1)
    # Microseconds instead of milliseconds.
    for number in range(6):
        box.append(timestamp=10**9 * (number + 1))
    assert not box.log.retention(10_000, 6)
    box.append(timestamp=10**10)
    assert not box.log.retention(12_000, 7)

    assert not box.log.retention(15_000, 7)
    assert box.log.retention(15_001, 7)
    # To the last segment something was appended later.
    assert box.log.log_start_offset == 6
    assert box.log.retention(17_001, 7)
    assert box.log.log_start_offset == 7


def test_a_time_that_lay_in_the_future_ages_from_then_on(make_log):
    box = make_log(retention_ms=5000, retention_bytes=-1)
    box.append(timestamp=12_000)

    for now_ms in (10_000, 14_000, 17_000):
        assert not box.log.retention(now_ms, 1)
    assert box.log.retention(17_001, 1)


def test_nothing_at_or_above_the_high_watermark_is_deleted(fill):
    box = fill(retention_ms=5000)

    assert not box.log.retention(10**9, 1)
    assert box.log.retention(10**9, 3)
    assert box.log.segment_base_offsets == (2, 4)


@pytest.mark.parametrize(("spare", "left"), [(0, (2, 4)), (1, (0, 2, 4)), (-1, (2, 4))])
def test_a_segment_is_deleted_if_the_rest_still_has_the_retention_size(make_log, spare, left):
    box = make_log(segment_bytes=200, **NEVER)
    for number in range(6):
        box.append(timestamp=number)
    assert box.log.segment_base_offsets == (0, 2, 4)
    rest = sum(map(len, box.batches[2:]))

    box.log.state.config = replace(box.config, retention_bytes=rest + spare)
    box.log.retention(0, 6)

    assert box.log.segment_base_offsets == left


def test_segments_below_the_log_start_are_deleted_always(fill):
    box = fill(cleanup_policy="compact", retention_ms=1)
    box.log.advance_start_to(3)

    assert box.log.retention(10**9, 6)

    assert box.log.segment_base_offsets == (2, 4)
    assert box.log.log_start_offset == 3
    assert box.content() == b"".join(box.batches[3:])


def test_records_without_timestamps_do_not_grow_old(make_log):
    box = make_log(segment_bytes=200, retention_ms=5)
    for _ in range(4):
        box.append(timestamp=-1)

    assert not box.log.retention(10**9, 4)


def test_files_are_renamed_first_and_removed_after_the_delay(fill):
    box = fill(retention_ms=5000, file_delete_delay_ms=300)
    box.log.retention(7001, 6)
    deleted = [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]

    assert [name for name in box.names() if name.startswith("00000000000000000000")] == deleted
    assert box.log.delete_expired(7300) == 0
    assert [name for name in box.names() if name.endswith(".deleted")] == deleted
    assert box.log.delete_expired(7301) == 1
    assert [name for name in box.names() if name.endswith(".deleted")] == []


def test_files_to_be_removed_are_found_after_a_rename_of_the_directory(fill):
    box = fill(retention_ms=5000, file_delete_delay_ms=300)
    box.log.retention(7001, 6)
    box.log.rename_to_delete()

    box.log.delete_expired(10**9)

    assert [name for name in box.names() if name.endswith(".deleted")] == []


def test_a_kill_after_retention_leaves_the_shorter_log(fill):
    box = fill(retention_ms=5000)
    box.log.retention(7001, 6)

    log = box.reopen(clean=False)

    assert log.log_start_offset == 2
    assert [name for name in box.names() if name.endswith(".deleted")] == []
    assert box.content() == b"".join(box.batches[2:])
