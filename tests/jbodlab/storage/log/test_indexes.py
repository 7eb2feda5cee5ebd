from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.vocabulary.errors import CorruptRecordError

PATH = Path("i")


def test_offset_index_file_is_relative_and_big_endian():
    index = OffsetIndex(100)
    index.append(105, 4200)
    index.append(112, 9000)

    assert index.encode().hex() == "0000000500001068" + "0000000c00002328"
    assert OffsetIndex.decode(PATH, index.encode(), 100).entries == [(105, 4200), (112, 9000)]


def test_lookup_gives_the_last_batch_that_is_not_behind_the_offset():
    index = OffsetIndex(100)
    index.append(105, 4200)
    index.append(112, 9000)

    assert [index.lookup(o) for o in (100, 104, 105, 111, 112, 500)] == [
        0,
        0,
        4200,
        4200,
        9000,
        9000,
    ]


def test_zeros_of_a_preallocated_file_are_no_entries():
    index = OffsetIndex(0)
    index.append(5, 4200)
    times = TimeIndex(0)
    times.append(1000, 5)

    assert OffsetIndex.decode(PATH, index.encode() + bytes(80), 0).entries == [(5, 4200)]
    assert TimeIndex.decode(PATH, times.encode() + bytes(120), 0).entries == [(1000, 5)]


@pytest.mark.parametrize(
    "data",
    [
        "00000005",
        "0000000500001068" + "0000000500002068",
        "0000000500001068" + "0000000600001068",
        "0000000500001068" + "0000000000000000" + "0000000600002068",
        "ffffffff00001068",
    ],
)
def test_a_damaged_offset_index_is_noticed(data):
    with pytest.raises(CorruptRecordError):
        OffsetIndex.decode(PATH, bytes.fromhex(data), 0)


def test_time_index_keeps_only_larger_timestamps():
    index = TimeIndex(100)
    index.append(5000, 103)
    index.append(4000, 110)
    index.append(5000, 112)
    index.append(6000, 115)

    assert index.entries == [(5000, 103), (6000, 115)]
    assert index.encode().hex() == "000000000000138800000003" + "00000000000017700000000f"
    assert TimeIndex.decode(PATH, index.encode(), 100).entries == index.entries
    assert [index.lookup(t) for t in (4999, 5000, 5999, 6000)] == [100, 103, 103, 115]


@pytest.mark.parametrize(
    "data",
    [
        "0000000000001388",
        "000000000000138800000003" + "000000000000138800000004",
        "000000000000138800000003" + "000000000000138900000002",
    ],
)
def test_a_damaged_time_index_is_noticed(data):
    with pytest.raises(CorruptRecordError):
        TimeIndex.decode(PATH, bytes.fromhex(data), 0)


def test_indexes_are_full_before_their_file_would_grow_beyond_its_room():
    index = OffsetIndex(0)
    times = TimeIndex(0)

    assert not index.is_full(17)
    assert not times.is_full(24)
    for number in range(1, 3):
        index.append(number, number)
        times.append(number, number)
    assert index.is_full(17)
    assert times.is_full(36)
    assert not times.is_full(48)
