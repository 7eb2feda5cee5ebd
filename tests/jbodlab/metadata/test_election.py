"""Each step of an election, and what comes before it."""

from __future__ import annotations

from jbodlab.metadata.election import Candidates, Election, Members, completed, elect
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def won(
    election: Election = Election.ONLINE,
    *,
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    alive: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    degraded: tuple[int, ...] = (),
) -> tuple[int, bool]:
    return elect(
        Candidates(
            leader=BrokerId(leader),
            replicas=brokers(*replicas),
            isr=brokers(*isr),
            may_lead=lambda each: each in alive,
            elr=brokers(*elr),
            last_known_elr=brokers(*last_known),
            is_degraded=lambda each: each in degraded,
            should_leave=lambda each: each in degraded,
        ),
        election,
    )


def test_a_leader_that_may_lead_stays() -> None:
    assert won(leader=2) == (2, False)


def test_a_preferred_election_takes_the_first_replica() -> None:
    assert won(Election.PREFERRED, leader=2) == (1, False)
    assert won(Election.PREFERRED, leader=2, isr=(2, 3)) == (2, False)


def test_the_first_replica_in_sync_that_lives_follows() -> None:
    assert won(alive=(2, 3), isr=(3, 2, 1), replicas=(1, 3, 2)) == (3, False)


def test_eligible_replicas_count_only_where_nobody_is_in_sync() -> None:
    assert won(leader=-1, isr=(1,), elr=(2,), alive=(2, 3)) == (NO_LEADER, False)
    assert won(leader=-1, isr=(), elr=(3, 2), alive=(2, 3)) == (2, False)


def test_the_last_known_leader_is_believed_where_neither_isr_nor_elr_is_left() -> None:
    assert won(leader=-1, isr=(), last_known=(3,)) == (3, True)
    assert won(leader=-1, isr=(), last_known=(3,), alive=(1, 2)) == (NO_LEADER, False)
    assert won(leader=-1, isr=(), elr=(1,), last_known=(3,), alive=(3,)) == (NO_LEADER, False)
    assert won(leader=-1, isr=(), last_known=(2, 3)) == (NO_LEADER, False)


def test_outside_of_the_isr_a_leader_is_taken_only_where_that_is_allowed() -> None:
    assert won(isr=(1,), alive=(2, 3)) == (NO_LEADER, False)
    assert won(Election.UNCLEAN, isr=(1,), alive=(2, 3)) == (2, True)
    assert won(Election.UNCLEAN, isr=(1,), alive=(2, 3), degraded=(2,)) == (3, True)


def test_degraded_directories_are_passed_over_as_long_as_somebody_else_may_lead() -> None:
    assert won(degraded=(1,)) == (2, False)
    assert won(degraded=(1, 2, 3)) == (1, False)
    assert won(Election.PREFERRED, leader=2, degraded=(1,)) == (2, False)


def test_a_leader_that_is_no_replica_any_more_does_not_stay() -> None:
    assert won(leader=4, isr=(4, 2), alive=(2, 4)) == (2, False)


def test_a_reassignment_is_complete_when_all_that_stay_are_in_sync() -> None:
    running = Members(brokers(1, 4), brokers(4, 1, 2))
    assert completed(running, brokers(2)) == Members(brokers(1, 4), brokers(4, 1))
    assert completed(Members(brokers(1), brokers(4, 1, 2)), brokers(2)) is None
    assert completed(Members(brokers(2), brokers(2)), brokers(2)) is None
