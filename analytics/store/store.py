"""One folder and what is below it, wherever it is: on this machine, in HDFS, in S3.

Everything goes through `pyarrow.fs`, so that a task on any worker writes as the driver does. A name
is a path below the folder, with slashes. Object stores have no folders to rename: there, what is
moved is copied file by file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pyarrow import fs  # type: ignore[import-untyped] # it comes without types

from analytics.store.log_files import file_system, local_path

AT_ONCE = 16
"""An object store answers each request slowly and many at once."""


class StoredFile(NamedTuple):
    """A file in a store."""

    name: str
    size: int
    changed_ns: int
    """When it was written, nanoseconds since 1970."""


class Store:
    """A folder; every method raises OSError if the file system does not do what is asked.

    Raises:
        OSError: the file system that a URI names cannot be reached.
        ValueError: there is no such file system.
    """

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/") or source
        self.local = local_path(self.source)
        self.files: Any
        if self.local is not None:
            self.local = self.local.absolute()
            self.files, self._root = fs.LocalFileSystem(), str(self.local)
        else:
            self.files, self._root = file_system(self.source)

    def path(self, name: str = "") -> str:
        """Return a path for `files`."""
        return str(PurePosixPath(self._root) / name)

    def uri(self, name: str = "") -> str:
        """Return the URI of a file or folder."""
        if self.local is not None:
            return (self.local / name).as_uri()
        return f"{self.source}/{name}".rstrip("/")

    def in_hadoop(self, name: str = "") -> str:
        """Return the path that Spark takes, in which each character stands for itself."""
        return self.uri(name) if self.local is None else f"file://{self.local / name}"

    def names(self, name: str = "") -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        selector = fs.FileSelector(self.path(name), allow_not_found=True)
        return sorted(info.base_name for info in self.files.get_file_info(selector))

    def files_in(self, name: str = "") -> list[StoredFile]:
        """Return the files in a folder and below, in order; none if there is no such folder."""
        root = self.path(name)
        selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
        return sorted(
            StoredFile(
                name=(name + info.path.removeprefix(root)).lstrip("/"),
                size=info.size,
                changed_ns=info.mtime_ns or 0,
            )
            for info in self.files.get_file_info(selector)
            if info.type == fs.FileType.File
        )

    def file(self, name: str) -> StoredFile | None:
        """Return a file, None if there is none of that name."""
        info = self._info(name)
        if info.type != fs.FileType.File:
            return None
        return StoredFile(name, info.size, info.mtime_ns or 0)

    def is_folder(self, name: str = "") -> bool:
        """Return whether there is a folder."""
        return bool(self._info(name).type == fs.FileType.Directory)

    def exists(self, name: str = "") -> bool:
        """Return whether there is anything."""
        return bool(self._info(name).type != fs.FileType.NotFound)

    def make_folder(self, name: str = "") -> None:
        """Make a folder and those above it; an object store has none."""
        if not self.has_folders:
            return
        self.files.create_dir(self.path(name), recursive=True)

    def move(self, name: str, target: str) -> None:
        """Give a file or folder another name; there is nothing of that name yet."""
        if self.has_folders:
            self.make_folder(str(PurePosixPath(target).parent))
            self.files.move(self.path(name), self.path(target))
            return
        below = [file.name.removeprefix(name) for file in self.files_in(name)] or [""]
        self.do(lambda end: self._copy(f"{name}{end}", f"{target}{end}"), below)
        self.remove(name)

    def overwrite(self, name: str, target: str) -> None:
        """Make a file or folder what another one is, which stays; in an object store.

        It may be done again after any part of it.
        """
        below = [file.name.removeprefix(name) for file in self.files_in(name)] or [""]
        self.do(lambda end: self._copy(f"{name}{end}", f"{target}{end}"), below)
        others = {file.name for file in self.files_in(target)} - {target + end for end in below}
        self.do(self.remove, sorted(others))

    def copy_to(self, other: Store) -> None:
        """Copy all files below the folder to another one, which may be elsewhere."""
        fs.copy_files(
            self.path(),
            other.path(),
            source_filesystem=self.files,
            destination_filesystem=other.files,
        )

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it is not there."""
        kind = self._info(name).type
        if kind == fs.FileType.Directory:
            self.files.delete_dir(self.path(name))
        elif kind != fs.FileType.NotFound:
            self.files.delete_file(self.path(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        with self.files.open_output_stream(self.path(name)) as stream:
            stream.write(content)

    def read(self, name: str, length: int | None = None) -> bytes:
        """Return the bytes of a file, or so many of its first ones."""
        with self.files.open_input_file(self.path(name)) as file:
            return bytes(file.read(length))

    def _info(self, name: str) -> Any:
        return self.files.get_file_info([self.path(name)])[0]

    def do(self, action: Callable[[str], None], names: Iterable[str]) -> None:
        """Do something for each name: one after the other, or many at once in an object store."""
        if self.has_folders:
            for name in names:
                action(name)
            return
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(action, names))

    @property
    def has_folders(self) -> bool:
        """Whether folders can be renamed, in one step; an object store has none."""
        return not isinstance(self.files, fs.S3FileSystem | fs.GcsFileSystem)

    def _copy(self, name: str, target: str) -> None:
        self.files.copy_file(self.path(name), self.path(target))


def is_inside(inner: str, outer: str) -> bool:
    """Return whether a path or URI is another one, or lies below it."""
    one, other = local_path(inner), local_path(outer)
    if one is None or other is None:
        target, folder = inner.rstrip("/"), outer.rstrip("/")
        return target == folder or target.startswith(f"{folder}/")
    resolved, source = Path(one).resolve(), Path(other).resolve()
    return resolved == source or source in resolved.parents
