"""Cuts one life of a log directory off from its disk, whatever its thread is doing.

A thread that hangs in a system call may return minutes after its directory failed, and then
continue: with the next file of a checkpoint, or the next log of a write. By then the directory may
have been revived, and its files belong to the next life. So every step of the thread passes the
fence. A closed fence permits nothing but closing files.

The fence cannot stop the one system call that hangs. `is_being_written` tells whether this call
changes something; a directory in which it may still take effect cannot be revived. A probe does not
count, because nobody else uses its file.

The fence also detects hangs: `running_call` is the number of the step that has begun and has not
returned. A call of a thread may take thousands of steps, and minutes on a slow disk, but a single
step must not take seconds. Therefore each step handles at most one file: renaming and syncing,
writing and syncing, and removing a folder with its contents are separate steps.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from jbodlab.storage.directory.directory_probe import PROBE_FILE
from jbodlab.storage.directory.filesystem import (
    AppendFile,
    Buffer,
    CopySource,
    CopyTarget,
    FileSystem,
)
from jbodlab.storage.directory.names import TMP_SUFFIX

P = ParamSpec("P")
T = TypeVar("T")


class Fence:
    """Whether a life of a directory may still touch its files, and what a thread is doing there."""

    __slots__ = ("calls", "is_being_written", "is_closed", "running_call")

    def __init__(self) -> None:
        self.is_closed = False
        self.is_being_written = False
        """Whether a call that changes something has begun and did not come back yet."""
        self.calls = 0
        self.running_call = 0
        """Number of the call that runs at this moment, counted from 1; 0 if none does.

        Two looks that see the same number, not 0, saw the same call still running.
        """

    def close(self) -> None:
        """Refuse every step from now on, for ever."""
        self.is_closed = True

    def check(self) -> None:
        """Return if the files may be touched.

        Raises:
            OSError: they may not any more.
        """
        if self.is_closed:
            raise OSError(errno.EIO, "the broker no longer uses this log directory")

    def look(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do one thing that changes no file; raises as `check`."""
        self.check()
        self.calls += 1
        self.running_call = self.calls
        try:
            return function(*args, **kwargs)
        finally:
            self.running_call = 0

    def change(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do one thing that changes files; raises as `check`."""
        self.check()
        self.calls += 1
        self.running_call = self.calls
        self.is_being_written = True
        try:
            return function(*args, **kwargs)
        finally:
            self.is_being_written = False
            self.running_call = 0


class FencedDisk:
    """The disk under one life of a log directory; a `FileSystem`.

    Args:
        disk: The real disk.
        fence: Checked at every step.
    """

    def __init__(self, disk: FileSystem, fence: Fence) -> None:
        self._disk = disk
        self._fence = fence

    def open_append(self, path: Path) -> AppendFile:
        """Open for append and read."""
        return FencedFile(self._fence.change(self._disk.open_append, path), self._fence)

    def open_source(self, path: Path) -> CopySource:
        """Open to be copied from."""
        return FencedSource(self._fence.look(self._disk.open_source, path), self._fence)

    def open_target(self, path: Path) -> CopyTarget:
        """Open to be copied to; the file is created if it is missing."""
        return FencedTarget(self._fence.change(self._disk.open_target, path), self._fence)

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return self._fence.look(self._disk.listdir, path)

    def exists(self, path: Path) -> bool:
        """Return whether there is something at `path`."""
        return self._fence.look(self._disk.exists, path)

    def is_dir(self, path: Path) -> bool:
        """Return whether a directory is at `path`."""
        return self._fence.look(self._disk.is_dir, path)

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return self._fence.look(self._disk.size, path)

    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory."""
        self._fence.change(self._disk.mkdir, path, parents=parents, exist_ok=exist_ok)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename, replacing a file at `target`."""
        self._fence.change(self._disk.rename, source, target, sync=False)
        if sync:
            self.fsync_dir(target.parent)
            if source.parent != target.parent:
                self.fsync_dir(source.parent)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        do = self._fence.look if path.name == PROBE_FILE else self._fence.change
        do(self._disk.unlink, path, missing_ok=missing_ok)

    def read_bytes(self, path: Path) -> bytes:
        """Return a whole file."""
        return self._fence.look(self._disk.read_bytes, path)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Write a whole file in place."""
        do = self._fence.look if path.name == PROBE_FILE else self._fence.change
        do(self._disk.write_bytes, path, data, sync=False)
        if sync:
            self.fsync_file(path)

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole, with a look at the fence before each step."""
        tmp = path.with_name(path.name + TMP_SUFFIX)
        self.write_bytes(tmp, data, sync=sync)
        try:
            self.rename(tmp, path, sync=False)
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(tmp)
            raise
        if sync:
            self.fsync_dir(path.parent)

    def fsync_file(self, path: Path) -> None:
        """Return when the content of a file is on the disk."""
        self._fence.look(self._disk.fsync_file, path)

    def write_back(self, path: Path, position: int, size: int) -> int:
        """Return when a part of a file was handed to the disk."""
        return self._fence.look(self._disk.write_back, path, position, size)

    def forget_cached(self, path: Path) -> None:
        """Have a file read from the disk from now on."""
        self._fence.look(self._disk.forget_cached, path)

    def fsync_dir(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        self._fence.look(self._disk.fsync_dir, path)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        self._fence.change(self._disk.rmdir, path)

    def rmtree(self, path: Path) -> None:
        """Remove a directory and all below it, one after the other."""
        for name in self.listdir(path):
            try:
                self.unlink(path / name)
            except (IsADirectoryError, PermissionError):
                if not self.is_dir(path / name):
                    raise
                self.rmtree(path / name)
        self.rmdir(path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """Return total and usable bytes of the disk that holds `path`."""
        return self._fence.look(self._disk.disk_usage, path)

    def identity(self, path: Path) -> tuple[int, int]:
        """Return device and inode of a directory."""
        return self._fence.look(self._disk.identity, path)

    def is_usable(self, path: Path) -> bool:
        """Return whether this process may read, change and search a directory."""
        return self._fence.look(self._disk.is_usable, path)

    def make_read_only(self, path: Path) -> None:
        """Keep a file from being changed by mistake."""
        self._fence.change(self._disk.make_read_only, path)


class FencedFile:
    """An open file of one life of a log directory; an `AppendFile`."""

    __slots__ = ("_fence", "_file", "_pread", "_writev")

    def __init__(self, file: AppendFile, fence: Fence) -> None:
        self._file = file
        self._fence = fence
        self._pread = file.pread
        self._writev = file.writev

    def write(self, data: Buffer) -> int:
        """Append all of `data`; returns its size in bytes."""
        return self._fence.change(self._file.write, data)

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers one behind the other; returns their size in bytes."""
        # As `Fence.change`, without its cost: every record goes through here.
        fence = self._fence
        if fence.is_closed:
            fence.check()
        fence.calls += 1
        fence.running_call = fence.calls
        fence.is_being_written = True
        try:
            return self._writev(buffers)
        finally:
            fence.is_being_written = False
            fence.running_call = 0

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only where the file ends."""
        return self._fence.look(self._pread, size, position)

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""
        self._fence.look(self._file.fsync)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; the next append goes there."""
        self._fence.change(self._file.truncate, size)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._fence.look(self._file.size)

    def close(self) -> None:
        """Give the file back, also behind a closed fence."""
        self._file.close()


class FencedSource:
    """A file of one life of a log directory that is being copied; a `CopySource`."""

    __slots__ = ("_fence", "_file")

    def __init__(self, file: CopySource, fence: Fence) -> None:
        self._file = file
        self._fence = fence

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fence.look(self._file.fileno)

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only where the file ends."""
        return self._fence.look(self._file.pread, size, position)

    def close(self) -> None:
        """Give the file back, also behind a closed fence."""
        self._file.close()


class FencedTarget:
    """A file of one life of a log directory that is being made as a copy; a `CopyTarget`."""

    __slots__ = ("_fence", "_file")

    def __init__(self, file: CopyTarget, fence: Fence) -> None:
        self._file = file
        self._fence = fence

    def copy_from(self, source: CopySource, position: int, size: int) -> int:
        """Copy up to `size` bytes from a position; returns how many."""
        return self._fence.change(self._file.copy_from, source, position, size)

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""
        self._fence.look(self._file.fsync)

    def close(self) -> None:
        """Give the file back, also behind a closed fence."""
        self._file.close()
