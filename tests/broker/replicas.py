"""Builds replicas on real directories, for the tests of this folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from broker.assemblies.replicas import ReplicaManager, ReplicationSettings
from broker.clients.traffic import Traffic
from broker.controller_link.metadata_feed import MetadataListener
from broker.disk.directory.lifecycle import LogDirEvent
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.following.fetcher import FetcherManager
from broker.following.lane_replicas import FetcherSettings
from broker.placement.directory_reports import DirectoryReports
from broker.replica.leading.transaction_guards import Guard
from broker.replica.partition.partition import Partition
from broker.replica.partition.topic_settings import SettingsOfTopics
from broker.replica.registry.registry import ReplicaRegistry
from broker.replica.waiting.append_entries import AppendEntry, AppendResult, BatchTransaction
from jbodlab.config.node_config import read_values
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from jbodlab.vocabulary.producer import Producer
from tests.broker.logs import no_checkpoints

ME = BrokerId(1)
TOPIC = "orders"
TOPIC_ID = TopicId(UUID(int=0x1234))
TP = TopicPartition(TOPIC, 0)
DEADLINE_S = 10.0


def directory_id(number: int) -> DirectoryId:
    return DirectoryId(UUID(int=(number << 64) + 1000))


def batch(
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    value: bytes = b"value",
    attributes: int = 0,
) -> bytes:
    return build_batch(
        [(None, value)] * count,
        timestamp_ms=1_000,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id < 0 else max(epoch, 0),
        base_sequence=sequence,
    )


class Metadata:
    """A metadata log of a few records, applied to replicas step by step."""

    def __init__(self, *listeners: MetadataListener) -> None:
        self.listeners = listeners
        self.image: MetadataImage = EMPTY
        self._offset = 0

    def apply(self, *records: Record) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record, self._offset)
            self._offset += 1
        self.image = delta.apply(self._offset - 1, 1, 0)
        for listener in self.listeners:
            listener.metadata_changed(delta, self.image)


def feature(level: int = 30) -> Record:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def broker(
    broker_id: int,
    *directories: DirectoryId,
    epoch: int = 7,
    fenced: bool = False,
    port: int = 1,
    rack: str | None = None,
) -> Record:
    return RegisterBrokerRecord(
        broker_id=BrokerId(broker_id),
        incarnation_id=kafka_uuid.random_uuid(os.urandom),
        broker_epoch=BrokerEpoch(epoch),
        end_points=(
            BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0),
        ),
        fenced=fenced,
        rack=rack,
        log_dirs=directories,
    )


def directories_left(broker_id: int, *directories: DirectoryId, epoch: int = 7) -> Record:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(epoch), log_dirs=directories
    )


def topic(name: str = TOPIC, topic_id: TopicId = TOPIC_ID) -> Record:
    return TopicRecord(name=name, topic_id=topic_id)


def partition_record(
    replicas: Sequence[int],
    directories: Sequence[DirectoryId],
    *,
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    index: int = 0,
    leader_epoch: int = 0,
    topic_id: TopicId = TOPIC_ID,
) -> Record:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, replicas if isr is None else isr)),
        leader=BrokerId(replicas[0] if leader is None else leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(0),
        directories=tuple(directories),
    )


def change(
    *,
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    index: int = 0,
    elr: Sequence[int] | None = None,
    last_known_elr: Sequence[int] | None = None,
    directories: tuple[DirectoryId, ...] | None = None,
) -> Record:
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=TOPIC_ID,
        isr=None if isr is None else tuple(map(BrokerId, isr)),
        leader=BrokerId(-2) if leader is None else BrokerId(leader),
        eligible_leader_replicas=None if elr is None else tuple(map(BrokerId, elr)),
        last_known_elr=None if last_known_elr is None else tuple(map(BrokerId, last_known_elr)),
        directories=directories,
    )


def config(name: str, value: str, resource: str = TOPIC) -> Record:
    return ConfigRecord(resource_type=2, resource_name=resource, name=name, value=value)


class Proposals:
    """Remembers the proposed ISRs."""

    def __init__(self) -> None:
        self.proposed: list[tuple[int, ...]] = []

    def propose_isr(self, partition: Partition, new_isr: tuple[BrokerId, ...]) -> None:
        self.proposed.append(tuple(new_isr))


class Assignments:
    """Remembers the reported directories."""

    def __init__(self) -> None:
        self.assigned: list[tuple[TopicId, int, DirectoryId]] = []
        self.callbacks: list[Callable[[], None]] = []
        self.accepts = False
        """Whether what wants to know is answered at once."""

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        self.assigned.append((topic_id, partition, directory))
        if callback is not None:
            self.callbacks.append(callback)
            if self.accepts:
                asyncio.get_running_loop().call_soon(callback)


class Host:
    """The replicas of one broker on real directories."""

    def __init__(
        self,
        root: Path,
        *,
        broker_id: int = 1,
        dir_count: int = 2,
        address_of: Callable[[BrokerId], tuple[str, int] | None] = lambda _: None,
        lag_time_max_ms: int = 30_000,
        sends_consumers_away: bool = False,
        fetch_wait_max_ms: int = 500,
        fs: FileSystem | None = None,
        assigner: Callable[[ReplicaRegistry, LogDirs], DirectoryReports] | None = None,
        **properties: str,
    ) -> None:
        self.broker_id = BrokerId(broker_id)
        self.fatal: list[str] = []
        self.dirs = []
        for number in range(dir_count):
            path = root / f"b{broker_id}-d{number}"
            path.mkdir(parents=True, exist_ok=True)
            self.dirs.append(LogDir(path, self.directory(number), fs=fs))
        self.log_dirs = LogDirs(self.dirs, metadata_dir=self.dirs[0], on_fatal=self.fatal.append)
        values, _ = read_values({k.replace("_", "."): v for k, v in properties.items()})
        self.topics = SettingsOfTopics(values)
        self.proposals = Proposals()
        self.assignments = Assignments()
        self.registry = ReplicaRegistry(self.broker_id)
        self.traffic = Traffic(system_environment().monotonic_s)
        self.fetchers = FetcherManager(
            FetcherSettings(broker_id=self.broker_id, wait_max_ms=fetch_wait_max_ms),
            address_of=address_of,
            broker_epoch=lambda: 7,
            traffic=self.traffic,
        )
        self.removed: list[Path] = []
        self.moved: list[tuple[LogDir, LogDir]] = []
        self.manager = ReplicaManager(
            self.registry,
            ReplicationSettings(
                broker_id=self.broker_id,
                lag_time_max_ms=lag_time_max_ms,
                selector_class="any" if sends_consumers_away else None,
            ),
            environment=system_environment(),
            topics=self.topics,
            log_dirs=self.log_dirs,
            fetchers=self.fetchers,
            propose_isr=lambda *asked: self.proposals.propose_isr(*asked),
            assigner=(
                self.assignments if assigner is None else assigner(self.registry, self.log_dirs)
            ),
            on_moved=lambda source, target: self.moved.append((source, target)),
            remove_later=lambda _dir, path, _ms: self.removed.append(path),
            write_checkpoints=no_checkpoints,
        )
        self.log_dirs.add_failure_listener(self.manager.roles)
        for log_dir in self.dirs:
            log_dir.handle(LogDirEvent.LOAD)
            log_dir.handle(LogDirEvent.LOADED)

    def directory(self, number: int) -> DirectoryId:
        return directory_id(self.broker_id * 10 + number)

    @property
    def directories(self) -> tuple[DirectoryId, ...]:
        return tuple(self.directory(number) for number in range(len(self.dirs)))

    async def online(self, topic_partition: TopicPartition = TP) -> Partition:
        """Return a replica as soon as its log is there."""
        await until(
            lambda: (
                (p := self.manager.registry.partition(topic_partition)) is not None and p.is_online
            )
        )
        found = self.manager.registry.partition(topic_partition)
        assert found is not None
        return found

    def produce(
        self,
        records: bytes,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        topic_partition: TopicPartition = TP,
        transaction: BatchTransaction | None = None,
    ) -> asyncio.Future[list[AppendResult]]:
        entry = AppendEntry(topic_partition=topic_partition, records=records)
        return self.manager.appends.append([entry], acks, timeout_ms, transaction)

    async def produced(self, records: bytes, **arguments: object) -> AppendResult:
        future = self.produce(records, **arguments)  # type: ignore[arg-type]
        (result,) = await asyncio.wait_for(future, DEADLINE_S)
        return result

    async def stop(self) -> None:
        await self.manager.stop()
        for log_dir in self.dirs:
            log_dir.stop()


def has_partition(partition: Partition, producer: Producer) -> Guard:
    """Let the coordinator have said that the transaction of a producer has a partition."""
    assert partition.leader is not None
    guard = Guard(producer_epoch=producer.producer_epoch, answer=ErrorCode.NONE)
    partition.leader.guards.begin(producer.producer_id, guard)
    return guard


async def until(condition: Callable[[], bool]) -> None:
    """Return when a condition holds; fail if it does not in time."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - any condition, not one event
            await asyncio.sleep(0.005)
