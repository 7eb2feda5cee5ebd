"""Outcome of the loss of one replica for its partition, as Kafka's controller elects."""

from __future__ import annotations

import pytest

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import PartitionRecord
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId
from jbodlab.what_if.loss import Rules, without_replica

Told = tuple[int, tuple[int, ...], tuple[int, ...], bool]
"""Leader, ISR and ELR afterwards, and whether the election was unclean."""


def told(
    alive: str,
    *,
    isr: str = "123",
    replicas: str = "123",
    leader: int = 1,
    elr: str = "",
    **rules: int,
) -> Told:
    """Lose the replica of broker 1; brokers are digits."""
    state = PartitionRegistration.from_record(
        PartitionRecord(
            replicas=brokers(replicas),
            isr=brokers(isr),
            leader=BrokerId(leader),
            eligible_leader_replicas=brokers(elr),
        )
    )
    known = {"min_isr": 1, "has_elr": False, "unclean_election": False} | rules
    found = without_replica(
        state,
        BrokerId(1),
        Rules(may_lead=lambda each: each in brokers(alive), **known),  # type: ignore[arg-type]
    )
    return found.leader, found.isr, found.elr, found.is_unclean


def brokers(digits: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(one)) for one in digits)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(*case, id=rule)
        for rule, *case in (
            (
                "a leader that lives keeps leading",
                told("23", leader=2),
                (2, (2, 3), (), False),
            ),
            (
                "the first replica in sync that lives takes over",
                told("23", replicas="132"),
                (3, (2, 3), (), False),
            ),
            ("a fenced one does not", told("2", replicas="132"), (2, (2, 3), (), False)),
            (
                "the last in sync stays there without leading",
                told("23", isr="1"),
                (NO_LEADER, (1,), (), False),
            ),
            ("with ELR it leaves", told("23", isr="1", has_elr=1), (NO_LEADER, (), (), False)),
            (
                "an unclean election takes the one that lives",
                told("3", isr="1", unclean_election=1),
                (3, (3,), (), True),
            ),
            (
                "a lost replica is not eligible",
                told("23", isr="12", min_isr=2, has_elr=1),
                (2, (2,), (), False),
            ),
            (
                "an eligible replica takes over from the last in sync",
                told("23", isr="1", elr="23", min_isr=2, has_elr=1),
                (2, (2,), (3,), False),
            ),
            (
                "the next eligible one if it lives",
                told("3", isr="1", elr="23", min_isr=2, has_elr=1),
                (3, (3,), (2,), False),
            ),
            (
                "without a living one they stay eligible",
                told("", isr="1", elr="23", min_isr=2, has_elr=1),
                (NO_LEADER, (), (2, 3), False),
            ),
        )
    ],
)
def test_a_lost_replica_is_followed_by(found: Told, expected: Told) -> None:
    assert found == expected
