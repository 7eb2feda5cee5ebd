"""Which directory a new replica is created in.

After `LogManager.getOrCreateLog`: a directory that an operator asked for, else the one that the
controller assigned, else the one with the fewest replicas. Apache Kafka does not look at the space
left; here a full directory is taken only where all are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from jbodlab.directory_id import UNASSIGNED
from jbodlab.ids import DirectoryId


def candidates(
    counts: Mapping[DirectoryId, int],
    *,
    target: DirectoryId = UNASSIGNED,
    preferred: DirectoryId | None = None,
    full: Set[DirectoryId] = frozenset(),
) -> tuple[DirectoryId, ...]:
    """Return the directories to try for a new replica, best first.

    Args:
        counts: Current and future replicas in each online directory, in configured order.
        target: The directory that the metadata assigns. An id that names no online directory
            leaves the choice free; whether it *may* be free is `reconcile`'s decision.
        preferred: What an earlier AlterReplicaLogDirs asked for; wins over `target`.
        full: The directories that take no more records.

    Returns:
        One directory where one is named, full or not: whoever named it may know that the replica
        belongs there. Else those that are not full, or all if all are, least loaded first and
        equally loaded ones in configured order; empty if none is online.
    """
    for wanted in (preferred, target):
        if wanted is not None and wanted in counts:
            return (wanted,)
    usable = [directory for directory in counts if directory not in full]
    return tuple(sorted(usable or counts, key=lambda directory: counts[directory]))


def choose_directory(
    counts: Mapping[DirectoryId, int],
    *,
    target: DirectoryId = UNASSIGNED,
    preferred: DirectoryId | None = None,
    full: Set[DirectoryId] = frozenset(),
) -> DirectoryId | None:
    """Return the best of `candidates`; None if no directory is online."""
    return next(iter(candidates(counts, target=target, preferred=preferred, full=full)), None)
