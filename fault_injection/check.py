"""Proves, as the broker's user, that a directory can or can no longer be written.

Permissions mean nothing to root, so a fault that was only looked at by root may be none: the proof
is a real file, made in a child process that has become the broker's user. Everything the child
does is the kernel's answer to the very calls that a broker makes.
"""

from __future__ import annotations

import errno
import os
import pwd
import select
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_injection.errors import FaultError

DEADLINE_S = 10.0
"""Longest time a proof may take; a disk that hangs is no disk that answers."""

_NO_ANSWER = errno.ETIMEDOUT


@dataclass(frozen=True, slots=True)
class User:
    """The user that the broker runs as."""

    uid: int
    gid: int


def as_user(uid: int, gid: int, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a `Popen` for a child that proves something as a user."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **variables}
    found: dict[str, Any] = {"cwd": "/", "env": environment}
    return {**found, "user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else found


def user_for(path: Path, wanted: str | None) -> User:
    """Return the user to prove a fault as: the one named, else the owner of the directory.

    Raises:
        FaultError: no such user, or only root could become that user.
    """
    found = path.stat()
    user = User(found.st_uid, found.st_gid) if wanted is None else _named(wanted)
    own = os.geteuid()
    if own not in (0, user.uid):
        raise FaultError(
            f"only root or uid {user.uid} itself can prove a fault as uid {user.uid}; this is "
            f"uid {own}"
        )
    return user


def create_error(path: Path, user: User, size_bytes: int = 1) -> int:
    """Create, write, sync and remove a file in a directory as that user.

    Args:
        path: The directory.
        user: User that tries.
        size_bytes: How much is written.

    Returns:
        0 when all of it worked, else the `errno` of the call that failed; ETIMEDOUT when there
        was no answer within the deadline.
    """
    return _ask(user, lambda: _try_create(path / f".jbod-fault-check-{os.getpid()}", size_bytes))


def read_error(path: Path, user: User, expected: bytes) -> int:
    """Read a whole file as that user; 0, or an `errno`: ENODATA where other bytes are in it."""

    def read() -> None:
        if path.read_bytes() != expected:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))

    return _ask(user, read)


def hangs(path: Path, user: User, for_s: float) -> bool:
    """Return whether a file that is created as that user has not come back after so long."""
    file = path / f".jbod-fault-check-{os.getpid()}"
    return _ask(user, lambda: _try_create(file, 1), for_s) == _NO_ANSWER


def _ask(user: User, act: Callable[[], None], deadline_s: float = DEADLINE_S) -> int:
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        # The process that tries may be beyond all signals; it is left to the reaper of orphans.
        if os.fork() == 0:
            _answer(writer, user, act)
        os._exit(0)
    os.close(writer)
    os.waitpid(middle, 0)
    try:
        # A server may have more than the 1024 descriptors that `select.select` knows.
        answers = select.poll()
        answers.register(reader, select.POLLIN)
        if not answers.poll(deadline_s * 1000):
            return _NO_ANSWER
        data = os.read(reader, 4)
        return int(struct.unpack(">i", data)[0]) if len(data) == 4 else errno.EIO
    finally:
        os.close(reader)


def _answer(writer: int, user: User, act: Callable[[], None]) -> None:
    """Run in the child: become the user, try, tell, and end without any clean-up of the parent."""
    code = errno.EIO
    try:
        # A child that never comes back must not hold the lock of the journal with its copy.
        os.closerange(3, writer)
        os.closerange(writer + 1, 1 << 20)
        _become(user)
        act()
        code = 0
    except OSError as error:
        code = error.errno or errno.EIO
    finally:
        # Nobody may be waiting any more; this copy of the parent ends all the same.
        with suppress(OSError):
            os.write(writer, struct.pack(">i", code))
        os._exit(0)


def _become(user: User) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)


def _try_create(file: Path, size_bytes: int) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = size_bytes
        while left > 0:
            left -= os.write(fd, bytes(min(left, 1 << 20)))
        os.fsync(fd)
    finally:
        os.close(fd)
        with suppress(OSError):
            file.unlink()


def _named(wanted: str) -> User:
    if wanted.isdecimal():
        uid = int(wanted)
        try:
            return User(uid, pwd.getpwuid(uid).pw_gid)
        except KeyError:
            return User(uid, uid)
    try:
        entry = pwd.getpwnam(wanted)
    except KeyError:
        raise FaultError(f"no user named {wanted}") from None
    return User(entry.pw_uid, entry.pw_gid)
