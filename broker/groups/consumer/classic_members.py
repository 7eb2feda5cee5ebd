"""Members of the classic protocol in a consumer group: their requests as steps of the group.

A join is a full heartbeat, a sync brings the assignment, and a heartbeat tells the member to join
again when there is something new for it. Nothing is parked. There is no leader: the generation that
a member is told of is its member epoch.

Source: KIP-848, "Supporting Classic Protocol Members"; `classicGroupJoinToConsumerGroup` and its
neighbours in `GroupMetadataManager` of Apache Kafka.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.classic.group import CONSUMER
from broker.groups.classic.joining import MEMBER_ID_REQUIRED_FROM
from broker.groups.classic.joining import join as join_classic_group
from broker.groups.classic.membership import leave_response
from broker.groups.consumer.checks import check_known
from broker.groups.consumer.draft import Draft, classic_timer
from broker.groups.consumer.group import ConsumerGroup, Member, MemberState, is_classic
from broker.groups.consumer.heartbeat import advance, take_over_place, update_member
from broker.groups.consumer.migration import (
    downgrade,
    encoded_assignment,
    may_downgrade,
    subscribed_fields,
)
from broker.groups.consumer.target import target_is_due
from broker.groups.consumer.topics import partitions_of
from broker.groups.requests import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from broker.groups.responses import (
    HeartbeatResponse,
    JoinGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)
from jbodlab.group_records.consumer_protocol import ConsumerProtocolSubscription, decode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError

DISABLED = "disabled"


def join(draft: Draft, request: JoinGroup, ticket: Ticket, new_id: str) -> None:
    """Let a classic member join a consumer group that has members, or join again."""
    error = _refusal(draft, request)
    if error is not None:
        draft.answer(ticket, JoinGroupResponse(error_code=error, member_id=request.member_id))
        return
    instance_id = request.group_instance_id
    member_id = request.member_id or f"{instance_id or request.client_id}-{new_id}"
    if not request.member_id and instance_id is None and request.version >= MEMBER_ID_REQUIRED_FROM:
        required = ErrorCode.MEMBER_ID_REQUIRED
        draft.answer(ticket, JoinGroupResponse(error_code=required, member_id=member_id))
        return
    subscription, _ = decode(ConsumerProtocolSubscription, request.protocols[0].metadata)
    is_known = member_id in draft.group.members or instance_id in draft.group.static_members
    owned = partitions_of(draft.context.topics, subscription.owned_partitions)
    if owned and not is_known:
        # It was removed and does not know it: others may have what it says that it owns. Kafka
        # takes it in again, and it works on until it has asked for its assignment.
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        draft.answer(ticket, JoinGroupResponse(error_code=unknown, member_id=member_id))
        return
    if instance_id is not None:
        take_over_place(draft, instance_id, member_id)
    update_member(draft, member_id, _joined(draft.group, request, member_id, subscription))
    if may_downgrade(draft):
        change = downgrade(draft)
        join_classic_group(change, replace(request, member_id=member_id), ticket, new_id)
        draft.add(change.decision())
        return
    advance(draft, member_id, owned)
    draft.start_session(member_id)
    # It has joined; now is its time to sync.
    _wait_no_longer(draft, member_id)
    _wait_for(draft, member_id)
    draft.answer(
        ticket,
        JoinGroupResponse(
            generation_id=draft.group.current_of(member_id).epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0].name,
            member_id=member_id,
        ),
    )


def _refusal(draft: Draft, request: JoinGroup) -> ErrorCode | None:
    """Return why a join is refused, the first reason that Kafka would find."""
    group, settings = draft.group, draft.context.settings
    lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not lowest <= request.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    holder = group.static_members.get(request.group_instance_id or "")
    is_new = request.member_id not in group.members and holder is None
    if is_new and len(group.members) >= settings.consumer_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if settings.consumer_migration_policy == DISABLED or not _fits(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if holder is not None and request.member_id and holder != request.member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    return None


def _fits(group: ConsumerGroup, request: JoinGroup) -> bool:
    """Whether the protocols are those of a consumer, and one of them is that of all."""
    if request.protocol_type != CONSUMER or not request.protocols:
        return False
    try:
        decode(ConsumerProtocolSubscription, request.protocols[0].metadata)
    except DecodeError:
        return False
    common = {protocol.name for protocol in request.protocols}
    for member_id, member in group.members.items():
        classic = member.classic_member_metadata
        if classic is not None and member_id != request.member_id:
            common &= {protocol.name for protocol in classic.supported_protocols}
    return bool(common)


def _joined(
    group: ConsumerGroup,
    request: JoinGroup,
    member_id: str,
    subscription: ConsumerProtocolSubscription,
) -> Member:
    before = group.members.get(member_id)
    timeout_ms = request.rebalance_timeout_ms
    return Member(
        instance_id=request.group_instance_id or (before.instance_id if before else None),
        client_id=request.client_id,
        client_host=request.client_host,
        # Version 0 has no rebalance timeout.
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        **subscribed_fields(subscription, request.session_timeout_ms, request.protocols),
    )


def sync(draft: Draft, request: SyncGroup) -> SyncGroupResponse:
    """Return what a member is assigned.

    A member that is to give partitions up hears of it by this answer, so it gets one, and no order
    to join again.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or
            INCONSISTENT_GROUP_PROTOCOL.
    """
    member = _check(draft, request.member_id, request.group_instance_id, request.generation_id)
    classic = member.classic_member_metadata
    assert classic is not None
    protocol = classic.supported_protocols[0].name
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
        None,
        protocol,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = draft.group.current_of(request.member_id)
    if current.epoch < draft.group.assignment_epoch and current.state != MemberState.UNREVOKED:
        _wait_for(draft, request.member_id)
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    _wait_no_longer(draft, request.member_id)
    draft.start_session(request.member_id)
    return SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=protocol,
        assignment=encoded_assignment(member, current.assigned, draft.context.topics),
    )


def heartbeat(draft: Draft, request: Heartbeat) -> HeartbeatResponse:
    """Let the member's session begin anew, and tell it to join when there is something new.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    """
    _check(draft, request.member_id, request.group_instance_id, request.generation_id)
    draft.start_session(request.member_id)
    if not _is_to_join(draft, request.member_id):
        return HeartbeatResponse()
    _wait_for(draft, request.member_id)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def _is_to_join(draft: Draft, member_id: str) -> bool:
    """Whether a join would bring the member further."""
    group = draft.group
    current = group.current_of(member_id)
    if current.epoch < group.assignment_epoch or target_is_due(group, draft.context):
        return True
    if current.state == MemberState.UNRELEASED:
        wanted = group.target_of(member_id).difference(current.assigned)
        return all(group.holder(each) in (None, member_id) for each in wanted)
    return current.state == MemberState.UNREVOKED


