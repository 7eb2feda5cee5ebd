"""Faults that were injected and healed: one JSON line each, on the disk before a change.

    {"event": "begin",    "id": 3, "kind": "permission", "mechanism": "files", "path": ...,
                          "undo": {...}, "length_s": null, ...}                        planned
    {"event": "more",     "id": 3, "modes": {"foo-0": 493}}      found while the fault was made
    {"event": "timer",    "id": 3, "pid": ...}                   the process that will heal it
    {"event": "injected", "id": 3, "monotonic_ns": ..., "wall": ...}   armed: it took effect
    {"event": "proved",   "id": 3}                               the broker's user sees the effect
    {"event": "undone",   "id": 3, "reason": ...}                unproved: it had no effect
    {"event": "healing",  "id": 3}
    {"event": "heal-failed", "id": 3, "reason": ...}             it stays open
    {"event": "healed",   "id": 3, "note": ..., "broken": {...}}

Every line carries the wall clock (`wall`, ISO 8601 in UTC) and the system's monotonic clock
(`monotonic_ns`), which all processes of the machine share. A fault is open from its `begin` line
until it is undone or healed, so one that was interrupted at any point can still be healed from what
its lines say. A torn last line was never acted upon and is cut off.

Locks are held on single bytes of the file, and the kernel releases them when their holder dies:
byte 0 while a line is written or a new fault is planned, which is soon over; byte N while fault N
is made or healed, which may take as long as its broker takes to stop.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fault_injection.errors import FaultError
from jbodlab.cli.lab_state import ProcessState

MODE = 0o600
"""The file names commands and environments of processes, which are nobody else's business."""

HELD_S_MAX = 45.0
"""Longer than any fault takes to be made or healed; whoever holds one for longer hangs."""

_OF_EVERY_LINE = ("event", "id", "wall", "monotonic_ns")
_LINES = 0
"""The byte that is locked while the file is written to."""
_LOCK = struct.Struct("@hhqqi4x")
"""`struct flock`: type, origin, first byte, number of bytes, process (0: none owns the lock)."""
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault as the journal describes it.

    Attributes:
        kind: Name of the kind.
        mechanism: Name of the mechanism that made it.
        path: The directory, or the folder of the broker whose process it ended.
        broker: Name of the broker; empty where only the directory was known.
        undo: Facts that its mechanism needs in order to undo it.
        state: `planned`, `armed`, `proved`, `unproved`, `healing`, `heal-failed` or `healed`.
        since: Wall clock of when it took effect; before that, of when it was planned.
        length_s: It heals by itself after so long; None: it does not.
        injected_ns: When it took effect, on the monotonic clock; None until it did.
        proved_ns: When its effect was proved.
        healed_ns: When it was healed.
        broken: Things that it broke until it was healed, as `Broken` counts them; empty before.
        timer: The process that will heal it after its length; None where none does.
    """

    fault_id: int
    kind: str
    mechanism: str
    path: Path
    broker: str
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
    """The journal file; other programs read and write it at the same time."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = Path(os.path.realpath(path))

    @property
    def faults(self) -> dict[int, Fault]:
        """All faults by their ids, as they are now; raises as `read_all`."""
        return read_all(self.path)

    @contextlib.contextmanager
    def begin(self, plan: Callable[[int], Mapping[str, object]]) -> Iterator[Fault]:
        """Write down a new fault, and hold it while the block runs.

        Args:
            plan: Returns what the `begin` line says, given the new id; nobody else begins a fault
                meanwhile. An error that it raises leaves the journal as it was.
        """
        with self._locked():
            # No id is used twice.
            fault_id = max(self.faults, default=0) + 1
            values = plan(fault_id)
            _try_lock(self._fd, fault_id)
            self._append("begin", fault_id, values)
        try:
            yield self.faults[fault_id]
        finally:
            _unlock(self._fd, fault_id)

    @contextlib.contextmanager
    def hold(self, *places: int) -> Iterator[None]:
        """Keep others from making or healing the same faults while the block runs.

        Args:
            places: Ids of faults, or numbers far above them for what several faults change.
        """
        end_s = time.monotonic() + HELD_S_MAX
        for place in places:
            # Healing must not depend on an injector that was stopped or hangs.
            while not _try_lock(self._fd, place) and time.monotonic() < end_s:
                time.sleep(_POLL_S)
        try:
            yield
        finally:
            for place in places:
                _unlock(self._fd, place)

    def write(self, event: str, fault_id: int, **values: object) -> None:
        """Append one line; it is on the disk at return.

        Raises:
            FaultError: it cannot be written.
        """
        with self._locked():
            self._append(event, fault_id, values)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLKW, _LOCK.pack(fcntl.F_WRLCK, 0, _LINES, 1, 0))
        try:
            yield
        finally:
            _unlock(self._fd, _LINES)

    def _append(self, event: str, fault_id: int, values: Mapping[str, object]) -> None:
        entry = {"event": event, "id": fault_id, **now(), **values}
        try:
            _cut_torn_line(self._fd)
            _write_all(self._fd, json.dumps(entry).encode() + b"\n")
            os.fsync(self._fd)
        except OSError as error:
            raise FaultError(f"cannot write the journal {self.path}: {error.strerror}") from error


def now() -> dict[str, object]:
    """Return both clocks, as every line carries them."""
    return {
        "wall": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "monotonic_ns": time.monotonic_ns(),
    }


@contextlib.contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open the journal for one command, and create it where it is missing.

    Raises:
        FaultError: the file cannot be opened.
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
    return parse(data, path)


def parse(data: bytes, path: Path) -> dict[int, Fault]:
    """Return all faults by their ids from what a journal contains; a torn last line is ignored.

    Raises:
        FaultError: it is damaged before its last line.
    """
    faults: dict[int, Fault] = {}
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            _apply(faults, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise FaultError(f"journal {path} is damaged in line {number}: {error!r}") from error
    return faults


def _cut_torn_line(fd: int) -> None:
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        os.ftruncate(fd, os.pread(fd, size, 0).rfind(b"\n") + 1)


def _try_lock(fd: int, byte: int) -> bool:
    """Lock one byte for this opening of the file; returns whether nobody else has it."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, 0, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(fd: int, byte: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_UNLCK, 0, byte, 1, 0))


def _apply(faults: dict[int, Fault], entry: dict[str, Any]) -> None:
    fault_id = entry["id"]
    if entry["event"] == "begin":
        faults[fault_id] = Fault(
            fault_id=fault_id,
            kind=entry["kind"],
            mechanism=entry.get("mechanism", "files"),
            path=Path(entry["path"]),
            broker=entry.get("broker", ""),
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
            # A broker that takes its time to end counts from the signal.
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
