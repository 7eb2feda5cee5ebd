"""Groups: listing, describing, deleting them."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import Any

from admin_tool.errors import RequestError, UnsupportedRequestError
from admin_tool.requests.connection import Connection
from admin_tool.requests.coordinators import RETRIABLE, RETRY_PAUSE_S, Answers, each_group
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

CONSUMER = "consumer"
"""Protocol type of the groups of consumers; one without members that only commits has none."""
EMPTY, DEAD, STABLE = "Empty", "Dead", "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group of the cluster; state and type are `Unknown` where the broker does not say them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member.

    Attributes:
        host: With a slash in front, as brokers say it.
        epoch: None in a classic group, as `target`.
        is_upgraded: Whether it speaks the protocol of KIP-848; None where the broker does not say.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group.

    Attributes:
        coordinator: Id of its broker.
        assignor: How partitions are distributed; empty where nobody has decided.
        epoch: None in a classic group, as `target_epoch`.
    """

    group_id: str
    coordinator: int
    state: str
    assignor: str
    members: tuple[GroupMember, ...] = ()
    epoch: int | None = None
    target_epoch: int | None = None


def list_groups(connection: Connection, timeout_ms: int) -> list[GroupListing]:
    """Return the groups of consumers of all brokers, in the order of their ids.

    Raises:
        RequestError: a broker cannot say its groups, or still loads them at the deadline.
    """
    from kafka.protocol.admin import ListGroupsRequest  # type: ignore[import-untyped]

    deadline = time.monotonic() + timeout_ms / 1000
    found: dict[str, GroupListing] = {}
    for broker in connection.brokers():
        while True:
            response = connection.call(ListGroupsRequest(), broker.id)
            if response.error_code not in RETRIABLE or time.monotonic() > deadline:
                break
            time.sleep(RETRY_PAUSE_S)
        if response.error_code:
            raise RequestError(response.error_code)
        for one in response.groups:
            if one.protocol_type in (CONSUMER, ""):
                found[one.group_id] = GroupListing(
                    group_id=one.group_id,
                    protocol_type=one.protocol_type,
                    state=getattr(one, "group_state", None) or "Unknown",
                    type=(getattr(one, "group_type", None) or "Unknown").capitalize(),
                )
    return [found[name] for name in sorted(found)]


def describe_groups(
    connection: Connection, groups: list[str], timeout_ms: int
) -> dict[str, GroupDescription | RequestError]:
    """Describe groups of either protocol; GROUP_ID_NOT_FOUND is the error of one that is not there.

    A group is first asked for as one of KIP-848.
    """

    def ask(coordinator: int, names: list[str]) -> Answers[GroupDescription]:
        try:
            found = _describe_consumer_groups(connection, coordinator, names)
        except UnsupportedRequestError:
            found = {}
        other = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
        classic = [
            name
            for name in names
            if name not in found
            or (isinstance(one := found[name], RequestError) and one.code in other)
        ]
        if classic:
            found |= _describe_classic_groups(connection, coordinator, classic)
        return found

    return each_group(connection, groups, timeout_ms, ask)


def delete_groups(
    connection: Connection, groups: list[str], timeout_ms: int
) -> dict[str, RequestError | None]:
    """Delete groups; returns why those are still there that are."""
    from kafka.protocol.admin import DeleteGroupsRequest

    def ask(coordinator: int, names: list[str]) -> Answers[None]:
        response = connection.call(DeleteGroupsRequest(groups_names=names), coordinator)
        return {
            one.group_id: RequestError(one.error_code) if one.error_code else None
            for one in response.results
        }

    return each_group(connection, groups, timeout_ms, ask)


def _describe_consumer_groups(
    connection: Connection, coordinator: int, names: list[str]
) -> dict[str, GroupDescription | RequestError]:
    from admin_tool.requests.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
    found: dict[str, GroupDescription | RequestError] = {}
    for one in connection.call(request, coordinator).groups:
        if one.error_code:
            found[one.group_id] = RequestError(one.error_code, one.error_message)
            continue
        found[one.group_id] = GroupDescription(
            group_id=one.group_id,
            coordinator=coordinator,
            state=one.group_state,
            assignor=one.assignor_name,
            epoch=one.group_epoch,
            target_epoch=one.assignment_epoch,
            members=tuple(map(_consumer_member, one.members)),
        )
    return found


def _consumer_member(one: Any) -> GroupMember:
    kind = getattr(one, "member_type", -1)
    return GroupMember(
        member_id=one.member_id,
        instance_id=one.instance_id,
        client_id=one.client_id,
        host=one.client_host,
        assignment=_partitions(one.assignment),
        target=_partitions(one.target_assignment),
        epoch=one.member_epoch,
        is_upgraded=None if kind not in (0, 1) else kind == 1,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _describe_classic_groups(
    connection: Connection, coordinator: int, names: list[str]
) -> dict[str, GroupDescription | RequestError]:
    from kafka.protocol.admin import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=names, include_authorized_operations=False)
    found: dict[str, GroupDescription | RequestError] = {}
    for one in connection.call(request, coordinator).groups:
        code, message = one.error_code, getattr(one, "error_message", None)
        if not code and one.group_state == DEAD:
            # So brokers before KIP-1043 say that there is none.
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not code and one.protocol_type not in (CONSUMER, ""):
            code = ErrorCode.GROUP_ID_NOT_FOUND
            message = f"group {one.group_id} is none of consumers but of type {one.protocol_type}"
        if code:
            found[one.group_id] = RequestError(code, message)
            continue
        found[one.group_id] = GroupDescription(
            group_id=one.group_id,
            coordinator=coordinator,
            state=one.group_state,
            assignor=one.protocol_data,
            members=tuple(map(_classic_member, one.members)),
        )
    return found


def _classic_member(one: Any) -> GroupMember:
    return GroupMember(
        member_id=one.member_id,
        instance_id=getattr(one, "group_instance_id", None),
        client_id=one.client_id,
        host=one.client_host,
        assignment=_classic_assignment(bytes(one.member_assignment)),
    )


def _classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Read the bytes that the group's leader wrote; only of a stable group are there any."""
    from kafka.protocol.consumer.metadata import (  # type: ignore[import-untyped]
        ConsumerProtocolAssignment,
    )

    if not data:
        return ()
    try:
        assignment = ConsumerProtocolAssignment.decode(data)
    except (struct.error, ValueError, IndexError):
        # Of a client of its own kind: it has partitions that nobody else can name.
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )
