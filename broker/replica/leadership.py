"""Who is told when a replica begins and ceases to lead, and how far its records are committed.

A coordinator lives exactly as long as the replica leads whose records it keeps its state in. It is
therefore told in the middle of the change: nobody is served from a state of which a follower, or a
dead disk, knows better already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jbodlab.ids import LeaderEpoch

if TYPE_CHECKING:
    from broker.replica.partition import Partition


class LeadershipListener(Protocol):
    """Follows one replica; it must not change it from within these calls."""

    def leadership_began(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        """It leads; one that led before in a lower epoch was told to have ended."""

    def leadership_ended(self, partition: Partition) -> None:
        """It leads no more: another one does, its directory or its log failed, or it is gone."""

    def committed(self, partition: Partition, high_watermark: int) -> None:
        """The high watermark moved while it leads."""


class _Nobody:
    """Of most partitions nobody needs to know."""

    def leadership_began(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        pass

    def leadership_ended(self, partition: Partition) -> None:
        pass

    def committed(self, partition: Partition, high_watermark: int) -> None:
        pass


NOBODY: LeadershipListener = _Nobody()
