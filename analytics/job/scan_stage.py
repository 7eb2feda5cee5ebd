"""First stage of a replay: each split is read once, and everything that is needed of it leaves.

A task decodes its split and writes the rows of the tables `records` and `snapshot_records` into a
file by itself. Events of partitions become blocks, many events to a row, by bucket
(`read.partition_events`); the rows of all other records but no-ops are few and go to the driver,
with the counts of records.

A bucket is a part of all partitions. The partitions of a topic lie together by the slot: slot 0 in
the topic's home bucket, each further slot in the next one, so that a topic of any size is no task
of its own and the records of a small one reach one bucket only.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.job.runner import ROWS
from analytics.read.arrays import Column, Longs
from analytics.read.layout import Split
from analytics.read.lists import combinations
from analytics.read.partition_events import PartitionEvents, pack, part, taken
from analytics.read.record_counts import RecordCounts
from analytics.read.split_events import EVENT_COLUMNS, PARTITION_TYPES, partition_events
from analytics.read.split_rows import COLUMNS, read_split
from analytics.store.part_files import PartFiles, PartWriters, WrittenFile
from analytics.tables import catalog as t
from analytics.tables.table import LONG, Table
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.vocabulary import kafka_uuid

PARTITIONS_PER_SLOT = 64

HELD_BYTES = 64 << 20
"""Rows of records that are held back to be put in order."""

EVENTS_PER_BLOCKS = 1 << 18
"""Events that are held back to be packed together."""


OTHERS = COLUMNS.append(pa.field("home", LONG))
"""Rows about everything but partitions: columns of the data source, and `homes` of their topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What is the same for all splits."""

    buckets: int
    parts: PartFiles
    """Where the tables of records are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What a split holds besides events of partitions.

    Attributes:
        others: Rows of OTHERS, those of problems included.
        counts: How many records of which epoch and type there are; none of a snapshot.
        wide: Ids of the topics with several slots, and the number of slots.
        files: The files that were written.
    """

    others: pa.Table
    counts: RecordCounts
    wide: Mapping[bytes, int]
    files: Sequence[WrittenFile]


def buckets_of(topic_id: Column, partition: Column, buckets: int) -> Column:
    """Return the bucket of each partition; see `homes`."""
    slot = np.maximum(partition, 0) // PARTITIONS_PER_SLOT
    bucket: Column = (homes(topic_id) + slot) % buckets
    return bucket.astype(np.int32)


def homes(topic_id: Column) -> Longs:
    """Return a number per topic id by which topics are spread over buckets."""
    halves = np.ascontiguousarray(topic_id).view(np.uint32).reshape(-1, 4)
    mixed = halves[:, 0] ^ halves[:, 1] ^ halves[:, 2] ^ halves[:, 3]
    # Ids that differ in few bits must not fall together.
    spread = mixed * np.uint32(0x9E3779B1)
    return (spread >> np.uint32(8)).astype(np.int64)


def scan_split(plan: ScanPlan, item: tuple[int, Split]) -> Generator[pa.RecordBatch, None, Scanned]:
    """Read a split: yield its blocks of events, and return everything else.

    Args:
        plan: What is the same for all splits.
        item: The number of the split, by which the files of a table are in order, and the split.
    """
    number, split = item
    is_snapshot = split.snapshot is not None
    writers = PartWriters(plan.parts, f"{number:05d}")
    records = _Records(t.SNAPSHOT_RECORDS if is_snapshot else t.RECORDS)
    counts = RecordCounts()
    others = [OTHERS.empty_table()]
    held: list[pa.RecordBatch] = []
    wide: dict[bytes, int] = {}
    with writers:
        for batch in read_split(split, COLUMNS):
            records.add(batch, writers)
            if not is_snapshot:
                counts.add(batch)
            of_partition, other = _sorted_out(batch)
            if len(other):
                others.append(_with_homes(other))
            held.append(of_partition)
            if sum(map(len, held)) >= EVENTS_PER_BLOCKS:
                yield _blocks(held, split, plan.buckets, wide)
                held = []
        if any(map(len, held)):
            yield _blocks(held, split, plan.buckets, wide)
        records.flush(writers)
    return Scanned(
        others=pa.concat_tables(others).combine_chunks(),
        counts=counts,
        wide=wide,
        files=writers.files,
    )


def _sorted_out(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the events of partitions, and all other rows but no-ops."""
    types, problem = batch.column("type"), batch.column("problem")
    of_partition = pc.is_in(types, pa.array(PARTITION_TYPES))
    is_no_op = pc.is_in(types, pa.array([NoOpRecord.NAME]))
    if problem.null_count < len(batch):
        sound = pc.is_null(problem)
        of_partition, is_no_op = pc.and_(of_partition, sound), pc.and_(is_no_op, sound)
    others = pc.invert(pc.or_(of_partition, is_no_op))
    return batch.select(EVENT_COLUMNS).filter(of_partition), batch.filter(others)


