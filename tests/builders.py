"""Values for tests, made with few arguments: names that can be read back, and a pure controller."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from msgspec.structs import replace

from controller.decide.heartbeats import Heartbeats
from controller.decide.state import (
    ControllerResult,
    ControllerSettings,
    ControllerState,
    PartitionEntry,
)
from jbodlab.controller_api.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DirectoryAssignment,
    Feature,
    IsrChange,
    IsrMember,
    NewTopic,
)
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, TopicId

T = TypeVar("T")

CLUSTER_ID = "JGpFIlgLQVmmBZ4FPbLkkg"
SESSION_TIMEOUT_MS = 9_000
RESERVED = {
    "UNASSIGNED": directory_ids.UNASSIGNED,
    "MIGRATING": directory_ids.MIGRATING,
    "LOST": directory_ids.LOST,
}
METADATA_VERSION_FEATURE = Feature(
    name="metadata.version", min_supported_version=1, max_supported_version=30
)

ELR_FEATURE = Feature(
    name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1
)


def named_uuid(name: str) -> UUID:
    """Return an id that carries the first 16 letters of a name; ids sort as their names do."""
    return UUID(bytes=name.encode()[:16].ljust(16, b"\0"))


def directory(name: str) -> DirectoryId:
    return RESERVED.get(name) or DirectoryId(named_uuid(name))


def directories(names: str) -> tuple[DirectoryId, ...]:
    """Return the directories of names with commas or blanks between them."""
    return tuple(directory(name) for name in names.replace(",", " ").split())


def name_of(value: UUID) -> str:
    """Return the name that an id carries."""
    for name, reserved in RESERVED.items():
        if value == reserved:
            return name
    return value.bytes.rstrip(b"\0").decode()


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def partition(
    replicas: tuple[int, ...],
    dirs: str,
    *,
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    topic: str = "foo",
    index: int = 0,
    **others: Any,
) -> PartitionEntry:
    """Return a partition of which, by default, all replicas are in sync and the first one leads."""
    in_sync = replicas if isr is None else isr
    return PartitionEntry(
        topic,
        TopicId(named_uuid(topic)),
        index,
        PartitionRegistration(
            replicas=brokers(*replicas),
            directories=directories(dirs),
            isr=brokers(*in_sync),
            leader=BrokerId(in_sync[0] if leader is None else leader),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=others.pop("partition_epoch", 0),
            **others,
        ),
    )


def batch_at(
    offset: int, count: int = 2, *, epoch: int = 0, producer_id: int = 7, **fields: Any
) -> bytes:
    """Return a batch of an idempotent producer that is all that this log has.

    Args:
        offset: Of its first record; so is its sequence, and the time is as many ms behind 1 s.
        count: Records, of 20 bytes each.
        epoch: Of the leader.
        producer_id: Of the producer.
        fields: Others of `build_batch`.
    """
    return build_batch(
        [(None, b"v" * 20)] * count,
        **{
            "base_offset": offset,
            "leader_epoch": epoch,
            "timestamp_ms": 1_000 + offset,
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": offset,
            **fields,
        },
    )


class PureController:
    """The decisions of the controller without any shell: each one's records are replayed at once.

    Ids of topics carry the topic's name where there is one to be created.
    """

    def __init__(self, level: int = 30, first_offset: int = 0, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.random = random.Random(1)
        self.state = ControllerState(
            image=EMPTY,
            heartbeats=Heartbeats(session_timeout_ms=SESSION_TIMEOUT_MS),
            settings=ControllerSettings(cluster_id=CLUSTER_ID, node_id=BrokerId(100), **settings),
            next_offset=Offset(first_offset),
        )
        self.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
        self.records: tuple[VersionedRecord, ...] = ()

    def replay(self, *records: Record) -> None:
        """Change the state by records that no decision made."""
        self._replay(tuple(VersionedRecord(record, 0) for record in records))

    def run(self, decide: Callable[[ControllerState, int], ControllerResult[T]]) -> T:
        """Run a decision; its records are in `records` afterwards."""
        result = decide(self.state, self.now_ms)
        self.records = result.records
        if result.heartbeats is not None:
            self.state = replace(self.state, heartbeats=result.heartbeats)
        if result.mutations is not None:
            self.state = replace(self.state, mutations=result.mutations)
        self._replay(result.records)
        return result.response

    def ask(
        self, decide: Callable[[Any, ControllerState, int], ControllerResult[T]], *args: Any
    ) -> T:
        """Run a decision about a request."""
        return self.run(partial(decide, *args))

    def written(self) -> list[Record]:
        """Return the records of the last decision without their versions."""
        return [record for record, _ in self.records]

    def register(self, broker: int, dirs: str, **fields: Any) -> BrokerRegistrationResponse:
        """Register a broker, by default with a new incarnation each time."""
        from controller.decide.brokers.registration import register_broker

        return self.ask(register_broker, self.registration(broker, dirs, **fields))

    def registration(self, broker: int, dirs: str, **fields: Any) -> BrokerRegistrationRequest:
        defaults: Mapping[str, Any] = {
            "broker_id": BrokerId(broker),
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=self.random.getrandbits(128)),
            "listeners": (Endpoint(name="PLAINTEXT", host="localhost", port=9092),),
            "features": (METADATA_VERSION_FEATURE, ELR_FEATURE),
            "log_dirs": directories(dirs),
        }
        return BrokerRegistrationRequest(**{**defaults, **fields})

    def epoch(self, broker: int) -> BrokerEpoch:
        return self.state.image.cluster.brokers[BrokerId(broker)].epoch

    def heartbeat(self, broker: int, **fields: Any) -> BrokerHeartbeatResponse:
        """Send a heartbeat of a broker that has applied everything."""
        from controller.decide.brokers.brokers import heartbeat

        return self.ask(heartbeat, self.sign_of_life(broker, **fields))

    def sign_of_life(self, broker: int, **fields: Any) -> BrokerHeartbeatRequest:
        known = self.state.image.cluster.brokers.get(BrokerId(broker))
        defaults: Mapping[str, Any] = {
            "broker_id": BrokerId(broker),
            "broker_epoch": BrokerEpoch(-1) if known is None else known.epoch,
            "current_metadata_offset": Offset(self.state.next_offset - 1),
        }
        if isinstance(fields.get("offline_log_dirs"), str):
            fields["offline_log_dirs"] = directories(fields["offline_log_dirs"])
        return BrokerHeartbeatRequest(**{**defaults, **fields})

    def add_broker(self, broker: int, dirs: str, **fields: Any) -> BrokerEpoch:
        """Register a broker and unfence it."""
        response = self.register(broker, dirs, **fields)
        assert not self.heartbeat(broker).is_fenced
        return response.broker_epoch

    def create(self, name: str, *replicas: tuple[int, ...], **fields: Any) -> CreateTopicsResponse:
        """Create a topic whose partitions have these replicas."""
        from controller.decide.partitions.topics import create_topics

        topic = NewTopic(
            name=name,
            assignments=tuple((index, brokers(*each)) for index, each in enumerate(replicas)),
            **fields,
        )
        decide = partial(create_topics, randomness=self.random, new_id=lambda: named_uuid(name))
        return self.ask(decide, CreateTopicsRequest(topics=(topic,)))

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        return self.state.image.topics.by_name[name].partitions[index]

    def assign(self, broker: int, **held: str) -> AssignReplicasToDirsResponse:
        """Assign partitions 0 of topics to directories: `foo="A1"`."""
        return self.assign_partitions(
            broker, *((name, 0, directory_name) for name, directory_name in held.items())
        )

    def assign_partitions(
        self, broker: int, *assignments: tuple[str, int, str]
    ) -> AssignReplicasToDirsResponse:
        from controller.decide.partitions.directories import assign_replicas_to_dirs

        request = AssignReplicasToDirsRequest(
            broker_id=BrokerId(broker),
            broker_epoch=self.epoch(broker),
            assignments=tuple(
                DirectoryAssignment(
                    topic_id=TopicId(named_uuid(name)),
                    partition=index,
                    directory=directory(directory_name),
                )
                for name, index, directory_name in assignments
            ),
        )
        return self.ask(assign_replicas_to_dirs, request)

    def isr_change(
        self, name: str, isr: tuple[int | tuple[int, int], ...], **fields: Any
    ) -> IsrChange:
        known = self.state.image.topics.by_name.get(name)
        state = None if known is None else known.partitions.get(fields.get("partition", 0))
        members = [each if isinstance(each, tuple) else (each, -1) for each in isr]
        defaults: Mapping[str, Any] = {
            "topic_id": TopicId(named_uuid(name)),
            "partition": 0,
            "leader_epoch": 0 if state is None else state.leader_epoch,
            "partition_epoch": 0 if state is None else state.partition_epoch,
            "new_isr": tuple(
                IsrMember(broker_id=BrokerId(broker), broker_epoch=BrokerEpoch(epoch))
                for broker, epoch in members
            ),
        }
        return IsrChange(**{**defaults, **fields})

    def alter_isr(
        self, broker: int, name: str, isr: tuple[int | tuple[int, int], ...], **fields: Any
    ) -> AlterPartitionResponse:
        """Propose an ISR for partition 0 as a leader that knows the current epochs."""
        from controller.decide.partitions.isr import alter_partition

        request = AlterPartitionRequest(
            broker_id=BrokerId(broker),
            broker_epoch=self.epoch(broker),
            changes=(self.isr_change(name, isr, **fields),),
        )
        return self.ask(alter_partition, request)

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def _replay(self, records: tuple[VersionedRecord, ...]) -> None:
        if not records:
            return
        delta = MetadataDelta(self.state.image)
        for offset, (record, _) in enumerate(records, start=self.state.next_offset):
            delta.replay(record, offset)
        end = self.state.next_offset + len(records)
        self.state = replace(self.state, image=delta.apply(end - 1, 1, 0), next_offset=Offset(end))
