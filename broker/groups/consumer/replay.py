"""Rows of a table as a group, and back: each row is the newest record of a key.

Each row stands for itself, whatever else compaction has left: members may come before their group,
a partition may belong to two members until a later record says more, and a tombstone may name what
nobody knows.

Source: `GroupMetadataManager.replay` of Apache Kafka; for the tolerance KAFKA-19862, KAFKA-17306.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, TypeVar

from msgspec.structs import replace

from broker.groups.consumer.group import (
    NO_ASSIGNMENT,
    ConsumerGroup,
    CurrentAssignment,
    Epochs,
    Member,
    MemberState,
    Target,
)
from broker.groups.tables import CONSUMER_ROWS, Row, RowKey, Table
from jbodlab.group_records.values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from jbodlab.vocabulary.ids import TopicIdPartition

_K = TypeVar("_K")
_V = TypeVar("_V")

_STATES = {state.value: state for state in MemberState}


class GroupIndex:
    """The groups of a table, each made when it is first asked for and kept up to date from then."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._groups: dict[str, ConsumerGroup] = {}
        table.observers.append(self._take)

    def get(self, group_id: str) -> ConsumerGroup | None:
        """Return a group; None if there is none of this kind."""
        group = self._groups.get(group_id)
        if group is None:
            group = group_of(self._table, group_id)
            if group is not None:
                self._groups[group_id] = group
        return group

    def _take(self, key: RowKey, old: Any, new: Any) -> None:
        group = self._groups.get(key.group)
        if group is None or key.row not in CONSUMER_ROWS:
            return
        if key.row is Row.EPOCH and new is None:
            del self._groups[key.group]
        else:
            self._groups[key.group] = with_row(group, key.row, key.rest, new)


def group_of(table: Table, group_id: str) -> ConsumerGroup | None:
    """Return a group as a table has it; None if there is none of this kind."""
    if table.get(Row.EPOCH, group_id) is None and not table.rows(Row.MEMBER, group_id):
        return None
    members = {rest[0]: member for rest, member in table.rows(Row.MEMBER, group_id).items()}
    current = {rest[0]: _current(row) for rest, row in table.rows(Row.CURRENT, group_id).items()}
    group = ConsumerGroup(
        group_id=group_id,
        members=members,
        current=current,
        targets={rest[0]: _target(row) for rest, row in table.rows(Row.TARGET, group_id).items()},
        regexes={rest[0]: regex for rest, regex in table.rows(Row.REGEX, group_id).items()},
        holders={
            partition: member_id
            for member_id, assignment in current.items()
            for partition in assignment.held()
        },
        static_members={
            member.instance_id: member_id
            for member_id, member in members.items()
            if member.instance_id is not None
        },
    )
    for row in (Row.EPOCH, Row.TARGET_EPOCH):
        group = with_row(group, row, (), table.get(row, group_id))
    return group


def with_row(group: ConsumerGroup, row: Row, rest: tuple[Any, ...], value: Any) -> ConsumerGroup:
    """Return the group as it is after a row has a new value; None takes the row away."""
    match row:
        case Row.EPOCH:
            return replace(
                group,
                epoch=0 if value is None else value.epoch,
                metadata_hash=0 if value is None else value.metadata_hash,
            )
        case Row.TARGET_EPOCH:
            return replace(
                group,
                assignment_epoch=0 if value is None else value.assignment_epoch,
                assignment_timestamp_ms=0 if value is None else value.assignment_timestamp,
            )
        case Row.MEMBER:
            return _with_member(group, rest[0], value)
        case Row.TARGET:
            target = None if value is None else _target(value)
            return replace(group, targets=_with(group.targets, rest[0], target))
        case Row.CURRENT:
            return _with_current(group, rest[0], None if value is None else _current(value))
        case Row.REGEX:
            return replace(group, regexes=_with(group.regexes, rest[0], value))
        case _:
            raise AssertionError(row)


def _with_member(group: ConsumerGroup, member_id: str, member: Member | None) -> ConsumerGroup:
    static = dict(group.static_members)
    before = group.members.get(member_id)
    # Another member may have taken the place since.
    if before is not None and static.get(before.instance_id or "") == member_id:
        del static[before.instance_id or ""]
    if member is not None and member.instance_id is not None:
        static[member.instance_id] = member_id
    return replace(group, members=_with(group.members, member_id, member), static_members=static)


def _with_current(
    group: ConsumerGroup, member_id: str, current: CurrentAssignment | None
) -> ConsumerGroup:
    before = group.current_of(member_id)
    after = current or NO_ASSIGNMENT
    holders = group.holders
    if before.assigned.keys() != after.assigned.keys() or (
        before.pending_revocation.keys() != after.pending_revocation.keys()
    ):
        changed = dict(holders)
        for partition in before.held():
            if changed.get(partition) == member_id:
                del changed[partition]
        changed.update(dict.fromkeys(after.held(), member_id))
        holders = changed
    return replace(group, current=_with(group.current, member_id, current), holders=holders)


def _with(entries: Mapping[_K, _V], key: _K, value: _V | None) -> Mapping[_K, _V]:
    after = dict(entries)
    if value is None:
        after.pop(key, None)
    else:
        after[key] = value
    return after


def current_value(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Return the value of the record of what a member has."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state.value,
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.pending_revocation),
    )


def target_value(target: Target) -> ConsumerGroupTargetAssignmentMemberValue:
    """Return the value of the record of what a member shall have."""
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetTopicPartitions(
                topic_id=topic_id, partitions=tuple(each.partition for each in partitions)
            )
            for topic_id, partitions in groupby(sorted(target), key=lambda each: each.topic_id)
        )
    )


def _with_epochs(epochs: Epochs) -> tuple[CurrentTopicPartitions, ...]:
    found = []
    for topic_id, group in groupby(sorted(epochs), key=lambda each: each.topic_id):
        partitions = tuple(group)
        found.append(
            CurrentTopicPartitions(
                topic_id=topic_id,
                partitions=tuple(each.partition for each in partitions),
                assignment_epochs=tuple(epochs[each] for each in partitions),
            )
        )
    return tuple(found)


def _target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in value.topic_partitions
        for partition in topic.partitions
    )


def _current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_STATES.get(value.state, MemberState.UNKNOWN),
        assigned=_epochs(value.assigned_partitions, value.member_epoch),
        pending_revocation=_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> Epochs:
    """Return partitions with their epochs; a broker before KIP-1251 wrote none."""
    found: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if len(epochs) != len(topic.partitions):
            epochs = (member_epoch,) * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            found[TopicIdPartition(topic.topic_id, partition)] = epoch
    return found
