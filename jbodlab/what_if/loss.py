"""Fate of a partition when one of its replicas is lost now.

The leader then is decided by `jbodlab.metadata.election`, and eligible replicas by
`jbodlab.metadata.eligible_replicas`, as in a controller. Without eligible leader replicas (ELR) the
last member of an ISR stays in it without leading. With them the ISR becomes empty, and the lost
replica is not eligible: what its directory contains when it returns is not known.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jbodlab.metadata.election import Candidates, Election, Members, completed, elect
from jbodlab.metadata.eligible_replicas import eligible_replicas, elr_after_election
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId

UNCLEAN_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules that decide besides the partition itself."""

    may_lead: Callable[[BrokerId], bool]
    """Whether a broker is active and its replica's directory online, after the loss."""
    min_isr: int
    """Effective `min.insync.replicas`, not more than the partition has replicas."""
    has_elr: bool
    unclean_election: bool
    is_degraded: Callable[[BrokerId], bool] = lambda _: False
    """Whether a broker's replica is in a directory that others should lead from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The partition afterwards."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    is_unclean: bool

    def applied(self, before: PartitionRegistration) -> PartitionRegistration:
        """Return the partition with leader, ISR and ELR as they are afterwards."""
        return replace(before, leader=self.leader, isr=self.isr, elr=self.elr)


def without_replica(state: PartitionRegistration, lost: BrokerId, rules: Rules) -> Outcome:
    """Return what a partition is after the loss of a replica.

    Args:
        state: The partition before.
        lost: Broker of the replica.
        rules: The rules that decide besides the partition.
    """
    isr = tuple(broker for broker in state.isr if broker != lost)
    replicas = state.replicas
    if state.removing_replicas or state.adding_replicas:
        isr, replicas = completed(Members(isr, replicas), state.removing_replicas) or (
            isr,
            replicas,
        )
    elr = eligible_replicas(state, isr, rules.min_isr if rules.has_elr else None, (lost,))
    winner = elect(
        Candidates(
            leader=state.leader,
            replicas=replicas,
            isr=isr,
            may_lead=rules.may_lead,
            elr=elr,
            last_known_elr=state.last_known_elr if rules.has_elr else (),
            is_degraded=rules.is_degraded,
        ),
        Election.UNCLEAN if rules.unclean_election else Election.ONLINE,
    )
    leader = winner.leader
    elr, isr = elr_after_election(elr, isr, leader, is_unclean=winner.is_unclean)
    if not isr and not rules.has_elr:
        isr = state.isr  # nobody else has its records
    return Outcome(leader=leader, isr=isr, elr=elr, is_unclean=winner.is_unclean)


def is_leaderless(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Return whether nobody leads afterwards, where somebody does now."""
    return after.leader == NO_LEADER != before.leader


def falls_below_min_isr(
    before: PartitionRegistration, after: PartitionRegistration, min_isr: int
) -> bool:
    """Return whether too few replicas are in sync afterwards, and enough now."""
    return len(after.isr) < min_isr <= len(before.isr)
