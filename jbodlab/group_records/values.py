"""Values of the records of `__consumer_offsets`: int16 version, then the fields of that version.

Fields, versions, tags and defaults are those of Kafka's schemas of the same names. `offset` and
`metadata` are what the client committed; times are milliseconds since 1970.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from jbodlab.group_records import keys
from jbodlab.kafka_wire.kinds import Int8, Int32, Int64
from jbodlab.kafka_wire.schema import Struct, field
from jbodlab.vocabulary.ids import TopicId


class GroupValue(Struct):
    """Base of the values."""

    HIGHEST_VERSION: ClassVar[int] = 0

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 0


class OffsetCommitValue(GroupValue, highest_version=4, first_flexible_version=4):
    """A committed offset.

    Version 1 alone has an expire timestamp, and neither leader epoch nor topic id: it is written
    where the client said how long the offset is to be kept.
    """

    offset: Int64 = field("offset of the next record to be read")
    leader_epoch: Int32 = field("epoch of the last record read; -1: not known", since=3, default=-1)
    metadata: str = field("text that the client keeps with the offset")
    commit_timestamp: Int64 = field("when the offset was committed, ms since 1970")
    expire_timestamp: Int64 = field(
        "when it expires, ms since 1970; -1: by retention", since=1, until=1, default=-1
    )
    topic_id: TopicId = field("id of the topic; zero: not known", since=4, tag=0)

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 4 if self.expire_timestamp == -1 else 1


class GroupMetadataMember(Struct):
    """A member of a classic group; `subscription` is its metadata for the chosen protocol."""

    member_id: str = field("id of the member, made by the coordinator")
    group_instance_id: str | None = field(
        "id of a static member (KIP-345), or null", since=3, default=None
    )
    client_id: str = field("client id of the member")
    client_host: str = field("address of the member")
    rebalance_timeout: Int32 = field(
        "how long the member may take to join again, ms", since=1, default=-1
    )
    session_timeout: Int32 = field("how long the member may be silent, ms")
    subscription: bytes = field("metadata of the member for the chosen protocol")
    assignment: bytes = field("what the leader assigned to the member")


class GroupMetadataValue(GroupValue, highest_version=4, first_flexible_version=4):
    """A classic group with its members."""

    protocol_type: str = field("what kind of group it is, such as consumer or connect")
    generation: Int32 = field("number of the last rebalance")
    protocol: str | None = field("protocol that all members chose, or null", default=None)
    leader: str | None = field("id of the member that assigns, or null", default=None)
    current_state_timestamp: Int64 = field(
        "when it came into its state, ms since 1970; -1: not known", since=2, default=-1
    )
    members: tuple[GroupMetadataMember, ...] = field("members of the group")

    @property
    def written_version(self) -> int:
        """Version in which this value is written."""
        return 3


class ConsumerGroupMetadataValue(GroupValue):
    """Epoch of a group, and the hash of the metadata of its topics."""

    epoch: Int32 = field("rises when members or topics change")
    metadata_hash: Int64 = field("hash of the metadata of the topics that are subscribed to", tag=0)


class SubscribedPartition(Struct):
    """A partition and the racks of its replicas."""

    partition: Int32 = field("number of the partition in its topic")
    racks: tuple[str, ...] = field("racks of its replicas")


class SubscribedTopic(Struct):
    """A topic that a group subscribed to."""

    topic_id: TopicId = field("id of the topic")
    topic_name: str = field("name of the topic")
    num_partitions: Int32 = field("number of its partitions")
    partition_metadata: tuple[SubscribedPartition, ...] = field(
        "partitions of which the racks are known"
    )


class ConsumerGroupPartitionMetadataValue(GroupValue):
    """Topics that a group subscribes to, which brokers up to 4.0 keep instead of the hash."""

    topics: tuple[SubscribedTopic, ...] = field("topics that are subscribed to")


class ClassicProtocol(Struct):
    """A protocol that a member supports."""

    name: str = field("name of the assignor")
    metadata: bytes = field("subscription, as the client encoded it")


class ClassicMemberMetadata(Struct):
    """Facts about a member that speaks the classic protocol in a group of KIP-848."""

    session_timeout_ms: Int32 = field("how long the member may be silent, ms")
    supported_protocols: tuple[ClassicProtocol, ...] = field(
        "protocols of the member, the preferred one first"
    )


class ConsumerGroupMemberMetadataValue(GroupValue):
    """A member; the names are sorted.

    For Apache Kafka a member that says nothing of the classic protocol speaks it, without a time
    for its session, so that null is always written.
    """

    instance_id: str | None = field("id of a static member, or null", default=None)
    rack_id: str | None = field("rack of the member, or null", default=None)
    client_id: str = field("client id of the member")
    client_host: str = field("address of the member")
    subscribed_topic_names: tuple[str, ...] = field(
        "names of the topics that it subscribed to, sorted"
    )
    subscribed_topic_regex: str | None = field(
        "expression that it subscribed with, or null", default=None
    )
    rebalance_timeout_ms: Int32 = field(
        "how long it may take to give up partitions, ms", default=-1
    )
    server_assignor: str | None = field(
        "assignor of the broker that it asks for, or null", default=None
    )
    classic_member_metadata: ClassicMemberMetadata | None = field(
        "of a member that speaks the classic protocol",
        tag=0,
        default=None,
        omitted=ClassicMemberMetadata(),
    )


class ConsumerGroupTargetAssignmentMetadataValue(GroupValue):
    """Epoch of the target assignment, and when it was computed."""

    assignment_epoch: Int32 = field("epoch of the group that the assignment was made for")
    assignment_timestamp: Int64 = field(
        "when the assignment was made, ms since 1970; 0: not known", tag=0
    )


class TargetTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = field("id of the topic")
    partitions: tuple[Int32, ...] = field("numbers of the partitions")


class ConsumerGroupTargetAssignmentMemberValue(GroupValue):
    """Partitions that a member shall have."""

    topic_partitions: tuple[TargetTopicPartitions, ...] = field(
        "partitions that the member shall have"
    )


class CurrentTopicPartitions(Struct):
    """Partitions of one topic, each with the epoch in which it was assigned, or none of them."""

    topic_id: TopicId = field("id of the topic")
    partitions: tuple[Int32, ...] = field("numbers of the partitions")
    assignment_epochs: tuple[Int32, ...] = field(
        "epoch in which each partition was assigned; empty: not known", tag=0
    )


class ConsumerGroupCurrentMemberAssignmentValue(GroupValue):
    """Partitions that a member has, and those that it has to give up."""

    member_epoch: Int32 = field("epoch that the member has reached")
    previous_member_epoch: Int32 = field("epoch of the member before")
    state: Int8 = field("0 stable, 1 has to give up partitions, 2 waits for partitions of others")
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = field(
        "partitions that the member has"
    )
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = field(
        "partitions that the member has to give up"
    )


class ConsumerGroupRegularExpressionValue(GroupValue):
    """Topics that an expression matched, as of a version of the metadata."""

    topics: tuple[str, ...] = field("names of the topics that the expression matches, sorted")
    version: Int64 = field("offset of the metadata that it was resolved with")
    timestamp: Int64 = field("when it was resolved, ms since 1970")


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
