"""Notifies listeners when a replica begins or ceases to lead, and of its committed records.

A coordinator lives exactly as long as the replica with its state leads. So it is notified in the
middle of the change: no client gets a state that a follower, or a dead disk, has already made
obsolete.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from jbodlab.vocabulary.ids import LeaderEpoch

Replica_contra = TypeVar("Replica_contra", contravariant=True)


class LeadershipListener(Protocol[Replica_contra]):
    """Follows one replica, a `Partition`; it must not change it from within these calls."""

    def leadership_began(self, partition: Replica_contra, leader_epoch: LeaderEpoch) -> None:
        """It leads; one that led before in a lower epoch was told to have ended."""

    def leadership_ended(self, partition: Replica_contra) -> None:
        """It leads no more: another one does, its directory or its log failed, or it is gone."""

    def committed(self, partition: Replica_contra, high_watermark: int) -> None:
        """The high watermark moved while it leads."""


class _Nobody:
    """Of most partitions nobody needs to know."""

    def leadership_began(self, partition: object, leader_epoch: LeaderEpoch) -> None:
        pass

    def leadership_ended(self, partition: object) -> None:
        pass

    def committed(self, partition: object, high_watermark: int) -> None:
        pass


NOBODY: LeadershipListener[object] = _Nobody()
