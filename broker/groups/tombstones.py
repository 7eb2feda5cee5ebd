"""The records that take groups and offsets away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from broker.groups.tables import Row, Table
from jbodlab.group_records import keys
from jbodlab.group_records.records import GroupRecord

_KEYS: Mapping[Row, Callable[..., keys.AnyKey]] = MappingProxyType(
    {
        Row.CURRENT: lambda group, member: keys.ConsumerGroupCurrentMemberAssignmentKey(
            group_id=group, member_id=member
        ),
        Row.TARGET: lambda group, member: keys.ConsumerGroupTargetAssignmentMemberKey(
            group_id=group, member_id=member
        ),
        Row.TARGET_EPOCH: lambda group: keys.ConsumerGroupTargetAssignmentMetadataKey(
            group_id=group
        ),
        Row.MEMBER: lambda group, member: keys.ConsumerGroupMemberMetadataKey(
            group_id=group, member_id=member
        ),
        Row.REGEX: lambda group, text: keys.ConsumerGroupRegularExpressionKey(
            group_id=group, regular_expression=text
        ),
        Row.EPOCH: lambda group: keys.ConsumerGroupMetadataKey(group_id=group),
        Row.CLASSIC: lambda group: keys.GroupMetadataKey(group=group),
    }
)
"""In the order in which a group goes."""


def group_tombstones(table: Table, group_id: str) -> Iterator[GroupRecord]:
    """Return the records that take a group away, offsets excepted."""
    for row, key in _KEYS.items():
        for rest in table.rows(row, group_id):
            yield GroupRecord(key(group_id, *rest), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """Return the record that takes an offset away, pending ones included."""
    key = keys.OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return GroupRecord(key, None)


def offset_tombstones(table: Table, group_id: str) -> Iterator[GroupRecord]:
    """Return the records that take all offsets of a group away, pending ones included."""
    offsets = table.rows(Row.OFFSET, group_id)
    for topic, partition in offsets:
        yield offset_tombstone(group_id, topic, partition)
    pending = dict.fromkeys(rest[:2] for rest in table.rows(Row.PENDING, group_id))
    for topic, partition in pending:
        if (topic, partition) not in offsets:
            yield offset_tombstone(group_id, topic, partition)
