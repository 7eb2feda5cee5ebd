"""Disks in memory: a page cache above what is durable, and everything that disks do wrong.

A `Medium` is what an operator can hold in hand: a tree of files and directories. A `SimDisk` is the
place where one is mounted, with its faults; it outlives processes. A `DiskView` is what one process
sees of it, a `jbodlab.storage.directory.filesystem.Disk`.

Durable bytes, and those that a loss of power leaves:

* Of a file, what was synced. Each write and cut after that may survive or not; by the way of loss
  that is drawn none do, all, the first few, those with a last one that is torn at a sector, or any
  subset with zeros in the gaps.
* Of names, what was synced. Each change of names is one transaction of a journal. On an *ordered*
  disk the journal keeps its order, and every sync of anything brings all of it to the disk, as ext4
  does. On a *loose* one only a sync of the directory counts, and of the rest the first few in each
  folder survive. On a *shuffled* one any of them do. Both are harsher than Linux.

A sync that fails drops what it was to sync: it stays readable, and is never tried again.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from greenlet import getcurrent

from jbodlab.storage.directory.filesystem import Buffer
from jbodlab.storage.directory.names import TMP_SUFFIX
from tests.simulation.loop import PROCESS, Process, SimLoop, Waiters, pause
from tests.simulation.plan import UNLIMITED

N = TypeVar("N", bound="Node")
T = TypeVar("T")
Change = tuple[int, bytes | None]
"""A write as position and bytes, or a cut as size and None."""

SECTOR = 512
FULL_BYTES = 10_000
KINDS = ("create", "write", "sync", "read", "name", "remove", "truncate", "list", "stat")
CHANGES = frozenset({"create", "write", "name", "remove", "truncate"})
LONG_SHARE, WAITING_SHARE = 0.02, 0.2
"""Of writes that take up to so many seconds, and of those that take any time at all."""
LATE_SHARE, LATE_S_MAX = 0.3, 3.0
"""Of calls that hung and come back some seconds after the disk works again."""
LATENCY_S = {"write": 0.00002, "sync": 0.002, "name": 0.0001}
LOSSES = ("none", "all", "first", "torn", "any")


@dataclass(eq=False, slots=True)
class Node:
    """A file that a name leads to."""

    number: int

    def close(self) -> None:
        """Nothing is bound to who holds it: no number is ever given away twice."""


@dataclass(eq=False, slots=True)
class File(Node):
    """An inode with bytes."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list)

    def change(self, position: int, data: bytes | None) -> None:
        """Write at a position, or cut there."""
        self.unsynced.append((position, data))
        _apply(self.data, (position, data))

    def sync(self) -> None:
        self._settle(self.unsynced)

    def lose_power(self, random: Random, loss: str) -> None:
        self._settle(_survivors(random, loss, self.unsynced))
        self.forget_cached()

    def forget_cached(self) -> None:
        self.data = self.synced()

    def synced(self) -> bytearray:
        """Return what a sync would leave: what one was to write that has failed is not in it."""
        data = bytearray(self.durable)
        for change in self.unsynced:
            _apply(data, change)
        return data

    def _settle(self, changes: list[Change]) -> None:
        for change in changes:
            _apply(self.durable, change)
        self.unsynced.clear()


