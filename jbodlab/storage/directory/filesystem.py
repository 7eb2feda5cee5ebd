"""The interface to the file system: everything this package does to a disk goes through it.

`FileSystem` lists the few operations that the log needs. A simulation can replace it by a disk in
memory that fails, hangs, or forgets what was not synced. `PosixFileSystem`, in another module, is
the real one.

Every method may raise `OSError`; none translates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class ReadFile(Protocol):
    """One open file that is read at any position."""

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only where the file ends."""


class AppendFile(ReadFile, Protocol):
    """One open file that grows at its end and is read at any position."""

    def write(self, data: Buffer) -> int:
        """Append all of `data`; returns its size in bytes."""

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers one behind the other; returns their size in bytes."""

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes; the next append begins there."""

    def size(self) -> int:
        """Return the size of the file in bytes."""

    def close(self) -> None:
        """Close the file; a second close has no effect."""


class CopySource(ReadFile, Protocol):
    """One open file whose bytes are copied to another disk; see `CopyTarget`."""

    def fileno(self) -> int:
        """Return the descriptor, for the operating system to read from."""

    def close(self) -> None:
        """Close the file; a second close has no effect."""


class CopyTarget(Protocol):
    """One open file that takes bytes of another, at the positions that they have there."""

    def copy_from(self, source: CopySource, position: int, size: int) -> int:
        """Copy up to `size` bytes from a position; returns how many, 0 where the source ends."""

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""

    def close(self) -> None:
        """Close the file; a second close has no effect."""


class FileSystem(Protocol):
    """The calls of a disk that a log needs."""

    def open_source(self, path: Path) -> CopySource:
        """Open to be copied from."""

    def open_target(self, path: Path) -> CopyTarget:
        """Open to be copied to; the file is created if it is missing."""

    def open_append(self, path: Path) -> AppendFile:
        """Open for append and read; the file is created if it is missing."""

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: Path) -> bool:
        """Return whether `path` exists; an unreadable parent directory is an error."""

    def is_dir(self, path: Path) -> bool:
        """Return whether `path` is a directory; an unreadable parent directory is an error."""

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""

    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory."""

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename, replacing a file at `target`; durable at return if `sync`."""

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file."""

    def read_bytes(self, path: Path) -> bytes:
        """Return a whole file."""

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Write a whole file in place; on the disk at return if `sync`."""

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole: a crash of the process leaves the old or the new content.

        With `sync` a power loss does so too, and the new content is durable at return.
        """

    def fsync_file(self, path: Path) -> None:
        """Return when the content of a file is on the disk."""

    def write_back(self, path: Path, position: int, size: int) -> int:
        """Write back a part of a file to the disk, without file names and sizes.

        The part is not durable at return, but a later `fsync_file` has less to do.

        Returns:
            Bytes of the part; 0 at the end of the file, or if the system does not support this.
        """

    def forget_cached(self, path: Path) -> None:
        """Drop a file's clean pages from the page cache, so that later reads come from the disk.

        A failed sync leaves its pages in the page cache, readable and marked clean; the kernel does
        not try to write them again.
        """

    def fsync_dir(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""

    def rmtree(self, path: Path) -> None:
        """Remove a directory and all below it."""

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """Return total and usable bytes of the disk that holds `path`."""

    def identity(self, path: Path) -> tuple[int, int]:
        """Return device and inode of a directory; anything else at `path` is an error."""

    def is_usable(self, path: Path) -> bool:
        """Return whether this process may read, change and search a directory."""

    def make_read_only(self, path: Path) -> None:
        """Keep a file from being changed by mistake."""


class Held(Protocol):
    """A directory that is kept open, so that no other directory can get its identity."""

    def close(self) -> None:
        """Close the directory; a second close has no effect."""


class FileLock(Protocol):
    """A file that no other process can lock; the lock ends with the process at the latest."""

    def is_at_its_path(self) -> bool:
        """Return whether the path still leads to the locked file."""

    def close(self) -> None:
        """Release the lock; a second close has no effect."""


class Disk(FileSystem, Protocol):
    """A disk with the operations that a process needs to lock a directory."""

    def canonical(self, path: Path) -> Path:
        """Return a path with all links resolved; the path need not exist."""

    def hold(self, path: Path) -> Held:
        """Hold a directory."""

    def lock(self, path: Path) -> FileLock:
        """Lock a file, which is created if it is missing.

        Raises:
            BlockingIOError: another process has locked it.
        """
