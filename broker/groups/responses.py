"""Answers of a shard: values with the field names of Kafka's messages.

Errors that end a whole request are a `KafkaError` in the answer instead, unless the message says
more beside the error; those have an `error_code` here. Versions leave out what they do not have.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jbodlab.server.authorized_operations import NOT_ASKED_FOR
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode

UNKNOWN_OFFSET = -1


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(Response, frozen=True, kw_only=True):
    """The generation that a member is in; `members` are for the leader alone."""

    error_code: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


class SyncGroupResponse(Response, frozen=True, kw_only=True):
    """The assignment of a member."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatResponse(Response, frozen=True, kw_only=True):
    """Whether the member is what it thinks."""

    error_code: ErrorCode = ErrorCode.NONE


class MemberResponse(NamedTuple):
    """Result for one member that leaves."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class LeaveGroupResponse(Response, frozen=True, kw_only=True):
    """One entry for each member; versions before 3 have the error alone."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[MemberResponse, ...] = ()


class PartitionResponse(NamedTuple):
    """Result for one partition of a commit or a deletion."""

    partition_index: int
    error_code: ErrorCode


class TopicResponse(NamedTuple):
    """Partitions of one topic of a commit or a deletion, in the order of the request."""

    name: str
    partitions: tuple[PartitionResponse, ...]


class OffsetResults(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a commit or a deletion: one entry for each partition of the request."""

    topics: tuple[TopicResponse, ...]


class FetchedOffset(NamedTuple):
    """A committed offset; -1 where there is none."""

    partition_index: int
    committed_offset: int = UNKNOWN_OFFSET
    committed_leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE


class CommittedTopic(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: tuple[FetchedOffset, ...]


class OffsetFetchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of one group."""

    group_id: str
    topics: tuple[CommittedTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


class DescribedMember(NamedTuple):
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A classic group; unknown ones are `Dead`. Shards do not know what the client may do."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NOT_ASKED_FOR


class DescribeGroupsResponse(Response, frozen=True, kw_only=True):
    """One entry for each group of the request."""

    groups: tuple[DescribedGroup, ...]


class ListedGroup(NamedTuple):
    """A group of any kind."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class ListGroupsResponse(Response, frozen=True, kw_only=True):
    """The groups of all shards of a broker."""

    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


class DeletableGroupResult(NamedTuple):
    """Result for one group."""

    group_id: str
    error_code: ErrorCode


class DeleteGroupsResponse(Response, frozen=True, kw_only=True):
    """One entry for each group of the request."""

    results: tuple[DeletableGroupResult, ...]
