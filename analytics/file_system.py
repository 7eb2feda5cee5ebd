"""The few things that a replay does with folders, on this machine or on any Hadoop file system."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession


class FileSystem(Protocol):
    """A file system; paths are text, names are the last part of a path."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""

    def exists(self, path: str) -> bool:
        """Return whether there is anything."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; raises OSError."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another place; raises OSError."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it is not there."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file; raises OSError."""

    def begin_of(self, path: str, size_bytes: int) -> bytes:
        """Return the first bytes of a file; raises OSError."""


class LocalFiles:
    """Folders of this machine."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        path = Path(folder)
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        return Path(path).is_dir()

    def exists(self, path: str) -> bool:
        """Return whether there is anything."""
        return Path(path).exists()

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; raises OSError."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another place; raises OSError."""
        Path(source).rename(target)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it is not there."""
        found = Path(path)
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)

    def write(self, path: str, content: bytes) -> None:
        """Write a file; raises OSError."""
        Path(path).write_bytes(content)

    def begin_of(self, path: str, size_bytes: int) -> bytes:
        """Return the first bytes of a file; raises OSError."""
        with Path(path).open("rb") as file:
            return file.read(size_bytes)


class HadoopFiles:
    """Folders of a Hadoop file system, as Spark's virtual machine sees them.

    Args:
        spark: The session.
        path: Any path of the file system that is meant.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        assert jvm is not None
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self._files: Any = self._path(path).getFileSystem(hadoop)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        if not self.is_folder(folder):
            return []
        found = self._files.listStatus(self._path(folder))
        return sorted(str(status.getPath().getName()) for status in found)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        return self.exists(path) and bool(self._files.getFileStatus(self._path(path)).isDirectory())

    def exists(self, path: str) -> bool:
        """Return whether there is anything."""
        return bool(self._files.exists(self._path(path)))

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; raises OSError."""
        if not self._files.mkdirs(self._path(path)):
            raise OSError(f"{path} cannot be made")

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another place; raises OSError."""
        if not self._files.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed to {target}")

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it is not there."""
        self._files.delete(self._path(path), True)

    def write(self, path: str, content: bytes) -> None:
        """Write a file; raises OSError."""
        stream = self._files.create(self._path(path), True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def begin_of(self, path: str, size_bytes: int) -> bytes:
        """Return the first bytes of a file; raises OSError."""
        stream = self._files.open(self._path(path))
        try:
            return bytes(stream.readNBytes(size_bytes))
        finally:
            stream.close()
