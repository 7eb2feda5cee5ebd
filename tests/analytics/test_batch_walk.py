from __future__ import annotations

import pytest

from analytics.read.batch_walk import Stretch, Walk, walk_batches
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.record_batch.record_batch import read_header
from tests.analytics.builders import versioned
from tests.metadata_batches import data_batch

FILE = "00000000000000000000.log"


def batch(base_offset: int, records: int = 1, epoch: int = 1) -> bytes:
    return data_batch(
        [versioned(NoOpRecord())] * records, base_offset=base_offset, epoch=epoch, timestamp_ms=0
    )


def walk(data: bytes, expected: int = 0, following: int | None = None) -> Walk:
    return walk_batches(
        data, file=FILE, expected=expected, following=following, stretch_bytes=1 << 20
    )


def kinds(found: Walk) -> list[str]:
    return [problem.kind for problem in found.problems]


def test_batches_that_follow_each_other_are_one_stretch() -> None:
    data = batch(0) + batch(1, records=3) + batch(4)

    found = walk(data)

    assert found == Walk(
        stretches=(Stretch(start=0, end=len(data)),), problems=(), first_offset=0, next_offset=5
    )


def test_a_stretch_is_cut_at_a_batch_boundary() -> None:
    first, second = batch(0), batch(1)

    found = walk_batches(
        first + second, file=FILE, expected=0, following=None, stretch_bytes=len(first)
    )

    assert found.stretches == (
        Stretch(start=0, end=len(first)),
        Stretch(start=len(first), end=len(first) + len(second)),
    )


@pytest.mark.parametrize("cut", range(1, len(batch(1))))
def test_every_cut_of_the_last_batch_is_a_torn_tail(cut: int) -> None:
    whole, last = batch(0), batch(1)

    found = walk(whole + last[:cut])

    assert kinds(found) == ["torn_tail"]
    assert found.problems[0].position == len(whole)
    assert found.next_offset == 1


def test_zeros_at_the_end_are_a_torn_tail() -> None:
    assert kinds(walk(batch(0) + bytes(200))) == ["torn_tail"]


def test_missing_offsets_are_a_gap_and_reading_goes_on() -> None:
    found = walk(batch(0) + batch(5) + batch(6))

    assert [(p.kind, p.offset, p.message) for p in found.problems] == [
        ("gap", 1, "offsets 1 to 4 are missing")
    ]
    assert found.next_offset == 7
    assert len(found.stretches) == 2


def test_offsets_that_were_there_before_are_left_out() -> None:
    data = batch(0) + batch(1)

    found = walk(data + batch(0))

    assert kinds(found) == ["order"]
    assert found.stretches == (Stretch(start=0, end=len(data)),)


def test_a_damaged_base_offset_is_told_from_a_gap_by_the_batch_behind_it() -> None:
    damaged = bytearray(batch(1))
    _, damaged[:16] = read_header(bytes(damaged)).stamped(99, 1)

    found = walk(batch(0) + bytes(damaged) + batch(2))

    assert kinds(found) == ["order"]
    assert found.next_offset == 3
    assert len(found.stretches) == 2


def test_a_damaged_base_offset_at_the_end_of_a_file_is_told_by_the_next_file() -> None:
    damaged = bytearray(batch(1))
    _, damaged[:16] = read_header(bytes(damaged)).stamped(99, 1)

    found = walk(batch(0) + bytes(damaged), following=2)

    assert kinds(found) == ["order"]
    assert found.next_offset == 2


def test_batches_swallowed_by_a_damaged_length_are_found_again() -> None:
    first = bytearray(batch(0))
    first[11] += 40
    rest = batch(1) + batch(2)

    found = walk(bytes(first) + rest)

    assert kinds(found)[:1] == ["crc"]
    assert found.stretches == (Stretch(start=len(first), end=len(first) + len(rest)),)


def test_a_last_batch_whose_offset_nothing_confirms_is_left_out() -> None:
    found = walk(batch(0) + batch(7))

    assert [(p.kind, p.offset) for p in found.problems] == [("order", 1)]
    assert found.stretches == (Stretch(start=0, end=len(batch(0))),)
    assert found.next_offset == 2


def test_an_epoch_that_goes_back_is_a_problem() -> None:
    assert kinds(walk(batch(0, epoch=5) + batch(1, epoch=4))) == ["epoch"]


def test_an_epoch_begins_with_a_control_batch_only() -> None:
    risen = walk(batch(0, epoch=1) + batch(1, epoch=4) + batch(2, epoch=4))

    assert kinds(risen) == ["epoch"]
    assert risen.problems[0].offset == 1
    # Records missing in between may have been the change of the leader.
    assert kinds(walk(batch(0, epoch=1) + batch(5, epoch=4) + batch(6, epoch=4))) == ["gap"]
    # The first one is that of a log that begins late, but never negative.
    assert kinds(walk(batch(0, epoch=9))) == []
    assert kinds(walk(batch(0, epoch=-9))) == ["epoch"]


def test_a_file_that_begins_late_is_a_gap_to_the_one_before() -> None:
    found = walk(batch(7) + batch(8), expected=3)

    assert [(p.kind, p.offset) for p in found.problems] == [("gap", 3)]


def test_an_empty_file_holds_nothing_and_is_no_problem() -> None:
    assert walk(b"", expected=4) == Walk(
        stretches=(), problems=(), first_offset=None, next_offset=4
    )
