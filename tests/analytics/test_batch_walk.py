from __future__ import annotations

import re

import pytest

from analytics.read.batch_walk import Stretch, Walk, walk_batches
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.record_batch.record_batch import read_header
from tests.analytics.builders import versioned
from tests.analytics.cases import cases
from tests.metadata_batches import data_batch

FILE = "00000000000000000000.log"
CASES = """
batches that follow each other are one stretch         | 0 1x3 4   | -       | 0-5  | 0-2
missing offsets are a gap and reading goes on          | 0 5 6     | gap 1   | 0-7  | 0-0 1-2
a file that begins late is a gap to the one before     | 3: 7 8    | gap 3   | 7-9  | 0-1
offsets that were there before are left out            | 0 1 0     | order 0 | 0-2  | 0-1
a damaged offset is told from a gap by the next batch  | 0 1? 2    | order 1 | 0-3  | 0-0 2-2
a damaged offset at the end is told by the next file   | 0 1? to 2 | order 1 | 0-2  | 0-0
missing offsets at the end are told by the next file   | 0 7 to 8  | gap 1   | 0-8  | 0-0 1-1
a last batch whose offset nothing confirms is left out | 0 7       | order 1 | 0-2  | 0-0
an epoch that goes back is a problem                   | 0@5 1@4   | epoch 1 | 0-2  | 0-1
an epoch begins with a control batch only              | 0 1@4 2@4 | epoch 1 | 0-3  | 0-2
what is missing may have been the change of the leader | 0 5@4 6@4 | gap 1   | 0-7  | 0-0 1-2
the first epoch is that of a log that begins late      | 0@9       | -       | 0-1  | 0-0
the first epoch is never negative                      | 0@-9      | epoch 0 | 0-1  | 0-0
a file without batches is no problem                   | 4:        | -       | -4   | -
"""
"""Batches, problems, first and next offset, and the stretches by their first and last batch.

A batch is its base offset, its number of records and its epoch; of `?` the offset is damaged.
Before a colon is the offset that is expected, behind `to` that of the next file.
"""


def batch(base_offset: int, records: int = 1, epoch: int = 1) -> bytes:
    return data_batch(
        [versioned(NoOpRecord())] * records, base_offset=base_offset, epoch=epoch, timestamp_ms=0
    )


def batch_of(text: str) -> bytes:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?(?:@(-?\d+))?(\?)?", text)
    assert found, text
    data = bytearray(batch(int(found[1]), int(found[2] or 1), int(found[3] or 1)))
    if found[4]:
        _, data[:16] = read_header(bytes(data)).stamped(99, 1)
    return bytes(data)


def walk(data: bytes, expected: int = 0, following: int | None = None) -> Walk:
    return walk_batches(
        data, file=FILE, expected=expected, following=following, stretch_bytes=1 << 20
    )


@pytest.mark.parametrize(
    ("batches", "problems", "offsets", "stretches"),
    cases(CASES),
)
def test_batches_are_walked_as_their_case_says(
    batches: str, problems: str, offsets: str, stretches: str
) -> None:
    parts = re.fullmatch(r"(?:(\d+):)?(.*?)(?:to (\d+))?", batches)
    assert parts
    data = list(map(batch_of, parts[2].split()))
    ends = [sum(map(len, data[:count])) for count in range(len(data) + 1)]

    found = walk(b"".join(data), int(parts[1] or 0), parts[3] and int(parts[3]))

    told = [f"{one.kind} {one.offset}" for one in found.problems]
    assert " ".join(told or "-") == problems
    first = "" if found.first_offset is None else found.first_offset
    assert f"{first}-{found.next_offset}" == offsets
    named = [f"{ends.index(one.start)}-{ends.index(one.end) - 1}" for one in found.stretches]
    assert " ".join(named or "-") == stretches


def test_a_problem_says_where_and_what() -> None:
    (gap,) = walk(batch(0) + batch(5) + batch(6)).problems

    assert (gap.position, gap.message) == (len(batch(0)), "offsets 1 to 4 are missing")


def test_a_stretch_is_cut_at_a_batch_boundary() -> None:
    first, second = batch(0), batch(1)

    found = walk_batches(
        first + second, file=FILE, expected=0, following=None, stretch_bytes=len(first)
    )

    cut = len(first)
    assert found.stretches == (Stretch(start=0, end=cut), Stretch(start=cut, end=cut * 2))


@pytest.mark.parametrize(
    "behind", [*(batch(1)[:cut] for cut in range(1, len(batch(1)))), bytes(200)]
)
def test_every_cut_of_the_last_batch_and_zeros_are_a_torn_tail(behind: bytes) -> None:
    found = walk(batch(0) + behind)

    (problem,) = found.problems
    assert (problem.kind, problem.position) == ("torn_tail", len(batch(0)))
    assert found.next_offset == 1


def test_batches_swallowed_by_a_damaged_length_are_found_again() -> None:
    first = bytearray(batch(0))
    first[11] += 40
    rest = batch(1) + batch(2)

    found = walk(bytes(first) + rest)

    assert found.problems[0].kind == "crc"
    assert found.stretches == (Stretch(start=len(first), end=len(first) + len(rest)),)
