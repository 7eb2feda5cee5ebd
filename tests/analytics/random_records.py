"""Records that a controller of a small cluster could have written, from a seed; or odd ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, TopicId
from tests.analytics.builders import LEVEL, LogBuilder, register

BROKERS = (1, 2, 3, 4)
TOPICS = 5
"""As many as there are at a time."""


def directories_of(broker: int) -> list[DirectoryId]:
    return [DirectoryId(UUID(int=broker << 100 | number)) for number in range(2)]


def replayed(image: MetadataImage, record: Record, offset: int) -> MetadataImage:
    """Return the image after a record; one that cannot be changes nothing."""
    delta = MetadataDelta(image)
    try:
        delta.replay(record, offset)
    except ReplayError:
        return image
    return delta.apply(offset, 1, 0)


@dataclass(slots=True)
class RandomRecords:
    """Draws records for the image before them."""

    random: random.Random
    oddity: float = 0.0
    """How likely a record does not fit what was there before."""
    with_brokers: bool = False
    ids: list[UUID] = field(default_factory=lambda: [UUID(int=7)])
    """Of all topics that ever were, and of one that never is."""

    def batch(self, image: MetadataImage, offset: int) -> Iterator[tuple[Record, MetadataImage]]:
        """Yield records of one batch, each with the image after it."""
        for _ in range(self.random.choice((1, 1, 2, 5))):
            for record in self.records(image, offset):
                image = replayed(image, record, offset)
                yield record, image
                offset += 1

    def records(self, image: MetadataImage, offset: int) -> list[Record]:
        """Return what is written for one thing that happens."""
        if self.with_brokers and self.random.random() < 0.2:
            return self.random.choice((self._register, self._change_broker))(image, offset)
        odd = self.random.random() < self.oddity
        makers = (self._create, self._change, self._put, self._remove, self._clear, self._config)
        (make,) = self.random.choices(makers, (3, 20, 3, 1, 1, 2))
        if not image.topics.by_id and not odd:
            make = self._create
        return make(image, odd) or [NoOpRecord()]

    def _register(self, image: MetadataImage, offset: int) -> list[Record]:
        broker = self.random.choice(BROKERS)
        found = self.random.sample(directories_of(broker), self.random.randint(1, 2))
        return [register(broker, found, epoch=offset)]

    def _change_broker(self, image: MetadataImage, offset: int) -> list[Record]:
        if not image.cluster.brokers:
            return [NoOpRecord()]
        known = self.random.choice(list(image.cluster.brokers.values()))
        if self.random.random() < 0.1:
            return [UnregisterBrokerRecord(broker_id=known.broker_id, broker_epoch=known.epoch)]
        return [
            BrokerRegistrationChangeRecord(
                broker_id=known.broker_id,
                broker_epoch=known.epoch,
                fenced=self.random.choice((-1, 0, 1)),
                in_controlled_shutdown=self.random.choice((0, 0, 1)),
                log_dirs=known.directories[1:] if self.random.random() < 0.4 else (),
            )
        ]

    def _create(self, image: MetadataImage, odd: bool) -> list[Record]:
        name = f"topic-{self.random.randrange(TOPICS + 1)}"
        if name in image.topics.by_name or len(image.topics.by_id) >= TOPICS:
            return []
        new = TopicId(UUID(int=self.random.getrandbits(127) | 1 << 126))
        gone = [TopicId(one) for one in self.ids if one not in image.topics.by_id]
        topic_id = self.random.choice(gone) if odd else new
        self.ids.append(topic_id)
        partitions = (self._partition(topic_id, n) for n in range(self.random.randint(0, 3)))
        return [TopicRecord(name=name, topic_id=topic_id), *partitions]

    def _put(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        return [] if topic_id is None else [self._partition(topic_id, self.random.randint(0, 3))]

    def _partition(self, topic_id: TopicId, index: int) -> PartitionRecord:
        replicas = self._brokers(3)
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas if self.random.random() < 0.8 else replicas[:1],
            leader=self.random.choice((replicas[0], BrokerId(-1))),
            leader_epoch=LeaderEpoch(self.random.randint(0, 5)),
            partition_epoch=PartitionEpoch(self.random.randint(0, 5)),
            leader_recovery_state=self.random.choice((0, 0, 1)),
            adding_replicas=self._brokers(1) if self.random.random() < 0.1 else (),
            directories=self._directories(replicas) if self.random.random() < 0.8 else (),
            eligible_leader_replicas=self._brokers(2) if self.random.random() < 0.1 else None,
        )

    def _change(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        topic = None if topic_id is None else image.topics.by_id.get(topic_id)
        known = {} if topic is None else topic.partitions
        if odd:
            index, replicas = self.random.randint(0, 5), self._brokers(3)
        elif known:
            index = self.random.choice(list(known))
            replicas = known[index].replicas
        else:
            return []
        fields: dict[str, Any] = {}
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
            fields["replicas"], fields["directories"] = moved, self._directories(moved)
            fields["adding_replicas"] = self._brokers(1)
        elif self.random.random() < 0.15:
            fields["directories"] = self._directories(replicas)
        if odd and self.random.random() < 0.5:
            fields["directories"] = (DirectoryId(UUID(int=0)),) * self.random.randint(0, 4)
        return [PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)]

    def _remove(self, image: MetadataImage, odd: bool) -> list[Record]:
        topic_id = self._some_topic(image, odd)
        return [] if topic_id is None else [RemoveTopicRecord(topic_id=topic_id)]

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

    def _some_topic(self, image: MetadataImage, odd: bool) -> TopicId | None:
        choices = list(map(TopicId, self.ids)) if odd else list(image.topics.by_id)
        return self.random.choice(choices) if choices else None

    def _brokers(self, count: int) -> tuple[BrokerId, ...]:
        return tuple(map(BrokerId, self.random.sample(BROKERS, count)))

    def _directories(self, brokers: tuple[BrokerId, ...]) -> tuple[DirectoryId, ...]:
        return tuple(self.random.choice(directories_of(broker)) for broker in brokers)


class RandomHistory:
    """A log of random batches, some of them transactions, of several leaders."""

    def __init__(self, log: LogBuilder, seed: int) -> None:
        self.log = log
        self.random = random.Random(seed)
        self.drawn = RandomRecords(self.random, with_brokers=True)
        log.append(FeatureLevelRecord(name="metadata.version", feature_level=LEVEL))

    def run(self, steps: int, snapshot_every: int = 0) -> MetadataImage:
        """Append batches; returns the image after them."""
        for step in range(1, steps + 1):
            if self.random.random() < 0.05:
                self.log.new_leader()
            if self.random.random() < 0.08:
                self._abort_transaction()
            records = self._batch()
            if self.random.random() < 0.1:
                records = [BeginTransactionRecord(name="x"), *records, EndTransactionRecord()]
            self.log.append(*records)
            if snapshot_every and step % snapshot_every == 0:
                self.log.snapshot()
        return self.log.loader.image

    def _batch(self) -> list[Record]:
        drawn = self.drawn.batch(self.log.loader.image, self.log.log.end_offset)
        return [record for record, _ in drawn]

    def _abort_transaction(self) -> None:
        self.log.append(NoOpRecord(), BeginTransactionRecord(name="dropped"), *self._batch())
        if self.random.random() < 0.5:
            self.log.new_leader()
        self.log.append(AbortTransactionRecord(reason="Controller failover"))


def random_log(folder: Path, seed: int, steps: int, snapshot_every: int = 0) -> LogBuilder:
    """Write a history into several segments, and close it."""
    log = LogBuilder(folder, segment_bytes=8192)
    RandomHistory(log, seed).run(steps, snapshot_every)
    log.close()
    return log