@dataclass(eq=False, slots=True)
class Folder(Node):
    """An inode with names."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)


Transaction = tuple[tuple[Folder, str, "File | Folder | None"], ...]


class Medium:
    """A device that is mounted somewhere, as no other one, with room for so many bytes."""

    def __init__(self, device: int, capacity: int, *, is_ordered: bool) -> None:
        self.device = device
        self.capacity = capacity
        self.is_ordered = is_ordered
        self.is_shuffled = False
        self.numbers = itertools.count(1)
        self.root = Folder(next(self.numbers))
        self._journal: list[Transaction] = []
        self._used: int | None = None
        """The result of `used`, until names or sizes change."""

    @property
    def is_nearly_full(self) -> bool:
        """Whether a broker may take it for full."""
        return self.capacity < UNLIMITED and self.capacity - self.used() < FULL_BYTES

    def used(self) -> int:
        if self._used is None:
            self._used = sum(len(file.data) for file in files_below(self.root))
        return self._used

    def resized(self, grown: int | None = None) -> None:
        """Take in that a file has grown by so many bytes, or that sizes changed otherwise."""
        self._used = None if grown is None or self._used is None else self._used + grown

    def change(self, *entries: tuple[Folder, str, File | Folder | None]) -> None:
        """Change names, all or none of them even when power is lost."""
        self.resized()
        _rename(entries, "names")
        self._journal.append(entries)

    def sync_names(self, folder: Folder | None = None) -> None:
        """Make names durable: those of one folder, or all, as an ordered disk does anyway."""
        journal, self._journal = self._journal, []
        for entries in journal:
            if folder is None or self.is_ordered or any(each is folder for each, _, _ in entries):
                _rename(entries, "durable")
            else:
                self._journal.append(entries)

    def sync_file(self, file: File) -> None:
        file.sync()
        if self.is_ordered:
            self.sync_names()

    def sync_all(self) -> None:
        self.sync_names()
        for file in files_below(self.root):
            file.sync()

    def lose_power(self, random: Random, loss: str) -> None:
        self.resized()
        journal, self._journal = self._journal, []
        ways = {"torn": "first", "any": "first" if self.is_ordered else "any"}
        survivors = _subset(random, ways.get(loss, loss), journal)
        for entries in survivors if self.is_shuffled else _in_order(journal, survivors):
            _rename(entries, "durable")
        self._forget(self.root, random, loss, set())

    def _forget(self, folder: Folder, random: Random, loss: str, seen: set[int]) -> None:
        folder.names = dict(folder.durable)
        for node in folder.names.values():
            if node.number in seen:
                continue
            seen.add(node.number)
            if isinstance(node, Folder):
                self._forget(node, random, loss, seen)
            else:
                node.lose_power(random, loss)


def files_below(folder: Folder) -> Iterator[File]:
    for node in folder.names.values():
        if isinstance(node, File):
            yield node
        else:
            yield from files_below(node)


class SimDisk:
    """A place where a medium is mounted; latencies and losses are drawn from its seed.

    Attributes:
        errors: Errors that each kind of call fails with; `KINDS`.
        fail_next: Kinds of which only the next call fails, each with its error.
        hangs: Kinds of calls that wait until `heal`.
        hangs_after: Whether what hangs has taken effect before.
        slowness_s: Seconds that each call that changes something takes longer.
        late_until_s: Until when calls that hung or are slow come back, on the loop's clock.
        on_folder: Told of each new folder, and of each that is renamed, with its former name.
        on_loop: Told of calls that come from an event loop, which they would hold up.
        locks: Processes that have locked a file, by the file.
        cause: The fault that was last done to it; empty as long as nothing was.
    """

    def __init__(self, loop: SimLoop, path: Path, medium: Medium, seed: str) -> None:
        self.loop = loop
        self.path = path
        self.depth = len(path.parts)
        self.medium = medium
        self.random = Random(seed)
        self.errors: dict[str, int] = {}
        self.fail_next: dict[str, int] = {}
        self.hangs: frozenset[str] = frozenset()
        self.hangs_after = False
        self.slowness_s = self.late_until_s = 0.0
        self.cause = ""
        self.on_folder: Callable[[Path, Path], object] = lambda _path, _former: None
        self.on_loop: Callable[[SimDisk, str], object] = lambda _disk, _kind: None
        self.locks: dict[int, Process] = {}
        self._hanging = Waiters(loop)
        self.running: dict[tuple[Process, str, str], int] = {}
        """Calls on threads that have not taken effect yet: whose, of what kind, on which name."""

    @property
    def is_ill(self) -> bool:
        is_broken = self.errors or self.fail_next or self.hangs or self.slowness_s
        return bool(is_broken) or self.medium.is_nearly_full

    @property
    def is_late(self) -> bool:
        return self.late_until_s > self.loop.time()

    def break_(self, code: int, kinds: Sequence[str] = KINDS) -> None:
        """Let calls fail from now on."""
        self.cause = os.strerror(code)
        self.errors.update(dict.fromkeys(kinds, code))

    def hang(self, kinds: Sequence[str], *, is_after: bool = False) -> None:
        """Let calls wait until `heal`, before they take effect or after that."""
        self.hangs, self.hangs_after, self.cause = frozenset(kinds), is_after, "it hangs"

    def heal(self) -> None:
        """Let everything work again; what hung goes on."""
        self.errors.clear()
        self.fail_next.clear()
        self.hangs, self.hangs_after, self.slowness_s = frozenset(), False, 0.0
        self._hanging.wake_all()

    def lose_power(self, loss: str) -> None:
        """Leave what is durable, and of the rest what is drawn."""
        self.medium.lose_power(self.random, loss)

    def run(self, kind: str, path: Path, effect: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Carry a call out, as the state of the disk lets it."""
        process, running = PROCESS.get(), self.running
        if getcurrent() is self.loop.hub:
            if process.name.startswith("node-"):
                self.on_loop(self, kind)
            self._fail(kind, path)
            return effect(*args, **kwargs)
        call = process, kind, path.name
        running[call] = running.get(call, 0) + 1
        try:
            if self.hangs:
                self._hang(kind, is_after=False)
            if kind in LATENCY_S or self.slowness_s:
                self._take_time(kind)
            self._fail(kind, path)
            result = effect(*args, **kwargs)
        finally:
            running[call] -= 1
        if self.hangs:
            self._hang(kind, is_after=True)
        return result

    def _fail(self, kind: str, path: Path) -> None:
        if (self.fail_next or self.errors) and (
            code := self.fail_next.pop(kind, None) or self.errors.get(kind)
        ):
            raise _error(code, path)

    def _hang(self, kind: str, *, is_after: bool) -> None:
        while kind in self.hangs and self.hangs_after is is_after:
            self._hanging.rest()
            if self.random.random() < LATE_SHARE:
                self._pause(self.random.random() * LATE_S_MAX)

    def _pause(self, seconds: float) -> None:
        self.late_until_s = max(self.late_until_s, self.loop.time() + seconds)
        pause(self.loop, seconds)

    def _take_time(self, kind: str) -> None:
        if seconds := self._seconds(kind):
            self._pause(seconds) if self.slowness_s else pause(self.loop, seconds)
            self._hang(kind, is_after=False)

    def _seconds(self, kind: str) -> float:
        base = LATENCY_S.get(kind, 0.0)
        slow = self.slowness_s if kind in CHANGES or kind == "sync" else 0.0
        if slow or kind == "sync":
            return (base + slow) * (0.5 + self.random.random())
        # Most calls end in the page cache; some let the loop go on meanwhile, a few for long.
        drawn = self.random.random() if base else 1.0
        return drawn if drawn < LONG_SHARE else base * (drawn < WAITING_SHARE)


