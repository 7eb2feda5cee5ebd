"""Indexes compared with their logs, and producer snapshots."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch, read_header
from jbodlab.storage.log.producer_state import ProducerState
from tests.storage_tool.dumping import TIME_MS, dump, offset_index, time_index, values, write

BATCHES = [values(b"a", b"b"), values(b"c", base_offset=2), values(b"d", base_offset=3)]
SECOND, THIRD = len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])
INDEX, TIME_INDEX = f"{0:020d}.index", f"{0:020d}.timeindex"
TXN_INDEX, SNAPSHOT = f"{0:020d}.txnindex", f"{9:020d}.snapshot"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three batches, with last offsets 1, 2 and 3."""
    return write(tmp_path, *BATCHES)


def beside(log: Path, content: bytes, name: str) -> Path:
    return write(log.parent, content, name=name)


def test_entries_of_an_offset_index(log: Path) -> None:
    path = beside(log, offset_index((2, SECOND), (3, THIRD)), INDEX)

    assert dump(path) == (
        0,
        f"Dumping {path}\noffset: 2 position: {SECOND}\noffset: 3 position: {THIRD}\n",
        "",
    )
    assert dump("--verify-index-only", path) == (0, f"Dumping {path}\n", "")
    assert dump("--output=json", path).of_kind("indexEntry") == [
        {"kind": "indexEntry", "offset": 2, "position": SECOND},
        {"kind": "indexEntry", "offset": 3, "position": THIRD},
    ]


def test_offsets_are_relative_to_the_name(tmp_path: Path) -> None:
    write(tmp_path, values(b"a", base_offset=100), name=f"{100:020d}.log")
    path = write(tmp_path, offset_index((0, 0)), name=f"{100:020d}.index")

    assert dump(path) == (0, f"Dumping {path}\noffset: 100 position: 0\n", "")


def test_entry_that_does_not_agree_with_the_log(log: Path) -> None:
    path = beside(log, offset_index((1, SECOND), (3, THIRD)), INDEX)

    done = dump("--verify-index-only", path)

    assert done.code == 0
    assert done.err == f"Mismatches in :{path}\n  Index offset: 1, log offset: 2\n"
    (problem,) = dump("--output=json", path).of_kind("problem")
    assert problem == {
        "kind": "problem",
        "problem": "indexMismatch",
        "path": str(path),
        "message": "Index offset: 1, log offset: 2",
        "first": 1,
        "second": 2,
    }


def test_entry_that_names_no_batch_is_told_and_the_rest_shown(log: Path) -> None:
    path = beside(log, offset_index((1, 3), (2, 10_000), (3, THIRD)), INDEX)

    done = dump(path)

    assert len(done.lines) == 4
    assert done.code == 1
    assert f"{path}: entry of offset 1: " in done.err
    assert f"{path}: entry of offset 2: position 10000 is outside the file of " in done.err


def test_zeros_of_an_active_segment_are_no_entries(log: Path) -> None:
    offsets = beside(log, offset_index((2, SECOND)) + bytes(80), INDEX)
    times = beside(log, time_index((TIME_MS, 2)) + bytes(120), TIME_INDEX)

    assert dump(offsets).lines[1:] == [f"offset: 2 position: {SECOND}"]
    assert dump(times).lines[1:] == [f"timestamp: {TIME_MS} offset: 2"]


def test_empty_index(log: Path) -> None:
    path = beside(log, b"", INDEX)

    assert dump(path) == (0, f"Dumping {path}\n{path} is empty.\n", "")
    assert dump(beside(log, b"", TIME_INDEX)).lines[1:] == []


def test_sanity_check_is_that_of_a_starting_broker(log: Path) -> None:
    good = beside(log, offset_index((2, SECOND)), INDEX)
    good_times = beside(log, time_index((TIME_MS, 2)), TIME_INDEX)
    options = ("--index-sanity-check",)

    done = dump(*options, good, good_times)

    assert done.lines == [
        f"Dumping {good}",
        f"{good} passed sanity check.",
        f"Dumping {good_times}",
        f"{good_times} passed sanity check.",
    ]
    for content, name, complaint in (
        (offset_index((2, 0)) + b"\0", INDEX, "expected a multiple of 8 bytes, got 9"),
        (offset_index((-1, 0)), INDEX, "the last entry is less than the first"),
        (time_index((5, 1)) + b"\0", TIME_INDEX, "expected a multiple of 12 bytes, got 13"),
        (time_index((5, 1), (4, 2)), TIME_INDEX, "the last entry is less than the first"),
    ):
        path = beside(log, content, name)
        assert dump(*options, path) == (1, f"Dumping {path}\n", f"{path}: {complaint}\n")


