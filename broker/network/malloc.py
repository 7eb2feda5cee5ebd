"""Settings of the C library's allocator that large requests need."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = 256 << 20


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
