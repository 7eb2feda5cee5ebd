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
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from jbodlab.storage.directory.directory_probe import PROBE_FILE
from jbodlab.storage.directory.filesystem import Buffer, FileSystem
from jbodlab.storage.directory.names import TMP_SUFFIX

LOOKS = frozenset(
    {
        *("exists", "identity", "is_dir", "is_usable", "listdir", "disk_usage", "read_bytes"),
        *("fsync", "fsync_dir", "fsync_file", "write_back", "forget_cached"),
        *("fileno", "open_source", "pread", "size"),
    }
)
"""Methods of a disk, or of an open file, that change no file; all others may."""

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


def fenced_disk(disk: FileSystem, fence: Fence) -> FileSystem:
    """Return the disk under one life of a log directory, whose fence is checked at every step."""
    return cast(FileSystem, _FencedDisk(disk, fence))


class _Fenced:
    """A disk or an open file, each of whose methods passes the fence."""

    def __init__(self, inner: Any, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    def __getattr__(self, name: str) -> Callable[..., Any]:
        do: Callable[..., Any] = self._fence.look if name in LOOKS else self._fence.change
        method = partial(do, getattr(self._inner, name))
        setattr(self, name, method)
        return method


class _FencedDisk(_Fenced):
    """Takes apart what has several steps, and has open files fenced as well."""

    def open_append(self, path: Path) -> _FencedFile:
        return _FencedFile(self._fence.change(self._inner.open_append, path), self._fence)

    def open_source(self, path: Path) -> _FencedFile:
        return _FencedFile(self._fence.look(self._inner.open_source, path), self._fence)

    def open_target(self, path: Path) -> _FencedFile:
        return _FencedFile(self._fence.change(self._inner.open_target, path), self._fence)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        self._fence.change(self._inner.rename, source, target, sync=False)
        if sync:
            self.fsync_dir(target.parent)
            if source.parent != target.parent:
                self.fsync_dir(source.parent)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        do = self._fence.look if path.name == PROBE_FILE else self._fence.change
        do(self._inner.unlink, path, missing_ok=missing_ok)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        do = self._fence.look if path.name == PROBE_FILE else self._fence.change
        do(self._inner.write_bytes, path, data, sync=False)
        if sync:
            self.fsync_file(path)

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
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

    def rmtree(self, path: Path) -> None:
        for name in self.listdir(path):
            try:
                self.unlink(path / name)
            except (IsADirectoryError, PermissionError):
                if not self.is_dir(path / name):
                    raise
                self.rmtree(path / name)
        self.rmdir(path)


class _FencedFile(_Fenced):
    """An open file, or one that is being copied."""

    def writev(self, buffers: Sequence[Buffer]) -> int:
        # As `Fence.change`, without its cost: every record goes through here.
        fence = self._fence
        if fence.is_closed:
            fence.check()
        fence.calls += 1
        fence.running_call = fence.calls
        fence.is_being_written = True
        try:
            size: int = self._inner.writev(buffers)
        finally:
            fence.is_being_written = False
            fence.running_call = 0
        return size

    def close(self) -> None:
        """Give the file back, also behind a closed fence."""
        self._inner.close()
