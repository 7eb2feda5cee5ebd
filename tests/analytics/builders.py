"""Metadata logs for tests: a few records by hand, or a random history of a small cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import control_batch, read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
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
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from tests.metadata_batches import data_batch
from tests.snapshot_files import image_records, write_snapshot

START_MS = 1_700_000_000_000
LEVEL = 30


def versioned(record: Record) -> VersionedRecord:
    return VersionedRecord(record, record.HIGHEST_VERSION)


def uid(number: int) -> UUID:
    return UUID(int=number << 100)


def partition_record(
    topic_id: UUID,
    partition: int = 0,
    *,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    leader: int = 1,
    directories: Sequence[UUID] = (),
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition,
        topic_id=TopicId(topic_id),
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, replicas if isr is None else isr)),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        directories=tuple(map(DirectoryId, directories)),
    )


def register(broker: int, directories: Sequence[UUID], *, epoch: int = 0) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(broker),
        incarnation_id=uid(9000 + broker),
        broker_epoch=BrokerEpoch(epoch),
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9000 + broker),),
        fenced=False,
        log_dirs=tuple(map(DirectoryId, directories)),
        cordoned_log_dirs=(),
    )


@dataclass
class LogBuilder:
    """Appends batches to a metadata log, one second after the other."""

    root: Path
    segment_bytes: int = 1 << 30
    epoch: int = 1
    now_ms: int = START_MS
    batches: int = 0
    log: MetadataLog = field(init=False)
    loader: MetadataLoader = field(init=False)

    def __post_init__(self) -> None:
        self.log = MetadataLog.open(self.root, segment_bytes=self.segment_bytes)
        self.loader = MetadataLoader()

    @property
    def directory(self) -> Path:
        return self.log.directory

    def append(self, *records: Record) -> int:
        """Append one batch and return the offset of its first record."""
        base_offset = self.log.end_offset
        self.now_ms += 1000
        data = data_batch(
            [versioned(record) for record in records],
            base_offset=base_offset,
            epoch=self.epoch,
            timestamp_ms=self.now_ms,
        )
        self._append(data)
        return base_offset

    def new_leader(self) -> None:
        self.epoch += 1
        self.now_ms += 1000
        self._append(
            control_batch(
                LeaderChangeMessage(leader_id=100),
                base_offset=self.log.end_offset,
                epoch=self.epoch,
                timestamp_ms=self.now_ms,
            )
        )

    def snapshot(self, image: MetadataImage | None = None) -> Path:
        image = self.loader.image if image is None else image
        return write_snapshot(
            self.directory,
            image_records(image),
            image.offset + 1,
            image.epoch,
            image.timestamp_ms,
            created_ms=self.now_ms,
        )

    def close(self) -> MetadataImage:
        self.log.close()
        return self.loader.image

    def _append(self, data: bytes) -> None:
        for batch in read_batches(data):
            self.loader.load(batch)
        self.log.append(data)
        self.batches += 1


def log_of_one_record(root: Path) -> Path:
    """Write a log; returns its directory."""
    log = LogBuilder(root)
    log.append(NoOpRecord())
    log.close()
    return log.directory


class RandomHistory:
    """A history that the controller of a small cluster could have written, from a seed."""

    def __init__(self, builder: LogBuilder, seed: int) -> None:
        self.builder = builder
        self.random = random.Random(seed)
        self.in_transaction: MetadataDelta | None = None
        self.names = [f"topic-{number}" for number in range(5)]
        builder.append(
            FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        )

    def run(self, steps: int, snapshot_every: int = 0) -> MetadataImage:
        for step in range(1, steps + 1):
            if self.random.random() < 0.05:
                self.builder.new_leader()
            if self.random.random() < 0.08:
                self._aborted_transaction()
            self.builder.append(*self._batch(self.builder.loader.image))
            if snapshot_every and step % snapshot_every == 0:
                self.builder.snapshot()
        return self.builder.loader.image

    def _batch(self, image: MetadataImage) -> list[Record]:
        """Return records that fit an image, one after the other."""
        records: list[Record] = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            offset = self.builder.log.end_offset + len(records)
            made = self._records(image, offset)
            delta = MetadataDelta(image)
            for index, record in enumerate(made):
                delta.replay(record, offset + index)
            image = delta.apply(offset + len(made) - 1, 1, 0)
            records += made
        if self.random.random() < 0.1:
            return [BeginTransactionRecord(name="x"), *records, EndTransactionRecord()]
        return records

    def _aborted_transaction(self) -> None:
        records = self._batch(self.builder.loader.image)
        if isinstance(records[0], BeginTransactionRecord):
            records = records[1:-1]
        self.builder.append(NoOpRecord(), BeginTransactionRecord(name="dropped"), *records)
        if self.random.random() < 0.5:
            self.builder.new_leader()
        self.builder.append(AbortTransactionRecord(reason="Controller failover"))

    def _records(self, image: MetadataImage, offset: int) -> list[Record]:
        choices = [self._register, self._broker_change, self._create_topic, self._config]
        choices += [self._change_partition] * 8 + [self._remove_topic, self._clear_elr, self._noop]
        return self.random.choice(choices)(image, offset) or [NoOpRecord()]

    def _register(self, image: MetadataImage, offset: int) -> list[Record]:
        broker = self.random.randint(1, 4)
        directories = self.random.sample([uid(broker * 10 + n) for n in range(4)], 3)
        return [register(broker, directories, epoch=offset)]

    def _broker_change(self, image: MetadataImage, offset: int) -> list[Record]:
        if not image.cluster.brokers:
            return []
        known = self.random.choice(list(image.cluster.brokers.values()))
        if self.random.random() < 0.1:
            return [UnregisterBrokerRecord(broker_id=known.broker_id, broker_epoch=known.epoch)]
        remaining = known.directories[1:] if self.random.random() < 0.4 else ()
        return [
            BrokerRegistrationChangeRecord(
                broker_id=known.broker_id,
                broker_epoch=known.epoch,
                fenced=self.random.choice((-1, 0, 1)),
                in_controlled_shutdown=self.random.choice((0, 0, 1)),
                log_dirs=remaining,
            )
        ]

    def _create_topic(self, image: MetadataImage, offset: int) -> list[Record]:
        free = [name for name in self.names if name not in image.topics.by_name]
        if not free:
            return []
        name = self.random.choice(free)
        topic_id = UUID(int=self.random.getrandbits(127) | 1 << 126)
        records: list[Record] = [TopicRecord(name=name, topic_id=TopicId(topic_id))]
        if self.random.random() < 0.5:
            records.append(
                ConfigRecord(
                    resource_type=2, resource_name=name, name="min.insync.replicas", value="2"
                )
            )
            records.append(ClearElrRecord(topic_name=name))
        for index in range(self.random.randint(1, 5)):
            replicas = self.random.sample((1, 2, 3, 4), 3)
            directories = [uid(broker * 10 + self.random.randint(0, 3)) for broker in replicas]
            records.append(
                partition_record(
                    topic_id, index, replicas=replicas, leader=replicas[0], directories=directories
                )
            )
        return records

    def _change_partition(self, image: MetadataImage, offset: int) -> list[Record]:
        topics = [topic for topic in image.topics.by_id.values() if topic.partitions]
        if not topics:
            return []
        topic = self.random.choice(topics)
        index = self.random.choice(list(topic.partitions))
        known = topic.partitions[index]
        isr = (
            tuple(broker for broker in known.replicas if self.random.random() < 0.6)
            or known.replicas[:1]
        )
        change: dict[str, object] = {}
        if self.random.random() < 0.8:
            change["isr"] = isr
            change["leader"] = self.random.choice((*isr, BrokerId(-1), BrokerId(-2)))
        if self.random.random() < 0.2:
            change["eligible_leader_replicas"] = known.replicas[:1]
            change["last_known_elr"] = known.replicas[1:]
        if self.random.random() < 0.2:
            replicas = tuple(self.random.sample(known.replicas, len(known.replicas)))
            change["replicas"] = replicas
            change["directories"] = tuple(uid(broker * 10) for broker in replicas)
            change["adding_replicas"] = replicas[:1]
            change["removing_replicas"] = ()
        return [
            PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, **change)  # type: ignore[arg-type]
        ]

    def _remove_topic(self, image: MetadataImage, offset: int) -> list[Record]:
        if len(image.topics.by_id) < 3:
            return []
        return [RemoveTopicRecord(topic_id=self.random.choice(list(image.topics.by_id)))]

    def _clear_elr(self, image: MetadataImage, offset: int) -> list[Record]:
        return [ClearElrRecord(topic_name=self.random.choice(("", *image.topics.by_name)))]

    def _config(self, image: MetadataImage, offset: int) -> list[Record]:
        if not image.topics.by_name:
            return []
        return [
            ConfigRecord(
                resource_type=2,
                resource_name=self.random.choice(list(image.topics.by_name)),
                name="min.insync.replicas",
                value=self.random.choice((None, "1", "2", "3")),
            )
        ]

    def _noop(self, image: MetadataImage, offset: int) -> list[Record]:
        return [NoOpRecord()]
