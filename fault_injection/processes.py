"""Processes that faults end and start again, and how a process is known for good.

A process is known by its pid together with its start time, so that a later process that was given
the same pid is never touched; signals go through a pidfd, which is bound to one process for good.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jbodlab.cli.lab_state import ENDED, START_TICKS, STATE, ProcessState, is_alive, stat

__all__ = ["ENDED", "START_TICKS", "STATE", "is_alive", "stat"]

POLL_S = 0.02

SESSION = 3
"""Field of /proc/PID/stat behind the name in parentheses."""


def find(pid: int) -> ProcessState | None:
    """Return a process that exists, ended but not waited for included."""
    fields = stat(pid)
    return None if fields is None else ProcessState(pid=pid, start_ticks=int(fields[START_TICKS]))


def send(process: ProcessState, number: signal.Signals) -> bool:
    """Signal a process if it is still the one we mean; returns whether it was."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def wait_ended(processes: Sequence[ProcessState], deadline_s: float) -> list[ProcessState]:
    """Wait for processes to end; returns those that have not."""
    deadline = time.monotonic() + deadline_s
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_S)
        left = [process for process in left if is_alive(process)]
    return left


def everybody() -> Iterable[tuple[int, list[str]]]:
    """Yield pid and fields of every process that has not ended."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only
        fields = stat(int(entry)) if entry.isdecimal() else None
        if fields is not None and fields[STATE] not in ENDED:
            yield int(entry), fields


def command(pid: int) -> list[str]:
    """Return program and arguments of a process; empty where it is gone."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(part) for part in data.removesuffix(b"\0").split(b"\0")]


def with_argument(wanted: str) -> ProcessState | None:
    """Return the leader of a session that has been given an argument, such as a property file."""
    return next(
        (
            find(pid)
            for pid, fields in everybody()
            if int(fields[SESSION]) == pid and wanted in command(pid)[1:]
        ),
        None,
    )


def with_command(wanted: Sequence[str]) -> ProcessState | None:
    """Return the process that runs exactly this command."""
    return next((find(pid) for pid, _ in everybody() if command(pid) == list(wanted)), None)


def variables(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty where that may not be read."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a process is started once more.

    Attributes:
        command: Program and arguments.
        environment: All of its environment.
        output: File that its output is appended to; empty for none.
        uid, gid: Its user.
    """

    command: list[str]
    environment: dict[str, str]
    output: str
    uid: int
    gid: int


def recipe(process: ProcessState) -> Recipe:
    """Return how a running process is started again.

    Raises:
        OSError: it is gone, or belongs to somebody else.
    """
    folder = Path(f"/proc/{process.pid}")
    owner = folder.stat()
    output = str((folder / "fd" / "1").readlink())
    return Recipe(
        command=command(process.pid),
        environment=variables(process.pid),
        output=output if output.startswith("/") and not output.startswith("/dev/") else "",
        uid=owner.st_uid,
        gid=owner.st_gid,
    )


def start(wanted: Recipe) -> ProcessState | None:
    """Start a process that is nobody's child, in a session of its own.

    Returns:
        The process, which runs its program by then; None if it has ended already.

    Raises:
        OSError: its output cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    output = os.open(wanted.output or os.devnull, flags, 0o600)
    reader, writer = os.pipe()
    try:
        middle = os.fork()
        if middle == 0:
            _become(wanted, output, writer)
        os.waitpid(middle, 0)
        pid = int.from_bytes(os.read(reader, 8), "little")
        os.close(writer)
        writer = -1
        # The last writer closes when the program is executed, or was not: before that nobody finds
        # the process by its command.
        os.read(reader, 1)
        return find(pid)
    finally:
        for fd in (output, reader, writer):
            if fd >= 0:
                os.close(fd)


def _become(wanted: Recipe, output: int, told: int) -> None:
    """Run in the child: fork once more, so that init waits for the process; never returns."""
    try:
        pid = os.fork()
        if pid:
            os.write(told, pid.to_bytes(8, "little"))
        else:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, fd in enumerate((nothing, output, output)):
                os.dup2(fd, number)
            # It closes itself when the program is executed.
            os.closerange(3, told)
            os.closerange(told + 1, 4096)
            os.chdir("/")
            os.umask(0o022)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(wanted.gid)
                os.setuid(wanted.uid)
            os.execvpe(wanted.command[0], wanted.command, wanted.environment)
    finally:
        os._exit(1)
