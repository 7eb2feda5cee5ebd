"""Last stage of a replay: each bucket of partitions is followed from the begin of the log on.

A task gets the blocks of its bucket and the records that concern topics as a whole, sorted by the
order of replay, and takes them in steps of bounded size. What it finds it writes into files of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, Row

from analytics.decode.partition_events import BlockRow, unpack, without
from analytics.fold.broker_facts import BrokerFacts, BrokerState
from analytics.fold.bucket import BucketFold, TopicEvent
from analytics.fold.key_history import Event, Sync
from analytics.fold.key_history import Row as TableRow
from analytics.fold.min_insync import AssumedMinIsr
from analytics.fold.open_files import pack_open, unpack_open
from analytics.fold.table_rows import RowMaker, Rows
from analytics.fold.transactions import Dropped
from analytics.job.row_kinds import ROWS_PER_BATCH, Kinds, told
from analytics.job.scan_stage import BLOCK, FILE
from analytics.store.part_files import PartFiles, PartWriters
from analytics.store.store import Store
from analytics.tables import catalog as t
from analytics.tables.frames import map_batches
from analytics.tables.table import BINARY, BOOLEAN, INT, LONG, STRING, VALID_FROM, VALID_TO, fields
from jbodlab import kafka_uuid

EVENTS_PER_STEP = 400_000
"""From so many events on a step ends; each takes some hundred bytes while it is followed."""

EVENT = pa.schema(
    [
        pa.field("replay_offset", LONG),
        pa.field("snapshot", BOOLEAN),
        pa.field("offset", LONG),
        pa.field("time", LONG),
        pa.field("batch_base_offset", LONG),
        pa.field("batch_last_offset", LONG),
        pa.field("file", STRING),
        pa.field("type", STRING),
        pa.field("value", BINARY),
    ]
)
assert Event._fields == ("key", *EVENT.names)

INPUT = pa.schema(
    [
        *BLOCK,
        pa.field("topic_id", STRING),
        pa.field("is_first", BOOLEAN),
        pa.field("event", pa.struct(EVENT)),
    ]
)
"""A block, or an event that concerns a topic (`topic_id`), or all topics (null)."""

PARTITION_TABLES = (
    t.PARTITION_HISTORY,
    t.PARTITIONS,
    t.LEADERSHIP,
    t.ISR_CHANGES,
    t.REPLICA_PLACEMENT,
    t.OUTAGES,
)

OUTPUT = pa.schema(
    [
        pa.field("kind", STRING),
        pa.field("file", pa.struct(FILE)),
        pa.field(
            "topic",
            pa.struct(
                [
                    pa.field("topic", STRING),
                    pa.field("topic_id", STRING),
                    *fields((*VALID_FROM, *VALID_TO)),
                ]
            ),
        ),
        pa.field(
            "min_isr",
            pa.struct(
                [
                    pa.field("topic_id", STRING),
                    pa.field("min_insync_replicas", INT),
                    pa.field("min_insync_replicas_from", STRING),
                    *fields((*VALID_FROM, *VALID_TO)),
                ]
            ),
        ),
        pa.field("problem", pa.struct(t.PROBLEMS.schema)),
        pa.field("undecided_us", LONG),
        pa.field("partition_problem", pa.struct(t.PROBLEMS.schema)),
    ]
)
"""One row of one kind; the columns of the other kinds are null."""

_KINDS = Kinds(OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPlan:
    """What the tasks need to know; small."""

    syncs: tuple[Sync, ...]
    dropped: tuple[Dropped, ...]
    """Offsets without effect, of aborted transactions."""
    brokers: tuple[BrokerState, ...]
    parts: PartFiles
    keep_open: str
    """Folder in which what is open is kept for the run after this one."""
    assumed_min_isr: AssumedMinIsr
    since: int = 0
    """Offset from which on the log is read; what held then is in `former`."""
    former: str | None = None
    """Folder of what the run before this one has left open."""


def follow_buckets(rows: DataFrame, buckets: int, plan: FollowPlan) -> DataFrame:
    """Follow the partitions.

    Args:
        rows: Of schema `INPUT`.
        buckets: How many there are.
        plan: What the tasks need to know.

    Returns:
        Rows of schema `OUTPUT`.
    """
    in_order = rows.repartitionById(buckets, "bucket").sortWithinPartitions("bucket", "first")
    return map_batches(in_order, _follower(plan), OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What tasks tell of the buckets that they followed.

    Attributes:
        files: What they have written, rows of `scan.FILE`.
        undecided_us: Until when causes are not known for sure, microseconds since 1970; None if
            they are.
        others: How many rows there are besides.
    """

    files: tuple[Row, ...]
    undecided_us: int | None
    others: int


IS_OTHER = "kind NOT IN ('file', 'undecided')"
"""Whether a row of `OUTPUT` belongs to a table."""


