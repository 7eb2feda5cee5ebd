from __future__ import annotations

from typing import Any

import pytest

from controller.decide.partitions.partition_change import KEEP, Wanted, partition_change
from controller.decide.state import LeaderTest
from jbodlab.metadata.election import Election
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import BrokerId, DirectoryId
from tests.builders import brokers, directories, directory, partition


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


def test_a_replica_in_an_offline_directory_does_not_win() -> None:
    foo = partition((1, 2), "A,B", leader=-1)

    record = partition_change(foo, KEEP, may_lead=may_lead(1, 2, offline="A"), metadata_version=30)

    assert record == change(leader=BrokerId(2))


def test_an_election_is_judged_by_the_directories_to_be() -> None:
    foo = partition((1,), "A", leader=-1)

    record = partition_change(
        foo,
        Wanted(directories={BrokerId(1): directory("B")}),
        may_lead=may_lead(1, offline="A"),
        metadata_version=30,
    )

    assert record == change(leader=BrokerId(1), directories=directories("B"))


def test_an_isr_is_never_written_empty() -> None:
    foo = partition((1, 2), "A,B", isr=(1,))

    record = partition_change(foo, Wanted(isr=()), may_lead=may_lead(2), metadata_version=30)

    assert record == change(leader=BrokerId(-1))


def test_the_order_of_the_isr_matters() -> None:
    foo = partition((1, 2), "A,B")

    record = partition_change(foo, Wanted(isr=brokers(2, 1)), may_lead=ALL, metadata_version=30)

    assert record == change(isr=brokers(2, 1))


@pytest.mark.parametrize(("level", "leader"), [(11, 1), (12, -2)])
def test_a_shrinking_isr_raises_the_leader_epoch_only_at_old_levels(
    level: int, leader: int
) -> None:
    foo = partition((1, 2), "MIGRATING,MIGRATING")

    record = partition_change(foo, Wanted(isr=brokers(1)), may_lead=ALL, metadata_version=level)

    assert record == change(isr=brokers(1), leader=BrokerId(leader))


def test_a_removed_replica_raises_the_leader_epoch() -> None:
    foo = partition((1, 2), "A,B", isr=(1,))

    record = partition_change(foo, Wanted(replicas=brokers(1)), may_lead=ALL, metadata_version=30)

    assert record == change(replicas=brokers(1), leader=BrokerId(1), directories=directories("A"))


def test_reordered_replicas_carry_their_directories_along() -> None:
    foo = partition((1, 2), "A,B")

    record = partition_change(
        foo, Wanted(replicas=brokers(2, 1)), may_lead=ALL, metadata_version=30
    )

    assert record == change(replicas=brokers(2, 1), directories=directories("B,A"))


def test_new_replicas_get_the_default_directory() -> None:
    foo = partition((1, 2), "A,B")

    record = partition_change(
        foo,
        Wanted(replicas=brokers(1, 2, 3), adding=brokers(3)),
        may_lead=ALL,
        metadata_version=30,
        new_directory=lambda broker_id: directory(f"N{broker_id}"),
    )

    assert record == change(
        replicas=brokers(1, 2, 3), adding_replicas=brokers(3), directories=directories("A,B,N3")
    )


def test_below_jbod_no_directories_are_written() -> None:
    foo = partition((1,), "MIGRATING")

    record = partition_change(
        foo, Wanted(replicas=brokers(1, 2)), may_lead=ALL, metadata_version=16
    )

    assert record == change(replicas=brokers(1, 2))


def test_a_reassignment_completes_when_every_target_is_in_sync() -> None:
    foo = partition(
        (3, 2, 1),
        "C,B,A",
        isr=(1,),
        removing_replicas=brokers(1),
        adding_replicas=brokers(2, 3),
    )

    waiting = partition_change(foo, Wanted(isr=brokers(1, 3)), may_lead=ALL, metadata_version=30)
    complete = partition_change(
        foo, Wanted(isr=brokers(1, 2, 3)), may_lead=ALL, metadata_version=30
    )

    assert waiting == change(isr=brokers(1, 3))
    assert complete == change(
        isr=brokers(2, 3),
        leader=BrokerId(3),
        replicas=brokers(3, 2),
        removing_replicas=(),
        adding_replicas=(),
        directories=directories("C,B"),
    )


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
