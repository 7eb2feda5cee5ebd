"""`.lock`: keeps a second process away from a directory.

The lock is a POSIX record lock, as Java's is, so that Apache Kafka and this broker keep each other
out too. It ends with the process at the latest.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from jbodlab.errors import FormatError
from jbodlab.log.names import LOCK_FILE


class DirectoryLock:
    """The lock of one directory, held from `__init__` to `release`.

    Raises:
        FormatError: another process holds it.
        OSError: the file cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_FILE
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._directory_fd: int | None = None
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            os.close(fd)
            raise FormatError(
                f"Failed to acquire lock on file {LOCK_FILE} in {directory}. A Kafka instance in "
                "another process or thread is using this directory."
            ) from error
        except OSError:
            os.close(fd)
            raise
        if not _is_at(fd, self._path):
            # Its last holder removed it just before it let the lock go.
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "lock file was removed", str(self._path))
        self._fd: int | None = fd
        # While it is open no other directory can get its inode, by which it is known.
        self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def is_at_its_path(self) -> bool:
        """Whether the path of the file still leads to what is locked.

        Such a lock must be kept: whoever opens the file once more and closes it, or locks it and
        closes this one, ends the lock, as it belongs to the process and not to the open file.

        Raises:
            OSError: the path cannot be followed.
        """
        return self._fd is not None and _is_at(self._fd, self._path)

    def close(self) -> None:
        """Let the lock go, and leave the file where it is."""
        fd, self._fd = self._fd, None
        directory_fd, self._directory_fd = self._directory_fd, None
        for each in (fd, directory_fd):
            if each is not None:
                os.close(each)

    def release(self) -> None:
        """Remove the file and let the lock go.

        Raises:
            OSError: the file cannot be removed; the lock is gone all the same.
        """
        if self._fd is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        finally:
            self.close()


def _is_at(fd: int, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
