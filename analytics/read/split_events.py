"""Events of partitions from the rows that a split decodes to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bytes, Column, Longs, fixed, padded
from analytics.read.partition_events import NO_TIME, PartitionEvents
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from jbodlab.vocabulary import kafka_uuid

PARTITION_TYPES = (PartitionRecord.NAME, PartitionChangeRecord.NAME)

EVENT_COLUMNS = (
    "topic_id",
    "partition",
    "offset",
    "replay_offset",
    "replay_time",
    "snapshot",
    "batch_base_offset",
    "batch_last_offset",
    "value",
)
"""What is needed of the rows of the data source."""

_PLAIN_FRAMES = tuple(record.API_KEY for record in (PartitionRecord, PartitionChangeRecord))
_FRAME_BYTES = 3
_KEY_BYTES = 20
"""Both records begin with the index of the partition and the id of its topic."""


def partition_events(rows: pa.RecordBatch, file: str) -> PartitionEvents:
    """Return rows as events.

    Args:
        rows: Of one file, all of the two types of records about partitions.
        file: Its name.
    """
    data, starts, ends = value_bytes(rows.column("value"))
    topic_id, partition = _keys(rows, data, starts, ends)
    return PartitionEvents(
        topic_id=topic_id,
        partition=partition,
        offset=_numbers(rows.column("offset")),
        replay_offset=_numbers(rows.column("replay_offset")),
        snapshot=np.asarray(rows.column("snapshot")),
        time=_times(rows.column("replay_time")),
        base=_numbers(rows.column("batch_base_offset")),
        last=_numbers(rows.column("batch_last_offset")),
        file=np.zeros(len(rows), dtype=np.int32),
        data=data,
        starts=starts,
        ends=ends,
        files=(file,),
    )


def value_bytes(column: pa.Array) -> tuple[Bytes, Longs, Longs]:
    """Return the bytes of a binary column, and where each value begins and ends."""
    _, offsets_buffer, data_buffer = column.buffers()
    kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, dtype=kind)[
        column.offset : column.offset + len(column) + 1
    ].astype(np.int64)
    raw = b"" if data_buffer is None else data_buffer
    data = padded(np.frombuffer(raw, dtype=np.uint8))
    return data, offsets[:-1], offsets[1:]


def _keys(rows: pa.RecordBatch, data: Bytes, starts: Longs, ends: Longs) -> tuple[Column, Column]:
    body = starts + _FRAME_BYTES
    usual = ends - body >= _KEY_BYTES
    usual &= np.isin(data.take(starts + 1, mode="clip"), _PLAIN_FRAMES)
    usual &= (data.take(starts, mode="clip") == 1) & (data.take(starts + 2, mode="clip") < 0x80)
    partition = fixed(data, body, ">i4").astype(np.int32)
    topic_id = fixed(data, body + 4, "V16").view(np.uint8).reshape(-1, 16)
    odd = np.nonzero(~usual)[0]
    if len(odd):
        places = pa.array(odd)
        partition[odd] = np.asarray(rows.column("partition").take(places))
        for row, text in zip(odd, rows.column("topic_id").take(places).to_pylist(), strict=True):
            topic_id[row] = np.frombuffer(kafka_uuid.parse(text).bytes, dtype=np.uint8)
    return topic_id, partition


def _numbers(column: pa.Array) -> Longs:
    return np.asarray(column).astype(np.int64, copy=False)


def _times(column: pa.Array) -> Longs:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), NO_TIME))
