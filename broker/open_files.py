"""How many files the process may have open: each replica keeps the log file that it appends to."""

from __future__ import annotations

import contextlib
import resource


def most_connections(wanted: int) -> int:
    """Return how many connections clients may have: half of all files are kept for the logs.

    A log that cannot be opened takes its directory offline, and a client can try again.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft // 2)


def raise_open_files_limit() -> None:
    """Let the process open as many files as it may; shells often give it 1,024 to begin with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems allow less than they say.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
