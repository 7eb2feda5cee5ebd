"""How much space a file system has for records, updated between two measurements.

A measurement (`statvfs` on a thread of the directory) is valid for one moment, and a fast producer
fills a small disk before the next. So every append counts as soon as its batches have offsets, long
before it is written, and the next measurement replaces the count. The *reserve* belongs to all
other writes of a broker: checkpoints, indexes, leader epochs, producer snapshots. Records must not
use it:

    |---------- used ----------|------- space ------|-- reserve --|

A directory becomes FULL when less than the reserve is usable, or when an append does not fit before
the reserve. That append is refused before it has offsets, because a partial write would have to
wait for space. A directory is no longer FULL when clearly more than the reserve is usable and the
refused append would fit.

Directories on one file system share its space. All sizes are in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.bounds.limits import DENIAL_S, DENIAL_S_MAX

DEFAULT_RESERVE_DIVISOR = 100
"""Unless configured otherwise the reserve is this part of the file system."""

LEAVE_FULL_FACTOR = 1.5
"""So many reserves must be usable before a full file system counts as one with room again."""

FILES_BYTES = 16 << 10
"""Size of the files of a new, empty replica, in whole blocks."""

FILES_RESERVE_DIVISOR = 2
"""New replicas may take at most this part of the reserve where every directory is full."""


def reserve_of(configured_bytes: int, total_bytes: int) -> int:
    """Return the reserve of a file system.

    Args:
        configured_bytes: `log.dir.reserved.bytes`; negative for the default, 0 for none.
        total_bytes: Size of the file system.
    """
    if configured_bytes >= 0:
        return configured_bytes
    return total_bytes // DEFAULT_RESERVE_DIVISOR


class DiskSpace:
    """The room of one file system.

    Attributes:
        total_bytes: Its size; None before the first look.
        usable_bytes: Bytes that may still be written there, the reserve included, less all that is
            on its way; None before the first look.
        reserved_bytes: The reserve; 0 switches everything here off.
        is_full: Whether it takes no more records.
    """

    def __init__(self, configured_reserve_bytes: int = 0) -> None:
        self.total_bytes: int | None = None
        self.usable_bytes: int | None = None
        self.reserved_bytes = 0
        self.is_full = False
        self.denial: str | None = None
        """Why the disk took no more although it had announced room; None if it did not."""
        self.denied_to: set[DirectorySpace] = set()
        """The directories from which it took no more, and that do not know better yet."""
        self._denied_s = self._granted_s = -math.inf
        self._denial_s = 0.0
        self._configured_reserve_bytes = configured_reserve_bytes
        # The largest append that was refused since it became full.
        self._refused_bytes = 0

    @property
    def bytes_to_leave(self) -> int:
        """How much must be usable for a full file system to have room again."""
        return max(
            int(self.reserved_bytes * LEAVE_FULL_FACTOR), self.reserved_bytes + self._refused_bytes
        )

    def looked(self, total_bytes: int, usable_bytes: int) -> None:
        """Take over what a look has shown.

        Args:
            total_bytes: Size of the file system.
            usable_bytes: Bytes free for this process, less all that may not have been written when
                they were looked at.
        """
        self.total_bytes = total_bytes
        self.reserved_bytes = reserve_of(self._configured_reserve_bytes, total_bytes)
        self.usable_bytes = usable_bytes
        if not self.is_full:
            self.is_full = usable_bytes < self.reserved_bytes
        elif usable_bytes >= self.bytes_to_leave and self.denial is None:
            self.is_full = False
            self._refused_bytes = 0

    def denied(self, directory: DirectorySpace, cause: str, now_s: float) -> None:
        """Take notice that the disk took no more, whatever the looks have shown."""
        self.denied_to.add(directory)
        if self.denial is None:
            again = now_s - self._granted_s < DENIAL_S_MAX
            longer_s = min(max(2 * self._denial_s, DENIAL_S), DENIAL_S_MAX)
            self._denial_s = longer_s if again else 0.0
        self.is_full, self.denial, self._denied_s = True, cause, now_s

    def written(self, directory: DirectorySpace, now_s: float) -> None:
        """Take notice that the disk took a small file; after a while that is believed."""
        if self.denial is not None and now_s - self._denied_s >= self._denial_s:
            self.denied_to.discard(directory)
            if not self.denied_to:
                self.denial, self._granted_s = None, now_s

    def taken(self, directory: DirectorySpace) -> None:
        """Take notice that the disk takes from a directory what it had had no room for.

        The space that it takes from others tells nothing of a directory from which it took no more.
        """
        self.denied_to.discard(directory)
        if not self.denied_to:
            self.denial = None

    def takes(self, size_bytes: int) -> bool:
        """Return whether records fit in front of the reserve; if not, it is full from now on."""
        if self.denial is not None:
            return False
        if self.usable_bytes is None or not self.reserved_bytes:
            return True
        if not self.is_full and self.usable_bytes - size_bytes >= self.reserved_bytes:
            return True
        self.is_full = True
        self._refused_bytes = max(self._refused_bytes, size_bytes)
        return False

    def has_room(self, size_bytes: int) -> bool:
        """Return whether records fit, without any consequence if they do not.

        For what can wait: a copy that was refused must not make the directory FULL for others.
        """
        if self.denial is not None:
            return False
        if self.usable_bytes is None or not self.reserved_bytes:
            return True
        return not self.is_full and self.usable_bytes - size_bytes >= self.reserved_bytes

    def holds(self, size_bytes: int) -> bool:
        """Return whether something fits that makes more room than it takes, the reserve included.

        Compaction writes what is left of segments before these go.
        """
        return self.denial is None and (
            self.usable_bytes is None or self.usable_bytes >= size_bytes
        )

    def takes_files(self) -> bool:
        """Return whether an empty replica may be created, for want of a directory with room."""
        if self.denial is not None:
            return False
        if self.usable_bytes is None or not self.reserved_bytes:
            return True
        return self.usable_bytes - FILES_BYTES >= self.reserved_bytes // FILES_RESERVE_DIVISOR


class DirectorySpace:
    """One directory's part in the room of its file system; on the loop only.

    Attributes:
        disk: The file system.
        on_full: Called when an append of this directory found it full first.
        on_taken: Called when the disk took what it had had no room for; it may be full no more.
        refused_count: Appends that were refused here, for whoever watches.
    """

    def __init__(self) -> None:
        self.disk = DiskSpace()
        self.on_full: Callable[[], None] = _nothing
        self.on_taken: Callable[[], object] = _nothing
        self.refused_count = 0
        self.logs_wait = False
        """Whether logs wait for room, and try again all the time: they know if there is any."""
        self._charged_bytes = 0
        self._settled_bytes = 0
        self._settled_at_look_bytes = 0

    def takes(self, size_bytes: int) -> bool:
        """Return whether records of this size may be appended; what refuses some makes it FULL."""
        disk = self.disk
        was_full = disk.is_full
        if disk.takes(size_bytes):
            return True
        self.refused_count += 1
        if not was_full:
            self.on_full()
        return False

    def denied(self, cause: str, now_s: float) -> None:
        """Take notice that the disk took no more from this directory; it is FULL at once."""
        was_full = self.disk.is_full
        if self.disk.denial is None:
            self.refused_count += 1
        self.disk.denied(self, cause, now_s)
        if not was_full:
            self.on_full()

    def written(self, now_s: float) -> None:
        """Take notice that the disk took a small file of this directory."""
        if not self.logs_wait:
            self.disk.written(self, now_s)

    def taken(self) -> None:
        """Take notice that the disk took all of this directory that it had had no room for."""
        if self.disk.denial is not None:
            self.disk.taken(self)
            self.on_taken()

    def charge(self, size_bytes: int) -> None:
        """Count what is sent to the directory's thread."""
        self._charged_bytes += size_bytes
        disk = self.disk
        if disk.usable_bytes is not None:
            disk.usable_bytes -= size_bytes

    def settle(self, size_bytes: int) -> None:
        """Take notice that something charged is written, or never will be."""
        self._settled_bytes += size_bytes
        assert self._settled_bytes <= self._charged_bytes

    def looked(
        self, total_bytes: int, free_bytes: int, neighbours: tuple[DirectorySpace, ...]
    ) -> None:
        """Take over a look of this directory's thread, in the order of that thread's results.

        Args:
            total_bytes: Size of the file system.
            free_bytes: Bytes free for this process at the time of the look.
            neighbours: The other directories on it. Their threads write at the same time, so that
                what they have written since their own last look counts as not yet seen.
        """
        self._settled_at_look_bytes = self._settled_bytes
        on_its_way = sum(
            each._charged_bytes - each._settled_at_look_bytes for each in (self, *neighbours)
        )
        self.disk.looked(total_bytes, free_bytes - on_its_way)

    def leave(self) -> None:
        """Have no part in a file system any more: the directory is offline."""
        self.disk.taken(self)
        self.disk = DiskSpace()
        self.on_full = self.on_taken = _nothing


def _nothing() -> None:
    pass
