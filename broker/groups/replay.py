"""The changes of a record to the tables; the same at the load and after an append.

Rows are named as the records are, so that whatever compaction leaves of a log gives the same rows:
tombstones of what is not known change nothing, and no order among the records of a group matters.
Two things go beyond that. A group is either a classic one or one of KIP-848: the newer kind of
record takes away what the other kind has (a log may keep remains of both after a downgrade,
KAFKA-21117). And offsets in a transaction are pending until its marker.
"""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never, cast

import msgspec

from broker.groups.tables import CONSUMER_ROWS, Row, RowChange, RowKey, Table
from jbodlab.group_records import keys
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue


class StoredOffset(msgspec.Struct, frozen=True, gc=False):
    """A committed offset, and the offset of the record that says so."""

    value: OffsetCommitValue
    record_offset: int


def changes_of(
    record: GroupRecord, offset: int, table: Table, producer_id: int | None = None
) -> list[RowChange]:
    """Return what a record changes.

    Args:
        record: As it stands in the log.
        offset: Its offset there.
        table: The table with all that is written up to it.
        producer_id: Of the transaction that the record is part of; None for no transaction.
    """
    key, value = record
    match key:
        case keys.OffsetCommitKey() | keys.LegacyOffsetCommitKey():
            return _offset_changes(key, value, offset, table, producer_id)
        case keys.GroupMetadataKey(group=group):
            changes = [RowChange(RowKey(Row.CLASSIC, group), value)]
            if value is not None:
                changes += _removals(table, group)
            return changes
        case keys.ConsumerGroupPartitionMetadataKey():
            return []
        case keys.ConsumerGroupMetadataKey(group_id=group):
            change = RowChange(RowKey(Row.EPOCH, group), value)
        case keys.ConsumerGroupTargetAssignmentMetadataKey(group_id=group):
            change = RowChange(RowKey(Row.TARGET_EPOCH, group), value)
        case keys.ConsumerGroupMemberMetadataKey(group_id=group, member_id=member):
            change = RowChange(RowKey(Row.MEMBER, group, (member,)), value)
        case keys.ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=member):
            change = RowChange(RowKey(Row.TARGET, group, (member,)), value)
        case keys.ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member):
            change = RowChange(RowKey(Row.CURRENT, group, (member,)), value)
        case keys.ConsumerGroupRegularExpressionKey(group_id=group, regular_expression=text):
            change = RowChange(RowKey(Row.REGEX, group, (text,)), value)
        case _:
            assert_never(key)
    if value is None or table.get(Row.CLASSIC, group) is None:
        return [change]
    return [change, RowChange(RowKey(Row.CLASSIC, group), None)]


def _offset_changes(
    key: keys.AnyOffsetKey, value: object, offset: int, table: Table, producer_id: int | None
) -> list[RowChange]:
    rest = _place(key.topic, key.partition)
    if value is None:
        pending = table.rows(Row.PENDING, key.group)
        return [
            RowChange(RowKey(Row.OFFSET, key.group, rest), None),
            *(
                RowChange(RowKey(Row.PENDING, key.group, at), None)
                for at in pending
                if at[:2] == rest
            ),
        ]
    stored = StoredOffset(cast("OffsetCommitValue", value), offset)
    if producer_id is not None:
        return [RowChange(RowKey(Row.PENDING, key.group, (*rest, producer_id)), stored)]
    return [RowChange(RowKey(Row.OFFSET, key.group, rest), stored)]


@lru_cache(maxsize=1 << 12)
def _place(topic: str, partition: int) -> tuple[str, int]:
    """Return one object for equal places: a million groups may have read the same partitions."""
    return topic, partition


def changes_of_end(producer_id: int, commit: bool, table: Table) -> list[RowChange]:
    """Return what the end of a transaction changes: its offsets are pending no longer.

    A committed offset counts unless a record behind it in the log, which belongs to no transaction
    or to another one, counts already.
    """
    changes = []
    for group in table.groups(Row.PENDING):
        for rest, pending in table.rows(Row.PENDING, group).items():
            if rest[2] != producer_id:
                continue
            present = table.get(Row.OFFSET, group, *rest[:2])
            if commit and (present is None or present.record_offset < pending.record_offset):
                changes.append(RowChange(RowKey(Row.OFFSET, group, rest[:2]), pending))
            changes.append(RowChange(RowKey(Row.PENDING, group, rest), None))
    return changes


def _removals(table: Table, group: str) -> list[RowChange]:
    return [
        RowChange(RowKey(row, group, rest), None)
        for row in CONSUMER_ROWS
        for rest in table.rows(row, group)
    ]
