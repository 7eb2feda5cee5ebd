"""Second stage of a replay: each bucket of partitions is followed from the begin of the log on.

A task gets the blocks of its bucket and the records about its topics, by the order of replay, and
takes them in steps of bounded size. It writes the rows of the facts into files, and derives the
other tables of the bucket from these rows while they are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.bucket import derive_bucket
from analytics.derive.log_end import LogEnd
from analytics.job.runner import Row
from analytics.rare.broker_facts import BrokerFacts, BrokerState
from analytics.rare.bucket import BucketFold, TopicEvent
from analytics.rare.key_history import Event, Sync
from analytics.rare.key_history import Row as TableRow
from analytics.rare.min_insync import AssumedMinIsr
from analytics.rare.table_rows import RowMaker, Rows
from analytics.rare.transactions import Dropped
from analytics.read.partition_events import BlockRow, unpack, without
from analytics.store.part_files import PartFiles, PartWriters, WrittenFile
from analytics.tables.table import Table
from jbodlab.vocabulary import kafka_uuid

EVENTS_PER_STEP = 400_000
"""From so many events on a step ends; each takes some hundred bytes while it is followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPlan:
    """What is the same for all buckets; small."""

    syncs: tuple[Sync, ...]
    dropped: tuple[Dropped, ...]
    """Offsets without effect, of aborted transactions."""
    replay_from: int
    """Offset that the replay starts from; snapshots that end before it have no effect."""
    brokers: tuple[BrokerState, ...]
    parts: PartFiles
    assumed_min_isr: AssumedMinIsr
    failures: pa.Table
    """Rows of `derived.FAILURES`."""
    end: LogEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a bucket gives.

    Attributes:
        files: The files that were written.
        rows: Rows of topics and problems.
    """

    files: Sequence[WrittenFile]
    rows: Sequence[TableRow]


def follow_bucket(plan: FollowPlan, number: int, rows: Iterator[Row]) -> Followed:
    """Follow the partitions of a bucket, and derive what they give.

    Args:
        plan: What is the same for all buckets.
        number: Of the bucket.
        rows: Its rows of ROWS, by `first`.
    """
    with PartWriters(plan.parts, f"{number:05d}") as writers:
        bucket = _Bucket(plan, writers)
        for row in rows:
            bucket.take(row)
        bucket.finish()
        facts = {table: pa.concat_tables(rows) for table, rows in bucket.held.items()}
        found = bucket.rows
        # What the partitions have come to takes as much as their facts do.
        del bucket
        for table, derived in derive_bucket(facts, plan.failures, plan.end):
            writers.write(table, derived)
    return Followed(files=writers.files, rows=found)


@dataclass(slots=True)
class _Bucket:
    """One bucket on its way through a task."""

    plan: FollowPlan
    writers: PartWriters
    fold: BucketFold = field(init=False)
    makers: RowMaker = field(init=False)
    held: dict[Table, list[pa.Table]] = field(default_factory=dict)
    """What was written, for what is derived of it."""
    rows: list[TableRow] = field(default_factory=list)
    blocks: list[BlockRow] = field(default_factory=list)
    topics: list[TopicEvent] = field(default_factory=list)
    """Records about topics that come yet, the last one first."""
    events: int = 0
    reached: int = -1
    """Last position of what is held."""
    done: int = -1
    """Position up to which snapshots were met."""

    def __post_init__(self) -> None:
        self.fold = BucketFold(BrokerFacts(self.plan.brokers), self.plan.assumed_min_isr)
        self.makers = RowMaker(self.fold.topics)

    def take(self, row: Row) -> None:
        if row["file_name"] is None:
            self.topics = topic_events(row["blob"])[::-1]
            return
        if row["snapshot_end"] is not None and row["snapshot_end"] < self.plan.replay_from:
            return
        if self.events >= EVENTS_PER_STEP and row["first"] > self.reached:
            self._step(self.reached)
        self.reached = max(self.reached, row["last"])
        block = BlockRow(blob=row["blob"], file=row["file_name"], snapshot_end=row["snapshot_end"])
        self.blocks.append(block)
        self.events += int.from_bytes(block.blob[:8], "little")

    def finish(self) -> None:
        """Take the remaining events, and write the states that still hold."""
        self._step(None)
        self._write(self.makers.still(self.fold.open))
        self.rows += self.fold.finish()

    def _step(self, reached: int | None) -> None:
        syncs = [
            sync
            for sync in self.plan.syncs
            if sync.position > self.done and (reached is None or sync.position <= reached)
        ]
        topics: list[TopicEvent] = []
        while self.topics and (reached is None or self.topics[-1].event.position <= reached):
            topics.append(self.topics.pop())
        events = without(unpack(self.blocks), self.plan.dropped)
        found = self.fold.step(events, topics, syncs)
        self.blocks, self.events = [], 0
        if reached is not None:
            self.done = reached
            self.fold.since = reached // 2 + 1
        self._write(self.makers.ended(found))
        self.rows += found.rows

    def _write(self, rows: Rows) -> None:
        for table, own in rows.items():
            self.writers.write(table, own)
            self.held.setdefault(table, []).append(own)


def topic_events(blob: bytes) -> list[TopicEvent]:
    """Return the records of a file of `small_records.TOPIC_ROW`."""
    with pa.ipc.open_stream(blob) as reader:
        rows = reader.read_all().to_pylist()
    return [_topic_event(**row) for row in rows]


def _topic_event(topic_id: str | None, is_first: bool, **event: object) -> TopicEvent:
    return TopicEvent(
        topic_id=None if topic_id is None else kafka_uuid.parse(topic_id).bytes,
        is_first=is_first,
        event=Event(key=topic_id or "", **event),  # type: ignore[arg-type]
    )
