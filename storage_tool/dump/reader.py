"""The batches of a file, one after the other, with bounded memory.

A file is read in blocks; a batch is a view of a block. Bytes that cannot be a batch end the
reading, as their size field cannot be trusted; a batch that would reach beyond the end of the file
is a torn tail.

Source: `org.apache.kafka.common.record.FileLogInputStream`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from jbodlab.record_batch.record_batch import HEADER_SIZE, MAGIC, SIZE_PREFIX
from jbodlab.vocabulary.errors import DecodeError

BLOCK_BYTES = 1 << 20
BATCH_BYTES_MAX = 256 << 20
"""A larger batch is not held in memory; no broker accepts one."""

HEAD_SIZE = 17
"""Bytes up to and with the magic, which determines the layout of the rest."""
SIZE_MIN = 14
"""Least size behind the prefix that any format has had."""
MAGIC_OFFSET = 16

_MAGIC = struct.Struct(">b")
_SIZE = struct.Struct(">i")
_SIZE_OFFSET = 8
_LAST_OFFSET = struct.Struct(">q15xi")


class RawBatch(NamedTuple):
    """A batch and its position; `data` is only valid until the next batch is read."""

    position: int
    data: memoryview

    def check(self) -> None:
        """Check that the header has the present format, or a later one that is read as this one.

        Raises:
            DecodeError: the batch is of an old format, or too short.
        """
        # The byte is signed.
        (magic,) = _MAGIC.unpack_from(self.data, MAGIC_OFFSET)
        if magic < MAGIC:
            raise DecodeError(
                f"batch at position {self.position} has magic {magic}: formats before magic "
                f"{MAGIC} are not supported"
            )
        if len(self.data) < HEADER_SIZE:
            raise DecodeError(
                f"batch at position {self.position} has {len(self.data)} bytes, "
                f"a header has {HEADER_SIZE}"
            )


class BatchFile:
    """An open file of batches.

    The size is read once: the reader does not see batches that a running process appends later.
    """

    __slots__ = ("_fd", "end", "position", "size")

    def __init__(self, path: Path, bytes_max: int | None = None) -> None:
        """Open a file.

        Args:
            path: The file.
            bytes_max: Read only so many bytes of it.

        Raises:
            OSError: it cannot be opened.
        """
        self._fd = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._fd).st_size
        self.end = self.size if bytes_max is None else min(self.size, bytes_max)
        self.position = 0
        """Behind the last batch that was read."""

    def __enter__(self) -> BatchFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def batches(self, position: int = 0) -> Iterator[RawBatch]:
        """Yield the whole batches from a position on.

        Raises:
            DecodeError: bytes that cannot be a batch; no batch behind them can be found.
            OSError: the file cannot be read.
        """
        block = memoryview(b"")
        block_start = self.position = position
        while self.end - position > HEAD_SIZE:
            at = position - block_start
            if len(block) - at < HEAD_SIZE:
                block, block_start, at = self._block(position, HEAD_SIZE), position, 0
            (size,) = _SIZE.unpack_from(block, at + _SIZE_OFFSET)
            if size < SIZE_MIN:
                raise DecodeError(f"invalid batch size {size}")
            total = SIZE_PREFIX + size
            if total > self.end - position:
                return
            if total > BATCH_BYTES_MAX:
                raise DecodeError(
                    f"expected a batch of at most {BATCH_BYTES_MAX} bytes, got {total}"
                )
            if len(block) - at < total:
                block, block_start, at = self._block(position, total), position, 0
            yield RawBatch(position, block[at : at + total])
            position += total
            self.position = position

    def last_offset_at(self, position: int) -> int:
        """Return the last offset of the batch that begins at a position.

        Raises:
            DecodeError: the batch is incomplete.
            OSError: the file cannot be read.
        """
        if position < 0 or position > self.size:
            raise DecodeError(f"position {position} is outside the file of {self.size} bytes")
        for batch in self.batches(position):
            return last_offset(batch)
        raise DecodeError(f"the batch at position {position} is incomplete")

    def _block(self, position: int, least: int) -> memoryview:
        wanted = min(max(least, BLOCK_BYTES), self.end - position)
        data = os.pread(self._fd, wanted, position)
        while len(data) < least:
            more = os.pread(self._fd, wanted - len(data), position + len(data))
            if not more:
                raise DecodeError(f"the file was truncated below {position + least} bytes")
            data += more
        return memoryview(data)


def last_offset(batch: RawBatch) -> int:
    """Return the last offset of a batch.

    Raises:
        DecodeError: the batch is of an old format, or too short.
    """
    batch.check()
    base, delta = _LAST_OFFSET.unpack_from(batch.data)
    return int(base + delta)
