"""Reading the batches of one `.log` file: from an offset on for a reader, or one after the other.

The file may grow meanwhile; a reader stops at the size that it was created with. Blocks are copies
and no file is memory-mapped, so that a failing disk raises `OSError` in the call that met it.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jbodlab.record_batch.record_batch import (
    HEADER_SIZE,
    MAGIC,
    SIZE_PREFIX,
    BatchHeader,
    crc_is_valid,
    iterate_records,
    read_header,
)
from jbodlab.storage.directory.filesystem import ReadFile
from jbodlab.storage.log.batch_block import extent_at, skip_before, whole_batches
from jbodlab.vocabulary.errors import CorruptRecordError, DecodeError
from jbodlab.vocabulary.limits import SCAN_BLOCK_SIZE, SEARCH_BLOCK_BYTES


class ScannedBatch(NamedTuple):
    """One whole batch of a segment; `data` is only valid until the next batch is read."""

    position: int
    header: BatchHeader
    data: memoryview


class SegmentRead(NamedTuple):
    """Whole batches, with offset and position of the next batch."""

    data: bytes
    next_offset: int
    next_position: int


class SegmentReader:
    """One `.log` file up to a size.

    Args:
        file: Open for reading.
        path: Path for error messages.
        size: Position in bytes where the reader stops, which is the end of a batch.
        next_offset: Offset behind that batch, as far as it is known.
    """

    __slots__ = ("file", "next_offset", "path", "size")

    def __init__(self, file: ReadFile, path: Path, size: int, next_offset: int = -1) -> None:
        self.file = file
        self.path = path
        self.size = size
        self.next_offset = next_offset

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
            offset: The first requested offset.
            position: Start of a batch that is not behind the requested one.
            max_bytes: Most bytes to return.
            max_offset: Only batches entirely below it; None for all.
            at_least_one: Whether a first batch larger than `max_bytes` is returned all the same.
            read_ahead: Estimated distance in bytes from `position` to the requested batch.

        Raises:
            CorruptRecordError: the bytes where a batch should begin are not a batch.
        """
        if max_offset is not None and max_offset >= self.next_offset:
            max_offset = None
        while position < self.size:
            wanted = max(max_bytes, HEADER_SIZE) + read_ahead
            block = self.file.pread(min(wanted, self.size - position), position)
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

    def scan(
        self, position: int = 0, *, batch_bytes_max: int | None = None
    ) -> Iterator[ScannedBatch]:
        """Yield the batches from a position on; an incomplete last one ends it silently.

        Args:
            position: Where a batch begins.
            batch_bytes_max: A larger batch ends the scan as an incomplete one does.

        Raises:
            CorruptRecordError: the bytes where a batch should begin are not a batch.
        """
        while position < self.size:
            block = self.file.pread(min(SCAN_BLOCK_SIZE, self.size - position), position)
            size = SIZE_PREFIX
            if len(block) >= HEADER_SIZE:
                size = self._header(block, 0, position).size
            if batch_bytes_max is not None and size > batch_bytes_max:
                return
            if size > len(block) and position + size <= self.size:
                block = self.file.pread(size, position)
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

    def first_header(self) -> BatchHeader | None:
        """Return the header of the first batch; None without one.

        Raises:
            CorruptRecordError: it is none.
        """
        block = self.file.pread(min(HEADER_SIZE, self.size), 0)
        return self._header(block, 0, 0) if len(block) == HEADER_SIZE else None

    def first_record_in(
        self, batch: ScannedBatch, timestamp: int, start_offset: int
    ) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record of a batch that is not older.

        Args:
            batch: One of this segment.
            timestamp: In ms.
            start_offset: Records below are not counted.

        Raises:
            CorruptRecordError: the batch is damaged.
        """
        header = batch.header
        try:
            for record in iterate_records(batch.data, 0, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record.timestamp, record.offset
        except DecodeError as error:
            if header.compression:
                # The batch is from a broker that did not validate it. A consumer that starts at
                # the batch reads a few records too many, but misses none.
                return header.max_timestamp, max(header.base_offset, start_offset)
            raise CorruptRecordError(self.path, batch.position, str(error)) from error
        return None

    def newest_record_in(self, batch: ScannedBatch, start: int, end: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the newest record of a batch in a range of offsets.

        Args:
            batch: One of this segment.
            start: Records below are not counted.
            end: Nor are those from here on.

        Raises:
            CorruptRecordError: the batch is damaged.
        """
        header = batch.header
        best: tuple[int, int] | None = None
        try:
            for record in iterate_records(batch.data, 0, header):
                if start <= record.offset < end and (best is None or record.timestamp > best[0]):
                    best = record.timestamp, record.offset
        except DecodeError as error:
            if header.compression:
                # As for the first record of a time.
                return header.max_timestamp, max(header.base_offset, start)
            raise CorruptRecordError(self.path, batch.position, str(error)) from error
        return best

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
            # A batch ends where the segment ends: there is no border to search for.
            return SegmentRead(block, self.next_offset, self.size)
        first = extent_at(block, start)
        size = first.end - start
        if (max_offset is not None and first.last_offset >= max_offset) or (
            size > max_bytes and not at_least_one
        ):
            return SegmentRead(b"", first.base_offset, position + start)
        if first.end > len(block):
            data = self.file.pread(size, position + start)
            if position + first.end > self.size or len(data) < size:
                raise CorruptRecordError(self.path, position + start, "batch is incomplete")
            return SegmentRead(data, first.last_offset + 1, position + first.end)
        limit = min(len(block), start + max_bytes)
        end, next_offset = whole_batches(block, first, limit, max_offset)
        data = block if start == 0 and end == len(block) else block[start:end]
        return SegmentRead(data, next_offset, position + end)


def next_batch(
    file: ReadFile, position: int, size: int, offset: int, *, batch_bytes_max: int | None = None
) -> int | None:
    """Search for a valid batch behind damage.

    No valid batch follows a write that a crash tore.

    Args:
        file: A `.log` file.
        position: Position where the search begins.
        size: Position where the search ends.
        offset: Batches with lower offsets are ignored.
        batch_bytes_max: Batches with more bytes are ignored; None for no limit.

    Returns:
        The position of the first such batch; None without one.
    """
    # The offset is not much larger, so the first half of it is known; and so is the magic.
    halves = (offset >> 32, (offset >> 32) + 1)
    first_half = b"|".join(re.escape(struct.pack(">I", half)) for half in halves)
    pattern = re.compile(b"(?=(?:" + first_half + b").{12}" + bytes((MAGIC,)) + b")", re.DOTALL)
    while position < size:
        block = file.pread(min(SEARCH_BLOCK_BYTES + HEADER_SIZE, size - position), position)
        for match in pattern.finditer(block):
            at = position + match.start()
            end = size if batch_bytes_max is None else min(size, at + batch_bytes_max)
            if _is_batch(file, at, end, offset):
                return at
        if len(block) <= HEADER_SIZE:
            break
        position += min(SEARCH_BLOCK_BYTES, len(block))
    return None


def _is_batch(file: ReadFile, position: int, end: int, offset: int) -> bool:
    with contextlib.suppress(DecodeError):
        header = read_header(file.pread(HEADER_SIZE, position))
        if header.base_offset >= offset and position + header.size <= end:
            return crc_is_valid(file.pread(header.size, position), 0, header)
    return False
