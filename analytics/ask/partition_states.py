"""The state of every partition at a moment, followed by columns as in a replay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from uuid import UUID

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.ask.cluster import Cluster
from analytics.ask.offline_log import SNAPSHOT_MOMENT, LogRecord, OfflineLog
from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.bucket import BucketFold, TopicEvent
from analytics.rare.key_history import Event, Sync
from analytics.rare.rare_topics import registrations
from analytics.rare.transactions import Dropped
from analytics.read.partition_events import BlockRow, pack, unpack, without
from analytics.read.plain_rows import microseconds
from analytics.read.split_events import partition_events
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import kafka_uuid

EVENTS_PER_STEP = 400_000
"""Bounds the memory; each event takes some hundred bytes while it is followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAt:
    """One partition at the moment that was asked about."""

    topic: str
    topic_id: str
    partition: int
    state: PartitionRegistration

    @property
    def name(self) -> str:
        """Topic and index, as Kafka's tools write them."""
        return f"{self.topic}-{self.partition}"


def partition_states(
    log: OfflineLog,
    cluster: Cluster,
    records: Iterable[LogRecord],
    dropped: Sequence[Dropped],
    until: int,
) -> list[PartitionAt]:
    """Return all partitions that exist at a moment, by topic and index.

    Args:
        log: The log.
        cluster: Its topics by that moment.
        records: The records that the cluster was read from.
        dropped: Stretches that have no effect.
        until: Last offset.
    """
    fold = BucketFold(BrokerFacts([]))
    steps = _Steps(
        fold,
        deque(sorted(_topic_events(records, cluster), key=attrgetter("event.position"))),
        _base(log),
    )
    for batch in log.partition_batches(until):
        steps.take(batch, dropped)
    steps.finish()
    return sorted(_partitions(fold), key=attrgetter("topic", "partition"))


class _Steps:
    """Events on their way into a fold, in pieces of bounded size."""

    def __init__(self, fold: BucketFold, topics: deque[TopicEvent], syncs: list[Sync]) -> None:
        self.fold = fold
        self.topics = topics
        self.syncs = syncs
        self.blocks: list[BlockRow] = []
        self.events = 0
        self.reached = -1

    def take(self, batch: pa.RecordBatch, dropped: Sequence[Dropped]) -> None:
        """Take rows of one file."""
        file: str = batch.column("file")[0].as_py()
        events = without(partition_events(batch, file), dropped)
        if not len(events):
            return
        is_snapshot = bool(events.snapshot[0])
        # A snapshot is one moment: nothing of it may come later than the rest.
        if self.events >= EVENTS_PER_STEP and not is_snapshot:
            self._step(self.reached)
        end = int(events.replay_offset[0]) if is_snapshot else None
        blob = pack(events)
        self.blocks.append(BlockRow(blob=blob, file=file, snapshot_end=end))
        self.events += len(events)
        self.reached = int(events.position.max())

    def finish(self) -> None:
        """Take the last step."""
        self._step(None)

    def _step(self, reached: int | None) -> None:
        topics: list[TopicEvent] = []
        while self.topics and (reached is None or self.topics[0].event.position <= reached):
            topics.append(self.topics.popleft())
        self.fold.step(unpack(self.blocks), topics, self.syncs)
        self.blocks, self.events, self.syncs = [], 0, []
        if reached is not None:
            self.fold.since = reached // 2 + 1


def _base(log: OfflineLog) -> list[Sync]:
    """Return the snapshot that the replay starts from, if there is one."""
    return [
        Sync(
            offset=split.snapshot.end_offset,
            time=microseconds(split.snapshot.timestamp_ms),
            file=split.snapshot.name,
            is_base=True,
        )
        for split in log.splits[:1]
        if split.snapshot is not None
    ]


def _topic_events(records: Iterable[LogRecord], cluster: Cluster) -> Iterator[TopicEvent]:
    """Yield what concerns topics as a whole and the state of their partitions."""
    for source in records:
        match source.record:
            case TopicRecord(topic_id=topic_id) | RemoveTopicRecord(topic_id=topic_id):
                yield _topic_event(source, topic_id.bytes)
            case ClearElrRecord(topic_name=""):
                yield _topic_event(source, None)
            case ClearElrRecord(topic_name=name):
                for life in cluster.lives.get(name, ()):
                    if life.created.offset <= source.offset:
                        yield _topic_event(source, kafka_uuid.parse(life.topic_id).bytes)


def _topic_event(source: LogRecord, topic_id: bytes | None) -> TopicEvent:
    is_snapshot = source.type == SNAPSHOT_MOMENT
    record = source.record
    return TopicEvent(
        topic_id=topic_id,
        is_first=False,
        event=Event(
            key="",
            replay_offset=source.offset + is_snapshot,
            snapshot=is_snapshot,
            offset=source.offset,
            time=None,
            batch_base_offset=source.batch_base_offset,
            batch_last_offset=source.batch_last_offset,
            file="",
            type=record.NAME,
            value=frame.encode(record, record.HIGHEST_VERSION),
        ),
    )


def _partitions(fold: BucketFold) -> Iterator[PartitionAt]:
    topics = [(one.name, kafka_uuid.to_text(UUID(bytes=one.topic_id))) for one in fold.topics.all]
    states = fold.open.states
    for number, (index, at) in zip(states["topic"].tolist(), registrations(states), strict=True):
        name, topic_id = topics[number]
        yield PartitionAt(topic=name, topic_id=topic_id, partition=index, state=at.state)
