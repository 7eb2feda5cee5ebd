"""Directories that are online but should not lead: full ones and slow ones.

Each heartbeat reports them, and the report is valid until the next one. It is soft state: it
improves elections, but no record depends on it.

    degraded     full or slow: any other acceptable replica should lead instead
    full         accepts no more data, so its followers pause and cannot stay in an ISR
    tolerated    degraded, but leaders in it stay
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from jbodlab.controller_api.requests import BrokerHeartbeatRequest
from jbodlab.vocabulary.directory_id import MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import BrokerId, DirectoryId


class DegradedDirs(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions in one broker's last heartbeat; `full` and `tolerated` are part of `degraded`."""

    degraded: frozenset[DirectoryId] = frozenset()
    full: frozenset[DirectoryId] = frozenset()
    tolerated: frozenset[DirectoryId] = frozenset()

    @classmethod
    def reported(
        cls, request: BrokerHeartbeatRequest, online: Collection[DirectoryId]
    ) -> DegradedDirs:
        """Return what a heartbeat says of directories that are online."""
        full = frozenset(request.full_log_dirs).intersection(online)
        degraded = full.union(request.degraded_log_dirs).intersection(online)
        tolerated = degraded.intersection(request.tolerated_log_dirs)
        return cls(
            degraded=_with_unknown(degraded, online),
            full=_with_unknown(full, online),
            tolerated=_with_unknown(tolerated, online),
        )


HEALTHY = DegradedDirs()
"""Nothing is wrong with any directory, as far as is known."""


def _with_unknown(
    some: frozenset[DirectoryId], online: Collection[DirectoryId]
) -> frozenset[DirectoryId]:
    """Add the ids of replicas whose directory is not known, if it can only be one of `some`."""
    if online and len(some) == len(online):
        return some | {UNASSIGNED, MIGRATING}
    return some


class Degraded(msgspec.Struct, frozen=True):
    """The degraded directories of all brokers; those without any have no entry."""

    by_broker: Mapping[BrokerId, DegradedDirs] = msgspec.field(default_factory=dict)

    def is_degraded(self, broker_id: BrokerId, directory: DirectoryId) -> bool:
        """Return whether others should lead rather than this broker's replica in a directory."""
        return directory in self.by_broker.get(broker_id, HEALTHY).degraded

    def is_full(self, broker_id: BrokerId, directory: DirectoryId) -> bool:
        """Return whether a replica in this directory takes no more data."""
        return directory in self.by_broker.get(broker_id, HEALTHY).full

    def should_leave(self, broker_id: BrokerId, directory: DirectoryId) -> bool:
        """Return whether a leader in this directory should hand over to somebody else."""
        dirs = self.by_broker.get(broker_id, HEALTHY)
        return directory in dirs.degraded and directory not in dirs.tolerated

    def takes_nothing(self, broker_id: BrokerId, directories: Collection[DirectoryId]) -> bool:
        """Return whether all directories of a broker are full."""
        full = self.by_broker.get(broker_id, HEALTHY).full
        return bool(directories) and all(directory in full for directory in directories)


NOTHING_DEGRADED = Degraded()
