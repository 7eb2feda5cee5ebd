"""One segment of the metadata log: `<base offset>.log` and its two index files.

    .log        record batches only
    .index      int32 offset relative to the base, int32 position      every 4 KiB or more
    .timeindex  int64 timestamp in ms, int32 relative offset           beside each of these

The index files are for Kafka's tools; this code finds positions in memory, from the same sparse
entries. They are neither preallocated nor synced, and rewritten at open if they differ from the log
file.

Opening reads the whole file. Bytes behind the last valid batch stay until `rewrite`.
Source: `org.apache.kafka.storage.internals.log.LogSegment`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from jbodlab.metadata.log.segment_scan import SegmentScan
from jbodlab.metadata.log.snapshots import DAMAGED_SUFFIX
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import AppendFile, FileSystem
from jbodlab.storage.log.segment_reader import SegmentReader
from jbodlab.vocabulary.limits import COPY_CHUNK_BYTES

INDEX_INTERVAL_BYTES = 4096

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")


class MetadataSegment:
    """An open segment; blocking, for one thread.

    Args:
        fs: The disk.
        directory: Directory of the log.
        base_offset: First offset of the segment.
        epoch: Leader epoch of the batch before it; -1 without one.
        epoch_max: Highest leader epoch so far; None if unknown.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        base_offset: int,
        *,
        epoch: int = -1,
        epoch_max: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.path = directory / names.log_file(base_offset)
        self.end_offset = base_offset
        """Offset behind the last record."""
        self.size = 0
        """Bytes of valid batches; also of the file, unless that is damaged."""
        self.epoch_starts: list[tuple[int, int]] = []
        """Leader epochs that begin in this segment, with their first offset here."""
        self.last_epoch = epoch
        """Leader epoch of the last batch, also if that is one of an earlier segment."""
        self.first_timestamp_ms = -1
        """Append time of its first batch; -1 without one."""
        self._fs = fs
        self._directory = directory
        self._entries = _SparseIndex(base_offset)
        self._file: AppendFile = fs.open_append(self.path)
        self._index: AppendFile | None = None
        self._time_index: AppendFile | None = None
        scan = SegmentScan(self._file, self.path, base_offset, epoch=epoch, epoch_max=epoch_max)
        try:
            self._load(scan)
            self.damage = scan.damage()
            """The bytes behind the valid batches; None after they were cut off."""
        except BaseException:
            self.close()
            raise

    def append(self, data: bytes | memoryview, headers: Iterable[tuple[int, BatchHeader]]) -> None:
        """Append whole batches in one write.

        Args:
            data: The batches.
            headers: Position in `data` and header of each.
        """
        start = self.size
        self._file.write(data)
        index_bytes, time_index_bytes = self._note(
            (start + position, header) for position, header in headers
        )
        if index_bytes:
            assert self._index is not None
            assert self._time_index is not None
            self._index.write(index_bytes)
            self._time_index.write(time_index_bytes)

    def read(self, from_offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that contains an offset; at least one.

        Raises:
            CorruptRecordError: the file no longer holds the written batches.
        """
        assert self.base_offset <= from_offset < self.end_offset
        reader = SegmentReader(self._file, self.path, self.size, self.end_offset)
        found = reader.read(
            from_offset,
            self._entries.position_before(from_offset),
            max_bytes=max_bytes,
            max_offset=None,
            at_least_one=True,
            read_ahead=INDEX_INTERVAL_BYTES,
        )
        return found.data

    def flush(self) -> None:
        """Sync the file; returns when all appended batches are on the disk."""
        self._file.fsync()

    def set_damage_aside(self) -> Path:
        """Copy the bytes behind the valid batches into a separate file; returns its path."""
        assert self.damage is not None
        name = f"{self.path.name}.{self.size}{DAMAGED_SUFFIX}"
        path, number = self.path.with_name(name), 1
        while self._fs.exists(path):
            number += 1
            path = self.path.with_name(f"{name}.{number}")
        file = self._fs.open_append(path)
        try:
            self._copy_to(file, self.size, self._file.size())
        finally:
            file.close()
        return path

    def rewrite(self) -> None:
        """Write the valid batches into a new file, which replaces this one, durably.

        This cuts off the damaged bytes. It also makes the readable bytes trustworthy: after a
        failed sync, the kernel still returns bytes that it never writes again.
        """
        path = self.path.with_name(self.path.name + names.TMP_SUFFIX)
        self._fs.unlink(path, missing_ok=True)
        file = self._fs.open_append(path)
        try:
            self._copy_to(file, 0, self.size)
        finally:
            file.close()
        self._fs.rename(path, self.path)
        self._file.close()
        self._file, self.damage = self._fs.open_append(self.path), None

    def seal(self) -> None:
        """Finish the time index; the segment takes no more appends."""
        assert self._time_index is not None
        self._time_index.write(self._entries.last_time_entry())

    def close(self) -> None:
        """Close the files."""
        for file in (self._file, self._index, self._time_index):
            if file is not None:
                file.close()

    def delete(self) -> None:
        """Close and remove the files."""
        self.close()
        delete_files(self._fs, self._directory, self.base_offset)

    def _copy_to(self, file: AppendFile, start: int, end: int) -> None:
        """Append a part of this file to another one, and sync that."""
        for position in range(start, end, COPY_CHUNK_BYTES):
            file.write(self._file.pread(min(COPY_CHUNK_BYTES, end - position), position))
        file.fsync()

    def _load(self, scan: SegmentScan) -> None:
        """Read the whole file, and rebuild the index files."""
        index_bytes, time_index_bytes = self._note(scan.batches())
        self._index = self._rebuilt(names.index_file(self.base_offset), index_bytes)
        self._time_index = self._rebuilt(names.time_index_file(self.base_offset), time_index_bytes)

    def _rebuilt(self, name: str, content: bytes) -> AppendFile:
        path = self._directory / name
        if not self._fs.exists(path) or self._fs.read_bytes(path) != content:
            self._fs.write_bytes(path, content, sync=False)
        return self._fs.open_append(path)

    def _note(self, batches: Iterable[tuple[int, BatchHeader]]) -> tuple[bytes, bytes]:
        """Add batches to the indexes; returns the new bytes of the index files."""
        index_bytes, time_index_bytes = bytearray(), bytearray()
        for position, header in batches:
            if position == 0:
                self.first_timestamp_ms = header.max_timestamp
            entry, time_entry = self._entries.add(position, header)
            index_bytes += entry
            time_index_bytes += time_entry
            epoch = self.last_epoch = header.partition_leader_epoch
            if epoch > (self.epoch_starts[-1][0] if self.epoch_starts else -1):
                self.epoch_starts.append((epoch, header.base_offset))
            self.end_offset = header.next_offset
            self.size = position + header.size
        return bytes(index_bytes), bytes(time_index_bytes)


def delete_files(fs: FileSystem, directory: Path, base_offset: int) -> None:
    """Remove the files of a segment, the log file last."""
    for name_of in (names.time_index_file, names.index_file, names.log_file):
        fs.unlink(directory / name_of(base_offset), missing_ok=True)


class _SparseIndex:
    """Entries of both index files, and the positions of the same batches in memory."""

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets: list[int] = [base_offset]
        self._positions: list[int] = [0]
        self._bytes_since_entry = 0
        self._largest_timestamp = -1
        self._offset_of_largest = base_offset
        self._indexed_timestamp = -1

    def add(self, position: int, header: BatchHeader) -> tuple[bytes, bytes]:
        """Add a batch; returns its index entries, empty if it gets none."""
        if header.max_timestamp > self._largest_timestamp:
            self._largest_timestamp = header.max_timestamp
            self._offset_of_largest = header.last_offset
        entry = time_entry = b""
        if self._bytes_since_entry > INDEX_INTERVAL_BYTES:
            entry = _INDEX_ENTRY.pack(header.last_offset - self._base_offset, position)
            time_entry = self.last_time_entry()
            self._offsets.append(header.base_offset)
            self._positions.append(position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size
        return entry, time_entry

    def last_time_entry(self) -> bytes:
        """Return an entry for the largest timestamp, empty if the index has it already."""
        if self._largest_timestamp <= self._indexed_timestamp:
            return b""
        self._indexed_timestamp = self._largest_timestamp
        relative = self._offset_of_largest - self._base_offset
        return _TIME_INDEX_ENTRY.pack(self._largest_timestamp, relative)

    def position_before(self, offset: int) -> int:
        """Return the position of a batch that begins at or before an offset."""
        return self._positions[bisect_right(self._offsets, offset) - 1]
