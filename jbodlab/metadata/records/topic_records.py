"""Records about topics and partitions.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-858 for the directories, KIP-966 for eligible leader replicas).
"""

# wire() returns a dataclasses.field, so no value is shared between records.
# ruff: noqa: RUF009

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jbodlab.kafka_wire.kinds import (
    BROKER_ID,
    DIRECTORY_ID,
    INT8,
    INT32,
    LEADER_EPOCH,
    PARTITION_EPOCH,
    STRING,
    TOPIC_ID,
    array,
    nullable,
)
from jbodlab.kafka_wire.schema import wire
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    UNKNOWN_LEADER_EPOCH,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)

NO_LEADER_CHANGE = BrokerId(-2)
"""PartitionChangeRecord.leader when leader and leader epoch stay."""

NO_RECOVERY_STATE_CHANGE = -1
RECOVERED = 0
RECOVERING = 1

_NULLABLE_BROKERS = nullable(array(BROKER_ID))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(Record):
    """A topic is created; its partitions follow."""

    API_KEY: ClassVar[int] = 2
    NAME: ClassVar[str] = "TOPIC_RECORD"

    name: str = wire(STRING)
    topic_id: TopicId = wire(TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(Record):
    """The full state of one partition; `directories` has one entry per replica, or none in v0."""

    API_KEY: ClassVar[int] = 3
    NAME: ClassVar[str] = "PARTITION_RECORD"
    HIGHEST_VERSION: ClassVar[int] = 2

    partition_id: int = wire(INT32, default=-1)
    topic_id: TopicId = wire(TOPIC_ID)
    replicas: tuple[BrokerId, ...] = wire(array(BROKER_ID))
    isr: tuple[BrokerId, ...] = wire(array(BROKER_ID))
    removing_replicas: tuple[BrokerId, ...] = wire(array(BROKER_ID))
    adding_replicas: tuple[BrokerId, ...] = wire(array(BROKER_ID))
    leader: BrokerId = wire(BROKER_ID, default=NO_LEADER)
    leader_recovery_state: int = wire(INT8, tag=0)
    leader_epoch: LeaderEpoch = wire(LEADER_EPOCH, default=UNKNOWN_LEADER_EPOCH)
    partition_epoch: PartitionEpoch = wire(PARTITION_EPOCH, default=PartitionEpoch(-1))
    directories: tuple[DirectoryId, ...] = wire(array(DIRECTORY_ID), since=1)
    eligible_leader_replicas: tuple[BrokerId, ...] | None = wire(
        _NULLABLE_BROKERS, since=2, tag=1, default=None
    )
    last_known_elr: tuple[BrokerId, ...] | None = wire(
        _NULLABLE_BROKERS, since=2, tag=2, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(Record):
    """A difference to a partition; every default means no change.

    Naming the current leader in `leader` is a deliberate rise of the leader epoch.
    """

    API_KEY: ClassVar[int] = 5
    NAME: ClassVar[str] = "PARTITION_CHANGE_RECORD"
    HIGHEST_VERSION: ClassVar[int] = 2

    partition_id: int = wire(INT32, default=-1)
    topic_id: TopicId = wire(TOPIC_ID)
    isr: tuple[BrokerId, ...] | None = wire(_NULLABLE_BROKERS, tag=0, default=None)
    leader: BrokerId = wire(BROKER_ID, tag=1, default=NO_LEADER_CHANGE)
    replicas: tuple[BrokerId, ...] | None = wire(_NULLABLE_BROKERS, tag=2, default=None)
    removing_replicas: tuple[BrokerId, ...] | None = wire(_NULLABLE_BROKERS, tag=3, default=None)
    adding_replicas: tuple[BrokerId, ...] | None = wire(_NULLABLE_BROKERS, tag=4, default=None)
    leader_recovery_state: int = wire(INT8, tag=5, default=NO_RECOVERY_STATE_CHANGE)
    directories: tuple[DirectoryId, ...] | None = wire(
        nullable(array(DIRECTORY_ID)), since=1, tag=8, default=None
    )
    eligible_leader_replicas: tuple[BrokerId, ...] | None = wire(
        _NULLABLE_BROKERS, since=2, tag=6, default=None
    )
    last_known_elr: tuple[BrokerId, ...] | None = wire(
        _NULLABLE_BROKERS, since=2, tag=7, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(Record):
    """A topic is deleted, with its partitions and configs."""

    API_KEY: ClassVar[int] = 9
    NAME: ClassVar[str] = "REMOVE_TOPIC_RECORD"

    topic_id: TopicId = wire(TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord(Record):
    """Eligible leader replicas of one topic, or of all when the name is empty, are forgotten."""

    API_KEY: ClassVar[int] = 28
    NAME: ClassVar[str] = "CLEAR_ELR_RECORD"

    topic_name: str = wire(STRING)
