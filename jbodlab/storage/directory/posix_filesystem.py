"""The real file system: plain system calls behind the interface of `filesystem`.

It neither buffers nor maps files into memory, so that a failing disk raises `OSError` in the call
that touched it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from jbodlab.storage.directory.filesystem import Buffer, CopySource
from jbodlab.storage.directory.names import TMP_SUFFIX
from jbodlab.vocabulary.limits import READ_BYTES

BUFFERS_PER_WRITE_MAX = min(1024, os.sysconf("SC_IOV_MAX"))
"""Most buffers the system takes in one `writev`."""

FILE_MODE, FOLDER_MODE = 0o600, 0o700
"""Records of clients and credentials of users are for whoever runs the server, and nobody else."""


class PosixAppendFile:
    """An open file descriptor; every write appends to the end of the file."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, FILE_MODE)

    def write(self, data: Buffer) -> int:
        """Append all of `data`; returns its size in bytes."""
        return self.writev((data,))

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers; one system call unless they are many or the disk took only a part."""
        size = 0
        for start in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
            chunk = buffers[start : start + BUFFERS_PER_WRITE_MAX]
            chunk_size = sum(map(len, chunk))
            written = os.writev(self._fd, chunk)
            if written < chunk_size:
                _write_all(self._fd, memoryview(b"".join(chunk))[written:])
            size += chunk_size
        return size

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only where the file ends."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing > 0 and (data := os.pread(self._fd, missing, position + size - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""
        os.fsync(self._fd)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes; the next append begins there."""
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the descriptor; a second close has no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixCopySource:
    """A descriptor open for reading."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes."""
        return os.pread(self._fd, size, position)

    def close(self) -> None:
        """Close the descriptor; a second close has no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixCopyTarget:
    """A descriptor open for writing anywhere.

    The kernel copies bytes from file to file. They do not pass through this process, and other
    threads run meanwhile.
    """

    __slots__ = ("_fd", "_is_plain", "_position")

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._position = 0
        self._is_plain = False

    def copy_from(self, source: CopySource, position: int, size: int) -> int:
        """Copy up to `size` bytes from a position; returns how many, 0 where the source ends."""
        if self._position != position:
            os.lseek(self._fd, position, os.SEEK_SET)
            self._position = position
        if not self._is_plain:
            try:
                copied = os.sendfile(self._fd, source.fileno(), position, size)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    self._position = -1
                    raise
                # The file system does not support it, such as some file systems in user space.
                self._is_plain = True
            else:
                self._position += copied
                return copied
        data = source.pread(size, position)
        self._position = -1
        rest, at = memoryview(data), position
        while rest:
            written = os.pwrite(self._fd, rest, at)
            rest, at = rest[written:], at + written
        return len(data)

    def fsync(self) -> None:
        """Return when everything written so far is on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the descriptor; a second close has no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixHeld:
    """A descriptor of a directory: a file system gives no inode away that is open."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor; a second close has no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixFileLock:
    """A POSIX record lock."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            self._take()
        except BaseException:
            self.close()
            raise

    def is_at_its_path(self) -> bool:
        """Return whether the path still leads to the locked file."""
        if self._fd < 0:
            return False
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        opened = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)

    def close(self) -> None:
        """Release the lock; a second close has no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _take(self) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except PermissionError as error:
            # Some systems raise this error for a file that another process has locked.
            raise BlockingIOError(errno.EAGAIN, "locked by another process") from error
        if not self.is_at_its_path():
            # The last holder removed the file just before it released the lock.
            raise FileNotFoundError(errno.ENOENT, "lock file was removed", str(self._path))


class PosixFileSystem:
    """The operating system's own calls."""

    def open_source(self, path: Path) -> PosixCopySource:
        """Open to be copied from."""
        return PosixCopySource(path)

    def open_target(self, path: Path) -> PosixCopyTarget:
        """Open to be copied to; the file is created if it is missing."""
        return PosixCopyTarget(path)

    def open_append(self, path: Path) -> PosixAppendFile:
        """Open for append and read; the file is created if it is missing."""
        return PosixAppendFile(path)

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 - one call, no Path per entry

    def exists(self, path: Path) -> bool:
        """Return whether `path` exists."""
        return _mode(path) is not None

    def is_dir(self, path: Path) -> bool:
        """Return whether a directory is at `path`."""
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size

    def mkdir(self, path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory."""
        path.mkdir(FOLDER_MODE, parents=parents, exist_ok=exist_ok)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename, replacing a file at `target`; durable at return if `sync`."""
        source.replace(target)
        if not sync:
            return
        self.fsync_dir(target.parent)
        if source.parent != target.parent:
            self.fsync_dir(source.parent)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        path.unlink(missing_ok=missing_ok)

    def read_bytes(self, path: Path) -> bytes:
        """Return a whole file."""
        # Thousands of small files are read at a start; a file object for each takes twice as long.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces = []
            while piece := os.read(fd, READ_BYTES):
                pieces.append(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(fd)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Write a whole file in place; on the disk at return if `sync`."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            _write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole, by way of a `.tmp` file beside it."""
        tmp = path.with_name(path.name + TMP_SUFFIX)
        self.write_bytes(tmp, data, sync=sync)
        try:
            tmp.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                tmp.unlink()
            raise
        if sync:
            self.fsync_dir(path.parent)

    def fsync_file(self, path: Path) -> None:
        """Return when the content of a file is on the disk."""
        _fsync(path, os.O_RDWR)

    def write_back(self, path: Path, position: int, size: int) -> int:
        """Write back a part of a file to the disk, without file names and sizes."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            part = min(size, os.fstat(fd).st_size - position)
            return part if part > 0 and _write_back(fd, position, part) else 0
        finally:
            os.close(fd)

    def forget_cached(self, path: Path) -> None:
        """Drop a file's clean pages from the page cache, on Linux."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if sys.platform == "linux":
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def fsync_dir(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def rmtree(self, path: Path) -> None:
        """Remove a directory and all below it."""
        shutil.rmtree(path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """Return total and usable bytes of the disk that holds `path`."""
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def identity(self, path: Path) -> tuple[int, int]:
        """Return device and inode of a directory."""
        found = path.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return found.st_dev, found.st_ino

    def is_usable(self, path: Path) -> bool:
        """Return whether this process may read, change and search a directory."""
        return os.access(path / ".", os.R_OK | os.W_OK | os.X_OK)

    def make_read_only(self, path: Path) -> None:
        """Remove the write permission."""
        path.chmod(FILE_MODE & 0o444)

    def canonical(self, path: Path) -> Path:
        """Return a path with all links resolved."""
        return Path(os.path.realpath(path))

    def hold(self, path: Path) -> PosixHeld:
        """Hold a directory."""
        return PosixHeld(path)

    def lock(self, path: Path) -> PosixFileLock:
        """Lock a file, which is created if it is missing."""
        return PosixFileLock(path)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _fsync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: Buffer) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _write_back(fd: int, position: int, size: int) -> bool:
    """Write back a part of a file to the disk, as `fsync` without the file system's journal.

    While a journal is written behind a gigabyte of data, every other change of a file on that disk
    has to wait. Linux has `sync_file_range` for this, Python does not.

    Returns:
        Whether this system and file system support it.

    Raises:
        OSError: the disk failed.
    """
    if _sync_file_range is None:
        return False
    # Flags: wait for the writes under way, write the other dirty pages, wait for these writes.
    flags = 1 | 2 | 4
    if _sync_file_range(fd, ctypes.c_int64(position), ctypes.c_int64(size), flags) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL, errno.ESPIPE):
        return False
    raise OSError(error, os.strerror(error))


def _find_sync_file_range() -> ctypes._NamedFuncPointer | None:
    try:
        return ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None


_sync_file_range = _find_sync_file_range()
