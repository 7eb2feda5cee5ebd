from __future__ import annotations

from jbodlab.metadata.eligible_replicas import (
    eligible_replicas,
    elr_after_election,
    last_known_leader,
)
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from tests.builders import brokers


def partition(
    isr: tuple[int, ...], *, leader: int = 1, elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=brokers(1, 2, 3),
        directories=(),
        isr=brokers(*isr),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        elr=brokers(*elr),
        last_known_elr=brokers(*last),
    )


def test_who_leaves_an_isr_below_the_minimum_is_eligible() -> None:
    assert eligible_replicas(partition((1, 2)), brokers(1), 2) == (2,)
    assert eligible_replicas(partition((1,), elr=(2,)), (), 2) == (1, 2)
    assert eligible_replicas(partition((1, 2, 3)), brokers(1, 2), 2) == ()


def test_an_isr_of_the_minimum_ends_all_eligibility() -> None:
    assert eligible_replicas(partition((1,), elr=(2, 3)), brokers(1, 2), 2) == ()
    assert eligible_replicas(partition((1,), elr=(2, 3)), brokers(1, 2), 3) == (3,)


def test_the_minimum_counts_up_to_the_number_of_replicas() -> None:
    assert eligible_replicas(partition((1, 2)), brokers(1, 2, 3), 5) == ()
    assert eligible_replicas(partition((1, 2, 3)), brokers(1, 2), 5) == (3,)


def test_who_may_lack_records_is_not_eligible() -> None:
    assert eligible_replicas(partition((1, 2), elr=(3,)), brokers(1), 3, brokers(2)) == (3,)
    assert eligible_replicas(partition((1,), elr=(2, 3)), brokers(1), 2, brokers(2)) == (3,)


def test_without_the_feature_nobody_is_eligible() -> None:
    assert eligible_replicas(partition((1,), elr=(2,)), (), None) == ()


def test_an_eligible_winner_is_alone_in_sync() -> None:
    elr, isr = elr_after_election(brokers(2, 3), (), BrokerId(3), is_unclean=False)
    assert (elr, isr) == ((2,), (3,))


def test_beside_an_unclean_winner_nobody_is_eligible() -> None:
    elr, isr = elr_after_election(brokers(2), (), BrokerId(3), is_unclean=True)
    assert (elr, isr) == ((), (3,))


def test_the_last_leader_is_kept_until_there_is_another() -> None:
    assert last_known_leader(partition((1,)), (), (), NO_LEADER) == (1,)
    kept = partition((), leader=-1, elr=(1, 2), last=(1,))
    assert last_known_leader(kept, kept.last_known_elr, (), NO_LEADER) == (1,)
    assert last_known_leader(kept, kept.last_known_elr, brokers(2), BrokerId(2)) == ()


def test_who_stayed_in_the_isr_without_leading_was_the_last_leader() -> None:
    assert last_known_leader(partition((2,), leader=-1), (), (), NO_LEADER) == (2,)