def leave(draft: Draft, request: LeaveGroup, ticket: Ticket) -> None:
    """Let members leave, or be removed by an administrator."""
    leaving: list[str] = []
    results = []
    for each in request.members:
        member_id, error = _leaving(draft.group, each)
        if error is ErrorCode.NONE and member_id in leaving:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE:
            leaving.append(member_id)
        results.append(MemberResponse(each.member_id, each.group_instance_id, error))
    if leaving:
        draft.remove_members(leaving)
    draft.answer(ticket, leave_response(request.version, tuple(results)))


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> tuple[str, ErrorCode]:
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        # An administrator removes a static member, whoever it is now.
        member_id = group.static_members.get(leaving.group_instance_id, "")
    try:
        check_known(group, member_id, leaving.group_instance_id)
    except KafkaError as error:
        return member_id, error.code
    return member_id, ErrorCode.NONE


def wait_is_over(draft: Draft, member_id: str) -> None:
    """Remove a classic member that did not join or sync in time."""
    key = classic_timer(draft.group.group_id, member_id)
    if draft.soft(key) is not None and member_id in draft.group.members:
        draft.remove_members((member_id,))


def _check(draft: Draft, member_id: str, instance_id: str | None, generation: int) -> Member:
    check_known(draft.group, member_id, instance_id)
    member = draft.group.members[member_id]
    if not is_classic(member):
        # It speaks the new protocol now, and this is a request of its past.
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if draft.group.current_of(member_id).epoch != generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _wait_for(draft: Draft, member_id: str) -> None:
    """Let the member's time to join or to sync begin, unless it has begun."""
    key = classic_timer(draft.group.group_id, member_id)
    if draft.soft(key) is None:
        due_ms = draft.context.now_ms + draft.group.members[member_id].rebalance_timeout_ms
        draft.set_soft(key, due_ms)
        draft.set_timer(key, due_ms)


def _wait_no_longer(draft: Draft, member_id: str) -> None:
    key = classic_timer(draft.group.group_id, member_id)
    draft.set_soft(key, None)
    draft.set_timer(key, None)
