"""What becomes of a partition when one of its replicas is lost now.

The election of a controller, as far as a loss needs it: the leader stays if it may; else the first
replica in the ISR that may lead; with eligible leader replicas (ELR) and nobody in sync, the first
of these; where the topic allows it, any replica that lives. The last member of an ISR stays in it
without leading, or becomes an eligible leader replica.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jbodlab.ids import NO_LEADER, BrokerId
from jbodlab.image.partition_registration import PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides besides the partition itself."""

    may_lead: Callable[[BrokerId], bool]
    """Whether a broker is active and its replica's directory online, after the loss."""
    min_isr: int
    """Effective `min.insync.replicas`, not more than the partition has replicas."""
    has_elr: bool
    unclean_election: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The partition afterwards."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    is_unclean: bool


def without_replica(state: PartitionRegistration, lost: BrokerId, rules: Rules) -> Outcome:
    """Return what a partition is after the loss of a replica.

    Args:
        state: The partition before.
        lost: Broker of the replica.
        rules: Who may lead, and what is set.
    """
    isr = tuple(broker for broker in state.isr if broker != lost)
    replicas = state.replicas
    if state.removing_replicas or state.adding_replicas:
        isr, replicas = _completed(state, isr)
    elr: tuple[BrokerId, ...] = ()
    if rules.has_elr and len(isr) < rules.min_isr:
        elr = tuple(
            broker for broker in dict.fromkeys((*state.elr, *state.isr)) if broker not in isr
        )

    def is_valid(broker: BrokerId) -> bool:
        return rules.may_lead(broker) and (broker in isr or (not isr and broker in elr))

    for broker in (state.leader, *replicas):
        if broker != NO_LEADER and broker in replicas and is_valid(broker):
            if not isr:
                return _outcome(broker, (broker,), tuple(e for e in elr if e != broker))
            return _outcome(broker, isr, elr)
    if rules.has_elr and not isr and not elr and len(state.last_known_elr) == 1:
        last = state.last_known_elr[0]
        if rules.may_lead(last):
            return Outcome(leader=last, isr=(last,), elr=(), is_unclean=True)
    if rules.unclean_election:
        for broker in replicas:
            if rules.may_lead(broker):
                return Outcome(leader=broker, isr=(broker,), elr=(), is_unclean=True)
    if not isr and not rules.has_elr:
        isr = state.isr  # nobody else has its records
    return _outcome(NO_LEADER, isr, elr)


def _completed(
    state: PartitionRegistration, isr: tuple[BrokerId, ...]
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """Return ISR and replicas; a reassignment whose replicas are all in sync ends."""
    replicas = tuple(each for each in state.replicas if each not in state.removing_replicas)
    staying = tuple(each for each in isr if each not in state.removing_replicas)
    if staying and replicas and all(each in staying for each in replicas):
        return staying, replicas
    return isr, state.replicas


def _outcome(leader: BrokerId, isr: tuple[BrokerId, ...], elr: tuple[BrokerId, ...]) -> Outcome:
    return Outcome(leader=leader, isr=isr, elr=elr, is_unclean=False)
