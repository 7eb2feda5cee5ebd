"""Requests to a shard, with the field names of Kafka's messages.

The handlers have checked all that needs no group: group ids are not null, topics of a commit
are known in the metadata. `version` is that of the client's request, where an answer depends on it.
Requests for many groups are taken apart: each shard gets those of its own groups.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jbodlab.vocabulary.ids import TopicId
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID
from jbodlab.vocabulary.producer import Producer

NO_TOPIC_ID = TopicId(ZERO_UUID)


class JoinProtocol(NamedTuple):
    """A protocol that a member supports."""

    name: str
    metadata: bytes


class LeavingMember(NamedTuple):
    """A member by its id, or, with an empty one, by its instance id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class SyncedAssignment(NamedTuple):
    """The leader's assignment for a member."""

    member_id: str
    assignment: bytes


class CommitPartition(NamedTuple):
    """An offset to commit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class CommitTopic(NamedTuple):
    """Offsets of one topic; the id is zero where the metadata has none."""

    name: str
    partitions: tuple[CommitPartition, ...]
    topic_id: TopicId = NO_TOPIC_ID


class NamedPartitions(NamedTuple):
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...]


class OwnedPartitions(NamedTuple):
    """Partitions of one topic, named by its id."""

    topic_id: TopicId
    partitions: tuple[int, ...]


class JoinGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Join, or join again; a rebalance timeout of -1 (version 0) means the session timeout.

    Attributes:
        client_host: Address of the client, with a leading slash.
    """

    version: int = 9
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: tuple[JoinProtocol, ...] = ()
    reason: str | None = None
    client_id: str = ""
    client_host: str = ""


class SyncGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for an assignment; the leader's brings those of all."""

    version: int = 5
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncedAssignment, ...] = ()


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class LeaveGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Members leave; versions before 3 name one."""

    version: int = 5
    group_id: str
    members: tuple[LeavingMember, ...]


class OffsetCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Commit offsets; a retention time of -1 leaves it to the broker."""

    version: int = 9
    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: tuple[CommitTopic, ...]


class TxnOffsetCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Commit offsets as a part of a transaction: they count when it is committed (KIP-447)."""

    producer: Producer
    commit: OffsetCommit


class OffsetFetch(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for committed offsets of one group; topics of None means all it has."""

    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[NamedPartitions, ...] | None = None
    require_stable: bool = False


class OffsetDelete(msgspec.Struct, frozen=True, kw_only=True):
    """Take committed offsets away."""

    group_id: str
    topics: tuple[NamedPartitions, ...]


class DescribeGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Describe classic groups of this shard."""

    version: int = 6
    groups: tuple[str, ...]


class ListGroups(msgspec.Struct, frozen=True, kw_only=True):
    """List the groups of this shard; an empty filter lets everything pass."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class DeleteGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Delete groups of this shard with their offsets."""

    groups_names: tuple[str, ...]


class ConsumerGroupHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a member of a KIP-848 group says; None and -1 mean unchanged."""

    version: int = 1
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[OwnedPartitions, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ConsumerGroupDescribe(msgspec.Struct, frozen=True, kw_only=True):
    """Describe KIP-848 groups of this shard."""

    group_ids: tuple[str, ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroups
    | ListGroups
    | DeleteGroups
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
)
