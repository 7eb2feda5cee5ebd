"""Values of the records of `__consumer_offsets`: int16 version, then the fields of that version.

Fields, versions, tags and defaults are those of Kafka's schemas of the same names. `offset` and
`metadata` are what the client committed; times are milliseconds since 1970.
"""

# wire() returns a dataclasses.field, so no value is shared between records.
# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from jbodlab.group_records import keys
from jbodlab.kafka_wire.kinds import (
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    TOPIC_ID,
    array,
    nullable,
    struct_of,
)
from jbodlab.kafka_wire.schema import Struct, wire
from jbodlab.vocabulary.ids import TopicId

_NULLABLE_STRING = nullable(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue(Struct):
    """Base of the values."""

    NAME: ClassVar[str] = ""
    HIGHEST_VERSION: ClassVar[int] = 0

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(GroupValue):
    """A committed offset.

    Version 1 alone has an expire timestamp, and neither leader epoch nor topic id: it is written
    where the client said how long the offset is to be kept.
    """

    NAME: ClassVar[str] = "OffsetCommitValue"
    HIGHEST_VERSION: ClassVar[int] = 4
    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 4

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    topic_id: TopicId = wire(TOPIC_ID, since=4, tag=0)

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 4 if self.expire_timestamp == -1 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataMember(Struct):
    """A member of a classic group; `subscription` is its metadata for the chosen protocol."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 4

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(_NULLABLE_STRING, since=3, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, since=1, default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(GroupValue):
    """A classic group with its members."""

    NAME: ClassVar[str] = "GroupMetadataValue"
    HIGHEST_VERSION: ClassVar[int] = 4
    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 4

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(_NULLABLE_STRING, default=None)
    leader: str | None = wire(_NULLABLE_STRING, default=None)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: tuple[GroupMetadataMember, ...] = wire(array(struct_of(GroupMetadataMember)))

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue(GroupValue):
    """Epoch of a group, and the hash of the metadata of its topics."""

    NAME: ClassVar[str] = "ConsumerGroupMetadataValue"

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedPartition(Struct):
    """A partition and the racks of its replicas."""

    partition: int = wire(INT32)
    racks: tuple[str, ...] = wire(array(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedTopic(Struct):
    """A topic that a group subscribed to."""

    topic_id: TopicId = wire(TOPIC_ID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: tuple[SubscribedPartition, ...] = wire(
        array(struct_of(SubscribedPartition))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue(GroupValue):
    """What brokers up to 4.0 keep instead of the hash."""

    NAME: ClassVar[str] = "ConsumerGroupPartitionMetadataValue"

    topics: tuple[SubscribedTopic, ...] = wire(array(struct_of(SubscribedTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol(Struct):
    """A protocol that a member supports."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata(Struct):
    """What is known of a member that speaks the classic protocol in a group of KIP-848."""

    session_timeout_ms: int = wire(INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = wire(array(struct_of(ClassicProtocol)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(GroupValue):
    """A member; the names are sorted.

    For Apache Kafka a member that says nothing of the classic protocol speaks it, without a time
    for its session, so that null is always written.
    """

    NAME: ClassVar[str] = "ConsumerGroupMemberMetadataValue"

    instance_id: str | None = wire(_NULLABLE_STRING, default=None)
    rack_id: str | None = wire(_NULLABLE_STRING, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(_NULLABLE_STRING, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    server_assignor: str | None = wire(_NULLABLE_STRING, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        nullable(struct_of(ClassicMemberMetadata)),
        tag=0,
        default=None,
        omitted=ClassicMemberMetadata(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue(GroupValue):
    """Epoch of the target assignment, and when it was computed."""

    NAME: ClassVar[str] = "ConsumerGroupTargetAssignmentMetadataValue"

    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = wire(TOPIC_ID)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue(GroupValue):
    """What a member shall have."""

    NAME: ClassVar[str] = "ConsumerGroupTargetAssignmentMemberValue"

    topic_partitions: tuple[TargetTopicPartitions, ...] = wire(
        array(struct_of(TargetTopicPartitions))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTopicPartitions(Struct):
    """Partitions of one topic, each with the epoch in which it was assigned, or none of them."""

    topic_id: TopicId = wire(TOPIC_ID)
    partitions: tuple[int, ...] = wire(array(INT32))
    assignment_epochs: tuple[int, ...] = wire(array(INT32), tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(GroupValue):
    """What a member has, and what it was told to give up."""

    NAME: ClassVar[str] = "ConsumerGroupCurrentMemberAssignmentValue"

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = wire(
        array(struct_of(CurrentTopicPartitions))
    )
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = wire(
        array(struct_of(CurrentTopicPartitions))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(GroupValue):
    """Topics that an expression matched, as of a version of the metadata."""

    NAME: ClassVar[str] = "ConsumerGroupRegularExpressionValue"

    topics: tuple[str, ...] = wire(array(STRING))
    version: int = wire(INT64)
    timestamp: int = wire(INT64)


VALUE_TYPES: Mapping[type[keys.AnyKey], type[GroupValue]] = MappingProxyType(
    {
        keys.LegacyOffsetCommitKey: OffsetCommitValue,
        keys.OffsetCommitKey: OffsetCommitValue,
        keys.GroupMetadataKey: GroupMetadataValue,
        keys.ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
        keys.ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
        keys.ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
        keys.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
        keys.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
        keys.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
        keys.ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
    }
)
