"""Changes by records: the two tables, transactions, and the records that compaction may leave."""

from __future__ import annotations

import random
from itertools import product

import pytest

from broker.groups.replay import StoredOffset, changes_of
from broker.groups.state import GroupKind, kind_of
from broker.groups.tables import Row, RowChange, RowKey, Table, Tables
from jbodlab.group_records import keys, values
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import GroupMetadataMember, GroupMetadataValue, OffsetCommitValue
from tests.broker.groups.bench import Bench, compacted, table_of

OFFSET = keys.OffsetCommitKey(group="g", topic="t", partition=0)
ROW = RowKey(Row.OFFSET, "g", ("t", 0))
GROUP = keys.GroupMetadataKey(group="g")
CLASSIC = GroupMetadataValue(protocol_type="consumer", generation=1)
EPOCH = keys.ConsumerGroupMetadataKey(group_id="g")
CONSUMER_RECORDS = tuple(
    GroupRecord(key, value)
    for key, value in (
        (EPOCH, values.ConsumerGroupMetadataValue(epoch=1)),
        (
            keys.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            values.ConsumerGroupMemberMetadataValue(client_id="c"),
        ),
        (
            keys.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            values.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=1),
        ),
        (
            keys.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
            values.ConsumerGroupTargetAssignmentMemberValue(),
        ),
        (
            keys.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            values.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1),
        ),
        (
            keys.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*"),
            values.ConsumerGroupRegularExpressionValue(topics=("ab",)),
        ),
    )
)


def committed_at(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, commit_timestamp=1)


def test_committed_follows_the_high_watermark() -> None:
    tables = Tables()
    tables.write(2, [RowChange(ROW, 1), RowChange(ROW, 2)])
    tables.write(3, [RowChange(ROW, 3)])

    seen = []
    for high_watermark in range(4):
        tables.committed_up_to(high_watermark)
        seen.append(tables.committed.get(*ROW[:2], *ROW.rest))

    assert tables.written.get(Row.OFFSET, "g", "t", 0) == 3
    assert seen == [None, None, 2, 3]


def test_observers_hear_of_changes_alone() -> None:
    table = Table()
    heard: list[object] = []
    table.observers.append(lambda *change: heard.append(change))

    table.apply([RowChange(ROW, 1), RowChange(ROW, None), RowChange(ROW, None)])

    assert heard == [(ROW, None, 1), (ROW, 1, None)]
    assert table == Table()


def test_offset_of_an_old_broker_is_one() -> None:
    key = keys.LegacyOffsetCommitKey(group="g", topic="t", partition=0)

    table = table_of([(5, GroupRecord(key, committed_at(7)))])

    assert table.get(Row.OFFSET, "g", "t", 0) == StoredOffset(committed_at(7), 5)


def test_tombstones_of_what_is_not_known_change_nothing() -> None:
    log = [GroupRecord(key, None) for key in (OFFSET, GROUP)]
    log += [record._replace(value=None) for record in CONSUMER_RECORDS]

    assert table_of(list(enumerate(log))) == Table()


def test_partition_metadata_of_older_brokers_changes_nothing() -> None:
    key = keys.ConsumerGroupPartitionMetadataKey(group_id="g")
    record = GroupRecord(key, values.ConsumerGroupPartitionMetadataValue())

    assert table_of([(0, record)]) == Table()


@pytest.mark.parametrize("record", CONSUMER_RECORDS, ids=lambda each: type(each.key).__name__)
def test_newer_kind_of_record_wins(record: GroupRecord) -> None:
    classic = GroupRecord(GROUP, CLASSIC)

    upgraded = table_of([(0, classic), (1, record)])
    downgraded = table_of([(0, record), (1, classic)])

    assert upgraded == table_of([(1, record)])
    assert downgraded == table_of([(1, classic)])
    assert kind_of(downgraded, "g") is GroupKind.CLASSIC


def test_offsets_before_their_group_are_those_of_a_simple_one() -> None:
    log = [(0, GroupRecord(OFFSET, committed_at(1)))]
    assert kind_of(table_of(log), "g") is GroupKind.CLASSIC

    log.append((1, CONSUMER_RECORDS[0]))
    assert kind_of(table_of(log), "g") is GroupKind.CONSUMER
    assert table_of(log).get(Row.OFFSET, "g", "t", 0).value.offset == 1


def test_tombstone_of_an_offset_drops_pending_ones() -> None:
    shard = Bench().shard
    shard.replay(GroupRecord(OFFSET, committed_at(1)), 0, 1, 7)

    shard.replay(GroupRecord(OFFSET, None), 1, 2)

    assert shard.tables.written == Table()


@pytest.mark.parametrize("seed", range(40))
def test_load_after_compaction_gives_the_same_state(seed: int) -> None:
    """Tombstones may be gone as well, once what they take away is."""
    rng = random.Random(seed)
    stored = GroupMetadataValue(generation=2, members=(GroupMetadataMember(member_id="m"),))
    choices = [
        *(GroupRecord(OFFSET, value) for value in (committed_at(1), committed_at(2), None)),
        *(GroupRecord(GROUP, value) for value in (CLASSIC, stored, None)),
        *CONSUMER_RECORDS,
        *(record._replace(value=None) for record in CONSUMER_RECORDS),
    ]
    log: list[tuple[int, GroupRecord]] = []
    for _ in range(20):
        record = rng.choice(choices)
        # A coordinator takes one kind of group away before it writes the other.
        if record.value is not None and record.key is not OFFSET:
            others = [GroupRecord(GROUP, None)]
            if record.key is GROUP:
                others = [each._replace(value=None) for each in CONSUMER_RECORDS]
            log += [(len(log) + at, each) for at, each in enumerate(others)]
        log.append((len(log), record))
    whole = table_of(log)

    for below in range(len(log) + 1):
        left = compacted(log, below)
        assert table_of(left) == whole
        without = [each for each in left if each[0] >= below or each[1].value is not None]
        assert table_of(without) == whole


def test_every_kind_of_row_is_known() -> None:
    kinds = {Row.OFFSET, Row.CLASSIC, Row.PENDING}
    assert kinds | {
        change.key.row
        for record, at in product(CONSUMER_RECORDS, range(1))
        for change in changes_of(record, at, Table())
    } == set(Row)
