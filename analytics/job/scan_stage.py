"""First stage of a replay: each split is read once, and everything that is needed of it leaves.

A task decodes its split, writes the rows of the tables `records` and `snapshot_records` into a file
by itself, and gives Spark what the later stages need:

* `row`: the rows of everything that is no partition and no no-op, as the data source has them;
* `block`: events of partitions, many to a row, by bucket (`decode.partition_events`);
* `wide`: topics with so many partitions that they lie in several buckets;
* `count`: how many records of which epoch and type there are;
* `file`: the files that were written;
* `end`: the last batch of the split.

A bucket is a part of all partitions. The partitions of a topic lie together by the slot: slot 0 in
the topic's home bucket, each further slot in the next one, so that a topic of any size is no task
of its own and the records of a small one reach one bucket only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from analytics.bytes.arrays import Column, Longs
from analytics.bytes.layout import Split
from analytics.decode.lists import combinations
from analytics.decode.partition_events import PartitionEvents, pack, part, taken
from analytics.decode.record_counts import RecordCounts
from analytics.decode.split_events import EVENT_COLUMNS, PARTITION_TYPES, partition_events
from analytics.decode.split_rows import COLUMNS, read_split
from analytics.job.row_kinds import Kinds
from analytics.store.part_files import PartFiles, PartWriters
from analytics.tables import catalog as t
from analytics.tables.frames import map_numbers
from analytics.tables.table import BINARY, BOOLEAN, INT, LONG, STRING
from jbodlab import kafka_uuid
from jbodlab.records.config_records import NoOpRecord

PARTITIONS_PER_SLOT = 64

FILE = pa.schema(
    [
        pa.field("table", STRING),
        pa.field("name", STRING),
        pa.field("rows", LONG),
        pa.field("still", BOOLEAN),
        pa.field("log_file", STRING),
    ]
)
"""A file that a task has written; `still` if it holds what has not ended, `log_file` the file of
the log that its rows are from, if that is one."""

COUNT = t.RECORD_COUNTS.schema
"""How many records of a type and epoch a split holds."""

END = pa.schema(
    [
        pa.field("file", STRING),
        pa.field("position", LONG),
        pa.field("last_offset", LONG),
    ]
)
"""The last batch of a split: its file, where it begins, its last offset."""

BLOCK = (
    pa.field("bucket", INT),
    pa.field("first", LONG),
    pa.field("last", LONG),
    pa.field("snapshot_end", LONG),
    pa.field("file_name", STRING),
    pa.field("blob", BINARY),
)
"""Columns of a block of events: its bucket, its first and last position, and the events."""

SCANNED = pa.schema(
    [
        pa.field("kind", STRING),
        *BLOCK,
        pa.field("wide", pa.struct([pa.field("topic_id", BINARY), pa.field("slots", INT)])),
        pa.field("count", pa.struct(COUNT)),
        pa.field("file", pa.struct(FILE)),
        pa.field("end", pa.struct(END)),
        pa.field("row", pa.struct(COLUMNS)),
        pa.field("home", LONG),
    ]
)
"""One row of one kind; the columns of the other kinds are null."""

_KINDS = Kinds(SCANNED)

TASKS_PER_PROCESSOR = 6
PIECES_PER_TASK = 4

HELD_BYTES = 64 << 20
"""Rows of records that are held back to be put in order."""

EVENTS_PER_BLOCKS = 1 << 18
"""Events that are held back to be packed together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What the tasks do."""

    splits: tuple[Split, ...]
    buckets: int
    parts: PartFiles
    """Where the tables of records are written."""


def scan(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """Return the rows of `SCANNED`; a task takes some splits, one by one."""
    count = max(1, len(plan.splits))
    return map_numbers(spark, count, tasks_for(spark, count), _scanner(plan), SCANNED)


def tasks_for(spark: SparkSession, pieces: int) -> int:
    """Return how many tasks pieces of work are given to.

    Each later look at what they leave is as many tasks again, so that it is not one for each piece,
    but enough for all processors to end at about the same time.
    """
    enough = TASKS_PER_PROCESSOR * spark.sparkContext.defaultParallelism
    return min(pieces, max(enough, -(-pieces // PIECES_PER_TASK)))


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


def _scanner(plan: ScanPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def scan_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if number < len(plan.splits):
                    yield from _scan_split(plan, number)

    return scan_splits


def _scan_split(plan: ScanPlan, number: int) -> Iterator[pa.RecordBatch]:
    split = plan.splits[number]
    is_snapshot = split.snapshot is not None
    table = t.SNAPSHOT_RECORDS if is_snapshot else t.RECORDS
    writers = PartWriters(plan.parts, f"{number:05d}", split.file)
    records = _Records(table)
    end: tuple[int, int] | None = None
    counts = RecordCounts()
    held: list[pa.RecordBatch] = []
    held_rows = 0
    wide: dict[bytes, int] = {}
    with writers:
        for batch in read_split(split, COLUMNS):
            records.add(batch, writers)
            if not is_snapshot:
                counts.add(batch)
                end = _later(end, batch)
            of_partition, others = _sorted_out(batch)
            if len(others):
                yield _KINDS.batch("row", {"row": _struct(others), "home": _homes(others)})
            held.append(of_partition)
            held_rows += len(of_partition)
            if held_rows >= EVENTS_PER_BLOCKS:
                yield _blocks(held, split, plan.buckets, wide)
                held, held_rows = [], 0
        if held_rows:
            yield _blocks(held, split, plan.buckets, wide)
        records.flush(writers)
    if wide:
        yield _wide(wide)
    if counts.found:
        yield _KINDS.of_rows("count", counts.rows)
    if end is not None:
        last_offset, position = end
        row = {"file": split.file, "position": position, "last_offset": last_offset}
        yield _KINDS.batch("end", {"end": pa.array([row], type=_KINDS.type_of("end"))})
    if writers.files:
        yield _KINDS.of_rows("file", writers.files)


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
    bounds = [*starts.tolist(), len(order)]
    position = events.position
    names = ("bucket", "first", "last", "blob")
    found: dict[str, list[object]] = {name: [] for name in names}
    for index, one in enumerate(numbers.tolist()):
        low, high = bounds[index : index + 2]
        found["bucket"].append(one)
        found["first"].append(int(position[low:high].min()))
        found["last"].append(int(position[low:high].max()))
        found["blob"].append(pack(part(events, low, high)))
    end = None if split.snapshot is None else split.snapshot.end_offset
    size = len(numbers)
    columns = {name: pa.array(found[name], type=_KINDS.type_of(name)) for name in names}
    columns["snapshot_end"] = pa.array([end] * size, type=pa.int64())
    columns["file_name"] = pa.array([split.file] * size, type=pa.string())
    return _KINDS.batch("block", columns)


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


def _wide(wide: dict[bytes, int]) -> pa.RecordBatch:
    rows = [{"topic_id": topic_id, "slots": slots} for topic_id, slots in wide.items()]
    return _KINDS.batch("wide", {"wide": pa.array(rows, type=_KINDS.type_of("wide"))})


def _later(end: tuple[int, int] | None, batch: pa.RecordBatch) -> tuple[int, int] | None:
    """Return last offset and position of the later one of a batch known and those of some rows."""
    last, position = batch.column("batch_last_offset"), batch.column("position")
    if last.null_count:
        known = pc.is_valid(last)
        last, position = last.filter(known), position.filter(known)
    if not len(last):
        return end
    row = int(np.argmax(np.asarray(last)))
    found = (last[row].as_py(), position[row].as_py())
    return found if end is None else max(end, found)


class _Records:
    """Rows of a table of records, held back until they can be put in order.

    What is not read by columns comes at the end of a split, out of its place.
    """

    def __init__(self, table: t.Table) -> None:
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


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    kind = _KINDS.type_of("row")
    arrays = [batch.column(field.name).cast(field.type) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _homes(batch: pa.RecordBatch) -> pa.Array:
    """Return where the topics of rows are at home."""
    texts = batch.column("topic_id")
    named = np.nonzero(np.asarray(pc.is_valid(texts)))[0]
    found = np.zeros(len(batch), dtype=np.int64)
    missing = np.ones(len(batch), dtype=np.bool_)
    if len(named):
        ids = [kafka_uuid.parse(text).bytes for text in texts.take(pa.array(named)).to_pylist()]
        found[named] = homes(np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 16))
        missing[named] = False
    return pa.array(found, mask=missing)
