"""Answers to members and administrators about consumer groups, with Kafka's field names."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from broker.groups.consumer.group import Target
from jbodlab.server.authorized_operations import NOT_ASKED_FOR
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicId


class ConsumerGroupHeartbeatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a member's heartbeat.

    Attributes:
        member_id: Its id.
        member_epoch: Its epoch; -1 and -2 as in the request when it left.
        heartbeat_interval_ms: When it is to come again; 0 when it left.
        assignment: All that it may use, without what it is to give up; None if that is as before.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None


class AssignedTopic(NamedTuple):
    """Partitions of one topic."""

    topic_id: TopicId
    topic_name: str
    partitions: tuple[int, ...]


class MemberAssignment(NamedTuple):
    """Partitions that a member has, or shall have."""

    topic_partitions: tuple[AssignedTopic, ...] = ()


class DescribedConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member.

    Attributes:
        assignment: Partitions that it may use.
        target_assignment: Partitions that it shall have.
        member_type: 0 speaks the classic protocol, 1 the new one.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: MemberAssignment = MemberAssignment()
    target_assignment: MemberAssignment = MemberAssignment()
    member_type: int


class DescribedConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group; with an error the other fields say nothing.

    Shards do not know what the client may do.
    """

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
    authorized_operations: int = NOT_ASKED_FOR


class ConsumerGroupDescribeResponse(Response, frozen=True, kw_only=True):
    """One entry for each group of the request."""

    groups: tuple[DescribedConsumerGroup, ...]
