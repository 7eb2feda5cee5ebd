"""Signs of life of a classic group's members, and how they go: by themselves, or by silence."""

from __future__ import annotations

from broker.coordination.core import Answer, Ticket, Timer
from broker.groups.classic.change import SESSION_TIMER, GroupChange
from broker.groups.classic.group import ClassicGroup, ClassicGroupState
from broker.groups.classic.joining import check_member
from broker.groups.classic.rebalance import complete_join_if_all_came, remove_member
from broker.groups.decision import GroupDecision
from broker.groups.requests import Heartbeat, LeaveGroup, LeavingMember
from broker.groups.responses import HeartbeatResponse, LeaveGroupResponse, MemberResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

MANY_MEMBERS_FROM = 3
"""Version of LeaveGroup from which it names many members, each with an error of its own."""


def heartbeat(
    group: ClassicGroup, request: Heartbeat, ticket: Ticket, now_ms: int
) -> GroupDecision:
    """Let the member's session begin anew; in a rebalance, tell it to join.

    Raises:
        KafkaError: the request is not of a member of this generation.
    """
    member = check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    is_over = group.state is ClassicGroupState.PREPARING_REBALANCE
    error = ErrorCode.REBALANCE_IN_PROGRESS if is_over else ErrorCode.NONE
    key = (SESSION_TIMER, group.group_id, member.member_id)
    return GroupDecision(
        answers=(Answer(ticket, HeartbeatResponse(error_code=error)),),
        timers=(Timer(key, now_ms + member.session_timeout_ms),),
    )


def leave(change: GroupChange, request: LeaveGroup, ticket: Ticket) -> None:
    """Take members away."""
    results = tuple(
        MemberResponse(each.member_id, each.group_instance_id, _leave(change, each))
        for each in request.members
    )
    change.answer(ticket, leave_response(request.version, results))


def leave_response(version: int, results: tuple[MemberResponse, ...]) -> LeaveGroupResponse:
    """Return an answer in the form of the client's version."""
    if version >= MANY_MEMBERS_FROM:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def session_is_over(change: GroupChange, member_id: str) -> None:
    """Take a silent member away; who waits for an answer counts as alive.

    A new member may wait for `NEW_MEMBER_TIMEOUT_MS` only.
    """
    if member_id in change.group.pending_joins:
        _forget(change, member_id)
        return
    member = change.members.get(member_id)
    if member is None or member.sync is not None:
        return
    if member.join is None or member.is_new:
        remove_member(change, member_id)


def connection_closed(change: GroupChange, ticket: Ticket) -> None:
    """Take a new member away whose client hung up: nobody knows its id, so it cannot come back.

    Kafka keeps it for five minutes, and the rebalance with it (KAFKA-7610, KAFKA-9752).
    """
    for member in tuple(change.members.values()):
        if member.join == ticket and member.is_new and member.group_instance_id is None:
            remove_member(change, member.member_id)


def _leave(change: GroupChange, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        # An administrator removes a static member, whoever it is now.
        holder = change.group.static_member(leaving.group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = holder.member_id
    if member_id in change.group.pending_joins:
        _forget(change, member_id)
        return ErrorCode.NONE
    try:
        check_member(change.group, member_id, leaving.group_instance_id)
    except KafkaError as error:
        return error.code
    remove_member(change, member_id)
    return ErrorCode.NONE


def _forget(change: GroupChange, member_id: str) -> None:
    pending = change.group.pending_joins
    change.update(pending_joins=tuple(each for each in pending if each != member_id))
    change.stop_session(member_id)
    if change.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join_if_all_came(change)
