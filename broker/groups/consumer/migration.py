"""Groups that change their kind while their members live, KIP-848, "Online Migration".

A classic group becomes a consumer group when the first member of the new protocol joins. Its
members go on with what they have, as holders of their partitions; each is told to rebalance, and
from then on its joins and syncs are steps of the reconciliation. When the last member of the new
protocol has gone, a consumer group of classic members alone becomes a classic group again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.coordination.core import Answer, Timer
from broker.groups.classic.change import (
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    GroupChange,
    soft_key,
)
from broker.groups.classic.group import CONSUMER, ClassicGroup, ClassicGroupState, choose_protocol
from broker.groups.classic.group import Member as ClassicMember
from broker.groups.classic.rebalance import prepare_rebalance
from broker.groups.consumer.draft import Context, Draft
from broker.groups.consumer.group import (
    NO_TARGET,
    CurrentAssignment,
    Epochs,
    Member,
    MemberState,
    Target,
    is_classic,
)
from broker.groups.consumer.topics import named, partitions_of
from broker.groups.decision import GroupDecision, SoftChange
from broker.groups.requests import JoinProtocol
from broker.groups.responses import JoinGroupResponse, SyncGroupResponse
from broker.groups.topics import Topics
from jbodlab.group_records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode,
    encode,
)
from jbodlab.group_records.keys import GroupMetadataKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    GroupMetadataValue,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import TopicIdPartition

UPGRADES = ("bidirectional", "upgrade")
DOWNGRADES = ("bidirectional", "downgrade")


def upgrade(draft: Draft, classic: ClassicGroup, stored: GroupMetadataValue | None) -> None:
    """Make a consumer group of a classic one; an empty one just ends.

    Args:
        draft: Of the group, empty as yet.
        classic: The group as it is now.
        stored: Its record; None if there is none.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, it may not or cannot be a consumer group.
    """
    subscriptions = _check_upgrade(draft, classic) if classic.members else {}
    draft.add(_end_of_classic(classic, has_record=stored is not None))
    if not classic.members:
        return
    assigned, pending = _held(stored, subscriptions, draft.context.topics)
    for member_id, member in classic.members.items():
        draft.write_member(member_id, _upgraded(member, subscriptions[member_id]))
    draft.write_epoch(classic.generation)
    for member_id in classic.members:
        draft.write_target(member_id, assigned[member_id])
    # Of no time: the member that joins is to have a share at once.
    draft.write_target_epoch(classic.generation, 0)
    for member_id in classic.members:
        draft.write_current(
            member_id,
            CurrentAssignment(
                epoch=classic.generation,
                previous_epoch=classic.generation,
                state=MemberState.UNREVOKED if pending[member_id] else MemberState.STABLE,
                assigned=dict.fromkeys(assigned[member_id], classic.generation),
                pending_revocation=dict.fromkeys(pending[member_id], classic.generation),
            ),
        )
        draft.start_session(member_id)


def _check_upgrade(
    draft: Draft, classic: ClassicGroup
) -> Mapping[str, ConsumerProtocolSubscription]:
    settings = draft.context.settings

    def refused(reason: str) -> KafkaError:
        text = f"cannot convert classic group {classic.group_id}: {reason}"
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    if settings.consumer_migration_policy not in UPGRADES:
        raise refused(f"group.consumer.migration.policy is {settings.consumer_migration_policy}")
    if classic.protocol_type != CONSUMER:
        raise refused(f"its protocol type is {classic.protocol_type}")
    if len(classic.members) >= settings.consumer_max_size:
        raise refused(f"it has {len(classic.members)} members")
    subscriptions = {}
    for member_id, member in classic.members.items():
        protocol = classic.protocol or member.protocols[0].name
        try:
            subscription, _ = decode(ConsumerProtocolSubscription, member.metadata(protocol))
        except DecodeError as error:
            raise refused(f"cannot read the subscription of member {member_id}") from error
        if subscription.user_data:
            raise refused(f"the assignor of member {member_id} sends user data")
        subscriptions[member_id] = subscription
    return subscriptions


def _end_of_classic(classic: ClassicGroup, *, has_record: bool) -> GroupDecision:
    """Return what ends a classic group; whoever waits in it is told to join again."""
    group_id, error = classic.group_id, ErrorCode.REBALANCE_IN_PROGRESS
    answers = []
    stopped = [(name, group_id) for name in (JOIN_TIMER, SYNC_TIMER)]
    sessions = (*classic.members, *classic.pending_joins)
    for member_id, member in classic.members.items():
        if member.join is not None:
            response = JoinGroupResponse(error_code=error, member_id=member_id)
            answers.append(Answer(member.join, response))
        if member.sync is not None:
            answers.append(Answer(member.sync, SyncGroupResponse(error_code=error)))
    tombstone = GroupRecord(GroupMetadataKey(group=group_id), None)
    return GroupDecision(
        records=(tombstone,) if has_record else (),
        answers=tuple(answers),
        soft=(SoftChange(soft_key(group_id), None),),
        timers=tuple(
            Timer(key, None)
            for key in (*stopped, *((SESSION_TIMER, group_id, each) for each in sessions))
        ),
    )


def _held(
    stored: GroupMetadataValue | None,
    subscriptions: Mapping[str, ConsumerProtocolSubscription],
    topics: Topics,
) -> tuple[Mapping[str, Target], Mapping[str, Target]]:
    """Return what members have, and what they may still have to give up.

    They have what the last generation that was stored gave them: in a rebalance they may work on
    that until they join again. A cooperative member may besides own what it said when it joined,
    until it has joined without that; Kafka gives such partitions to others at once. No partition
    is given to two.
    """
    taken: set[TopicIdPartition] = set()
    assigned = dict.fromkeys(subscriptions, NO_TARGET)
    pending = dict.fromkeys(subscriptions, NO_TARGET)
    for member in stored.members if stored is not None else ():
        if member.member_id not in subscriptions:
            continue
        try:
            assignment, _ = decode(ConsumerProtocolAssignment, member.assignment)
        except DecodeError:
            continue
        assigned[member.member_id] = partitions_of(topics, assignment.assigned_partitions) - taken
        taken |= assigned[member.member_id]
    for member_id, subscription in subscriptions.items():
        pending[member_id] = partitions_of(topics, subscription.owned_partitions) - taken
        taken |= pending[member_id]
    return assigned, pending


def _upgraded(member: ClassicMember, subscription: ConsumerProtocolSubscription) -> Member:
    return Member(
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        **subscribed_fields(subscription, member.session_timeout_ms, member.protocols),
    )


def subscribed_fields(
    subscription: ConsumerProtocolSubscription,
    session_timeout_ms: int,
    protocols: Sequence[JoinProtocol],
) -> dict[str, Any]:
    """Return the fields of a member that its classic subscription and protocols say."""
    return {
        "rack_id": subscription.rack_id,
        "subscribed_topic_names": tuple(sorted(set(subscription.topics))),
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "classic_member_metadata": ClassicMemberMetadata(
            session_timeout_ms=session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols
            ),
        ),
    }


def encoded_assignment(member: Member, assigned: Epochs, topics: Topics) -> bytes:
    """Return what a classic member has, in the version that its subscription has."""
    assert member.classic_member_metadata is not None
    metadata = member.classic_member_metadata.supported_protocols[0].metadata
    version = max(0, int.from_bytes(metadata[:2], "big", signed=True))
    assigned_partitions = tuple(
        TopicPartitions(topic=name, partitions=tuple(numbers))
        for name, numbers in sorted(named(topics, assigned).items())
    )
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned_partitions)
    return encode(assignment, min(version, HIGHEST_VERSION))


def may_downgrade(draft: Draft) -> bool:
    """Whether the group has only classic members left, and may be a classic group for them."""
    members, settings = draft.group.members, draft.context.settings
    return (
        settings.consumer_migration_policy in DOWNGRADES
        and 0 < len(members) <= settings.max_size
        and all(map(is_classic, members.values()))
    )


def downgrade(draft: Draft) -> GroupChange:
    """Make a classic group of a consumer group, and let it begin a rebalance.

    Returns:
        The change of the classic group; its decision is to be added to the draft, which has none
        of it as yet.
    """
    group, context = draft.group, draft.context
    members = {
        member_id: _downgraded(member_id, member, group.current_of(member_id).assigned, context)
        for member_id, member in group.members.items()
    }
    classic = ClassicGroup(
        group_id=group.group_id,
        state=ClassicGroupState.STABLE,
        # The newest epoch that any member was told of.
        generation=group.assignment_epoch,
        protocol_type=CONSUMER,
        protocol=choose_protocol(members),
        leader=next(iter(members)),
        state_timestamp=context.now_ms,
        members=members,
    )
    draft.remove_group()
    change = GroupChange(classic, context.settings, context.now_ms)
    for member in members.values():
        change.start_session(member)
    change.write()
    prepare_rebalance(change)
    return change


def _downgraded(
    member_id: str, member: Member, assigned: Epochs, context: Context
) -> ClassicMember:
    classic = member.classic_member_metadata
    assert classic is not None
    return ClassicMember(
        member_id=member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple(
            JoinProtocol(each.name, each.metadata) for each in classic.supported_protocols
        ),
        assignment=encoded_assignment(member, assigned, context.topics),
    )
