"""The TCP connections of a process of this machine, as the kernel lists them, and their end.

A connection is taken hold of through the process that has it (`pidfd_getfd`) and shut down: both
ends are told at once, as by a peer that has gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_PIDFD_GETFD = 438
_PASSES_MAX = 5
_OPEN = frozenset({"01", "02", "03", "08"})
"""Established, being made from either side, and closed by the other end only."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One end of a connection, by its ports.

    Attributes:
        inode: By which the process that has it is known.
    """

    local_port: int
    remote_port: int
    inode: int


def connections() -> list[Connection]:
    """Return both ends of all connections of this machine, as far as they are on it."""
    found = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                _, local, remote, state, *_, inode = line.split()[:10]
                if state in _OPEN and inode != "0":
                    here, there = (int(each.rpartition(":")[2], 16) for each in (local, remote))
                    found.append(Connection(here, there, int(inode)))
    return found


def inodes_of(pid: int) -> dict[int, int]:
    """Return the sockets of a process: inodes to descriptors; none where it may not be seen."""
    found = {}
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):  # noqa: PTH208 - names only
            with contextlib.suppress(OSError):
                name = str((folder / entry).readlink())
                if name.startswith("socket:["):
                    found[int(name[8:-1])] = int(entry)
    return found


def refusal(pid: int) -> str:
    """Return why connections of a process cannot be shut down; empty if they can."""
    try:
        os.close(_taken(pid, next(iter(inodes_of(pid).values()), 0)))
    except OSError as error:
        return f"cannot take the sockets of process {pid}: {error.strerror}"
    return ""


def shut_down(pid: int, wanted: Callable[[Connection], bool]) -> int:
    """Shut down the connections of a process that are wanted; returns how many.

    One that is being made meanwhile is met by a further look.

    Raises:
        OSError: they cannot be taken hold of.
    """
    done: set[int] = set()
    for _ in range(_PASSES_MAX):
        own = inodes_of(pid)
        found = {
            each.inode
            for each in connections()
            if each.inode in own and each.inode not in done and wanted(each)
        }
        if not found:
            break
        for inode in found:
            with contextlib.suppress(OSError), socket.socket(fileno=_taken(pid, own[inode])) as one:
                one.shutdown(socket.SHUT_RDWR)
        done |= found
    return len(done)


def owners(pids: Iterable[tuple[str, int]]) -> dict[int, str]:
    """Return whose the sockets of some processes are, by their inodes."""
    return {inode: name for name, pid in pids for inode in inodes_of(pid)}


def _taken(pid: int, fd: int) -> int:
    """Return a descriptor of our own of what a process has under a descriptor."""
    if platform.system() != "Linux":
        raise OSError(0, "only Linux knows how")
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    try:
        taken: int = libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
        if taken < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return taken
    finally:
        os.close(pidfd)
