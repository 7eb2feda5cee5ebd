"""Distinguishes the loss of one replica's folder from the loss of the whole directory.

Somebody may remove `orders-0` from a healthy disk. Then the next open of a file in it fails, as it
does on a dead disk. In the first case the log directory still works: only that replica is lost.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from jbodlab.storage.directory import disk_errors, names
from jbodlab.storage.directory.directory_probe import check_identity
from jbodlab.storage.directory.filesystem import AppendFile, CopySource, CopyTarget, FileSystem
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

P = ParamSpec("P")
T = TypeVar("T")


class ReplicaLostError(KafkaError):
    """The folder of one replica is gone from a directory that is healthy."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{path} was removed from its log directory, which still works",
        )
        self.path = path


class ReplicaFiles:
    """The disk under a log directory; a `FileSystem`.

    A call that finds no free descriptor is made once more when files that are kept open are closed.
    A missing file below a folder that is itself missing gives `ReplicaLostError`. All else is as
    the disk says.

    Args:
        disk: The real disk.
        log_dir: The directory.
        identity: Its device and inode at start, None if they are not watched.
        close_idle: Closes files that need not be open, and returns whether there was any; for the
            thread that keeps them.
    """

    def __init__(
        self,
        disk: FileSystem,
        log_dir: Path,
        identity: tuple[int, int] | None,
        close_idle: Callable[[], bool] = lambda: False,
    ) -> None:
        self.disk = disk
        self._close_idle = close_idle
        self._log_dir = log_dir
        self._depth = len(log_dir.parts)
        self._identity = identity

    def open_append(self, path: Path) -> AppendFile:
        """Open for append and read."""
        return self._guarded(path, self.disk.open_append, path)

    def open_source(self, path: Path) -> CopySource:
        """Open to be copied from."""
        return self._guarded(path, self.disk.open_source, path)

    def open_target(self, path: Path) -> CopyTarget:
        """Open to be copied to."""
        return self._guarded(path, self.disk.open_target, path)

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return self._guarded(path, self.disk.listdir, path)

    def exists(self, path: Path) -> bool:
        """Return whether there is something at `path`."""
        return self.disk.exists(path)

    def is_dir(self, path: Path) -> bool:
        """Return whether a directory is at `path`."""
        return self.disk.is_dir(path)

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return self._guarded(path, self.disk.size, path)

    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory."""
        self.disk.mkdir(path, parents=parents, exist_ok=exist_ok)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename, replacing a file at `target`."""
        # Synced in calls of their own: each may be made twice.
        self._guarded(source, self.disk.rename, source, target, sync=False)
        if sync:
            self.fsync_dir(target.parent)
            if source.parent != target.parent:
                self.fsync_dir(source.parent)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        self._guarded(path, self.disk.unlink, path, missing_ok=missing_ok)

    def read_bytes(self, path: Path) -> bytes:
        """Return a whole file."""
        return self._guarded(path, self.disk.read_bytes, path)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Write a whole file in place."""
        self._guarded(path, self.disk.write_bytes, path, data, sync=sync)

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole."""
        self._guarded(path, self.disk.write_atomically, path, data, sync=sync)

    def fsync_file(self, path: Path) -> None:
        """Return when the content of a file is on the disk."""
        self._guarded(path, self.disk.fsync_file, path)

    def write_back(self, path: Path, position: int, size: int) -> int:
        """Return when a part of a file was handed to the disk."""
        return self._guarded(path, self.disk.write_back, path, position, size)

    def forget_cached(self, path: Path) -> None:
        """Have a file read from the disk from now on."""
        self._guarded(path, self.disk.forget_cached, path)

    def fsync_dir(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        self._guarded(path, self.disk.fsync_dir, path)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        self.disk.rmdir(path)

    def rmtree(self, path: Path) -> None:
        """Remove a directory and all below it."""
        self.disk.rmtree(path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """Return total and usable bytes of the disk that holds `path`."""
        return self.disk.disk_usage(path)

    def identity(self, path: Path) -> tuple[int, int]:
        """Return device and inode of a directory."""
        return self._guarded(path, self.disk.identity, path)

    def is_usable(self, path: Path) -> bool:
        """Return whether this process may read, change and search a directory."""
        return self.disk.is_usable(path)

    def make_read_only(self, path: Path) -> None:
        """Keep a file from being changed by mistake."""
        self._guarded(path, self.disk.make_read_only, path)

    def _guarded(
        self, path: Path, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            try:
                return function(*args, **kwargs)
            except OSError as error:
                if not (disk_errors.is_no_descriptor(error) and self._close_idle()):
                    raise
            return function(*args, **kwargs)
        except FileNotFoundError as error:
            folder = self._lost_folder(path)
            if folder is None:
                raise
            raise ReplicaLostError(folder) from error

    def _lost_folder(self, path: Path) -> Path | None:
        """Return the folder in the log directory that a path leads through, if it is missing.

        Raises:
            OSError: the log directory is missing, or is another one by now.
        """
        if len(path.parts) <= self._depth or not path.is_relative_to(self._log_dir):
            return None
        folder = Path(*path.parts[: self._depth + 1])
        check_identity(self.disk, self._log_dir, self._identity)
        if self._identity is None and not self.disk.is_dir(self._log_dir):
            return None
        if path == folder and not _is_replica(folder.name):
            return None
        return None if self.disk.is_dir(folder) else folder


def _is_replica(name: str) -> bool:
    """Return whether a name is a replica's folder, and not a file of the log directory itself."""
    try:
        names.parse_partition_dir(name)
    except ValueError:
        return False
    return True


def missing_folders(fs: FileSystem, log_dir: Path, folders: Sequence[Path]) -> list[Path]:
    """Return those of some folders in a directory that are not there any more.

    Raises:
        OSError: the directory cannot be listed, or one of the folders in it cannot be used.
    """
    listed = frozenset(fs.listdir(log_dir))
    missing = []
    for folder in folders:
        if folder.name not in listed:
            missing.append(folder)
        elif not fs.is_usable(folder):
            # Open files would go on working until the next segment.
            if folder.name not in fs.listdir(log_dir):
                missing.append(folder)
            else:
                raise PermissionError(
                    errno.EACCES, "cannot access the folder of a replica", str(folder)
                )
    return missing
