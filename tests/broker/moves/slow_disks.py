"""Disks whose calls wait at a gate that the test opens."""

from __future__ import annotations

import threading
from pathlib import Path

from jbodlab.storage.directory.filesystem import CopySource
from jbodlab.storage.directory.posix_filesystem import PosixCopyTarget, PosixFileSystem

TIMEOUT_S = 20


class Gate:
    """Lets calls through while it is open; counts those inside."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self._lock = threading.Lock()
        self.inside = 0
        self.most_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        assert self.open.wait(TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


class SlowDisk(PosixFileSystem):
    """A disk that can be made to take its time for the copies of moves, and for syncing files."""

    def __init__(self) -> None:
        self.copies = Gate()
        self.syncs = Gate()
        self.synced: list[str] = []

    def open_target(self, path: Path) -> PosixCopyTarget:
        return SlowTarget(path, self.copies)

    def fsync_file(self, path: Path) -> None:
        with self.syncs:
            super().fsync_file(path)
            self.synced.append(path.name)


class SlowTarget(PosixCopyTarget):
    __slots__ = ("_gate",)

    def __init__(self, path: Path, gate: Gate) -> None:
        super().__init__(path)
        self._gate = gate

    def copy_from(self, source: CopySource, position: int, size: int) -> int:
        with self._gate:
            return super().copy_from(source, position, size)
