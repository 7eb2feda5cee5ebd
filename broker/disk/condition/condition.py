"""Conditions of an online log directory: it may be full, slow, or both.

    HEALTHY       neither full nor slow
    FULL          accepts no more records: no new replicas, followers pause, appends are refused
                  while the leadership moves; reads, retention and deletions continue
    SLOW          responds much later than the other directories, or than an operator permits
    FULL+SLOW     both

FULL (decided in `disk_space`) and SLOW (decided in `slowness`) are independent, and neither is a
failure. A failed directory has no condition. Its cause tells how it failed: it is HUNG if a call
did not return.
"""

from __future__ import annotations

import msgspec

from broker.disk.condition.disk_space import DiskSpace
from jbodlab.vocabulary.ids import DirectoryId

HUNG = "HUNG"
"""The word in the cause of a failure by which it can be told from an I/O error."""


class DirectoryCondition(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of an online directory."""

    is_full: bool = False
    is_slow: bool = False

    @property
    def is_degraded(self) -> bool:
        """Whether leaders should rather be elsewhere."""
        return self.is_full or self.is_slow

    @property
    def name(self) -> str:
        """The name that events show."""
        return "+".join(self.names) or "HEALTHY"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all conditions, one word each; empty where nothing is wrong."""
        named = (("FULL", self.is_full), ("SLOW", self.is_slow))
        return tuple(name for name, is_so in named if is_so)

    def is_worse_than(self, other: DirectoryCondition) -> bool:
        """Return whether something is wrong here that is not wrong there."""
        return (self.is_full and not other.is_full) or (self.is_slow and not other.is_slow)


HEALTHY = DirectoryCondition()


class DegradedLogDirs(msgspec.Struct, frozen=True, kw_only=True):
    """The report to the controller in every heartbeat; ids in configured order.

    Attributes:
        degraded: The directories that are FULL or SLOW.
        full: Those of them that take no data in.
        tolerated: Those of them that may keep the leaders they have.
    """

    degraded: tuple[DirectoryId, ...] = ()
    full: tuple[DirectoryId, ...] = ()
    tolerated: tuple[DirectoryId, ...] = ()


def degraded_log_dirs(
    conditions: list[tuple[DirectoryId, DirectoryCondition]], *, slow_moves_leaders: bool
) -> DegradedLogDirs:
    """Return what the controller is told of directories.

    Args:
        conditions: The online directories, each with its condition.
        slow_moves_leaders: Whether `log.dir.slow.policy` is `move`.
    """
    return DegradedLogDirs(
        degraded=tuple(each for each, condition in conditions if condition.is_degraded),
        full=tuple(each for each, condition in conditions if condition.is_full),
        tolerated=tuple(
            each
            for each, condition in conditions
            if condition.is_slow and not condition.is_full and not slow_moves_leaders
        ),
    )


def space_text(disk: DiskSpace) -> str:
    """Return the numbers behind FULL, for an event."""
    if disk.denial is not None:
        return f"a write failed for lack of space: {disk.denial}"
    until = f"; no longer FULL from {disk.bytes_to_leave} usable bytes on" if disk.is_full else ""
    return (
        f"{disk.usable_bytes} of {disk.total_bytes} bytes usable, "
        f"{disk.reserved_bytes} reserved{until}"
    )


def hung(limit: str) -> str:
    """Return the cause of failure of a directory that did not answer within a limit."""
    return f"{HUNG}: no answer within {limit}"


def is_hung(cause: str | None) -> bool:
    """Return whether a directory failed because a call did not return."""
    return cause is not None and f"{HUNG}: " in cause