def call(kind: str) -> Callable[[Callable[..., Any]], Any]:
    """Make a method a call of a kind to its disk, about a path, as the disk's state lets it."""

    def enter(effect: Callable[..., Any]) -> Any:
        @functools.wraps(effect)
        def run(me: DiskView | SimFile, *args: Any, **kwargs: Any) -> Any:
            return me.disk.run(kind, me.path or args[0], effect, me, *args, **kwargs)

        return run

    return enter


class DiskView:
    """The view that one process sees of a disk; a `jbodlab.storage.directory.filesystem.Disk`."""

    path = None
    """Each call is about one of its own."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk

    @call("create")
    def open_append(self, path: Path) -> SimFile:
        return self._open(path)

    open_target = open_append

    @call("read")
    def open_source(self, path: Path) -> SimFile:
        return SimFile(self.disk, path, self._need(path, File))

    @call("list")
    def listdir(self, path: Path) -> list[str]:
        return sorted(self._need(path, Folder).names)

    @call("stat")
    def exists(self, path: Path) -> bool:
        return self.find(path) is not None

    @call("stat")
    def is_dir(self, path: Path) -> bool:
        return isinstance(self.find(path), Folder)

    is_usable = is_dir

    @call("stat")
    def size(self, path: Path) -> int:
        node = self._need(path, Node)
        return len(node.data) if isinstance(node, File) else SECTOR

    @call("name")
    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        found = self.find(path)
        if found is not None:
            if not (exist_ok and isinstance(found, Folder)):
                raise _error(errno.EEXIST, path)
            return
        if parents and self.find(path.parent) is None:
            self.mkdir(path.parent, parents=True, exist_ok=True)
        medium = self.disk.medium
        made = Folder(next(medium.numbers))
        medium.change((self._need(path.parent, Folder), path.name, made))
        self.disk.on_folder(path, path)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        self._rename(source, target)
        if sync:
            self.fsync_dir(target.parent)
            if source.parent != target.parent:
                self.fsync_dir(source.parent)

    @call("remove")
    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        if self.find(path) is not None or not missing_ok:
            self._need(path, File)
            self._forget(path)

    @call("read")
    def read_bytes(self, path: Path) -> bytes:
        return bytes(self._need(path, File).data)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        file = self._write(path, data)
        if sync:
            file.fsync()

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        tmp = path.with_name(path.name + TMP_SUFFIX)
        self.write_bytes(tmp, data, sync=sync)
        self.rename(tmp, path, sync=False)
        if sync:
            self.fsync_dir(path.parent)

    def fsync_file(self, path: Path) -> None:
        SimFile(self.disk, path, self.disk.run("create", path, self._need, path, File)).fsync()

    def write_back(self, path: Path, position: int, size: int) -> int:
        return max(0, min(size, self.size(path) - position))

    def forget_cached(self, path: Path) -> None:
        self._need(path, File).forget_cached()
        self.disk.medium.resized()

    @call("sync")
    def fsync_dir(self, path: Path) -> None:
        if path not in self.disk.path.parents:
            self.disk.medium.sync_names(self._need(path, Folder))

    @call("remove")
    def rmdir(self, path: Path) -> None:
        if self._need(path, Folder).names:
            raise _error(errno.ENOTEMPTY, path)
        self._forget(path)

    def rmtree(self, path: Path) -> None:
        for name in self.listdir(path):
            if self.is_dir(path / name):
                self.rmtree(path / name)
            else:
                self.unlink(path / name)
        self.rmdir(path)

    @call("stat")
    def disk_usage(self, path: Path) -> tuple[int, int]:
        medium = self.disk.medium
        used = medium.used() if medium.capacity < UNLIMITED else 0
        return medium.capacity, max(0, medium.capacity - used)

    @call("stat")
    def identity(self, path: Path) -> tuple[int, int]:
        return self.disk.medium.device, self._need(path, Folder).number

    @call("stat")
    def make_read_only(self, path: Path) -> None:
        self._need(path, File)

    def canonical(self, path: Path) -> Path:
        return path

    @call("stat")
    def hold(self, path: Path) -> Folder:
        return self._need(path, Folder)

    @call("create")
    def lock(self, path: Path) -> SimLock:
        file = self._open(path).file
        holder = self.disk.locks.setdefault(file.number, PROCESS.get())
        if holder.is_alive and holder is not PROCESS.get():
            raise BlockingIOError(errno.EAGAIN, "locked by another process")
        self.disk.locks[file.number] = PROCESS.get()
        return SimLock(self.disk, path, file)

    def find(self, path: Path) -> File | Folder | None:
        """Return what is at a path, now and whatever the disk does."""
        node: File | Folder | None = self.disk.medium.root
        for name in path.parts[self.disk.depth :]:
            if node is None:
                break
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, path)
            node = node.names.get(name)
        return node

    def _need(self, path: Path, kind: type[N]) -> N:
        node = self.find(path)
        if isinstance(node, kind):
            return node
        if node is None:
            raise _error(errno.ENOENT, path)
        raise _error(errno.EISDIR if isinstance(node, Folder) else errno.ENOTDIR, path)

    def _open(self, path: Path) -> SimFile:
        folder = self._need(path.parent, Folder)
        if path.name not in folder.names:
            file = File(next(self.disk.medium.numbers))
            self.disk.medium.change((folder, path.name, file))
        return SimFile(self.disk, path, self._need(path, File))

    def _forget(self, path: Path) -> None:
        self.disk.medium.change((self._need(path.parent, Folder), path.name, None))

    @call("write")
    def _write(self, path: Path, data: bytes) -> SimFile:
        opened = self._open(path)
        if opened.file.data:
            opened.file.change(0, None)
            self.disk.medium.resized()
        opened.put(0, data)
        return opened

    @call("name")
    def _rename(self, source: Path, target: Path) -> None:
        node = self._need(source, Node)
        folder = self._need(target.parent, Folder)
        there = folder.names.get(target.name)
        if isinstance(there, Folder) and (isinstance(node, File) or there.names):
            raise _error(errno.EISDIR if isinstance(node, File) else errno.ENOTEMPTY, target)
        if isinstance(there, File) and isinstance(node, Folder):
            raise _error(errno.ENOTDIR, target)
        if source != target:
            home = self._need(source.parent, Folder)
            self.disk.medium.change((home, source.name, None), (folder, target.name, node))
            if isinstance(node, Folder):
                self.disk.on_folder(target, source)


class SimFile:
    """An open file: `AppendFile`, `CopySource` and `CopyTarget`."""

    def __init__(self, disk: SimDisk, path: Path, file: File) -> None:
        self.disk = disk
        self.path = path
        self.file = file

    def write(self, data: Buffer) -> int:
        return self.writev((data,))

    def writev(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        self._write(data, None)
        return len(data)

    @call("read")
    def pread(self, size: int, position: int) -> bytes:
        return bytes(self.file.data[position : position + size])

    def fsync(self) -> None:
        """Make it durable; where that fails what was to be synced never will be."""
        try:
            self._sync()
        except OSError:
            self.file.unsynced.clear()
            raise

    @call("truncate")
    def truncate(self, size: int) -> None:
        self.file.change(size, None)
        self.disk.medium.resized()

    def size(self) -> int:
        return len(self.file.data)

    def fileno(self) -> int:
        raise AssertionError("nothing in memory has a descriptor")

    def copy_from(self, source: SimFile, position: int, size: int) -> int:
        data = source.pread(size, position)
        self._write(data, position)
        return len(data)

    def close(self) -> None:
        """Nothing is bound to it."""

    def put(self, position: int, data: bytes) -> None:
        """Write as much as there is room for."""
        medium, file = self.disk.medium, self.file
        size = len(file.data)
        grows = position + len(data) - size
        room = len(data)
        if grows > 0 and medium.capacity < UNLIMITED:
            room = max(0, min(room, room - (grows - (medium.capacity - medium.used()))))
        taken = bytes(data[:room])
        if taken:
            file.change(position, taken)
            medium.resized(max(0, position + room - size))
            self.disk.loop.note(zlib.crc32(taken).to_bytes(4, "big"))
        if room < len(data):
            raise _error(errno.ENOSPC, self.path)

    @call("write")
    def _write(self, data: bytes, position: int | None) -> None:
        self.put(len(self.file.data) if position is None else position, data)

    @call("sync")
    def _sync(self) -> None:
        self.disk.medium.sync_file(self.file)


class SimLock(SimFile):
    """A `jbodlab.storage.directory.filesystem.FileLock`."""

    is_open = True

    def is_at_its_path(self) -> bool:
        return self.is_open and self._found() is self.file

    @call("stat")
    def _found(self) -> File | Folder | None:
        return DiskView(self.disk).find(self.path)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.disk.locks.pop(self.file.number, None)


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))


def _apply(content: bytearray, change: Change) -> None:
    position, data = change
    content += bytes(max(0, position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _rename(entries: Transaction, of: str) -> None:
    for folder, name, node in entries:
        names = getattr(folder, of)
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _subset(random: Random, way: str, items: list[T]) -> list[T]:
    if way == "first":
        return items[: random.randint(0, len(items))]
    if way == "any":
        return [item for item in items if random.random() < 0.5]
    return items if way == "all" else []


def _in_order(journal: list[Transaction], survivors: list[Transaction]) -> list[Transaction]:
    """Return the survivors before which nothing of the same folders was lost."""
    kept, broken = [], set()
    for entries in journal:
        folders = {folder.number for folder, _, _ in entries}
        if entries in survivors and not folders & broken:
            kept.append(entries)
        else:
            broken |= folders
    return kept


def _survivors(random: Random, loss: str, changes: list[Change]) -> list[Change]:
    if loss != "torn":
        return _subset(random, loss, changes)
    kept = random.randint(0, len(changes))
    position, data = changes[kept] if kept < len(changes) else (0, None)
    if data is None:
        return changes[:kept]
    torn = data[: SECTOR * random.randrange(-(-len(data) // SECTOR) or 1)]
    # Often the size was on the disk before the bytes.
    rest = bytes(len(data) - len(torn)) if random.random() < 0.7 else b""
    return [*changes[:kept], (position, torn + rest)]
