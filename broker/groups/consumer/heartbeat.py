"""One heartbeat of a member: it joins, says what is new, hears what is new, or leaves.

The steps of a heartbeat are those of the group's life: the member's fields, the group's epoch, the
target for that epoch, the member's way to its target. Each writes records only where something
changes; most heartbeats write nothing.

Source: KIP-848; `GroupMetadataManager.consumerGroupHeartbeat` of Apache Kafka.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker.clients.regular_expressions import compiled
from broker.groups.consumer.checks import UNCHANGED_MS, check_epoch, check_known, check_place
from broker.groups.consumer.draft import Draft, HashedTopics, hashed_topics
from broker.groups.consumer.group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    Member,
    MemberState,
)
from broker.groups.consumer.reconcile import Goal, reconcile
from broker.groups.consumer.regexes import plan_resolution
from broker.groups.consumer.responses import ConsumerGroupHeartbeatResponse
from broker.groups.consumer.target import renew_target
from broker.groups.consumer.topics import topic_ids
from broker.groups.requests import ConsumerGroupHeartbeat
from jbodlab.vocabulary.ids import TopicIdPartition

Owned = frozenset[TopicIdPartition] | None


def heartbeat(draft: Draft, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
    """Let a member join, or go on.

    Args:
        draft: Of its group, which may be new.
        request: Checked, with a member id, and not one to leave.

    Raises:
        KafkaError: the member is not what it thinks; nothing of the draft may be used.
    """
    owned = _owned(request)
    check_place(draft.group, request, draft.context.settings)
    if request.member_id in draft.group.members:
        check_epoch(draft.group, request, owned)
    is_join = request.member_epoch == JOIN_EPOCH
    before = draft.group.current_of(request.member_id)
    # A member that names another epoch has not had the answer that brought its own.
    wants_all = is_join or _is_full(request) or request.member_epoch != before.epoch
    if is_join and request.instance_id is not None:
        take_over_place(draft, request.instance_id, request.member_id)
    update_member(draft, request.member_id, _updated(draft, request))
    advance(draft, request.member_id, owned)
    draft.start_session(request.member_id)
    current = draft.group.current_of(request.member_id)
    has_changed = wants_all or current.assigned.keys() != before.assigned.keys()
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=draft.context.settings.consumer_heartbeat_interval_ms,
        assignment=frozenset(current.assigned) if has_changed else None,
    )


def leave(draft: Draft, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
    """Let a member go; a static one that leaves for a while keeps its place.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    check_known(draft.group, request.member_id, request.instance_id)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        draft.remove_members((request.member_id,))
    else:
        current = draft.group.current_of(request.member_id)
        if current.epoch != STATIC_LEAVE_EPOCH:
            # The member has given up all that it was to give up.
            away = CurrentAssignment(
                epoch=STATIC_LEAVE_EPOCH,
                previous_epoch=current.epoch,
                assigned=current.assigned,
            )
            draft.write_current(request.member_id, away)
        draft.start_session(request.member_id)
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )


def take_over_place(draft: Draft, instance_id: str, member_id: str) -> None:
    """Give what a static member has to the id under which it has come back."""
    old_id = draft.group.static_members.get(instance_id)
    if old_id is None or old_id == member_id:
        return
    member, current = draft.group.members[old_id], draft.group.current_of(old_id)
    target = draft.group.target_of(old_id)
    draft.remove_member(old_id)
    draft.write_member(member_id, member)
    draft.write_target(member_id, target)
    draft.write_current(member_id, CurrentAssignment(assigned=current.assigned))


def update_member(draft: Draft, member_id: str, member: Member) -> None:
    """Write what is new about a member; the group's epoch follows if that concerns others."""
    before = draft.group.members.get(member_id)
    topics_before = None if before is None else draft.group.topics_of(before)
    if member != before:
        draft.write_member(member_id, member)
    if before is not None and before.subscribed_topic_regex != member.subscribed_topic_regex:
        draft.forget_unused_regexes()
    is_new = topics_before != draft.group.topics_of(member)
    if is_new or _topics_have_changed(draft):
        draft.write_epoch(draft.group.epoch + 1)
    plan_resolution(draft, member)


def _topics_have_changed(draft: Draft) -> bool:
    """Whether subscribed topics are not as they were in this epoch; looked for once a version."""
    known: HashedTopics | None = draft.soft(hashed_topics(draft.group.group_id))
    if known is not None and known.version == draft.context.topics.version:
        return False
    return draft.hash_topics() != draft.group.metadata_hash


def advance(draft: Draft, member_id: str, owned: Owned) -> None:
    """Compute the target if it is time for that, and let a member make a step towards it."""
    renew_target(draft)
    group = draft.group
    current = group.current_of(member_id)
    topics = topic_ids(draft.context.topics, group.topics_of(group.members[member_id]))
    # Most heartbeats end here.
    if (
        current.state == MemberState.STABLE
        and current.epoch == group.assignment_epoch
        and current.assigned.keys() == group.target_of(member_id)
        and topics.issuperset(each.topic_id for each in current.assigned)
    ):
        return
    goal = Goal(
        epoch=group.assignment_epoch,
        partitions=group.target_of(member_id),
        topics=topics,
        owned=owned,
        is_free=lambda partition: group.holder(partition) in (None, member_id),
    )
    after = reconcile(current, goal)
    if after is not current or member_id not in group.current:
        draft.write_current(member_id, after)


def _owned(request: ConsumerGroupHeartbeat) -> Owned:
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in request.topic_partitions
        for partition in topic.partitions
    )


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    """Whether the member says everything about itself: it wants to hear everything, too."""
    return (
        request.rebalance_timeout_ms != UNCHANGED_MS
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )


def _updated(draft: Draft, request: ConsumerGroupHeartbeat) -> Member:
    """Return what the member says about itself now; it speaks the new protocol."""
    member = draft.group.members.get(request.member_id) or Member(
        client_id="", client_host="", subscribed_topic_names=()
    )
    regex, names = request.subscribed_topic_regex, request.subscribed_topic_names
    if regex is not None and regex != (member.subscribed_topic_regex or ""):
        compiled(regex)
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=_newer(request.instance_id, member.instance_id),
        rack_id=_newer(request.rack_id, member.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=(member.subscribed_topic_regex if regex is None else regex or None),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms
        ),
        server_assignor=_newer(request.server_assignor, member.server_assignor),
        classic_member_metadata=None,
    )


def _newer(new: str | None, old: str | None) -> str | None:
    return old if new is None else new
