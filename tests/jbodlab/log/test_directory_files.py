"""Files that the logs of a directory keep open, where the process has no descriptor left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jbodlab.log.directory_files import DirectoryFiles
from jbodlab.log.posix_filesystem import PosixAppendFile


class Opened(PosixAppendFile):
    """A file that knows whether it is open."""

    __slots__ = ("is_open",)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        super().close()


class Descriptors:
    """Opens files, as many as there are descriptors."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.count = count
        self.opened: list[Opened] = []

    def open(self, name: str) -> Opened:
        if sum(file.is_open for file in self.opened) >= self.count:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        self.opened.append(Opened(self._folder / name))
        return self.opened[-1]


def test_what_is_kept_open_is_closed_where_no_descriptor_is_left(tmp_path: Path) -> None:
    files, descriptors = DirectoryFiles(), Descriptors(tmp_path, 3)

    for number in range(10):
        file = files.file(("log", number), lambda: descriptors.open("segment"))
        file.write(b"x")

    assert (tmp_path / "segment").read_bytes() == b"x" * 10


def test_a_lack_that_closing_does_not_mend_is_told(tmp_path: Path) -> None:
    files, descriptors = DirectoryFiles(), Descriptors(tmp_path, 1)
    files.file(("log", 0), lambda: descriptors.open("segment"))
    descriptors.count = 0

    with pytest.raises(OSError, match="Too many open files"):
        files.file(("log", 1), lambda: descriptors.open("segment"))


def test_no_more_are_kept_open_than_the_bound_says(tmp_path: Path) -> None:
    files, descriptors = DirectoryFiles(open_files_max=2), Descriptors(tmp_path, 3)

    for number in range(10):
        files.file(("log", number), lambda: descriptors.open("segment"))

    assert sum(file.is_open for file in descriptors.opened) == 2