def test_time_index_is_compared_with_the_log(log: Path) -> None:
    beside(log, offset_index((2, SECOND)), INDEX)
    path = beside(
        log, time_index((TIME_MS, 1), (TIME_MS - 1, 2), (TIME_MS, 0), (TIME_MS, 9)), TIME_INDEX
    )

    done = dump(path)

    # An entry of offset 0 behind the first is where the zeros begin.
    assert done.lines[1:] == [
        f"timestamp: {TIME_MS} offset: 1",
        f"timestamp: {TIME_MS - 1} offset: 2",
    ]
    assert done.err == (
        f"Found timestamp mismatch in :{path}\n"
        f"  Index timestamp: {TIME_MS - 1}, log timestamp: {TIME_MS}\n"
        f"Found out of order timestamp in :{path}\n"
        f"  Index timestamp: {TIME_MS - 1}, Previously indexed timestamp: {TIME_MS}\n"
    )
    assert done.code == 0


def test_offset_of_a_time_index_that_ends_no_batch(log: Path) -> None:
    path = beside(log, time_index((TIME_MS, 0), (TIME_MS, 9)), TIME_INDEX)

    assert dump("--verify-index-only", path).err == (
        f"The following indexed offsets are not found in :{path}\n"
        "Indexed offset: 0, found log offset: 1\n"
        "Indexed offset: 9, found log offset: -1\n"
    )


def test_index_without_its_log_is_shown_and_not_compared(tmp_path: Path) -> None:
    index = write(tmp_path, offset_index((2, 5)), name=INDEX)
    times = write(tmp_path, time_index((7, 2)), name=TIME_INDEX)

    done = dump(index, times)

    assert [line for line in done.lines if line[0] != "D"] == [
        "offset: 2 position: 5",
        "timestamp: 7 offset: 2",
    ]
    assert done.code == 1
    assert done.err.count("cannot compare with the log: cannot read 00000000000000000000.log") == 2


def test_aborted_transactions(log: Path) -> None:
    entry = struct.pack(">hqqqq", 0, 1, 0, 5, 6)
    path = beside(log, entry + entry[:10], TXN_INDEX)

    done = dump(path)

    assert done.lines[1:] == [
        "version: 0 producerId: 1 firstOffset: 0 lastOffset: 5 lastStableOffset: 6"
    ]
    assert done.err == f"{path}: the last entry is incomplete: it has 10 bytes\n"


def test_producers(log: Path) -> None:
    state = ProducerState()
    for producer_id, attributes in ((1, 0), (2, TRANSACTIONAL)):
        batch = build_batch(
            [(None, b"x")] * 5,
            timestamp_ms=TIME_MS,
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=2**31 - 3,
        )
        state.update(read_header(batch))
    path = beside(log, state.encode(), SNAPSHOT)
    rest = (
        f"lastTimestamp: {TIME_MS} firstSequence: 2147483645 lastSequence: 1 lastOffset: 4 "
        f"offsetDelta: 4 timestamp: {TIME_MS}"
    )

    assert dump(path) == (
        0,
        f"Dumping {path}\n"
        "producerId: 1 producerEpoch: 0 coordinatorEpoch: -1 "
        f"currentTxnFirstOffset: OptionalLong.empty {rest}\n"
        "producerId: 2 producerEpoch: 0 coordinatorEpoch: -1 "
        f"currentTxnFirstOffset: OptionalLong[0] {rest}\n",
        "",
    )


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda data: data[:3], "expected a producer snapshot, got 3 bytes"),
        (lambda data: b"\0\2" + data[2:], "expected a producer snapshot of version 1, got 2"),
        (lambda data: data + b"\0", "expected CRC "),
        (lambda data: data[:2] + b"\0" + data[3:], "expected CRC "),
    ],
)
def test_damaged_producer_snapshot(log: Path, damage, complaint: str) -> None:  # type: ignore[no-untyped-def]
    state = ProducerState()
    state.update(read_header(build_batch([(None, b"x")], timestamp_ms=1, producer_id=1)))
    path = beside(log, damage(state.encode()), SNAPSHOT)

    done = dump(path)

    assert (done.code, done.out) == (1, f"Dumping {path}\n")
    assert done.err.startswith(f"{path}: {complaint}")
