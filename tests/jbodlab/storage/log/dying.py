"""A file system that dies at a call."""

from __future__ import annotations

from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem


class DeadError(OSError):
    """The process is gone."""


class DyingFile(PosixAppendFile):
    def __init__(self, fs, path):
        super().__init__(path)
        self._fs = fs

    def writev(self, buffers):
        if self._fs.dies_now():
            super().writev([b"".join(buffers)[: sum(map(len, buffers)) // 2]])
        self._fs.check()
        return super().writev(buffers)

    def truncate(self, size):
        self._fs.dies_now()
        self._fs.check()
        super().truncate(size)

    def fsync(self):
        self._fs.dies_now()
        self._fs.check()


class DyingFileSystem(PosixFileSystem):
    def __init__(self, steps):
        self.steps_left = steps
        self.is_dead = False

    def dies_now(self):
        self.steps_left -= 1
        if self.steps_left == 0:
            self.is_dead = True
            return True
        return False

    def check(self):
        if self.is_dead:
            raise DeadError

    def open_append(self, path):
        self.dies_now()
        self.check()
        return DyingFile(self, path)
