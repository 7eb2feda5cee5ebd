"""The C library's allocator: settings for large requests, and returning memory to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = 256 << 20

WORTH_RETURNING_BYTES = 8 << 20
QUIET_BYTES = 4 << 20
"""Traffic between two looks below which nobody misses the memory that is given back."""
BUSY_LOOKS_MAX = 15
"""After so many looks, half a minute, it is given back although there is traffic."""


def tune_malloc() -> bool:
    """Keep buffers of requests inside the heap; call once at start.

    Otherwise glibc maps, faults in and unmaps the pages of every request of 128 KB and more,
    which costs more than all other work on it. Both values have to be set: setting one alone
    freezes the other at its default.

    Returns:
        Whether the C library has such settings and took them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        and mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    )


def trim_malloc() -> bool:
    """Give the free pages of the heap back to the system; takes some ms.

    Returns:
        Whether the C library can, and had any.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))


class MemoryReturn:
    """Gives memory back after traffic, when it has become quiet, and else now and then.

    With the settings above the heap keeps up to 256 MiB of what a burst of requests needed. While
    requests come they need it again, so it is left alone for some time; `look` is called regularly.

    Args:
        start_thread: Runs a function on a thread of the given name.
    """

    def __init__(self, start_thread: Callable[[Callable[[], None], str], None]) -> None:
        self._start_thread = start_thread
        self.moved_bytes = 0
        """Bytes since the last look that were allocated for clients beside their requests, or are
        free again; who does so adds to it.
        """
        self._of_requests = 0
        self._since_return_bytes = 0
        self._busy_looks = 0

    def look(self, of_requests: int = 0) -> bool:
        """Give memory back if there was traffic and is none; returns whether it is being done.

        Args:
            of_requests: Bytes of all requests so far, and again of those that are free by now. They
                may be free long after they came: what waits for a follower is there as long.
        """
        recent = self.moved_bytes + of_requests - self._of_requests
        self.moved_bytes, self._of_requests = 0, of_requests
        self._since_return_bytes += recent
        if self._since_return_bytes < WORTH_RETURNING_BYTES:
            return False
        self._busy_looks += 1
        if recent > QUIET_BYTES and self._busy_looks < BUSY_LOOKS_MAX:
            return False
        self._since_return_bytes = self._busy_looks = 0
        self._start_thread(_trim, "malloc-trim")
        return True


def _trim() -> None:
    trim_malloc()
