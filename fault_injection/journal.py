"""What was injected and healed when: one JSON line each, on the disk before anything is touched.

    {"event": "begin",    "id": 3, "kind": "permission", "mechanism": "files", "path": ...,
                          "undo": {...}, "length_s": null, ...}                        planned
    {"event": "more",     "id": 3, "modes": {"foo-0": 493}}      found while the fault was made
    {"event": "injected", "id": 3, "monotonic_ns": ..., "wall": ...}   armed: it took effect
    {"event": "proved",   "id": 3}                               it bites
    {"event": "timer",    "id": 3, "pid": ...}                   the process that will heal it
    {"event": "undone",   "id": 3, "reason": ...}                unproved: it did not bite
    {"event": "healing",  "id": 3}
    {"event": "heal-failed", "id": 3, "reason": ...}             it stays open
    {"event": "healed",   "id": 3, "note": ..., "broken": {...}}

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

from fault_injection.errors import FaultError
from fault_injection.kinds import ALIASES
from jbodlab.lab_state import ProcessState

MODE = 0o600
"""The file names commands and environments of processes, which are nobody else's business."""

_OF_EVERY_LINE = ("event", "id", "wall", "monotonic_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault as the journal tells it.

    Attributes:
        kind: Name of the kind, never an alias.
        mechanism: What made it.
        path: The directory, or the folder of the broker whose process it struck.
        patient: Name of the broker; empty where only the directory was known.
        undo: What it has to be undone with, as its mechanism wrote it.
        state: `planned`, `armed`, `proved`, `unproved`, `healing`, `heal-failed` or `healed`.
        since: Wall clock of when it took effect; before that, of when it was planned.
        length_s: After so long it heals by itself; None: it does not.
        injected_ns: When it took effect, on the monotonic clock; None until it did.
        proved_ns: When it was proved to bite.
        healed_ns: When it was healed.
        broken: What it broke until it was healed, as `Broken` has it; empty before.
        timer: The process that will heal it after its length; None where none does.
    """

    fault_id: int
    kind: str
    mechanism: str
    path: Path
    patient: str
    uid: int
    gid: int
    undo: dict[str, Any]
    state: str
    since: str
    length_s: float | None = None
    injected_ns: int | None = None
    proved_ns: int | None = None
    healed_ns: int | None = None
    broken: dict[str, Any] = field(default_factory=dict)
    timer: ProcessState | None = None

    @property
    def is_open(self) -> bool:
        """Whether something may be broken."""
        return self.state not in CLOSED

    @property
    def until_ns(self) -> int | None:
        """When it heals by itself, on the monotonic clock; None if it does not, or not yet."""
        if self.length_s is None or self.injected_ns is None:
            return None
        return self.injected_ns + round(self.length_s * 1e9)


CLOSED = ("unproved", "healed")


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
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, MODE)
    except OSError as error:
        raise FaultError(f"cannot open the journal {path}: {error.strerror}") from error
    try:
        with contextlib.suppress(PermissionError):
            # The file may be older, or the umask narrower; only its owner can change that.
            os.fchmod(fd, MODE)
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield Journal(fd, path)
    finally:
        os.close(fd)


def read_faults(path: Path) -> list[Fault]:
    """Return the open faults without the right to write; empty where there is no journal.

    Raises:
        FaultError: the file cannot be read, or is damaged before its last line.
    """
    return [fault for fault in read_all(path).values() if fault.is_open]


def read_all(path: Path) -> dict[int, Fault]:
    """Return all faults by their ids, without the right to write; none where no journal is.

    Raises:
        FaultError: the file cannot be read, or is damaged before its last line.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FaultError(f"cannot read the journal {path}: {error.strerror}") from error
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return _replay(lines, path)


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
            kind=ALIASES.get(entry["kind"], entry["kind"]),
            mechanism=entry.get("mechanism", "files"),
            path=Path(entry["path"]),
            patient=entry.get("patient", ""),
            uid=entry["uid"],
            gid=entry.get("gid", entry["uid"]),
            undo=entry["undo"],
            state="planned",
            since=entry["wall"],
            length_s=entry.get("length_s"),
        )
        return
    fault = faults[fault_id]
    at_ns = entry["monotonic_ns"]
    match entry["event"]:
        case "more":
            faults[fault_id] = replace(fault, undo=_merged(fault.undo, entry))
        case "injected":
            # Of a broker that takes its time to end it is when it was told to.
            struck_ns = entry.get("struck_ns") or at_ns
            faults[fault_id] = replace(
                fault, state="armed", injected_ns=struck_ns, since=entry["wall"]
            )
        case "proved":
            faults[fault_id] = replace(fault, state="proved", proved_ns=at_ns)
        case "undone":
            faults[fault_id] = replace(fault, state="unproved", healed_ns=at_ns)
        case "healed":
            faults[fault_id] = replace(
                fault, state="healed", healed_ns=at_ns, broken=entry.get("broken", {})
            )
        case "timer":
            timer = ProcessState(pid=entry["pid"], start_ticks=entry["start_ticks"])
            faults[fault_id] = replace(fault, timer=timer)
        case "healing" | "heal-failed" as state:
            faults[fault_id] = replace(fault, state=state)
        case _:
            pass


def _merged(undo: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    more = {key: value for key, value in entry.items() if key not in _OF_EVERY_LINE}
    return {
        **undo,
        **{
            key: {**undo.get(key, {}), **value} if isinstance(value, dict) else value
            for key, value in more.items()
        },
    }


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
