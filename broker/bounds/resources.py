"""Limits of the process, compared with the sums of its bounds when a broker starts.

Every log directory keeps `.log` files open, every client needs a connection, and everything else
uses a reserve. Together they never exceed the limit of open files, because a part without a
descriptor could do nothing about it. Memory is only compared: a broker that has less than its
bounds allow works until all of them are used at once.
"""

from __future__ import annotations

import contextlib
import logging
import resource
from pathlib import Path

import msgspec

from broker.bounds.limits import (
    CHECK_THREADS,
    MAX_CALL_BYTES,
    PROCESS_BYTES,
    RECORDS_BYTES_MAX,
    RESERVE,
    RESERVE_PER_DIRECTORY,
    TAIL_BYTES_MAX,
)
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.limits import INDEX_BYTES_MAX, OPEN_FILES_MAX, WAITING_CONNECTIONS_MAX

logger = logging.getLogger(__name__)

NO_LIMIT = 1 << 20
"""Used as the limit of open files if there is none."""


class WantedResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that the configuration of a broker asks for.

    Attributes:
        directories: Log directories, 1 or more.
        request_bytes: `socket.request.max.bytes`.
        queued_bytes: `queued.max.request.bytes`; None for no limit.
        key_map_bytes: `log.cleaner.dedupe.buffer.size`; 0 without a cleaner.
    """

    directories: int
    request_bytes: int
    queued_bytes: int | None
    key_map_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Most memory that the bounds allow; connections are not counted, as most hold nothing."""
        return (
            PROCESS_BYTES
            + (self.queued_bytes or 0)
            + self.request_bytes
            + TAIL_BYTES_MAX
            + CHECK_THREADS * RECORDS_BYTES_MAX
            + self.directories * (INDEX_BYTES_MAX + MAX_CALL_BYTES)
            + self.key_map_bytes
        )


class OpenFiles(msgspec.Struct, frozen=True, kw_only=True):
    """How many descriptors there are for what.

    Attributes:
        kept_per_directory: `.log` files that a directory keeps open between calls.
        connections: Most connections of clients that can be served.
        waiting: Connections that wait to be served; as many again are held as they came too fast.
        reserve: All else.
    """

    kept_per_directory: int
    connections: int
    waiting: int
    reserve: int


def divide(limit: int, directories: int) -> OpenFiles:
    """Divide the descriptors of a process: half of them behind the reserve are for the logs.

    Args:
        limit: Most descriptors that the process may have.
        directories: Log directories, 1 or more.

    Raises:
        ConfigError: there are too few.
    """
    reserve = min(RESERVE + directories * RESERVE_PER_DIRECTORY, limit // 2)
    logs = (limit - reserve) // 2
    sockets = limit - reserve - logs
    waiting = min(WAITING_CONNECTIONS_MAX, sockets // 8)
    found = OpenFiles(
        kept_per_directory=min(OPEN_FILES_MAX, logs // directories),
        connections=sockets - 2 * waiting,
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


def check(wanted: WantedResources, open_files: int, memory_bytes: int | None) -> OpenFiles:
    """Check the bounds against the limits of the process; logs a warning if memory may not do.

    Args:
        wanted: Resources that the configuration asks for.
        open_files: Most descriptors that the process may have.
        memory_bytes: Most memory that the process may have; None if unknown.

    Returns:
        The division of the descriptors.

    Raises:
        ConfigError: there are too few descriptors.
    """
    if memory_bytes is not None and memory_bytes < wanted.memory_bytes:
        logger.warning(
            "the broker may use %d MiB of memory, and has %d MiB; lower queued.max.request.bytes, "
            "socket.request.max.bytes or log.cleaner.dedupe.buffer.size",
            wanted.memory_bytes >> 20,
            memory_bytes >> 20,
        )
    return divide(open_files, wanted.directories)


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


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return how many bytes this process may use: of the machine or of its container.

    Args:
        root: Where `/proc` and `/sys` are.

    Returns:
        The smaller one; None where the system does not say.
    """
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The first line is `MemTotal: 24683872 kB`.
        found.append(int((root / "proc/meminfo").read_text().split()[1]) << 10)
    for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        # It is `max` without a limit.
        with contextlib.suppress(OSError, ValueError):
            found.append(int((root / name).read_text()))
    return min(found, default=None)
