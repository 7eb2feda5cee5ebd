"""A supervisor that answers for chosen system calls of the program that it starts.

    python -m fault_injection.notify CLASSES -- COMMAND ...

For machines without a C compiler, and for programs that a preloaded library cannot enter. The
program runs under a seccomp filter that hands these calls over; the supervisor finds out which file
a call is about and lets it go on, at once or later, or answers it with an error, as the same file
of rules says that the preloaded library follows. No root is needed, and nothing is built.

The supervisor is the program's parent: it passes signals on and ends with its exit code. When it
dies, the kernel kills the program. Reading and, unless asked for, writing are not handed over: each
such call costs some 50 microseconds, those on sockets included. Linux on x86-64.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fault_injection.call_filter import CALLS, Call, program
from fault_injection.errors import FaultError
from fault_injection.preload.control import RULES_VARIABLE, Control
from fault_injection.preload.judge import Judge, Verdict
from fault_injection.preload.rules import CallClass
from fault_injection.targets import RULES_BY_VARIABLE
from jbodlab.program_names import name_of

DEFAULT_CLASSES = (
    CallClass.CREATE | CallClass.SYNC | CallClass.TRUNCATE | CallClass.RENAME | CallClass.REMOVE
)
CLASSES_MAX = DEFAULT_CLASSES | CallClass.WRITE

_NO_NEW_PRIVILEGES, _PARENT_DEATH_SIGNAL = 38, 1
_SECCOMP, _SET_FILTER = 317, 1
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_PATH_BYTES = 4096
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_AT_FDCWD = -100
_NOTIFICATION_BYTES = 80


def refusal() -> str:
    """Return why there is no such supervisor on this machine; empty if there is."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"notify is for Linux on x86_64, and this is {sys.platform} on {platform.machine()}"
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    with contextlib.suppress(OSError):
        if "user_notif" in actions.read_text().split():
            return ""
    return "the kernel hands no system calls over (seccomp user notification)"


def launcher(classes: CallClass = DEFAULT_CLASSES, python: str = sys.executable) -> list[str]:
    """Return what is put before the command of a program that is to be supervised."""
    return [python, "-m", name_of("fault_injection.notify"), str(int(classes)), "--"]


def environment(control: Control, classes: CallClass = DEFAULT_CLASSES) -> dict[str, str]:
    """Return the variables to start the supervisor with; writes down which classes it sees."""
    control.traps(classes)
    return {RULES_VARIABLE: str(control.path), RULES_BY_VARIABLE: "notify"}


def main(arguments: Sequence[str]) -> int:
    """Start the program and serve it until its end; returns its exit code."""
    classes, separator, *command = arguments
    assert separator == "--"
    control = Control.open(Path(os.environ[RULES_VARIABLE]))
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _run(command, CallClass(int(classes)), theirs, parent)
    theirs.close()
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))
    try:
        data, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    finally:
        ours.close()
    if not data or not ancillary:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    listener = array.array("i", ancillary[0][2])[0]
    _Supervisor(control, listener).serve(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _run(command: list[str], classes: CallClass, told: socket.socket, parent: int) -> None:
    """Run in the child: install the filter, hand the listener over, become the program."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        listener = _install(libc, program(classes))
        told.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)
        os.execvp(command[0], command)
    except (OSError, FaultError) as error:
        os.write(2, f"jbodlab: {command[0]} cannot be supervised: {error}\n".encode())
    finally:
        os._exit(1)


def _install(libc: ctypes.CDLL, code: bytes) -> int:
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener: int = libc.syscall(_SECCOMP, _SET_FILTER, flags, header)
        if listener >= 0:
            return listener
    raise FaultError(f"no filter could be installed ({os.strerror(ctypes.get_errno())})")


@dataclass(frozen=True, slots=True)
class _Notification:
    """A call that waits for an answer."""

    id: int
    pid: int
    call: Call
    arguments: tuple[int, ...]


class _Supervisor:
    """Answers calls; those that must wait, each on a thread of its own."""

    def __init__(self, control: Control, listener: int) -> None:
        self._judge = Judge(control)
        self._listener = listener

    def serve(self, child: int) -> None:
        """Answer until the program has ended."""
        pidfd = os.pidfd_open(child)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(pidfd, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if pidfd in ready:
                return
            if ready.get(self._listener, 0) & select.POLLIN:
                self._answer_next()
            elif self._listener in ready:
                poll.unregister(self._listener)

    def _answer_next(self) -> None:
        buffer = bytearray(_NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # Who made the call is gone.
            raise
        identity, pid = struct.unpack_from("QI", buffer)
        number = struct.unpack_from("i", buffer, 16)[0]
        notification = _Notification(
            identity, pid, CALLS[number], struct.unpack_from("6Q", buffer, 32)
        )
        if not self._judge.is_armed:
            self._send(notification, 0)
            return
        places = _places(notification)
        if not self._is_valid(notification):
            return
        verdict = self._judge.begin(places, time.monotonic_ns())
        if verdict.wait_until_ns is None:
            self._send(notification, verdict.errno)
        else:
            threading.Thread(target=self._wait, args=(notification, verdict), daemon=True).start()

    def _wait(self, notification: _Notification, verdict: Verdict) -> None:
        self._send(notification, self._judge.outwait(verdict))

    def _send(self, notification: _Notification, code: int) -> None:
        flags = 0 if code else _CONTINUE
        answer = bytearray(struct.pack("QqiI", notification.id, 0, -code, flags))
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, answer, True)

    def _is_valid(self, notification: _Notification) -> bool:
        """Return whether the call still waits, so that what was read of its caller is its own."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, bytearray(struct.pack("Q", notification.id)))
        except OSError:
            return False
        return True


def _places(notification: _Notification) -> list[tuple[CallClass, str]]:
    """Return the files that a call is about, each with the classes that it is of there."""
    call, arguments = notification.call, notification.arguments
    found = []
    for handle, text in call.ends:
        if text is None:
            assert handle is not None
            path = _of_handle(notification.pid, arguments[handle])
        else:
            at = _AT_FDCWD if handle is None else ctypes.c_int(arguments[handle]).value
            path = _of_path(notification.pid, at, arguments[text])
        if path is None:
            continue
        classes = call.classes
        if call.flags is not None:
            classes = _of_open(path, arguments[call.flags])
        if classes:
            found.append((classes, path))
    return found


def _of_open(path: str, flags: int) -> CallClass:
    """Opening creates only what is not there yet, and truncates only what is."""
    if not os.path.lexists(path):
        return CallClass.CREATE
    return CallClass.TRUNCATE if flags & os.O_TRUNC else CallClass(0)


def _of_handle(pid: int, handle: int) -> str | None:
    link = f"/proc/{pid}/fd/{ctypes.c_int(handle).value}"
    try:
        mode = os.stat(link).st_mode  # noqa: PTH116 - a link of the kernel's
        path = os.readlink(link)  # noqa: PTH115
    except OSError:
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or not path.startswith("/"):
        return None
    return path.removesuffix(" (deleted)")


def _of_path(pid: int, at: int, pointer: int) -> str | None:
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:  # noqa: PTH123
            memory.seek(pointer)
            given = os.fsdecode(memory.read(_PATH_BYTES).split(b"\0")[0])
        if not given.startswith("/"):
            folder = f"/proc/{pid}/cwd" if at == _AT_FDCWD else f"/proc/{pid}/fd/{at}"
            given = f"{os.readlink(folder)}/{given}"  # noqa: PTH115
    except OSError:
        return None
    folder, name = os.path.split(given.rstrip("/") or "/")
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
