"""Effect of the loss of replicas on partitions that differ in nothing but who their replicas are.

A replica is known by its place in the list of replicas, from 0 on. There are few kinds, however
many partitions there are, so the rule (`loss`) is asked once for each kind and what it loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from jbodlab.what_if.loss import Rules, falls_below_min_isr, is_leaderless, without_replica

NOBODY = -1
"""The place of a leader where nobody leads."""

_STRANGER = BrokerId(2**31 - 1)


class PartitionKind(NamedTuple):
    """A partition without the names of its brokers.

    Attributes:
        replicas: How many there are.
        leader: Place of the leader; NOBODY where nobody leads, `replicas` where the leader is none
            of the replicas.
        isr: The places in sync, as bits; likewise `elr`, `last_known_elr`, `adding`, `removing`,
            `alive` (the broker is active and the directory online) and `degraded` (the directory
            is one that others should lead from).
        min_isr: Effective `min.insync.replicas`, not more than there are replicas.
    """

    replicas: int
    leader: int
    isr: int
    alive: int
    min_isr: int
    has_elr: bool = False
    unclean_election: bool = False
    elr: int = 0
    last_known_elr: int = 0
    adding: int = 0
    removing: int = 0
    degraded: int = 0


class Effect(NamedTuple):
    """Effect of a loss on a partition.

    Attributes:
        leader: Place of the leader afterwards, or NOBODY.
        isr: Places in sync afterwards, in the order of the record.
        moves_leader: Whether another replica leads then.
        leaderless: Whether nobody leads then, where somebody does now.
        below_min_isr: Whether too few replicas are in sync then, and enough now.
        last_copy: Whether what is lost held all acknowledged records, and no replica that is left.
        unclean: Whether who leads then may lack acknowledged records.
    """

    leader: int
    isr: tuple[int, ...]
    moves_leader: bool
    leaderless: bool
    below_min_isr: bool
    last_copy: bool
    unclean: bool


def effect(kind: PartitionKind, lost: Sequence[int]) -> Effect:
    """Return what the loss of replicas, one after the other, does to a partition.

    Args:
        kind: The partition.
        lost: Places of the replicas; at least one.
    """
    before = after = _state(kind)
    is_unclean = False
    gone = 0
    for place in lost:
        gone |= 1 << place
        able = frozenset(_places(kind.alive & ~gone))
        outcome = without_replica(
            after,
            BrokerId(place),
            Rules(
                may_lead=able.__contains__,
                min_isr=kind.min_isr,
                has_elr=kind.has_elr,
                unclean_election=kind.unclean_election,
                is_degraded=frozenset(_places(kind.degraded)).__contains__,
            ),
        )
        is_unclean = is_unclean or outcome.is_unclean
        after = outcome.applied(after)
    complete = kind.isr | kind.elr
    is_moved = after.leader not in (before.leader, NO_LEADER)
    return Effect(
        leader=after.leader,
        isr=after.isr,
        moves_leader=is_moved,
        leaderless=is_leaderless(before, after),
        below_min_isr=falls_below_min_isr(before, after, kind.min_isr),
        last_copy=bool(complete & gone) and not complete & kind.alive & ~gone,
        unclean=is_moved and is_unclean,
    )


def _state(kind: PartitionKind) -> PartitionRegistration:
    """Return a partition whose brokers are numbered by their places."""
    if kind.leader == NOBODY:
        leader = NO_LEADER
    else:
        leader = _STRANGER if kind.leader == kind.replicas else BrokerId(kind.leader)
    return PartitionRegistration(
        replicas=tuple(map(BrokerId, range(kind.replicas))),
        directories=(),
        isr=_places(kind.isr),
        removing_replicas=_places(kind.removing),
        adding_replicas=_places(kind.adding),
        leader=leader,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        elr=_places(kind.elr),
        last_known_elr=_places(kind.last_known_elr),
    )


def _places(bits: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(at) for at in range(bits.bit_length()) if bits >> at & 1)