def tell(followed: DataFrame) -> Told:
    """Collect what tasks tell, in one job; `followed` is what `follow_buckets` has returned."""
    aggregates = ("collect_list(file)", "max(undecided_us)", f"count_if({IS_OTHER})")
    files, undecided_us, others = told(followed, *aggregates)
    return Told(files=tuple(files), undecided_us=undecided_us, others=others)


def _follower(
    plan: FollowPlan,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        facts = BrokerFacts(plan.brokers)
        current: _Bucket | None = None
        for batch in batches:
            for row in batch.to_pylist():
                if current is None or row["bucket"] != current.number:
                    if current is not None:
                        yield from current.finish()
                    current = _Bucket(row["bucket"], plan, facts)
                yield from current.take(row)
        if current is not None:
            yield from current.finish()

    return follow


@dataclass(slots=True)
class _Bucket:
    """One bucket on its way through a task."""

    number: int
    plan: FollowPlan
    facts: BrokerFacts
    fold: BucketFold = field(init=False)
    makers: RowMaker = field(init=False)
    writers: PartWriters = field(init=False)
    blocks: list[BlockRow] = field(default_factory=list)
    topics: list[TopicEvent] = field(default_factory=list)
    events: int = 0
    reached: int = -1
    """Last position of what is held."""
    done: int = -1
    """Position up to which snapshots were met."""
    recalled: bool = False

    def __post_init__(self) -> None:
        opened = topics = None
        if self.plan.former is not None:
            opened, topics = unpack_open(Store(self.plan.former).read(self._name))
        self.fold = BucketFold(
            self.facts, self.plan.since, opened, topics, self.plan.assumed_min_isr
        )
        self.makers = RowMaker(self.fold.topics)
        self.writers = PartWriters(self.plan.parts, f"{self.number:05d}")

    def take(self, row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        if not self.recalled and row["first"] >= self.plan.since * 2:
            self._recall()
        if self.events >= EVENTS_PER_STEP and row["first"] > self.reached:
            yield from self._step(self.reached)
        self.reached = max(self.reached, row["last"])
        blob = row["blob"]
        if blob is not None:
            self.blocks.append(
                BlockRow(blob=blob, file=row["file_name"], snapshot_end=row["snapshot_end"])
            )
            self.events += int.from_bytes(blob[:8], "little")
            return
        if row["event"] is None:
            return  # the row that every bucket has
        topic_id = row["topic_id"]
        self.topics.append(
            TopicEvent(
                topic_id=None if topic_id is None else kafka_uuid.parse(topic_id).bytes,
                is_first=row["is_first"],
                event=Event(key=topic_id or "", **row["event"]),
            )
        )

    def _recall(self) -> None:
        """Take the events of topics that an earlier run has seen; there are none of partitions."""
        self.recalled = True
        if not self.plan.since:
            return
        self.done = self.plan.since * 2 - 1
        met = [sync for sync in self.plan.syncs if sync.position <= self.done]
        self.fold.recall(self.topics, met)
        self.topics = []

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left, and what still holds."""
        if not self.recalled:
            self._recall()
        yield from self._step(None)
        self._write(self.makers.still(self.fold.open), still=True)
        yield from _rows(self.fold.finish())
        yield _KINDS.batch("undecided", {"undecided_us": pa.array([self.facts.undecided_us])})
        keep = Store(self.plan.keep_open)
        keep.make_folder()
        keep.write(self._name, pack_open(self.fold.open, self.fold.topics))
        self.writers.close()
        if self.writers.files:
            yield _KINDS.of_rows("file", self.writers.files)

    def _step(self, reached: int | None) -> Iterator[pa.RecordBatch]:
        syncs = [
            sync
            for sync in self.plan.syncs
            if sync.position > self.done and (reached is None or sync.position <= reached)
        ]
        events = without(unpack(self.blocks), self.plan.dropped)
        found = self.fold.step(events, self.topics, syncs)
        self.blocks, self.topics, self.events = [], [], 0
        if reached is not None:
            self.done = reached
            self.fold.since = reached // 2 + 1
        self._write(self.makers.ended(found))
        yield from _rows(found.rows)

    def _write(self, rows: Rows, *, still: bool = False) -> None:
        for table, own in rows.items():
            self.writers.write(table, own, still=still)

    @property
    def _name(self) -> str:
        """Name of the file of what is open."""
        return f"{self.number:05d}.npz"


def _rows(rows: Sequence[TableRow]) -> Iterator[pa.RecordBatch]:
    kinds: dict[str, list[object]] = {}
    for row in rows:
        kind = str(row["kind"])
        kinds.setdefault(kind, []).append(row[kind])
    for kind, found in kinds.items():
        for start in range(0, len(found), ROWS_PER_BATCH):
            yield _KINDS.of_rows(kind, found[start : start + ROWS_PER_BATCH])
