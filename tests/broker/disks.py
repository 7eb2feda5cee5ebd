"""Disks that fail on demand, and directories on them."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.disk.directory.lifecycle import LogDirEvent
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from jbodlab.storage.directory.filesystem import Buffer
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.vocabulary.ids import DirectoryId
from tests.waiting import run_adjustable

OPENINGS = ("open_append", "open_target")


class FaultPlan(PosixFileSystem):
    """A disk that does what a test has planned for a call before the call itself.

    Attributes:
        plan: By the name of a method of the file system, or of a file that was opened on it, a
            function of the path: it may raise, wait, or note the call. ``"*"`` names all others.
    """

    def __init__(self, plan: dict[str, Callable[[Path], object]] | None = None) -> None:
        self.plan = {} if plan is None else plan

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not hasattr(PosixFileSystem, name):
            return found

        def call(path: Path, *arguments: object, **options: object) -> Any:
            _before(self.plan, name, path)
            result = found(path, *arguments, **options)
            return PlannedFile(self.plan, result, path) if name in OPENINGS else result

        return call


class PlannedFile:
    """An open file of a `FaultPlan`."""

    def __init__(self, plan: dict[str, Callable[[Path], object]], file: Any, path: Path) -> None:
        self._plan, self._file, self._path = plan, file, path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)

        def call(*arguments: object) -> Any:
            _before(self._plan, name, self._path)
            return found(*arguments)

        return call if callable(found) else found


def _before(plan: dict[str, Callable[[Path], object]], name: str, path: Path) -> None:
    planned = plan.get(name) or plan.get("*")
    if planned is not None:
        planned(path)


def fails(error: int, ending: str = "") -> Callable[[Path], None]:
    """Plan that a call fails for paths with this ending."""

    def fail(path: Path) -> None:
        if str(path).endswith(ending):
            raise OSError(error, os.strerror(error), str(path))

    return fail


class DeadDisk(FaultPlan):
    """A disk on which every call fails with `error`, or hangs until `resume` is set.

    Both can be set at any time, also while files are open.
    """

    def __init__(self) -> None:
        super().__init__({"*": self.check})
        self.error: int | None = None
        self.resume: threading.Event | None = None

    def check(self, path: Path) -> None:
        if self.resume is not None:
            self.resume.wait(20)
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))


class CrampedDisk(PosixFileSystem):
    """A disk that takes no more changes at some moment, whatever it says of its room.

    Attributes:
        left: Changes that it still takes; None for any number.
        error: The error that the others get.
        is_torn: Whether a write that it does not take leaves half of itself.
        renames: Whether names take no room.
        below: The only directory that it is about; None for everything.
        cuts: Whether cutting a file takes none.
        taken: Changes so far.
        refused: Changes that it did not take.
    """

    def __init__(self, left: int | None = None, error: int = errno.ENOSPC) -> None:
        self.left = left
        self.error = error
        self.is_torn = self.renames = self.cuts = False
        self.below: Path | None = None
        self.taken = 0
        self.refused = 0

    def take(self, path: Path, torn: Callable[[], object] = lambda: None) -> None:
        """Let a change pass, or not."""
        if self.below is not None and not path.is_relative_to(self.below):
            return
        if self.left == 0:
            self.refused += 1
            if self.is_torn:
                torn()
            raise OSError(self.error, os.strerror(self.error), str(path))
        self.taken += 1
        if self.left is not None:
            self.left -= 1

    def open_append(self, path: Path) -> PosixAppendFile:
        if not path.exists():
            self.take(path)
        return CrampedFile(self, path)

    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        self.take(path)
        super().mkdir(path, parents=parents, exist_ok=exist_ok)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        if not self.renames:
            self.take(source)
        super().rename(source, target, sync=sync)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        self.take(path, lambda: path.write_bytes(data[: len(data) // 2]))
        super().write_bytes(path, data, sync=sync)


class CrampedFile(PosixAppendFile):
    """An open file of a `CrampedDisk`."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: CrampedDisk, path: Path) -> None:
        super().__init__(path)
        self._disk, self._path = disk, path

    def writev(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        write = super().writev
        self._disk.take(self._path, lambda: write([data[: len(data) // 2]]))
        return write([data])

    def truncate(self, size: int) -> None:
        if not self._disk.cuts:
            self._disk.take(self._path)
        super().truncate(size)


def directory_id(number: int) -> DirectoryId:
    return DirectoryId(UUID(int=(number << 64) + 7))


def make_log_dir(path: Path, number: int, fs: PosixFileSystem | None = None) -> LogDir:
    """Make a directory that is online at once."""
    path.mkdir(exist_ok=True)
    log_dir = LogDir(path, directory_id(number), fs=fs, identity=PosixFileSystem().identity(path))
    log_dir.handle(LogDirEvent.LOAD)
    log_dir.handle(LogDirEvent.LOADED)
    return log_dir


def make_log_dirs(
    tmp_path: Path,
    count: int = 3,
    *,
    fs: PosixFileSystem | None = None,
    metadata_fs: PosixFileSystem | None = None,
    on_fatal: Callable[[str], None] = lambda _reason: None,
) -> LogDirs:
    """Make d1, d2, ... and a separate metadata directory; `fs` is the disk of d1."""
    dirs = [
        make_log_dir(tmp_path / f"d{n}", n, fs if n == 1 else None) for n in range(1, count + 1)
    ]
    metadata_dir = make_log_dir(tmp_path / "metadata", 99, metadata_fs)
    return LogDirs(dirs, metadata_dir=metadata_dir, on_fatal=on_fatal)


async def eventually(condition: Callable[[], object], timeout_s: float = 10) -> None:
    """Return when a condition holds; fails after the timeout."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - of anything, not only of our own events
            await asyncio.sleep(0.005)


def failed_ids(log_dirs: LogDirs) -> tuple[DirectoryId, ...]:
    """Ids of the directories that are offline, as far as they are known."""
    return tuple(
        each.directory_id for each in log_dirs.all if not each.is_online and each.directory_id
    )


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test, with a deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    run_adjustable(bounded())


def eio() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def bring_back(log_dirs: LogDirs, former: LogDir) -> LogDir:
    """Put another life in the place of a directory that failed; no logs are loaded."""
    life = former.next_life(former.directory_id, former.disk.identity(former.path))
    log_dirs.revive(former, life, [])
    return life
