"""The rebalance of a classic group: how it begins, and how its first half ends."""

from __future__ import annotations

from msgspec.structs import replace

from broker.bounds.limits import NEW_MEMBER_TIMEOUT_MS
from broker.groups.classic.change import SESSION_TIMER, GroupChange
from broker.groups.classic.group import ClassicGroupState, Member, choose_protocol, joined_members
from broker.groups.responses import JoinGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode


def add_member(change: GroupChange, member: Member, protocol_type: str) -> None:
    """Take a new member in; its join is parked."""
    if not change.members:
        change.update(protocol_type=protocol_type, leader=None)
    change.put(replace(member, is_new=True))
    if change.group.delay_remaining_ms is not None:
        change.update(has_new_member=True)
    # Its client may be gone, and nobody would know before the rebalance ends.
    key = (SESSION_TIMER, change.group.group_id, member.member_id)
    change.set_timer(key, NEW_MEMBER_TIMEOUT_MS)
    rebalance(change)


def rebalance(change: GroupChange) -> None:
    """Begin a rebalance, or look whether the one that goes on has everybody."""
    if change.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join_if_all_came(change)
    else:
        prepare_rebalance(change)


def prepare_rebalance(change: GroupChange) -> None:
    """Begin to collect joins."""
    was_empty = change.state is ClassicGroupState.EMPTY
    reset_assignments(change, ErrorCode.REBALANCE_IN_PROGRESS)
    change.set_sync_timer(None)
    change.move_to(ClassicGroupState.PREPARING_REBALANCE)
    if was_empty:
        delay = change.settings.initial_rebalance_delay_ms
        remaining = max(change.group.rebalance_timeout_ms - delay, 0)
        change.update(delay_remaining_ms=remaining, has_new_member=False)
        change.set_join_timer(delay)
    else:
        change.set_join_timer(change.group.rebalance_timeout_ms)
        complete_join_if_all_came(change)


def reset_assignments(change: GroupChange, error: ErrorCode) -> None:
    """Forget assignments; who waits for one hears the error, and lives on."""
    for member in tuple(change.members.values()):
        change.answer_sync(member, error)
        if member.sync is not None:
            change.start_session(member)
        change.put(replace(member, sync=None, awaits_sync=False, assignment=b""))


def complete_join_if_all_came(change: GroupChange) -> None:
    """End the first half if nobody is missing, and the group does not wait for new members."""
    group = change.group
    if group.delay_remaining_ms is not None or group.pending_joins:
        return
    if all(member.join is not None for member in change.members.values()):
        complete_join(change)


def join_time_is_over(change: GroupChange) -> None:
    """End the first half with those that came; an empty group may wait for more.

    Each new member lengthens the wait, up to the rebalance timeout altogether.
    """
    group = change.group
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    remaining = group.delay_remaining_ms
    if remaining and group.has_new_member:
        delay = min(change.settings.initial_rebalance_delay_ms, remaining)
        change.update(delay_remaining_ms=remaining - delay, has_new_member=False)
        change.set_join_timer(delay)
    else:
        complete_join(change)


def complete_join(change: GroupChange) -> None:
    """Begin the next generation with those that joined, and answer them."""
    change.set_join_timer(None)
    for member in tuple(change.members.values()):
        if member.join is None and member.group_instance_id is None:
            change.take(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    joined = [member for member in change.members.values() if member.join is not None]
    if change.members and not joined:
        # Static members keep their place until their sessions end.
        change.update(delay_remaining_ms=None)
        change.set_join_timer(change.group.rebalance_timeout_ms)
        return
    change.update(
        generation=change.group.generation + 1, delay_remaining_ms=None, has_new_member=False
    )
    if not joined:
        change.update(protocol=None, leader=None)
        change.move_to(ClassicGroupState.EMPTY)
        change.write()
        return
    leader = change.members.get(change.leader or "")
    if leader is None or leader.join is None:
        change.update(leader=joined[0].member_id)
    change.update(protocol=choose_protocol(change.members))
    change.move_to(ClassicGroupState.COMPLETING_REBALANCE)
    _answer_joins(change)
    change.set_sync_timer(change.group.rebalance_timeout_ms)


def _answer_joins(change: GroupChange) -> None:
    for member in tuple(change.members.values()):
        if member.join is not None:
            change.answer(member.join, join_response(change, member, with_members=True))
        change.put(replace(member, join=None, is_new=False, awaits_sync=True))
        change.start_session(member)


def join_response(change: GroupChange, member: Member, *, with_members: bool) -> JoinGroupResponse:
    """Return the present generation as a member is told of it."""
    group = change.group
    is_leader = with_members and group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=joined_members(group) if is_leader else (),
    )


def remove_member(change: GroupChange, member_id: str) -> None:
    """Take a member away that left or was silent for too long; the others begin anew."""
    change.take(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance(change)


def sync_time_is_over(change: GroupChange) -> None:
    """Take members away that did not ask for their assignment in time (KAFKA-12890)."""
    if change.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        return
    silent = [member.member_id for member in change.members.values() if member.awaits_sync]
    if not silent:
        return
    for member_id in silent:
        change.take(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    prepare_rebalance(change)
