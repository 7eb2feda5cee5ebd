"""One segment of a log: a `.log` file of record batches and its two indexes.

The segment keeps its own idea of the file's size and never reads behind it, so bytes of an append
that failed half-way are not seen by anyone; the failing append also cuts them off.

Source: `org.apache.kafka.storage.internals.log.LogSegment`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jbodlab.errors import CorruptRecordError, DecodeError
from jbodlab.log import names
from jbodlab.log.batch_block import extent_at, skip_before, whole_batches
from jbodlab.log.filesystem import AppendFile, Buffer, FileSystem
from jbodlab.log.offset_index import OffsetIndex
from jbodlab.log.time_index import TimeIndex
from jbodlab.protocol.record_batch import (
    HEADER_SIZE,
    SIZE_PREFIX,
    BatchHeader,
    crc_is_valid,
    read_header,
)

SCAN_BLOCK_SIZE = 1 << 20
RELATIVE_OFFSET_MAX = 2**31 - 1
POSITION_MAX = 2**31 - 1
"""Positions are int32 in the offset index."""


class ScannedBatch(NamedTuple):
    """One whole batch of a segment; `data` is only good until the next one is asked for."""

    position: int
    header: BatchHeader
    data: memoryview


class SegmentRead(NamedTuple):
    """Whole batches, and where the first batch behind them begins."""

    data: bytes
    next_offset: int
    next_position: int


class SegmentState(NamedTuple):
    """What a segment knows of its bytes; another one with the same bytes can take it over."""

    base_offset: int
    size: int
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    bytes_since_index_entry: int
    offset_index: OffsetIndex
    time_index: TimeIndex


class Segment:
    """An open segment; `next_offset` is the offset behind its last batch."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_file",
        "_first_timestamp",
        "_fs",
        "base_offset",
        "directory",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "time_index",
    )

    def __init__(
        self, fs: FileSystem, directory: Path, base_offset: int, *, file_name: str | None = None
    ) -> None:
        self._fs = fs
        self.directory = directory
        """Changes with a rename of the partition directory; the open file does not mind."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None
        self._bytes_since_index_entry = 0
        path = self.path if file_name is None else directory / file_name
        self._file: AppendFile = fs.open_append(path)
        self.size = self._file.size()

    @classmethod
    def create(cls, fs: FileSystem, directory: Path, base_offset: int) -> Segment:
        """Make the files of an empty segment; leftovers under its name are emptied."""
        segment = cls(fs, directory, base_offset)
        segment.cut(0)
        segment.write_indexes(sync=False)
        return segment

    @property
    def path(self) -> Path:
        """The `.log` file."""
        return self.directory / names.log_file(self.base_offset)

    def append(
        self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader], index_interval_bytes: int
    ) -> None:
        """Write batches behind the others, with one system call.

        Args:
            buffers: The bytes of all batches in order, cut anywhere.
            headers: Their headers, as they are in the bytes.
            index_interval_bytes: See `LogConfig`.
        """
        try:
            self._file.writev(buffers)
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self.size)
            raise
        position = self.size
        for header in headers:
            position += self._note(header, position, index_interval_bytes)
        self.size = position

    def read(
        self,
        offset: int,
        position: int,
        *,
        max_bytes: int,
        max_offset: int | None,
        at_least_one: bool,
        read_ahead: int,
    ) -> SegmentRead:
        """Read whole batches from the one that contains `offset`.

        Args:
            offset: The first offset wanted.
            position: Where a batch begins that is not behind the wanted one.
            max_bytes: Most bytes to return.
            max_offset: Only batches entirely below it; None for all.
            at_least_one: Whether a first batch larger than `max_bytes` is returned all the same.
            read_ahead: Bytes that probably lie between `position` and the wanted batch.

        Raises:
            CorruptRecordError: bytes where a batch should begin are none.
        """
        if max_offset is not None and max_offset >= self.next_offset:
            max_offset = None
        while position < self.size:
            wanted = max(max_bytes, HEADER_SIZE) + read_ahead
            block = self._file.pread(min(wanted, self.size - position), position)
            try:
                start, found = skip_before(block, offset)
                if found:
                    return self._cut_to_batches(
                        block, start, position, max_bytes, max_offset, at_least_one
                    )
            except DecodeError as error:
                raise CorruptRecordError(self.path, position, str(error)) from error
            if start == 0:
                raise CorruptRecordError(self.path, position, "batch is incomplete")
            position += start
        return SegmentRead(b"", self.next_offset, self.size)

    def scan(self, position: int = 0) -> Iterator[ScannedBatch]:
        """Yield the batches from a position on; an incomplete last one ends it silently.

        Raises:
            CorruptRecordError: bytes where a batch should begin are none.
        """
        while position < self.size:
            block = self._file.pread(min(SCAN_BLOCK_SIZE, self.size - position), position)
            size = SIZE_PREFIX
            if len(block) >= HEADER_SIZE:
                size = self._header(block, 0, position).size
            if size > len(block) and position + size <= self.size:
                block = self._file.pread(size, position)
            view = memoryview(block)
            start = 0
            while len(block) - start >= HEADER_SIZE:
                header = self._header(block, start, position)
                end = start + header.size
                if end > len(block):
                    break
                yield ScannedBatch(position + start, header, view[start:end])
                start = end
            if start == 0:
                return
            position += start

    def rebuild(
        self,
        *,
        check_crc: bool,
        index_interval_bytes: int,
        on_batch: Callable[[BatchHeader], None],
    ) -> bool:
        """Read all batches, make the indexes anew, and cut the file behind the last valid batch.

        Args:
            check_crc: Whether the CRC of each batch is checked.
            index_interval_bytes: See `LogConfig`.
            on_batch: Told each valid batch in order.

        Returns:
            Whether anything was cut.
        """
        self._forget()
        size = 0
        with contextlib.suppress(CorruptRecordError):
            for position, header, data in self.scan():
                if not self._fits(header) or (check_crc and not crc_is_valid(data, 0, header)):
                    break
                size = position + self._note(header, position, index_interval_bytes)
                on_batch(header)
        return self.cut(size)

    def load_indexes(self) -> bool:
        """Take over the index files and find the segment's end without reading all of it.

        Returns:
            False if they are missing or cannot be right; then the segment is to be rebuilt.
        """
        index_path = self.directory / names.index_file(self.base_offset)
        time_index_path = self.directory / names.time_index_file(self.base_offset)
        try:
            index = self._fs.read_bytes(index_path)
            time_index = self._fs.read_bytes(time_index_path)
            self.index = OffsetIndex.decode(index_path, index, self.base_offset)
            self.time_index = TimeIndex.decode(time_index_path, time_index, self.base_offset)
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last
            position = self.index.last_position()
            for found in self.scan(position):
                self._extend_bounds(found.header)
                position = found.position + found.header.size
        except (FileNotFoundError, CorruptRecordError):
            return False
        self._bytes_since_index_entry = position - self.index.last_position()
        return position == self.size

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains an offset, or of the next one."""
        for position, header, _ in self.scan(self.index.lookup(offset)):
            if header.next_offset > offset:
                return position
        return self.size

    def first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, -1 without one."""
        if self._first_timestamp is None:
            for _, header, _ in self.scan():
                self._first_timestamp = header.max_timestamp
                break
            else:
                return -1
        return self._first_timestamp

    def state(self) -> SegmentState:
        """Return a copy of all that is known of the bytes."""
        return SegmentState(
            self.base_offset,
            self.size,
            self.next_offset,
            self.max_timestamp,
            self.max_timestamp_offset,
            self._bytes_since_index_entry,
            self.index.copy(),
            self.time_index.copy(),
        )

    def take_over(self, state: SegmentState) -> None:
        """Take over what is known of the same bytes elsewhere; they are in the file already.

        Raises:
            CorruptRecordError: the file is shorter than that.
        """
        assert state.base_offset == self.base_offset
        found = self._file.size()
        if found < state.size:
            raise CorruptRecordError(self.path, found, f"ends before {state.size}")
        if found > state.size:
            self._file.truncate(state.size)
        self.size = state.size
        self.next_offset = state.next_offset
        self.max_timestamp = state.max_timestamp
        self.max_timestamp_offset = state.max_timestamp_offset
        self._bytes_since_index_entry = state.bytes_since_index_entry
        self._first_timestamp = None
        self.index, self.time_index = state.offset_index, state.time_index

    def finish(self) -> None:
        """Close the time index off with the largest timestamp."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)

    def write_indexes(self, *, sync: bool) -> None:
        """Write both index files."""
        for name, data in (
            (names.index_file(self.base_offset), self.index.encode()),
            (names.time_index_file(self.base_offset), self.time_index.encode()),
        ):
            self._fs.write_bytes(self.directory / name, data, sync=sync)

    def flush(self) -> None:
        """Return when all batches are on the disk."""
        self._file.fsync()

    def cut(self, size: int) -> bool:
        """Cut the file where a batch ends; returns whether there was anything to cut.

        The indexes are not touched: `rebuild` afterwards, unless nothing is left.
        """
        changed = size < self.size
        if changed:
            self._file.truncate(size)
            self.size = size
        return changed

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _note(self, header: BatchHeader, position: int, index_interval_bytes: int) -> int:
        """Remember a batch of the file in indexes and bounds; returns its size."""
        self._extend_bounds(header)
        if self._bytes_since_index_entry > index_interval_bytes:
            self.index.append(self.next_offset - 1, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
        if position == 0:
            self._first_timestamp = header.max_timestamp
        size = SIZE_PREFIX + header.batch_length
        self._bytes_since_index_entry += size
        return size

    def _extend_bounds(self, header: BatchHeader) -> None:
        last_offset = header.base_offset + header.last_offset_delta
        self.next_offset = last_offset + 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset

    def _forget(self) -> None:
        self.index.clear()
        self.time_index.clear()
        self.next_offset = self.base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self._first_timestamp = None
        self._bytes_since_index_entry = 0

    def _fits(self, header: BatchHeader) -> bool:
        """Return whether a batch may follow what was read so far; compaction leaves gaps."""
        return (
            header.base_offset >= self.next_offset
            and header.last_offset_delta >= 0
            and header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def _header(self, block: bytes, start: int, position: int) -> BatchHeader:
        try:
            return read_header(block, start)
        except DecodeError as error:
            raise CorruptRecordError(self.path, position + start, str(error)) from error

    def _cut_to_batches(
        self,
        block: bytes,
        start: int,
        position: int,
        max_bytes: int,
        max_offset: int | None,
        at_least_one: bool,
    ) -> SegmentRead:
        """Take from a block the whole batches that begin at `start` and keep within the limits."""
        to_end = position + len(block) == self.size and len(block) <= max_bytes
        if start == 0 and to_end and max_offset is None:
            # Where the segment ends a batch ends: nothing to look for.
            return SegmentRead(block, self.next_offset, self.size)
        first = extent_at(block, start)
        size = first.end - start
        if (max_offset is not None and first.last_offset >= max_offset) or (
            size > max_bytes and not at_least_one
        ):
            return SegmentRead(b"", first.base_offset, position + start)
        if first.end > len(block):
            data = self._file.pread(size, position + start)
            if position + first.end > self.size or len(data) < size:
                raise CorruptRecordError(self.path, position + start, "batch is incomplete")
            return SegmentRead(data, first.last_offset + 1, position + first.end)
        limit = min(len(block), start + max_bytes)
        end, next_offset = whole_batches(block, first, limit, max_offset)
        data = block if start == 0 and end == len(block) else block[start:end]
        return SegmentRead(data, next_offset, position + end)