def _blocks(
    held: list[pa.RecordBatch],
    split: Split,
    buckets: int,
    wide: dict[bytes, int],
) -> pa.RecordBatch:
    (rows,) = pa.Table.from_batches(held).combine_chunks().to_batches(max_chunksize=None)
    events = partition_events(rows, split.file)
    _note_wide(events, wide)
    bucket = buckets_of(events.topic_id, events.partition, buckets)
    # 16 bits are sorted by radix; more buckets than that fit into no driver's memory.
    order = np.argsort(bucket.astype(np.uint16), kind="stable")
    events, bucket = taken(events, order), bucket[order]
    numbers, starts = np.unique(bucket, return_index=True)
    position = events.position
    end = None if split.snapshot is None else split.snapshot.end_offset
    rows = [
        {
            "bucket": number,
            "first": int(position[low:high].min()),
            "last": int(position[low:high].max()),
            "snapshot_end": end,
            "file_name": split.file,
            "blob": pack(part(events, low, high)),
        }
        for number, (low, high) in zip(
            numbers.tolist(), pairwise([*starts.tolist(), len(order)]), strict=True
        )
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def _note_wide(events: PartitionEvents, wide: dict[bytes, int]) -> None:
    """Note topics that have more than one slot, and how many."""
    rows = np.nonzero(events.partition >= PARTITIONS_PER_SLOT)[0]
    if not len(rows):
        return
    found = combinations(events.topic_id[rows].view(np.int32)[:, 0], events.partition[rows])
    for row in rows[found.rows].tolist():
        topic_id = events.topic_id[row].tobytes()
        slots = int(events.partition[row]) // PARTITIONS_PER_SLOT + 1
        wide[topic_id] = max(slots, wide.get(topic_id, 0))


class _Records:
    """Rows of a table of records, held back until they can be put in order.

    What is not read by columns comes at the end of a split, out of its place.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.held: list[pa.Table] = []
        self.held_bytes = 0

    def add(self, batch: pa.RecordBatch, writers: PartWriters) -> None:
        """Take the rows of a batch."""
        rows = _record_rows(batch)
        self.held.append(rows)
        self.held_bytes += rows.nbytes
        if self.held_bytes >= HELD_BYTES:
            self.flush(writers)

    def flush(self, writers: PartWriters) -> None:
        """Write what is held."""
        if not self.held:
            return
        rows = pa.concat_tables(self.held)
        offsets = np.asarray(rows.column("offset"))
        if (offsets[1:] < offsets[:-1]).any():
            rows = rows.take(pa.array(np.argsort(offsets, kind="stable")))
        writers.write(self.table, rows)
        self.held, self.held_bytes = [], 0


def _record_rows(batch: pa.RecordBatch) -> pa.Table:
    """Return the rows of a table of records; a problem is none of its rows."""
    problem = batch.column("problem")
    if problem.null_count < len(batch):
        batch = batch.filter(pc.is_null(problem))
    payload, value = batch.column("payload"), batch.column("value")
    columns = {name: batch.column(name) for name in batch.schema.names}
    nothing = pa.nulls(len(batch), value.type)
    columns["raw"] = (
        nothing if not payload.null_count else pc.if_else(pc.is_null(payload), value, nothing)
    )
    return pa.table({column.name: columns[column.name] for column in t.RECORDS.columns})


def _with_homes(batch: pa.RecordBatch) -> pa.Table:
    """Return rows with the number by which their topics are spread over buckets."""
    texts = batch.column("topic_id")
    named = np.nonzero(np.asarray(pc.is_valid(texts)))[0]
    found = np.zeros(len(batch), dtype=np.int64)
    missing = np.ones(len(batch), dtype=np.bool_)
    if len(named):
        ids = [kafka_uuid.parse(text).bytes for text in texts.take(pa.array(named)).to_pylist()]
        found[named] = homes(np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 16))
        missing[named] = False
    rows = pa.table(batch).append_column("home", pa.array(found, mask=missing))
    return rows.select(OTHERS.names).cast(OTHERS)
