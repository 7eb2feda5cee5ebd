"""The lock of an output directory: one run at a time writes there.

On a disk it is `flock` on a file, which the operating system releases with the process. Elsewhere
it is a lease: a file that is created exclusively and renewed while the run lasts. A run that finds
a lease which nobody has renewed for `LEASE_S` takes its place by creating the file of the next
number, exclusively again; so of several such runs one succeeds.

    OUTPUT/.jbod-replay.lock        on a disk; it stays
    OUTPUT/.jbod-replay.lock-N      elsewhere; it goes with the run
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, Protocol

from analytics.store.log_files import object_store
from analytics.store.store import Store

LOCK = ".jbod-replay.lock"
LEASE_S = 600.0
"""A run that has not renewed its lease for so long has ended."""
RENEWALS = 10
"""How often a run renews a lease in that time."""


class LockedError(Exception):
    """Another run holds the lock; the message says which."""


class Lock(Protocol):
    """The right to write into an output directory."""

    def check(self) -> None:
        """Raise LockedError if another run has taken the lock meanwhile."""

    def release(self) -> None:
        """Let others have it; may be called again."""


def take_lock(store: Store) -> Lock:
    """Take the lock of an output directory, which exists.

    Raises:
        LockedError: another run holds it.
        OSError: the file system does not do it.
        ValueError: the library that creates files exclusively is missing.
    """
    return _FileLock(store.local / LOCK) if store.local is not None else _Lease(store)


def _holder() -> str:
    with suppress(KeyError, OSError):
        return f"process {os.getpid()} of {getpass.getuser()} on {socket.gethostname()}"
    return f"process {os.getpid()} on {socket.gethostname()}"


class _FileLock:
    def __init__(self, path: Path) -> None:
        self._file: IO[str] | None = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self.release()
            raise LockedError(holder) from None
        except BaseException:
            self.release()
            raise
        self._file.truncate(0)
        self._file.write(f"{_holder()}\n")
        self._file.flush()

    def check(self) -> None:
        pass

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Lease:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._content = json.dumps({"holder": _holder(), "id": uuid.uuid4().hex}).encode()
        self._ended = Event()
        last = max(self._numbers(), default=0)
        if last and (age_s := self._age_s(last)) < LEASE_S:
            raise LockedError(f"{self._holder_of(last)}, last seen {max(0, age_s):.0f} s ago")
        self._number = last + 1
        self._renewed = time.monotonic()
        if not create(store, self._name, self._content):
            raise LockedError(self._holder_of(self._number))
        self._renewer = Thread(target=self._renew, name="renew the lease", daemon=True)
        self._renewer.start()

    def check(self) -> None:
        is_own = self._number == max(self._numbers(), default=0)
        if not is_own or time.monotonic() - self._renewed > LEASE_S:
            raise LockedError("another run, since this one did not renew its lock in time")

    def release(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._renewer.join()
        with suppress(OSError):
            for number in sorted(self._numbers()):
                if number <= self._number:
                    self._store.remove(f"{LOCK}-{number}")

    @property
    def _name(self) -> str:
        return f"{LOCK}-{self._number}"

    def _numbers(self) -> list[int]:
        ends = [name.removeprefix(f"{LOCK}-") for name in self._store.names()]
        return [int(end) for end in ends if end.isdecimal()]

    def _age_s(self, number: int) -> float:
        file = self._store.file(f"{LOCK}-{number}")
        return float("inf") if file is None else time.time() - file.changed_ns / 1e9

    def _holder_of(self, number: int) -> str:
        try:
            return str(json.loads(self._store.read(f"{LOCK}-{number}"))["holder"])
        except (OSError, ValueError, KeyError):
            return "another process"

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_S / RENEWALS):
            with suppress(OSError, LockedError):  # later tries may succeed
                self.check()
                self._store.write(self._name, self._content)
                self._renewed = time.monotonic()


def create(store: Store, name: str, content: bytes) -> bool:
    """Create a file exclusively; returns whether it was created: False if there is one already.

    Raises:
        OSError: the file system does not do it.
        ValueError: the library that does it is missing.
    """
    if store.has_folders:
        # A file system of Hadoop does not rename to a name that exists.
        own = f"{name}.{uuid.uuid4().hex}"
        store.write(own, content)
        try:
            store.move(own, name)
        except OSError:
            store.remove(own)
            if store.exists(name):
                return False
            raise
        return True
    objects: Any = object_store(store.source)
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        obstore.put(objects, name, content, mode="create")
    except (AlreadyExistsError, PreconditionError):
        return False
    except BaseError as error:
        raise OSError(f"{store.source}/{name}: {str(error).splitlines()[0]}") from error
    return True
