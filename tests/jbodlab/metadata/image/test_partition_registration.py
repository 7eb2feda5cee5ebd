"""The merge of a partition change: where epochs rise, and what happens to directories."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import msgspec
import pytest

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from jbodlab.vocabulary.directory_id import MIGRATING, UNASSIGNED
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
D1, D2, D3 = (DirectoryId(UUID(int=number << 100)) for number in (1, 2, 3))
TOPIC = TopicId(UUID(int=1 << 70))

STATE = PartitionRegistration(
    replicas=(B1, B2),
    directories=(D1, D2),
    isr=(B1, B2),
    leader=B1,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(9),
)


def epochs(state: PartitionRegistration) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch


def test_change_without_a_leader_raises_only_the_partition_epoch() -> None:
    changed = STATE.merge(PartitionChangeRecord(isr=(B1,)))

    assert changed == replace(STATE, isr=(B1,), partition_epoch=PartitionEpoch(10))


def test_change_of_nothing_raises_the_partition_epoch() -> None:
    assert epochs(STATE.merge(PartitionChangeRecord())) == (4, 10)


def test_naming_the_same_leader_raises_the_leader_epoch() -> None:
    changed = STATE.merge(PartitionChangeRecord(leader=B1))

    assert changed.leader == B1
    assert epochs(changed) == (5, 10)


def test_losing_the_leader_raises_the_leader_epoch() -> None:
    changed = STATE.merge(PartitionChangeRecord(leader=NO_LEADER))

    assert changed.leader == NO_LEADER
    assert epochs(changed) == (5, 10)


def test_lists_are_replaced_also_by_empty_ones() -> None:
    moving = replace(
        STATE, removing_replicas=(B1,), adding_replicas=(B3,), elr=(B2,), last_known_elr=(B1,)
    )

    changed = moving.merge(
        PartitionChangeRecord(
            isr=(),
            removing_replicas=(),
            adding_replicas=(),
            eligible_leader_replicas=(),
            last_known_elr=(),
        )
    )

    assert changed == replace(STATE, isr=(), partition_epoch=PartitionEpoch(10))


def test_recovery_state_changes_unless_minus_one() -> None:
    recovering = STATE.merge(PartitionChangeRecord(leader_recovery_state=1))

    assert recovering.leader_recovery_state == 1
    assert recovering.merge(PartitionChangeRecord()).leader_recovery_state == 1
    assert recovering.merge(PartitionChangeRecord(leader_recovery_state=0)) == replace(
        STATE, partition_epoch=PartitionEpoch(11)
    )


def test_directories_follow_the_record() -> None:
    changed = STATE.merge(PartitionChangeRecord(directories=(D3, UNASSIGNED)))

    assert changed.directories == (D3, UNASSIGNED)
    assert changed.directory(B1) == D3
    assert epochs(changed) == (4, 10)


def test_new_replicas_need_directories_where_they_are_known() -> None:
    with pytest.raises(ReplayError, match="expected 3 directories"):
        STATE.merge(PartitionChangeRecord(replicas=(B1, B2, B3)))
    changed = STATE.merge(
        PartitionChangeRecord(replicas=(B1, B2, B3), directories=(D1, D2, UNASSIGNED))
    )
    assert changed.directories == (D1, D2, UNASSIGNED)
    with pytest.raises(ReplayError):
        STATE.merge(PartitionChangeRecord(directories=(D1,)))


def test_migrating_directories_fit_any_number_of_replicas() -> None:
    migrating = replace(STATE, directories=(MIGRATING, MIGRATING))

    grown = migrating.merge(PartitionChangeRecord(replicas=(B1, B2, B3)))
    emptied = STATE.merge(PartitionChangeRecord(directories=()))

    assert grown.directories == (MIGRATING,) * 3
    assert emptied.directories == (MIGRATING,) * 2


def test_record_without_directories_means_migrating() -> None:
    record = PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=(B1, B2), isr=(B1,))

    state = PartitionRegistration.from_record(record)

    assert state.directories == (MIGRATING, MIGRATING)
    assert (state.elr, state.last_known_elr) == ((), ())
    with pytest.raises(ReplayError):
        PartitionRegistration.from_record(msgspec.structs.replace(record, directories=(D1,)))


def test_record_of_a_state_establishes_it_again() -> None:
    state = replace(STATE, elr=(B2,), leader_recovery_state=1, adding_replicas=(B2,))

    record = state.to_record(TOPIC, 7)

    assert (record.partition_id, record.topic_id) == (7, TOPIC)
    assert record.last_known_elr is None
    assert PartitionRegistration.from_record(record) == state


def test_directory_of_a_broker_without_a_replica_is_an_error() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        STATE.directory(B3)


def test_clearing_the_elr_raises_the_partition_epoch_only_where_there_was_one() -> None:
    known = replace(STATE, last_known_elr=(B1,))

    assert STATE.without_elr() is STATE
    assert known.without_elr() == replace(STATE, partition_epoch=PartitionEpoch(10))


@pytest.mark.parametrize(
    ("replicas", "adding", "rest", "empty"),
    [
        ("1", "", False, False),
        ("12", "", True, True),
        ("21", "2", False, True),
        ("213", "2", True, True),
    ],
)
def test_a_replica_that_is_only_being_added_has_no_more_than_one_with_records(
    replicas: str, adding: str, rest: bool, empty: bool
) -> None:
    state = replace(
        STATE,
        replicas=tuple(BrokerId(int(each)) for each in replicas),
        adding_replicas=tuple(BrokerId(int(each)) for each in adding),
    )
    assert state.others_may_have_more() is rest
    assert state.others_may_have_more(is_empty=True) is empty
