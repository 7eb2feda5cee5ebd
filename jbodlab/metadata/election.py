"""Who leads a partition: the election of a KRaft controller as one pure function.

Whoever asks gives the replicas as they will be (`Candidates`) and a test of who may lead at all,
and gets the winner. The order of the steps is that of the field's `PartitionChangeBuilder`:

1. the preferred replica, if it is asked for and may lead;
2. the leader, if it still may lead;
3. the first replica, in the order of assignment, that is in sync and may lead; where nobody is in
   sync, the first that is an eligible leader replica (ELR);
4. where neither ISR nor ELR has a member left, the last known leader, if it may lead;
5. where an unclean election is allowed, the first replica that may lead.

Beyond Kafka, every step passes over replicas in degraded directories as long as somebody else may
win it, and a leader that should leave such a directory is treated so, too.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-455, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from jbodlab.vocabulary.ids import NO_LEADER, BrokerId


class Election(Enum):
    """Who is preferred, and who may win."""

    ONLINE = auto()
    """The current leader if it still may lead, else the first of the ISR that may."""
    PREFERRED = auto()
    """The first replica if it may lead and its directory is not degraded, else as ONLINE."""
    UNCLEAN = auto()
    """As ONLINE; if nobody of the ISR may lead, any replica that may."""


class Winner(NamedTuple):
    """Who leads, or NO_LEADER, and whether records may be lost by it."""

    leader: BrokerId
    is_unclean: bool


class Members(NamedTuple):
    """Replicas, and those of them that are in sync."""

    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]


def _nobody(_: BrokerId) -> bool:
    return False


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it will be, but for its leader.

    Attributes:
        leader: Who has led so far, or NO_LEADER.
        replicas: In the order of assignment.
        isr: Members in sync.
        may_lead: Whether a broker is active and the replica's directory online.
        elr: Eligible leader replicas; empty where the cluster has none.
        last_known_elr: Members that the ELR had before it was lost; empty where they do not count.
        is_degraded: Whether a replica lies where others should rather lead from.
        should_leave: Whether a leader should give way because of that.
    """

    leader: BrokerId
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    may_lead: Callable[[BrokerId], bool]
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    is_degraded: Callable[[BrokerId], bool] = _nobody
    should_leave: Callable[[BrokerId], bool] = _nobody

    def may_win(self, replica: BrokerId) -> bool:
        """Return whether a replica can lead without the loss of a record."""
        members = self.isr or self.elr
        return replica in self.replicas and replica in members and self.may_lead(replica)

    def is_good(self, replica: BrokerId) -> bool:
        """Return whether that is so, and nobody else would be better."""
        return self.may_win(replica) and not self.is_degraded(replica)


def elect(partition: Candidates, election: Election) -> Winner:
    """Return who leads a partition.

    Args:
        partition: Replicas and ISR as they will be after the change, with the present leader.
        election: How a leader is chosen.
    """
    replicas, leader = partition.replicas, partition.leader
    if election is Election.PREFERRED and replicas and partition.is_good(replicas[0]):
        return Winner(replicas[0], is_unclean=False)
    may_stay = leader != NO_LEADER and partition.may_win(leader)
    if may_stay and not partition.should_leave(leader):
        return Winner(leader, is_unclean=False)
    for replica in replicas:
        if partition.is_good(replica):
            return Winner(replica, is_unclean=False)
    if may_stay:
        return Winner(leader, is_unclean=False)
    for replica in replicas:
        if partition.may_win(replica):
            return Winner(replica, is_unclean=False)
    if not partition.isr and not partition.elr and len(partition.last_known_elr) == 1:
        (last,) = partition.last_known_elr
        if partition.may_lead(last):
            return Winner(last, is_unclean=True)
    if election is Election.UNCLEAN:
        able = [replica for replica in replicas if partition.may_lead(replica)]
        if able:
            return Winner(min(able, key=partition.is_degraded), is_unclean=True)
    return Winner(NO_LEADER, is_unclean=False)


def completed(members: Members, removing: tuple[BrokerId, ...]) -> Members | None:
    """Return what a reassignment ends with; None if it is not complete yet.

    It is complete when every replica that shall stay is in sync.

    Args:
        members: Replicas and ISR while it runs.
        removing: Replicas that shall go.
    """
    isr = tuple(member for member in members.isr if member not in removing)
    replicas = tuple(replica for replica in members.replicas if replica not in removing)
    if not isr or not replicas or any(replica not in isr for replica in replicas):
        return None
    return Members(isr, replicas)
