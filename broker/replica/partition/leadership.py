"""Notifies listeners when a replica begins or ceases to lead, and of its committed records.

A coordinator lives exactly as long as the replica with its state leads. So it is notified in the
middle of the change: no client gets a state that a follower, or a dead disk, has already made
obsolete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jbodlab.vocabulary.ids import LeaderEpoch

if TYPE_CHECKING:
    from broker.replica.partition.partition import Partition


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
