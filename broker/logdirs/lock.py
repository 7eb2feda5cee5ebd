"""`.lock`: keeps a second process away from a directory.

The lock is a POSIX record lock, as Java's is, so that Apache Kafka and this broker keep each other
out too. It ends with the process at the latest.
"""

from __future__ import annotations

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
        self._fd: int | None = fd

    def release(self) -> None:
        """Remove the file and let the lock go.

        Raises:
            OSError: the file cannot be removed; the lock is gone all the same.
        """
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        finally:
            os.close(fd)
