"""Processes of ours: start them as another user, find them again, end them and only them.

A process is known by its pid together with its start time, so that a later process that was given
the same pid is never touched; signals go through a pidfd, which is bound to one process for good.
Every process that belongs to a cluster carries the cluster's folder in its environment. That finds
those whose starter was killed before it could write them down.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fault_injection.processes import (
    SESSION,
    START_TICKS,
    everybody,
    find,
    is_alive,
    send,
    variables,
    wait_ended,
)
from jbodlab.cli.lab_state import ProcessState

__all__ = [
    "ServerUser",
    "below",
    "end",
    "ending_with_us",
    "find",
    "in_session",
    "is_alive",
    "of_cluster",
    "own_user",
    "resident_mb",
    "run",
    "send",
    "start",
    "wait_ended",
]

T = TypeVar("T")

CLUSTER_VARIABLE = "JBODLAB_CLUSTER"
KILL_DEADLINE_S = 5.0

_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")
"""Starts all processes: for the kernel a process ends with the thread that started it, and this one
lives as long as we do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """User that the servers run as."""

    uid: int
    gid: int

    @property
    def is_other(self) -> bool:
        """Whether it is another user than this process's, which only root can become."""
        return self.uid != os.geteuid()

    def ask(self, question: Callable[[], T]) -> T:
        """Ask the file system something as this user, on a thread of its own.

        Linux keeps the user for file access by thread; root's rights are then gone there.

        Raises:
            BaseException: whatever the question raised.
        """
        with ThreadPoolExecutor(max_workers=1, initializer=self._enter) as thread:
            return thread.submit(question).result()

    def _enter(self) -> None:
        if self.is_other:
            libc = ctypes.CDLL(None)
            libc.setfsgid(self.gid)
            libc.setfsuid(self.uid)
            # Both tell nothing but what was there before.
            assert libc.setfsuid(-1) == self.uid


def own_user() -> ServerUser:
    """Return who this process runs as."""
    return ServerUser(uid=os.geteuid(), gid=os.getegid())


def start(
    command: Sequence[str],
    *,
    user: ServerUser,
    log_file: Path,
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output appended to a file of this user alone.

    The output of servers names clients, topics and settings.

    Args:
        command: Program and arguments.
        user: User that it runs as.
        log_file: Where its output goes.
        environment: All of its environment.
        inherited: File descriptors that it keeps open.

    Raises:
        OSError: the program cannot be executed by that user.
    """
    fd = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=fd,
            stderr=fd,
            cwd="/",
            env=environment,
            start_new_session=True,
            umask=0o022,
            pass_fds=inherited,
            user=user.uid if user.is_other else None,
            group=user.gid if user.is_other else None,
            extra_groups=[] if user.is_other else None,
        )

    try:
        return _starter.submit(begin).result()
    finally:
        os.close(fd)


# A starter that ended before the kernel was told has sent no signal, and never will.
_IF_STARTER_IS_THERE = 'test "$PPID" = "$0" && exec "$@"'


def ending_with_us(command: Sequence[str], by: str = "KILL") -> list[str]:
    """Return what runs a command so that the kernel kills it when the process that starts it ends.

    That is a service of Linux; elsewhere the command is left as it is.

    Args:
        command: Program and arguments.
        by: The signal, without its prefix.
    """
    wrapper = shutil.which("setpriv")
    if wrapper is None:
        return list(command)
    still_there = ["/bin/sh", "-c", _IF_STARTER_IS_THERE, str(os.getpid())]
    return [wrapper, "--pdeathsig", by, "--", *still_there, *command]


def run(
    command: Sequence[str],
    *,
    user: ServerUser,
    environment: Mapping[str, str],
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a short command as a user and return its output.

    Raises:
        OSError: the program cannot be executed by that user.
        subprocess.TimeoutExpired: it took too long, and was killed.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env=environment,
        start_new_session=True,
        umask=0o022,
        timeout=timeout_s,
        user=user.uid if user.is_other else None,
        group=user.gid if user.is_other else None,
        extra_groups=[] if user.is_other else None,
    )


def end(processes: Iterable[ProcessState], *, deadline_s: float) -> list[ProcessState]:
    """Ask processes to stop, and kill those that have not within the deadline.

    Returns:
        The processes that had to be killed.
    """
    asked = [process for process in processes if send(process, signal.SIGTERM)]
    killed = [process for process in wait_ended(asked, deadline_s) if send(process, signal.SIGKILL)]
    wait_ended(killed, KILL_DEADLINE_S)
    return killed


def in_session(session: int) -> list[ProcessState]:
    """Return the processes of a session that have not ended, its leader included."""
    return [
        ProcessState(pid=pid, start_ticks=int(fields[START_TICKS]))
        for pid, fields in everybody()
        if int(fields[SESSION]) == session
    ]


def of_cluster(root: Path) -> list[ProcessState]:
    """Return all processes that were started for the cluster in this folder."""
    return _started_for(lambda folder: folder == root)


def below(folder: Path) -> list[ProcessState]:
    """Return all processes that were started for clusters in this folder or below."""
    return _started_for(lambda root: folder in (root, *root.parents))


def _started_for(is_meant: Callable[[Path], bool]) -> list[ProcessState]:
    own = os.getpid()
    found = []
    for pid, fields in everybody():
        root = variables(pid).get(CLUSTER_VARIABLE)
        if pid != own and root is not None and is_meant(Path(root)):
            found.append(ProcessState(pid=pid, start_ticks=int(fields[START_TICKS])))
    return found


def resident_mb(process: ProcessState) -> int | None:
    """Return the resident memory of a process in MiB; None if it is gone."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
    return None
