"""Consumer groups as administrators see them: what is committed, nothing else."""

from __future__ import annotations

from enum import Enum
from itertools import groupby

from broker.groups.consumer.group import ConsumerGroup, MemberState, Target, is_classic
from broker.groups.consumer.replay import group_of
from broker.groups.consumer.responses import (
    AssignedTopic,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    MemberAssignment,
)
from broker.groups.consumer.target import preferred_assignor
from broker.groups.settings import GroupSettings
from broker.groups.tables import Row, Table
from broker.groups.topics import Topics
from jbodlab.vocabulary.error_code import ErrorCode

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


class GroupStatus(Enum):
    """States of a group under the names that tools show; they follow from members and epochs."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is not that of the group's epoch."""
    RECONCILING = "Reconciling"
    """Some member is not where the target wants it."""
    STABLE = "Stable"


def status_of(table: Table, group_id: str) -> GroupStatus:
    """Return the state of a group that is in a table."""
    members = table.rows(Row.MEMBER, group_id)
    if not members:
        return GroupStatus.EMPTY
    epoch, target = table.get(Row.EPOCH, group_id), table.get(Row.TARGET_EPOCH, group_id)
    target_epoch = 0 if target is None else target.assignment_epoch
    if epoch is not None and epoch.epoch > target_epoch:
        return GroupStatus.ASSIGNING
    current = table.rows(Row.CURRENT, group_id)
    for rest in members:
        row = current.get(rest)
        if row is None or row.state != MemberState.STABLE or row.member_epoch != target_epoch:
            return GroupStatus.RECONCILING
    return GroupStatus.STABLE


def describe(
    table: Table, group_id: str, topics: Topics, settings: GroupSettings
) -> DescribedConsumerGroup:
    """Return a group as a table has it; one of another kind is not found here."""
    group = group_of(table, group_id)
    if group is None:
        return DescribedConsumerGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"unknown consumer group {group_id}",
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=status_of(table, group_id).value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, settings),
        members=tuple(_member(group, member_id, topics) for member_id in sorted(group.members)),
    )


def _member(group: ConsumerGroup, member_id: str, topics: Topics) -> DescribedConsumerMember:
    member, current = group.members[member_id], group.current_of(member_id)
    return DescribedConsumerMember(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_by_topic(frozenset(current.assigned), topics),
        target_assignment=_by_topic(group.target_of(member_id), topics),
        member_type=CLASSIC_MEMBER if is_classic(member) else CONSUMER_MEMBER,
    )


def _by_topic(partitions: Target, topics: Topics) -> MemberAssignment:
    """Return partitions by topic; topics that were deleted meanwhile have no name to show."""
    found = []
    for topic_id, group in groupby(sorted(partitions), key=lambda each: each.topic_id):
        name = topics.topic_name(topic_id)
        if name is not None:
            found.append(AssignedTopic(topic_id, name, tuple(each.partition for each in group)))
    return MemberAssignment(tuple(found))
