from __future__ import annotations

from typing import Any

import pytest

from controller.decide.partitions.partition_change import KEEP, Wanted, partition_change
from controller.decide.state import LeaderTest
from jbodlab.metadata.election import Election
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import BrokerId, DirectoryId
from tests.builders import brokers, directories, partition


def may_lead(*live: int, offline: str = "") -> LeaderTest:
    dead = directories(offline)

    def is_acceptable(broker_id: BrokerId, held_in: DirectoryId) -> bool:
        return broker_id in live and held_in not in dead

    return is_acceptable


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=partition((1,), "A").topic_id, **fields)


ALL = may_lead(1, 2, 3)


def test_nothing_wanted_and_a_valid_leader_make_no_record() -> None:
    foo = partition((1, 2), "A,B")

    assert partition_change(foo, KEEP, may_lead=ALL, metadata_version=30) is None


@pytest.mark.parametrize(
    ("live", "isr", "election", "expected"),
    [
        # The current leader 2 stays if it may lead.
        ((1, 2, 3), (1, 2, 3), Election.ONLINE, None),
        ((1, 2, 3), (1, 2, 3), Election.UNCLEAN, None),
        ((1, 2, 3), (1, 2, 3), Election.PREFERRED, change(leader=BrokerId(1))),
        # Else the first replica of the ISR that may lead, in the order of replicas.
        ((1, 3), (3, 1, 2), Election.ONLINE, change(leader=BrokerId(1))),
        ((1, 3), (3, 2), Election.ONLINE, change(leader=BrokerId(3))),
        ((1, 3), (3, 2), Election.PREFERRED, change(leader=BrokerId(3))),
        # A preferred election does not disturb a good leader for a third replica.
        ((2, 3), (1, 2, 3), Election.PREFERRED, None),
        # Nobody of the ISR may lead.
        ((1, 3), (2,), Election.ONLINE, change(leader=BrokerId(-1))),
        ((1, 3), (2,), Election.PREFERRED, change(leader=BrokerId(-1))),
        (
            (1, 3),
            (2,),
            Election.UNCLEAN,
            change(leader=BrokerId(1), isr=brokers(1), leader_recovery_state=1),
        ),
        ((), (2,), Election.UNCLEAN, change(leader=BrokerId(-1))),
    ],
)
def test_elections(
    live: tuple[int, ...],
    isr: tuple[int, ...],
    election: Election,
    expected: PartitionChangeRecord | None,
) -> None:
    foo = partition((1, 2, 3), "A,B,C", isr=isr, leader=2)

    record = partition_change(
        foo, KEEP, may_lead=may_lead(*live), metadata_version=30, election=election
    )

    assert record == expected


def test_an_isr_is_never_written_empty() -> None:
    foo = partition((1, 2), "A,B", isr=(1,))

    record = partition_change(foo, Wanted(isr=()), may_lead=may_lead(2), metadata_version=30)

    assert record == change(leader=BrokerId(-1))


def test_a_partition_that_recovers_already_does_not_say_so_again() -> None:
    foo = partition((1, 2), "A,B", isr=(1,), leader_recovery_state=1)

    record = partition_change(
        foo, KEEP, may_lead=may_lead(2), metadata_version=30, election=Election.UNCLEAN
    )

    assert record == change(leader=BrokerId(2), isr=brokers(2))


def test_an_elr_found_in_the_log_is_cleared() -> None:
    foo = partition((1, 2), "A,B", isr=(1,), elr=brokers(2))

    record = partition_change(foo, Wanted(isr=brokers(1, 2)), may_lead=ALL, metadata_version=30)

    assert record == change(isr=brokers(1, 2), eligible_leader_replicas=())
