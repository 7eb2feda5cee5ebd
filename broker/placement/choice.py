"""Which directory a new replica is created in.

After `LogManager.getOrCreateLog`: a directory that an operator asked for, else the one that the
controller assigned, else the one with the fewest replicas. Apache Kafka does not look at the space
left; here a full directory is taken only where all are full, and replicas may be spread by free
bytes (`SpreadByBytes`). A cordoned one is never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId


class SpreadByBytes:
    """Gives directories new replicas in the ratio of their free bytes.

    The directory with the most room, taken every time, would get all of a hundred replicas that are
    created at once, as none of them has any bytes yet. So each directory stands at a point of a
    scale and goes on by one step when it gets a replica, the smaller the more room it has; whoever
    would be least far then is next. A directory that turns up, such as a new disk, begins where the
    others are now, and so gets its share of what is to come and not all of it.

        free 200, 100, 100: a b a c | a b a c ...
    """

    def __init__(self) -> None:
        self._points: dict[DirectoryId, float] = {}
        self._present = 0.0

    def loads(self, free_bytes: Mapping[DirectoryId, int]) -> dict[DirectoryId, float]:
        """Return where each directory would be with one more replica; the lowest is next.

        Args:
            free_bytes: Of the directories in question; others are forgotten.
        """
        self._points = {each: self._points.get(each, self._present) for each in free_bytes}
        return {each: self._points[each] + 1 / max(free, 1) for each, free in free_bytes.items()}

    def placed(self, directory: DirectoryId, free_bytes: int) -> None:
        """Take notice that a directory got a replica."""
        self._present = self._points.get(directory, self._present)
        self._points[directory] = self._present + 1 / max(free_bytes, 1)


def candidates(
    counts: Mapping[DirectoryId, float],
    *,
    target: DirectoryId = UNASSIGNED,
    preferred: DirectoryId | None = None,
    full: Set[DirectoryId] = frozenset(),
    cordoned: Set[DirectoryId] = frozenset(),
) -> tuple[DirectoryId, ...]:
    """Return the directories to try for a new replica, best first.

    Args:
        counts: Current and future replicas in each online directory, in configured order; or
            another measure of their load.
        target: The directory that the metadata assigns. An id that names no online directory
            leaves the choice free; whether it *may* be free is `reconcile`'s decision.
        preferred: Directory that an earlier AlterReplicaLogDirs asked for; wins over `target`.
        full: The directories that take no more records.
        cordoned: The directories that get no new replicas. One that the metadata assigns already
            belongs to the replica; a wish for one is passed over.

    Returns:
        One directory where one is named, full or not: whoever named it may know that the replica
        belongs there. Else those that are not full, or all if all are, least loaded first and
        equally loaded ones in configured order; empty if none is online, or all are cordoned.
    """
    if preferred is not None and preferred in counts and preferred not in cordoned:
        return (preferred,)
    if target in counts:
        return (target,)
    open_ones = [directory for directory in counts if directory not in cordoned]
    usable = [directory for directory in open_ones if directory not in full]
    return tuple(sorted(usable or open_ones, key=lambda directory: counts[directory]))
