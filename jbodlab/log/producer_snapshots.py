"""The `.snapshot` files of one partition directory: producer state as of an offset.

One belongs to the start of each segment, and one to the end of a log that was closed cleanly. They
spare a reader from scanning everything; a damaged one is deleted and the one before it is used.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jbodlab.errors import CorruptRecordError
from jbodlab.log import names
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.producer_state import ProducerState


class ProducerSnapshots:
    """Which snapshots there are; reads and writes them."""

    __slots__ = ("_fs", "_offsets", "_unsynced", "directory")

    def __init__(self, fs: FileSystem, directory: Path, offsets: Iterable[int] = ()) -> None:
        self._fs = fs
        self.directory = directory
        self._offsets = set(offsets)
        self._unsynced: set[int] = set()

    @property
    def latest(self) -> int:
        """Offset of the newest snapshot, -1 if there is none."""
        return max(self._offsets, default=-1)

    @property
    def offsets(self) -> list[int]:
        """Offsets of all snapshots, ascending."""
        return sorted(self._offsets)

    def take(self, offset: int, state: ProducerState, *, sync: bool) -> None:
        """Write the state as of an offset, unless there is one that new already."""
        if offset <= self.latest:
            return
        self._fs.write_bytes(self._path(offset), state.encode(), sync=sync)
        self._offsets.add(offset)
        if not sync:
            self._unsynced.add(offset)

    def read(self, offset: int) -> bytes | None:
        """Return the content of the snapshot of an offset; None if there is none."""
        if offset not in self._offsets:
            return None
        try:
            return self._fs.read_bytes(self._path(offset))
        except FileNotFoundError:
            return None

    def found(self, offset: int) -> None:
        """Take notice of a snapshot that somebody else wrote, perhaps not to the disk yet."""
        self._offsets.add(offset)
        self._unsynced.add(offset)

    def on_disk(self, end_offset: int) -> None:
        """Take notice that somebody else has synced the snapshots below an offset."""
        self._unsynced = {offset for offset in self._unsynced if offset >= end_offset}

    def flush(self) -> None:
        """Return when all snapshots are on the disk."""
        for offset in sorted(self._unsynced):
            self._fs.fsync_file(self._path(offset))
            self._unsynced.discard(offset)

    def load_newest(self, end_offset: int) -> tuple[ProducerState, int]:
        """Return the newest usable state not above an offset, and the offset that it is as of.

        Returns:
            An empty state and -1 if there is none.
        """
        for offset in sorted((o for o in self._offsets if o <= end_offset), reverse=True):
            path = self._path(offset)
            try:
                return ProducerState.decode(path, self._fs.read_bytes(path)), offset
            except CorruptRecordError:
                self.delete(offset)
        return ProducerState(), -1

    def delete(self, offset: int) -> None:
        """Remove the snapshot of an offset, if there is one."""
        if offset in self._offsets:
            self._fs.unlink(self._path(offset), missing_ok=True)
            self._offsets.discard(offset)
            self._unsynced.discard(offset)

    def delete_above(self, offset: int) -> None:
        """Remove the snapshots of later offsets."""
        for later in [o for o in self._offsets if o > offset]:
            self.delete(later)

    def delete_strays(self, base_offsets: Iterable[int]) -> None:
        """Remove what belongs to no segment, but keep the one of the log's end."""
        bases = set(base_offsets)
        end = max(self._offsets - bases, default=-1)
        for offset in self._offsets - bases:
            if offset != end or offset < max(bases):
                self.delete(offset)

    def _path(self, offset: int) -> Path:
        return self.directory / names.snapshot_file(offset)
