"""Who may have how many of the files that the process may have open.

    RESERVED                       metadata log, connections to other nodes, listeners, libraries
    RESERVED_OF_A_DIRECTORY        its lock, and files that its threads and moves open for a moment
    connections of clients         half of the rest
    log files kept open            the other half, shared by the directories alike

The parts together are never more than the limit. A call that finds none all the same, since
something else in the process or on the machine has them, closes what is kept open and tries again;
see `DirectoryFiles.file` and `CarryingOut`.
"""

from __future__ import annotations

import contextlib
import resource
from typing import NamedTuple

from jbodlab.errors import ConfigError
from jbodlab.log.directory_files import OPEN_FILES_MAX

RESERVED = 96
RESERVED_OF_A_DIRECTORY = 16
CONNECTIONS_MIN = 16
LOG_FILES_MIN = 8
"""Of each directory."""


class FileBounds(NamedTuple):
    """How many files may be open.

    Attributes:
        connections: Connections of clients.
        log_files: Log files of each directory that are kept open.
    """

    connections: int
    log_files: int


def file_bounds(limit: int | None, directories: int, connections: int) -> FileBounds:
    """Divide the files that a process may have open.

    Args:
        limit: How many that is (`RLIMIT_NOFILE`); None for any number.
        directories: How many log directories there are.
        connections: How many connections the settings permit.

    Raises:
        ConfigError: the limit is too low.
    """
    if limit is None:
        return FileBounds(connections, OPEN_FILES_MAX)
    reserved = RESERVED + RESERVED_OF_A_DIRECTORY * directories
    least = reserved + CONNECTIONS_MIN + LOG_FILES_MIN * directories
    if limit < least:
        raise ConfigError(
            "ulimit -n", limit, f"{directories} log directories need at least {least} open files"
        )
    free = limit - reserved
    for_logs = max(free // 2, LOG_FILES_MIN * directories)
    bounds = FileBounds(
        connections=min(connections, free - for_logs),
        log_files=min(OPEN_FILES_MAX, for_logs // directories),
    )
    assert reserved + bounds.connections + bounds.log_files * directories <= limit
    return bounds


def open_files_limit() -> int | None:
    """Return how many files this process may have open; None for any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_open_files_limit() -> None:
    """Let the process open as many files as it may; shells often give it 1,024 to begin with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems allow less than they say.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
