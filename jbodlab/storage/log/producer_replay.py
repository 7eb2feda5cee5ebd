"""The producer state as of an offset, rebuilt from a snapshot and the batches behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jbodlab.storage.directory import names
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segment_reader import ScannedBatch
from jbodlab.storage.log.transactions import read_marker
from jbodlab.vocabulary.errors import CorruptRecordError


class ProducerReplay:
    """The producer state at an offset, from the newest usable snapshot and the batches behind it.

    The batches are read in steps, so that other work of the same thread runs in between.

    Args:
        files: Files of the log.
        snapshots: Offsets of snapshots that may be used, the newest first.
        segments: All segments up to the offset.
        end_offset: Offset of the state, exclusive.
    """

    def __init__(
        self,
        files: LogFiles,
        snapshots: Sequence[int],
        segments: Sequence[SegmentRange],
        end_offset: int,
    ) -> None:
        self._files = files
        self._snapshots = snapshots
        self._segments = segments
        self._end_offset = end_offset
        self._batches = self._unread()
        self.state = ProducerState()
        self.damaged: list[int] = []
        """Snapshots that could not be used."""

    def step(self, bytes_max: int = 1 << 20) -> bool:
        """Read on; returns whether all is read."""
        read = 0
        for _, header, data in self._batches:
            marker = read_marker(data, 0, header) if header.is_control else None
            self.state.update(header, marker)
            read += header.size
            if read >= bytes_max:
                return False
        return True

    def _unread(self) -> Iterator[ScannedBatch]:
        begin = self._load_newest()
        for part in self._segments:
            if part.next_offset <= begin:
                continue
            position = 0
            if begin > part.base_offset:
                position = self._files.indexes(part).offset_index.lookup(begin)
            for batch in self._files.reader(part).scan(position):
                if batch.header.next_offset > self._end_offset:
                    return
                if batch.header.next_offset > begin:
                    yield batch

    def _load_newest(self) -> int:
        """Load the newest usable snapshot; returns its offset, -1 if there is no such snapshot."""
        for offset in self._snapshots:
            path = self._files.directory / names.snapshot_file(offset)
            try:
                self.state = ProducerState.decode(path, self._files.fs.read_bytes(path))
            except (CorruptRecordError, FileNotFoundError):
                self.damaged.append(offset)
            else:
                return offset
        return -1
