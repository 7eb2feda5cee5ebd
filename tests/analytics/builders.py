"""Metadata logs of a few records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import control_batch, read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.cluster_records import BrokerEndpoint, RegisterBrokerRecord
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionRecord
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
    log: MetadataLog = field(init=False)
    loader: MetadataLoader = field(init=False)

    def __post_init__(self) -> None:
        self.log = MetadataLog.open(self.root, segment_bytes=self.segment_bytes)
        self.loader = MetadataLoader()

    @property
    def directory(self) -> Path:
        return self.log.directory

    @property
    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

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


def log_of_one_record(root: Path) -> Path:
    """Write a log; returns its directory."""
    log = LogBuilder(root)
    log.append(NoOpRecord())
    log.close()
    return log.directory
