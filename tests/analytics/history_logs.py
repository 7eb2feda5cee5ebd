"""Random histories of topics for tests, with everything in them that a log should not hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from uuid import UUID

from analytics.rare.key_history import Event, Sync, advance
from analytics.rare.topic_records import Change, TopicFold
from analytics.read.layout import Layout, read_layout
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.log.snapshots import snapshot_name
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, TopicId
from tests.analytics.builders import LEVEL
from tests.analytics.image_tables import state_row
from tests.snapshot_files import image_records, write_snapshot

TOPICS = [UUID(int=number << 64 | 7) for number in range(1, 5)]
BROKERS = (1, 2, 3, 4)
SEGMENT = "00000000000000000000.log"
PARTITION_RECORDS = (PartitionRecord, PartitionChangeRecord)


@dataclass
class RandomTopics:
    """Events of some topics, and the image that the records give."""

    random: random.Random
    oddity: float
    """How likely a record does not fit what was there before."""
    events: list[Event] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    image: MetadataImage = field(default_factory=lambda: _AT_HIGHEST_LEVEL)
    images: dict[int, MetadataImage] = field(default_factory=dict)
    """After each offset."""
    offset: int = 0
    names: dict[str, UUID] = field(default_factory=dict)

    def run(self, batches: int) -> None:
        for _ in range(batches):
            base, records = self.offset, []
            image = self.image
            for _ in range(self.random.choice((1, 1, 2, 4))):
                for record in self._records(image):
                    image = replayed(image, record, base + len(records))
                    records.append(record)
                    self.images[base + len(records) - 1] = image
            self.image = image
            for index, record in enumerate(records):
                self._add(record, base + index, base, base + len(records) - 1)
            self.offset += len(records)
            if self.random.random() < 0.08:
                self._snapshot()

    def _add(self, record: Record, offset: int, base: int, last: int) -> None:
        version = record.HIGHEST_VERSION
        if self.random.random() < self.oddity and isinstance(record, PARTITION_RECORDS):
            # An empty list is written where it means a change.
            elrs = (record.eligible_leader_replicas, record.last_known_elr)
            version = 1 if elrs == (None, None) else version
        self.events.append(
            Event(
                key="",
                replay_offset=offset,
                snapshot=False,
                offset=offset,
                time=base * 1_000_000,
                batch_base_offset=base,
                batch_last_offset=last,
                file=SEGMENT,
                type=record.NAME,
                value=frame.encode(record, version),
            )
        )

    def _snapshot(self) -> None:
        if self.syncs and self.syncs[-1].offset == self.offset:
            return
        image = self.image
        if self.random.random() < self.oddity:
            for record in self._records(image):
                image = replayed(image, record, 0)
        name = snapshot_name(self.offset, 1)
        self.syncs.append(
            Sync(offset=self.offset, time=self.offset * 1_000_000, file=name, is_base=False)
        )
        kept = [
            versioned
            for versioned in image_records(image)
            if isinstance(versioned.record, PartitionRecord | TopicRecord | ConfigRecord)
        ]
        for position, (record, version) in enumerate(kept):
            self.events.append(
                Event(
                    key="",
                    replay_offset=self.offset,
                    snapshot=True,
                    offset=position,
                    time=self.offset * 1_000_000,
                    batch_base_offset=0,
                    batch_last_offset=len(kept) - 1,
                    file=name,
                    type=record.NAME,
                    value=frame.encode(record, version),
                )
            )
        # A restarted node believes the snapshot.
        self.image = image

    def _records(self, image: MetadataImage) -> list[Record]:
        odd = self.random.random() < self.oddity
        topics = list(image.topics.by_id.values())
        make = self.random.choices(
            (self._create, self._change, self._put, self._remove, self._clear, self._config),
            (3, 20, 3, 1, 1, 2),
        )[0]
        if not topics and not odd:
            make = self._create
        return make(image, odd) or [ConfigRecord(resource_type=4, resource_name="9", name="x")]

    def _create(self, image: MetadataImage, odd: bool) -> list[Record]:
        free = [one for one in TOPICS if one not in image.topics.by_id]
        if not odd:
            used = {self.names[name] for name in self.names}
            free = [one for one in free if one not in used]
        if not free:
            return []
        topic_id = self.random.choice(free)
        name = self.random.choice([f"topic-{n}" for n in range(6)])
        if name in image.topics.by_name:
            return []
        self.names[name] = topic_id
        records: list[Record] = [TopicRecord(name=name, topic_id=TopicId(topic_id))]
        records += (self._partition(topic_id, n) for n in range(self.random.randint(0, 3)))
        return records

    def _put(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        if topic_id is None:
            return []
        return [self._partition(topic_id, self.random.randint(0, 3))]

    def _partition(self, topic_id: UUID, index: int) -> PartitionRecord:
        replicas = self._brokers(3)
        directories = tuple(self._directory(broker) for broker in replicas)
        if self.random.random() < 0.2:
            directories = ()
        elr = self._brokers(2) if self.random.random() < 0.1 else None
        return PartitionRecord(
            partition_id=index,
            topic_id=TopicId(topic_id),
            replicas=replicas,
            isr=replicas if self.random.random() < 0.8 else replicas[:1],
            leader=self.random.choice((replicas[0], BrokerId(-1))),
            leader_epoch=LeaderEpoch(self.random.randint(0, 5)),
            partition_epoch=PartitionEpoch(self.random.randint(0, 5)),
            leader_recovery_state=self.random.choice((0, 0, 1)),
            adding_replicas=self._brokers(1) if self.random.random() < 0.1 else (),
            directories=directories,
            eligible_leader_replicas=elr,
        )

    def _change(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        if topic_id is None:
            return []
        topic = image.topics.by_id.get(TopicId(topic_id))
        known = {} if topic is None else topic.partitions
        if odd or not known:
            if not odd:
                return []
            index, replicas = self.random.randint(0, 5), self._brokers(3)
        else:
            index = self.random.choice(list(known))
            replicas = known[index].replicas
        fields: dict[str, object] = {}
        if self.random.random() < 0.6:
            fields["isr"] = tuple(b for b in replicas if self.random.random() < 0.6)
        if self.random.random() < 0.5:
            fields["leader"] = BrokerId(self.random.choice((*replicas, -1)))
        if self.random.random() < 0.1:
            fields["eligible_leader_replicas"] = replicas[1:]
        if self.random.random() < 0.1:
            fields["last_known_elr"] = replicas[:1] if self.random.random() < 0.5 else ()
        if self.random.random() < 0.1:
            fields["leader_recovery_state"] = self.random.choice((0, 1))
        if self.random.random() < 0.15:
            moved = self._brokers(self.random.choice((1, 2, 3)))
            fields["replicas"] = moved
            fields["directories"] = tuple(self._directory(broker) for broker in moved)
            fields["adding_replicas"] = self._brokers(1)
        elif self.random.random() < 0.15:
            fields["directories"] = tuple(self._directory(broker) for broker in replicas)
        if odd and self.random.random() < 0.5:
            fields["directories"] = (DirectoryId(UUID(int=0)),) * self.random.randint(0, 4)
        return [
            PartitionChangeRecord(partition_id=index, topic_id=TopicId(topic_id), **fields)  # type: ignore[arg-type]
        ]

    def _remove(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        return [] if topic_id is None else [RemoveTopicRecord(topic_id=TopicId(topic_id))]

    def _clear(self, image: MetadataImage, odd: bool) -> list[Record]:
        return [ClearElrRecord(topic_name=self.random.choice(("", *image.topics.by_name)))]

    def _config(self, image: MetadataImage, odd: bool) -> list[Record]:
        name = self.random.choice(("", *image.topics.by_name))
        return [
            ConfigRecord(
                resource_type=2 if name else 4,
                resource_name=name,
                name="min.insync.replicas",
                value=self.random.choice((None, "1", "2", "3")),
            )
        ]

    def _some_topic(self, image: MetadataImage, odd: bool) -> UUID | None:
        choices = TOPICS if odd else list(image.topics.by_id)
        return self.random.choice(choices) if choices else None

    def _brokers(self, count: int) -> tuple[BrokerId, ...]:
        return tuple(map(BrokerId, self.random.sample(BROKERS, count)))

    def _directory(self, broker: int) -> DirectoryId:
        return DirectoryId(UUID(int=broker << 100 | self.random.randint(0, 1)))

    def topic_events(self) -> list[tuple[UUID | None, Event]]:
        """Records that concern topics as a whole, with the id of the topic, or for all of them."""
        ids: dict[str, list[UUID]] = {}
        found: list[tuple[UUID | None, Event]] = []
        for event in self.events:
            match event.record:
                case TopicRecord() as record:
                    known = ids.setdefault(record.name, [])
                    if record.topic_id not in known:
                        known.append(record.topic_id)
                    found.append((record.topic_id, event))
                case RemoveTopicRecord(topic_id=topic_id):
                    found.append((topic_id, event))
                case ClearElrRecord(topic_name=name):
                    found += ((one, event) for one in (ids.get(name, ()) if name else (None,)))
                case ConfigRecord(resource_type=2, resource_name=name):
                    found += ((one, event) for one in ids.get(name, ()))
                case ConfigRecord(resource_name=""):
                    found.append((None, event))
        return found


def replayed(image: MetadataImage, record: Record, offset: int) -> MetadataImage:
    delta = MetadataDelta(image)
    try:
        delta.replay(record, offset)
    except ReplayError:
        return image
    return delta.apply(offset, 1, 0)


_AT_HIGHEST_LEVEL = replayed(
    EMPTY, FeatureLevelRecord(name="metadata.version", feature_level=LEVEL), 0
)


def write(log: RandomTopics, folder: Path) -> Layout:
    """Write the log and its snapshots, and return what planning knows of it."""
    data = b""
    of_log = (event for event in log.events if not event.snapshot)
    for base, batch in groupby(of_log, key=attrgetter("batch_base_offset")):
        values: list[tuple[bytes | None, bytes | None]] = [(None, event.value) for event in batch]
        data += build_batch(values, base_offset=base, leader_epoch=1, timestamp_ms=base * 1000)
    (folder / SEGMENT).write_bytes(data)
    for sync in log.syncs:
        own = [event for event in log.events if event.file == sync.file]
        records = [frame.decode(event.value) for event in own]
        write_snapshot(folder, records, sync.offset, 1, sync.offset * 1000)
    return read_layout(folder)


def by_single_records(log: RandomTopics) -> dict[UUID, TopicFold]:
    """Fold every topic record by record."""
    of_topics = log.topic_events()
    of_partitions: list[tuple[UUID | None, Event]] = [
        (event.record.topic_id, event)  # type: ignore[attr-defined]
        for event in log.events
        if isinstance(event.record, PARTITION_RECORDS)
    ]
    folds = {}
    for topic_id in {one for one, _ in (*of_topics, *of_partitions) if one is not None}:
        own = [event for one, event in of_topics if one in (None, topic_id)]
        own += [event for one, event in of_partitions if one == topic_id]
        own.sort(key=lambda event: (event.replay_offset, not event.snapshot))
        fold = TopicFold(kafka_uuid.to_text(topic_id))
        advance(fold, own, log.syncs)
        fold.finish()
        folds[topic_id] = fold
    return folds


Row = dict[str, object]


def rows_of_changes(topic_id: UUID, changes: Sequence[Change]) -> list[Row]:
    """Return states as rows of the history of partitions."""
    return [
        {
            "topic": change.topic,
            "topic_id": kafka_uuid.to_text(topic_id),
            "partition": change.partition,
            **state_row(change.state),
            "record_type": change.since.record_type,
            "batch_base_offset": change.since.batch_base_offset,
            "valid_from_offset": change.since.offset,
            "valid_to_offset": None if change.until is None else change.until.offset,
        }
        for change in changes
    ]
