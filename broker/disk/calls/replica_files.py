"""Distinguishes the loss of one replica's folder from the loss of the whole directory.

Somebody may remove `orders-0` from a healthy disk. Then the next open of a file in it fails, as it
does on a dead disk. In the first case the log directory still works: only that replica is lost.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from jbodlab.storage.directory import disk_errors, names
from jbodlab.storage.directory.directory_probe import check_identity
from jbodlab.storage.directory.filesystem import FileSystem
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


UNGUARDED = frozenset(
    {"exists", "is_dir", "mkdir", "rmdir", "rmtree", "disk_usage", "is_usable"},
)
"""Methods of a disk that are as the disk has them; all others have the path in front."""


def guarded_disk(
    disk: FileSystem,
    log_dir: Path,
    identity: tuple[int, int] | None,
    close_idle: Callable[[], bool] = lambda: False,
) -> FileSystem:
    """Return the disk under a log directory, on which the replicas of it are told apart.

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
    return cast(FileSystem, _ReplicaFiles(disk, log_dir, identity, close_idle))


class _ReplicaFiles:
    def __init__(
        self,
        disk: FileSystem,
        log_dir: Path,
        identity: tuple[int, int] | None,
        close_idle: Callable[[], bool],
    ) -> None:
        self._disk = disk
        self._close_idle = close_idle
        self._log_dir = log_dir
        self._depth = len(log_dir.parts)
        self._identity = identity

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._disk, name)
        if name not in UNGUARDED:
            method = partial(self._guarded, method)
        setattr(self, name, method)
        return method

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        # Synced in calls of their own: each may be made twice.
        self._guarded(self._disk.rename, source, target, sync=False)
        if sync:
            self.fsync_dir(target.parent)
            if source.parent != target.parent:
                self.fsync_dir(source.parent)

    def _guarded(
        self, function: Callable[Concatenate[Path, P], T], path: Path, *a: P.args, **kw: P.kwargs
    ) -> T:
        try:
            try:
                return function(path, *a, **kw)
            except OSError as error:
                if not (disk_errors.is_no_descriptor(error) and self._close_idle()):
                    raise
            return function(path, *a, **kw)
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
        check_identity(self._disk, self._log_dir, self._identity)
        if self._identity is None and not self._disk.is_dir(self._log_dir):
            return None
        if path == folder and not _is_replica(folder.name):
            return None
        return None if self._disk.is_dir(folder) else folder


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
