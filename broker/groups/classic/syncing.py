"""SyncGroup: the second half of a rebalance."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.classic.change import GroupChange
from broker.groups.classic.group import ClassicGroupState, Member
from broker.groups.classic.joining import check_member
from broker.groups.classic.rebalance import prepare_rebalance, reset_assignments
from broker.groups.requests import SyncGroup
from broker.groups.responses import SyncGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

PROTOCOL_FROM = 5
"""Version of SyncGroup from which it names the protocol."""


class AssignmentsStored(msgspec.Struct, frozen=True, kw_only=True):
    """The record with the assignments of a generation is committed, or not."""

    group_id: str
    generation: int
    ticket: Ticket


def sync(change: GroupChange, request: SyncGroup, ticket: Ticket) -> None:
    """Answer with an assignment, or park the request until the leader has brought it.

    Raises:
        KafkaError: the request is not of a member of this generation.
    """
    member = _check(change, request)
    match change.state:
        case ClassicGroupState.EMPTY:
            raise AssertionError(f"empty group with member {member.member_id}")
        case ClassicGroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        case ClassicGroupState.STABLE:
            member = replace(member, awaits_sync=False)
            change.put(member)
            change.start_session(member)
            change.answer(ticket, sync_response(change, member))
            _stop_waiting(change)
        case ClassicGroupState.COMPLETING_REBALANCE:
            change.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
            change.put(replace(member, sync=ticket, awaits_sync=False))
            _stop_waiting(change)
            if change.leader == member.member_id:
                _store(change, request, ticket)


def stored(change: GroupChange, event: AssignmentsStored) -> None:
    """Give out the assignments, unless another rebalance began meanwhile."""
    if not _is_of(change, event):
        return
    change.move_to(ClassicGroupState.STABLE)
    for member in tuple(change.members.values()):
        if member.sync is not None:
            change.answer(member.sync, sync_response(change, member))
            change.put(replace(member, sync=None))
            change.start_session(member)


def not_stored(change: GroupChange, event: AssignmentsStored, error: ErrorCode) -> None:
    """Begin anew; who waits for an assignment hears why."""
    if not _is_of(change, event):
        return
    if all(member.sync != event.ticket for member in change.members.values()):
        # The log took nothing, so the leader's request was not parked either.
        change.answer(event.ticket, SyncGroupResponse(error_code=error))
    reset_assignments(change, error)
    prepare_rebalance(change)


def sync_response(change: GroupChange, member: Member) -> SyncGroupResponse:
    """Return the assignment of a member."""
    return SyncGroupResponse(
        protocol_type=change.group.protocol_type,
        protocol_name=change.group.protocol,
        assignment=member.assignment,
    )


def _check(change: GroupChange, request: SyncGroup) -> Member:
    group = change.group
    if not group.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if request.version >= PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member = check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for said, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        if said is not None and said != known:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return member


def _store(change: GroupChange, request: SyncGroup, ticket: Ticket) -> None:
    given = dict(request.assignments)
    for member in tuple(change.members.values()):
        change.put(replace(member, assignment=given.get(member.member_id, b"")))
    change.write()
    group = change.group
    change.event = AssignmentsStored(
        group_id=group.group_id, generation=group.generation, ticket=ticket
    )


def _stop_waiting(change: GroupChange) -> None:
    if not any(member.awaits_sync for member in change.members.values()):
        change.set_sync_timer(None)


def _is_of(change: GroupChange, event: AssignmentsStored) -> bool:
    group = change.group
    return (
        group.state is ClassicGroupState.COMPLETING_REBALANCE
        and group.generation == event.generation
    )
