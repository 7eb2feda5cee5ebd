"""What was injected and healed when: one JSON line each, on the disk before anything is touched.

    {"event": "begin",    "id": 3, "kind": "chmod000", "path": "/mnt/d1/data", "undo": {...}, ...}
    {"event": "more",     "id": 3, "modes": {"foo-0": 493}}      found while the fault was made
    {"event": "injected", "id": 3, "monotonic_ns": ..., "wall": ...}      the moment it took effect
    {"event": "undone",   "id": 3, "reason": ...}                it did not bite
    {"event": "healing",  "id": 3}
    {"event": "healed",   "id": 3, "note": ...}

Every line carries the wall clock (`wall`, ISO 8601 in UTC) and the system's monotonic clock
(`monotonic_ns`), which all processes of the machine share. A fault is open from its `begin` line
until it is undone or healed, so one that was interrupted at any point can still be healed from what
its lines say. A torn last line was never acted upon and is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jbodlab.errors import JbodlabError


class FaultError(JbodlabError):
    """The fault cannot be injected or healed; one line for the operator, exit code 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What a fault has to be undone with.

    Attributes:
        inode: Inode number of the directory, which tells it from a later one at the same path.
        modes: Permission bits by path relative to the directory, `.` itself included.
        aside: Where the directory was moved to; empty for the kinds that leave it in its place.
        marker: Content of the file that was put in its place, if one was.
    """

    inode: int
    modes: dict[str, int]
    aside: str = ""
    marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault as the journal tells it."""

    fault_id: int
    kind: str
    path: Path
    uid: int
    undo: Undo
    since: str
    is_open: bool = True
    injected_ns: int | None = None
    """When it took effect, on the monotonic clock; None until it did."""
    fate: str = field(default="")
    """How it ended; empty while it is open."""


class Journal:
    """The journal file, held exclusively while open."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = Path(os.path.realpath(path))
        self.faults = _replay(_complete_lines(fd), path)

    def next_id(self) -> int:
        """Return the id for a new fault; ids are never used twice."""
        return max(self.faults, default=0) + 1

    def open_faults(self) -> list[Fault]:
        """Return the faults that are not healed, oldest first."""
        return [fault for fault in self.faults.values() if fault.is_open]

    def write(self, event: str, fault_id: int, **values: object) -> None:
        """Append one line; it is on the disk at return.

        Raises:
            FaultError: it cannot be written.
        """
        entry = {"event": event, "id": fault_id, **now(), **values}
        try:
            _write_all(self._fd, json.dumps(entry).encode() + b"\n")
            os.fsync(self._fd)
        except OSError as error:
            raise FaultError(f"cannot write the journal {self.path}: {error.strerror}") from error
        _apply(self.faults, entry)


def now() -> dict[str, object]:
    """Return both clocks, as every line carries them."""
    return {
        "wall": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "monotonic_ns": time.monotonic_ns(),
    }


@contextlib.contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open the journal for one command; a second command waits until the first is through.

    Raises:
        FaultError: the file cannot be opened, or is damaged before its last line.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise FaultError(f"cannot open the journal {path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield Journal(fd, path)
    finally:
        os.close(fd)


def read_faults(path: Path) -> list[Fault]:
    """Return the open faults without the right to write; empty where there is no journal.

    Raises:
        FaultError: the file cannot be read, or is damaged before its last line.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FaultError(f"cannot read the journal {path}: {error.strerror}") from error
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [fault for fault in _replay(lines, path).values() if fault.is_open]


def _complete_lines(fd: int) -> list[bytes]:
    """Read all lines and cut off a torn last one."""
    size = os.fstat(fd).st_size
    data = b""
    while len(data) < size and (chunk := os.pread(fd, size - len(data), len(data))):
        data += chunk
    complete = data.rfind(b"\n") + 1
    if complete < size:
        os.ftruncate(fd, complete)
    return data[:complete].splitlines()


def _replay(lines: list[bytes], path: Path) -> dict[int, Fault]:
    faults: dict[int, Fault] = {}
    for number, line in enumerate(lines, start=1):
        try:
            _apply(faults, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise FaultError(f"journal {path} is damaged in line {number}: {error!r}") from error
    return faults


def _apply(faults: dict[int, Fault], entry: dict[str, Any]) -> None:
    fault_id = entry["id"]
    if entry["event"] == "begin":
        faults[fault_id] = Fault(
            fault_id=fault_id,
            kind=entry["kind"],
            path=Path(entry["path"]),
            uid=entry["uid"],
            undo=Undo(**entry["undo"]),
            since=entry["wall"],
        )
        return
    fault = faults[fault_id]
    match entry["event"]:
        case "more":
            modes = {**fault.undo.modes, **entry["modes"]}
            faults[fault_id] = replace(fault, undo=replace(fault.undo, modes=modes))
        case "injected":
            faults[fault_id] = replace(
                fault, injected_ns=entry["monotonic_ns"], since=entry["wall"]
            )
        case "undone" | "healed":
            faults[fault_id] = replace(fault, is_open=False, fate=entry["event"])
        case _:
            pass


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
