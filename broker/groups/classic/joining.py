"""JoinGroup to a classic group, row by row of its state machine.

Source: `GroupMetadataManager.classicGroupJoinToClassicGroup`; KIP-345 for static members, KIP-394
for ids that are given before the join, KIP-814 for joins that skip the assignment.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.classic.change import SESSION_TIMER, GroupChange
from broker.groups.classic.group import (
    ClassicGroup,
    ClassicGroupState,
    Member,
    choose_protocol,
    common_protocols,
    joined_members,
)
from broker.groups.classic.rebalance import (
    add_member,
    complete_join_if_all_came,
    join_response,
    prepare_rebalance,
    rebalance,
)
from broker.groups.requests import JoinGroup
from broker.groups.responses import JoinGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

MEMBER_ID_REQUIRED_FROM = 4
"""Version of JoinGroup from which dynamic members ask for their id first."""

SKIP_ASSIGNMENT_FROM = 9


class GroupCreated(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a group that a join created is committed, or not."""

    group_id: str
    ticket: Ticket


def join(change: GroupChange, request: JoinGroup, ticket: Ticket, new_id: str) -> None:
    """Answer a join, or park it.

    Args:
        change: The group, which is there.
        request: With a session timeout that is allowed.
        ticket: Of the request.
        new_id: Text for a member id that is new.
    """
    holder = _holder(change.group, request)
    if not _has_room(change.group, request, holder, change.settings.max_size):
        _forget_pending(change, request.member_id)
        change.answer(ticket, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not _supports(change.group, request):
        _refuse(change, request, ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id:
        _join_with_id(change, request, ticket)
    elif holder is not None:
        _replace_static_member(change, request, ticket, holder, new_id)
    else:
        _join_without_id(change, request, ticket, new_id)


def check_member(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Member:
    """Return the member that a request speaks for.

    Raises:
        KafkaError: there is none, or its place was taken by another with the same instance id.
    """
    if group_instance_id is not None:
        holder = group.static_member(group_instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder.member_id != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        return holder
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _holder(group: ClassicGroup, request: JoinGroup) -> Member | None:
    """Return who has the instance id that a client without a member id comes with."""
    if request.member_id or request.group_instance_id is None:
        return None
    return group.static_member(request.group_instance_id)


def _has_room(group: ClassicGroup, request: JoinGroup, holder: Member | None, limit: int) -> bool:
    """Return whether one more may join.

    A client that takes the place of a static member makes the group no larger; Kafka refuses it
    when the group is full.
    """
    member = holder or group.members.get(request.member_id)
    match group.state:
        case ClassicGroupState.EMPTY:
            return True
        case ClassicGroupState.PREPARING_REBALANCE:
            joins = sum(each.join is not None for each in group.members.values())
            return joins < limit or (member is not None and member.join is not None)
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return member is not None or len(group.members) < limit


def _supports(group: ClassicGroup, request: JoinGroup) -> bool:
    if group.state is ClassicGroupState.EMPTY or not group.members:
        return bool(request.protocol_type and request.protocols)
    if group.protocol_type != request.protocol_type:
        return False
    names = {name for name, _ in request.protocols}
    return bool(names & common_protocols(group.members.values()))


def _join_without_id(change: GroupChange, request: JoinGroup, ticket: Ticket, new_id: str) -> None:
    if request.group_instance_id is not None:
        member_id = f"{request.group_instance_id}-{new_id}"
        _add(change, request, ticket, member_id)
        return
    member_id = f"{request.client_id}-{new_id}"
    if request.version < MEMBER_ID_REQUIRED_FROM:
        _add(change, request, ticket, member_id)
        return
    change.update(pending_joins=(*change.group.pending_joins, member_id))
    key = (SESSION_TIMER, request.group_id, member_id)
    change.set_timer(key, request.session_timeout_ms)
    required = ErrorCode.MEMBER_ID_REQUIRED
    change.answer(ticket, JoinGroupResponse(error_code=required, member_id=member_id))


def _join_with_id(change: GroupChange, request: JoinGroup, ticket: Ticket) -> None:
    member_id = request.member_id
    if member_id in change.group.pending_joins:
        _forget_pending(change, member_id)
        _add(change, request, ticket, member_id)
        return
    try:
        known = check_member(change.group, member_id, request.group_instance_id)
    except KafkaError as error:
        _refuse(change, request, ticket, error.code)
        return
    is_unchanged = known.protocols == request.protocols
    member = _updated(known, request)
    match change.state:
        case ClassicGroupState.EMPTY:
            raise AssertionError(f"empty group with member {member_id}")
        case ClassicGroupState.PREPARING_REBALANCE:
            _park(change, member, ticket)
            complete_join_if_all_came(change)
        case ClassicGroupState.COMPLETING_REBALANCE if is_unchanged:
            # The answer to its last join was lost.
            _answer_again(change, member, ticket, with_members=True)
        case ClassicGroupState.STABLE if is_unchanged and change.leader != member_id:
            _answer_again(change, member, ticket, with_members=False)
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            # A leader that joins a stable group wants it to assign anew.
            _park(change, member, ticket)
            prepare_rebalance(change)


def _replace_static_member(
    change: GroupChange, request: JoinGroup, ticket: Ticket, old: Member, new_id: str
) -> None:
    """Give the place of a static member to a client that comes with its instance id."""
    change.answer_join(old, ErrorCode.FENCED_INSTANCE_ID)
    change.answer_sync(old, ErrorCode.FENCED_INSTANCE_ID)
    was_leader = change.leader == old.member_id
    member = replace(
        _updated(old, request),
        member_id=f"{request.group_instance_id}-{new_id}",
        client_id=request.client_id,
        client_host=request.client_host,
        join=None,
        sync=None,
        # The session of a new one ends also while its join is parked; that is another client's now.
        is_new=False,
    )
    change.substitute(old.member_id, member)
    change.start_session(member)
    is_same_choice = choose_protocol(change.members) == change.group.protocol
    if change.state is ClassicGroupState.STABLE and is_same_choice:
        # A failover must not bring the old id back (KAFKA-10284).
        change.write()
        change.answer(ticket, _in_old_place(change, request, member, old, was_leader))
        return
    _park(change, member, ticket)
    rebalance(change)


def _in_old_place(
    change: GroupChange, request: JoinGroup, member: Member, old: Member, was_leader: bool
) -> JoinGroupResponse:
    """Return the answer to a client that goes on with the assignment of the one before it.

    One that cannot be told to skip the assignment is told of the leader that is no more, so that
    nobody thinks it leads.
    """
    response = join_response(change, member, with_members=False)
    if not was_leader:
        return response
    if request.version >= SKIP_ASSIGNMENT_FROM:
        return replace(response, skip_assignment=True, members=joined_members(change.group))
    return replace(response, leader=old.member_id)


def _add(change: GroupChange, request: JoinGroup, ticket: Ticket, member_id: str) -> None:
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=_rebalance_timeout(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        join=ticket,
    )
    add_member(change, member, request.protocol_type)


def _updated(member: Member, request: JoinGroup) -> Member:
    """Return a member with what its client says now (KAFKA-14009)."""
    return replace(
        member,
        rebalance_timeout_ms=_rebalance_timeout(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )


def _park(change: GroupChange, member: Member, ticket: Ticket) -> None:
    """Park a join; an older one of the same member is told to try again, if anybody hears it."""
    change.answer_join(member, ErrorCode.REBALANCE_IN_PROGRESS)
    change.put(replace(member, join=ticket))


def _answer_again(
    change: GroupChange, member: Member, ticket: Ticket, *, with_members: bool
) -> None:
    change.put(member)
    change.start_session(member)
    change.answer(ticket, join_response(change, member, with_members=with_members))


def _forget_pending(change: GroupChange, member_id: str) -> None:
    pending = change.group.pending_joins
    if member_id in pending:
        change.update(pending_joins=tuple(each for each in pending if each != member_id))
        change.stop_session(member_id)


def _refuse(change: GroupChange, request: JoinGroup, ticket: Ticket, error: ErrorCode) -> None:
    change.answer(ticket, JoinGroupResponse(error_code=error, member_id=request.member_id))


def _rebalance_timeout(request: JoinGroup) -> int:
    timeout = request.rebalance_timeout_ms
    return request.session_timeout_ms if timeout == -1 else timeout
