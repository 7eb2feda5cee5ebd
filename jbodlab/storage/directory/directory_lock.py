"""`.lock`: keeps a second process away from a directory.

The lock is a POSIX record lock, as Java's is, so that Apache Kafka and our programs keep each other
out too. It ends with the process at the latest.
"""

from __future__ import annotations

from pathlib import Path

from jbodlab.storage.directory.filesystem import Disk
from jbodlab.storage.directory.names import LOCK_FILE
from jbodlab.vocabulary.errors import FormatError


class DirectoryLock:
    """The lock of one directory, held from `__init__` to `release`.

    Raises:
        FormatError: another process holds it.
        OSError: the file cannot be made.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / LOCK_FILE
        try:
            self._file = disk.lock(self._path)
        except BlockingIOError as error:
            raise FormatError(
                f"Failed to acquire lock on file {LOCK_FILE} in {directory}. A Kafka instance in "
                "another process or thread is using this directory."
            ) from error
        self._is_held = True
        # While the directory is open, no other directory can get its inode, which identifies it.
        self._directory = disk.hold(directory)

    @property
    def is_at_its_path(self) -> bool:
        """Whether the path of the lock file still leads to the locked file.

        The lock must then be kept, and the file not be opened again: the lock belongs to the
        process and not to the open file, so that closing any open file of the path releases it.

        Raises:
            OSError: the path cannot be followed.
        """
        return self._is_held and self._file.is_at_its_path()

    def close(self) -> None:
        """Release the lock, and leave the file where it is."""
        self._is_held = False
        self._file.close()
        self._directory.close()

    def release(self) -> None:
        """Remove the file and release the lock.

        Raises:
            OSError: the file cannot be removed; the lock is released all the same.
        """
        if not self._is_held:
            return
        try:
            self._disk.unlink(self._path, missing_ok=True)
        finally:
            self.close()
