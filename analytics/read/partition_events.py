"""Events of partitions, packed for the way from the task that reads them to the one that follows.

A block is the events of one bucket of partitions from a stretch of one file, in replay order:

    header        2 x int64   number of events, bytes of their values
    topic id      n x 16
    partition     n x int32
    value length  n x int32
    offset        n x int64   in the file
    time          n x int64   microseconds since 1970
    base, last    n x int64   first and last offset of the batch
    values        the records' values, one behind the other

All numbers are little-endian. Spark sees one row with a binary column, whatever the number of
events, and moves it as one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Bytes, Column, Longs, inside, offsets_of, padded, spread

HEADER_BYTES = 16

NO_TIME = -(2**63)
"""Stands for a time that is not known, which Arrow has as null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvents:
    """PartitionRecords and PartitionChangeRecords by columns, one row per record.

    Attributes:
        topic_id: Shape (n, 16), uint8.
        partition: Index in the topic.
        offset: Offset in its file: of a snapshot, the position there.
        replay_offset: Offset in the log; of a record in a snapshot, the end offset of that.
        snapshot: Whether it stands in a snapshot.
        time: Microseconds since 1970, or NO_TIME.
        base: First offset of its batch.
        last: Last offset of its batch.
        file: Index into ``files``.
        data: Bytes that hold the values.
        starts: Position of each value, a framed record, in ``data``.
        ends: Position behind it.
        files: Names of files.
    """

    topic_id: Column
    partition: Column
    offset: Longs
    replay_offset: Longs
    snapshot: Column
    time: Longs
    base: Longs
    last: Longs
    file: Column
    data: Bytes
    starts: Longs
    ends: Longs
    files: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def position(self) -> Longs:
        """Order of replay: what a snapshot says is held against what stands before its end."""
        return self.replay_offset * 2 + ~self.snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """A block, and what does not repeat in it."""

    blob: bytes
    file: str
    snapshot_end: int | None
    """End offset of the snapshot that the events are from; None in the log."""


_NO_EVENTS = BlockRow(blob=bytes(HEADER_BYTES), file="", snapshot_end=None)
_PER_EVENT = (
    "topic_id",
    "partition",
    "offset",
    "replay_offset",
    "snapshot",
    "time",
    "base",
    "last",
    "file",
)
_PLAIN = ("offset", "time", "base", "last")


def pack(events: PartitionEvents) -> bytes:
    """Pack events of one file."""
    lengths = events.ends - events.starts
    contiguous = len(lengths) and (events.starts[1:] == events.ends[:-1]).all()
    values = (
        events.data[events.starts[0] : events.ends[-1]]
        if contiguous
        else events.data[spread(events.starts, lengths)]
    )
    header = np.array([len(lengths), len(values)], dtype=np.int64)
    parts: list[Column] = [
        header,
        events.topic_id,
        events.partition.astype(np.int32, copy=False),
        lengths.astype(np.int32),
        *(getattr(events, name) for name in _PLAIN),
        values,
    ]
    return b"".join(part.tobytes() for part in parts)


def taken(events: PartitionEvents, rows: Column) -> PartitionEvents:
    """Return some of the events, their values one behind the other."""
    bounds = np.append(events.starts, events.ends[-1:])
    contiguous = (bounds[1:] == events.ends).all()
    if contiguous:
        offsets = pa.py_buffer(bounds)
        values = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(events), [None, offsets, pa.py_buffer(events.data)]
        ).take(pa.array(rows))
        _, offsets, raw = values.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64, count=len(rows) + 1)
        data = padded(np.frombuffer(b"" if raw is None else raw, dtype=np.uint8))
    else:
        lengths = (events.ends - events.starts)[rows]
        data = padded(events.data[spread(events.starts[rows], lengths)])
        bounds = offsets_of(lengths)
    columns = {name: getattr(events, name)[rows] for name in _PER_EVENT}
    return PartitionEvents(
        **columns, data=data, starts=bounds[:-1], ends=bounds[1:], files=events.files
    )


def part(events: PartitionEvents, start: int, end: int) -> PartitionEvents:
    """Return the events from one row to another."""
    names = (*_PER_EVENT, "starts", "ends")
    columns = {name: getattr(events, name)[start:end] for name in names}
    return PartitionEvents(**columns, data=events.data, files=events.files)


def unpack(blocks: Sequence[BlockRow]) -> PartitionEvents:
    """Return the events of some blocks, one behind the other."""
    columns: dict[str, list[Column]] = {}
    files: dict[str, int] = {}
    for block in blocks or [_NO_EVENTS]:
        size, value_bytes = np.frombuffer(block.blob, dtype=np.int64, count=2).tolist()
        position = HEADER_BYTES
        layout = [("topic_id", np.uint8, 16), ("partition", np.int32, 1), ("length", np.int32, 1)]
        layout += [(name, np.int64, 1) for name in _PLAIN]
        for name, dtype, width in layout:
            array = np.frombuffer(block.blob, dtype=dtype, count=size * width, offset=position)
            position += array.nbytes
            columns.setdefault(name, []).append(array.reshape(-1, 16) if width == 16 else array)
        data = np.frombuffer(block.blob, dtype=np.uint8, count=value_bytes, offset=position)
        columns.setdefault("data", []).append(data)
        snapshot = np.full(size, block.snapshot_end is not None)
        columns.setdefault("snapshot", []).append(snapshot)
        end = columns["offset"][-1] if block.snapshot_end is None else None
        replay = np.full(size, block.snapshot_end, dtype=np.int64) if end is None else end
        columns.setdefault("replay_offset", []).append(replay)
        number = files.setdefault(block.file, len(files))
        columns.setdefault("file", []).append(np.full(size, number, dtype=np.int32))
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    offsets = offsets_of(whole.pop("length").astype(np.int64))
    return PartitionEvents(**whole, starts=offsets[:-1], ends=offsets[1:], files=tuple(files))


def without(events: PartitionEvents, dropped: Sequence[tuple[int, int]]) -> PartitionEvents:
    """Leave out the events of the log in some stretches of offsets, each with an exclusive end."""
    keep = events.snapshot | ~inside(events.offset, dropped)
    if keep.all():
        return events
    columns = {name: getattr(events, name)[keep] for name in (*_PER_EVENT, "starts", "ends")}
    return PartitionEvents(**columns, data=events.data, files=events.files)
