"""Random histories of topics for tests, with everything in them that a log should not hold."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from analytics.rare.bucket import TopicEvent
from analytics.rare.key_history import Event, Sync, advance
from analytics.rare.states import ENDS, LISTS, NUMBERS, STILL, TYPES, States, Topics
from analytics.rare.topic_records import Change, TopicFold
from analytics.read.partition_events import BlockRow, PartitionEvents, pack, unpack
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
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
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, TopicId
from tests.analytics.builders import LEVEL
from tests.snapshot_files import image_records

TOPICS = [UUID(int=number << 64 | 7) for number in range(1, 5)]
BROKERS = (1, 2, 3, 4)
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
                file="log",
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
        name = f"snapshot-{self.offset}"
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

    # What the folds take

    def topic_events(self) -> list[TopicEvent]:
        """Records that concern topics as a whole, with names as ids."""
        ids: dict[str, list[UUID]] = {}
        found = []
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
        return [
            TopicEvent(topic_id=None if one is None else one.bytes, is_first=True, event=event)
            for one, event in found
        ]


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


def columns_of(events: list[Event]) -> PartitionEvents:
    """Return the events of partitions by columns, through the blocks that Spark moves."""
    blocks = []
    for event in events:
        record = event.record
        if not isinstance(record, PARTITION_RECORDS):
            continue
        data = np.frombuffer(event.value + bytes(16), dtype=np.uint8)
        one = PartitionEvents(
            topic_id=np.frombuffer(record.topic_id.bytes, dtype=np.uint8).reshape(1, 16),
            partition=np.array([record.partition_id], dtype=np.int32),
            offset=np.array([event.offset]),
            replay_offset=np.array([event.replay_offset]),
            snapshot=np.array([event.snapshot]),
            time=np.array([event.time]),
            base=np.array([event.batch_base_offset]),
            last=np.array([event.batch_last_offset]),
            file=np.zeros(1, dtype=np.int32),
            data=data,
            starts=np.array([0]),
            ends=np.array([len(event.value)]),
            files=(event.file,),
        )
        end = event.replay_offset if event.snapshot else None
        blob = pack(one)
        blocks.append(BlockRow(blob=blob, file=event.file, snapshot_end=end))
    return unpack(blocks)


def by_single_records(log: RandomTopics) -> dict[UUID, TopicFold]:
    """Fold every topic record by record."""
    ids = {one.topic_id for one in log.topic_events() if one.topic_id is not None}
    ids |= {
        event.record.topic_id.bytes  # type: ignore[attr-defined]
        for event in log.events
        if isinstance(event.record, PARTITION_RECORDS)
    }
    folds = {}
    for topic_id in ids:
        events = [one.event for one in log.topic_events() if one.topic_id in (None, topic_id)]
        events += [
            event
            for event in log.events
            if isinstance(event.record, PARTITION_RECORDS)
            and event.record.topic_id.bytes == topic_id
        ]
        events.sort(key=lambda event: event.position)
        fold = TopicFold(kafka_uuid.to_text(UUID(bytes=topic_id)))
        advance(fold, events, log.syncs)
        fold.finish()
        folds[UUID(bytes=topic_id)] = fold
    return folds


Row = dict[str, object]


def rows_of_changes(topic_id: UUID, changes: list[Change]) -> list[Row]:
    rows = []
    for change in changes:
        state, since, until = change.state, change.since, change.until
        rows.append(
            {
                "topic": (change.topic, topic_id.bytes),
                "partition": change.partition,
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
                "partition_epoch": state.partition_epoch,
                "leader_recovery_state": state.leader_recovery_state,
                "from_offset": since.offset,
                "from_time": since.time,
                "from_type": since.record_type,
                "base": since.batch_base_offset,
                "last": since.batch_last_offset,
                "to_offset": None if until is None else until.offset,
                "to_time": None if until is None else until.time,
                "ended": change.ended,
                "directories": [one.bytes for one in state.directories],
                **{name: list(getattr(state, name)) for name in LISTS if name != "directories"},
            }
        )
    return rows


def rows_of_states(states: States, topics: Topics) -> list[Row]:
    columns: dict[str, list[object]] = {
        name: states[name].tolist() for name in NUMBERS if name != "old"
    }
    every = np.arange(len(states))
    for name in LISTS:
        columns[name] = list(states.list_of(name, every).to_lists())
    columns["directories"] = [[bytes(one) for one in ids] for ids in columns["directories"]]  # type: ignore[attr-defined]
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    for row in rows:
        still = row["to_offset"] == STILL
        row["topic"] = tuple(topics.all[row["topic"]])  # type: ignore[index]
        row["from_type"] = TYPES[row["from_type"]]  # type: ignore[index]
        row["ended"] = ENDS[row["ended"]]  # type: ignore[index]
        row["to_offset"] = None if still else row["to_offset"]
        row["to_time"] = None if still else row["to_time"]
    return rows
