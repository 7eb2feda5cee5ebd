"""How many files the process may open, and how they are divided.

Every log directory keeps `.log` files open, every client needs a connection, and everything else
(files that are open for one call, checkpoints, copies, connections to the controller and to other
brokers) uses a reserve. Together they never exceed the limit, because a part without a descriptor
could do nothing about it.
"""

from __future__ import annotations

import contextlib
import resource

import msgspec

from jbodlab.server.open_connections import WAITING_MAX
from jbodlab.storage.log.directory_files import OPEN_FILES_MAX
from jbodlab.vocabulary.errors import ConfigError

NO_LIMIT = 1 << 20
"""Used as the limit if there is none."""

RESERVE, RESERVE_PER_DIRECTORY = 96, 16
"""Descriptors for the process itself, and for what works in a directory."""


class OpenFiles(msgspec.Struct, frozen=True, kw_only=True):
    """How many descriptors there are for what.

    Attributes:
        kept_per_directory: `.log` files that a directory keeps open between calls.
        connections: Connections of clients that are served.
        waiting: Connections that wait to be served; as many again are held as they came too fast.
        reserve: All else.
    """

    kept_per_directory: int
    connections: int
    waiting: int
    reserve: int


def divide(limit: int, directories: int, connections_wanted: int) -> OpenFiles:
    """Divide the descriptors of a process: half of them behind the reserve are for the logs.

    Args:
        limit: Most descriptors that the process may have.
        directories: Log directories, 1 or more.
        connections_wanted: `max.connections`.

    Raises:
        ConfigError: there are too few.
    """
    reserve = min(RESERVE + directories * RESERVE_PER_DIRECTORY, limit // 2)
    logs = (limit - reserve) // 2
    sockets = limit - reserve - logs
    waiting = min(WAITING_MAX, sockets // 8)
    found = OpenFiles(
        kept_per_directory=min(OPEN_FILES_MAX, logs // directories),
        connections=min(connections_wanted, sockets - 2 * waiting),
        waiting=waiting,
        reserve=reserve,
    )
    if not found.kept_per_directory:
        raise ConfigError(
            "log.dirs",
            directories,
            f"these directories need more than {limit} open files; raise `ulimit -n`",
        )
    used = found.kept_per_directory * directories + found.connections + 2 * waiting + reserve
    assert used <= limit
    return found


def open_files_limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else min(soft, NO_LIMIT)


def raise_open_files_limit() -> None:
    """Let the process open as many files as it may; shells often give it 1,024 to begin with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems allow less than they say.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
