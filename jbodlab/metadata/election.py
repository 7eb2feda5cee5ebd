"""Leader election of a partition, as a KRaft controller does it, in one pure function.

The caller passes the replicas as they will be after the change (`Candidates`), with a test whether
a broker may lead, and gets the winner. The order of the steps is that of Kafka's
`PartitionChangeBuilder`:

1. the preferred replica, if the election is for it and it may lead;
2. the leader, if it still may lead;
3. the first replica, in the order of assignment, that is in sync and may lead; if no replica is in
   sync, the first eligible leader replica (ELR) that may lead;
4. if both ISR and ELR are empty, the last known leader, if it may lead;
5. if an unclean election is allowed, the first replica that may lead.

Beyond Kafka, every step skips replicas in degraded directories as long as another replica may win
it; it also skips a leader that should leave such a directory.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-455, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from jbodlab.vocabulary.ids import NO_LEADER, BrokerId


class Election(Enum):
    """Which replica the election prefers, and which replicas may win it."""

    ONLINE = auto()
    """The current leader if it still may lead, else the first of the ISR that may."""
    PREFERRED = auto()
    """The first replica if it may lead and its directory is not degraded, else as ONLINE."""
    UNCLEAN = auto()
    """Like ONLINE; if no member of the ISR may lead, any replica that may lead wins."""


class Winner(NamedTuple):
    """The elected leader, or NO_LEADER, and whether the election may lose records."""

    leader: BrokerId
    is_unclean: bool


class Members(NamedTuple):
    """Replicas, and those of them that are in sync."""

    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]


def _nobody(_: BrokerId) -> bool:
    return False


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """A partition after a change, before its leader is elected.

    Attributes:
        leader: The leader before the change, or NO_LEADER.
        replicas: Brokers in the order of assignment.
        isr: Brokers in sync.
        may_lead: Whether a broker is active and the replica's directory online.
        elr: Eligible leader replicas; empty in a cluster without them.
        last_known_elr: Former members of a lost ELR; empty if they may not win.
        is_degraded: Whether a broker's replica is in a degraded directory, so that another replica
            should lead if possible.
        should_leave: Whether the leader should resign because its directory is degraded.
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
        """Return whether a replica may win and its directory is not degraded."""
        return self.may_win(replica) and not self.is_degraded(replica)


def elect(partition: Candidates, election: Election) -> Winner:
    """Return the leader of a partition.

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
    """Return replicas and ISR after a reassignment; None if it is not complete yet.

    It is complete when every replica that it keeps or adds is in sync.

    Args:
        members: Replicas and ISR during the reassignment.
        removing: Replicas that the reassignment removes.
    """
    isr = tuple(member for member in members.isr if member not in removing)
    replicas = tuple(replica for replica in members.replicas if replica not in removing)
    if not isr or not replicas or any(replica not in isr for replica in replicas):
        return None
    return Members(isr, replicas)
