"""The valid batches at the beginning of a segment's file, and what is wrong behind them.

A batch is valid if it is whole, its CRC is right, its offset continues the one before, and its
leader epoch is not lower. Offset and epoch are not covered by the CRC, so they are looked at here.

What is wrong matters less than what comes behind it. A torn append leaves nothing valid behind
itself, as each append is synced before the next one. So a valid batch behind a damaged one was on
the disk when this one was, too, and the damage was done to a record that somebody relies on.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jbodlab.metadata.log.batches import MAX_BATCH_BYTES
from jbodlab.record_batch.record_batch import (
    HEADER,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    iterate_headers,
    read_header,
)
from jbodlab.storage.directory.filesystem import AppendFile
from jbodlab.vocabulary.errors import DecodeError

SCAN_CHUNK_BYTES = 2 * MAX_BATCH_BYTES
"""Twice the largest batch, so that the first batch of a chunk is always whole."""

PRODUCER_ID_OFFSET = 43
NO_PRODUCER = b"\xff" * 14
"""Producer id, epoch and sequence, which are all -1 in each batch of a metadata log."""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The first bytes of a file that are no valid batch in its place.

    Attributes:
        position: Where the valid batches end.
        reason: What is there instead.
        valid_after: Where behind it a valid batch begins; None if nothing valid follows.
    """

    position: int
    reason: str
    valid_after: int | None


class SegmentScan:
    """One pass over a file, from its beginning; blocking.

    Args:
        file: The `.log` file.
        base_offset: First offset that may be in it.
        epoch: Leader epoch of the batch before; -1 without one.
        epoch_max: Highest leader epoch that there was; None if unknown.
    """

    def __init__(
        self, file: AppendFile, base_offset: int, *, epoch: int = -1, epoch_max: int | None = None
    ) -> None:
        self._file = file
        self._size = file.size()
        self._position = 0
        self._expected_offset = base_offset
        # Of the last batch and of the one before it.
        self._epoch = self._epoch_before = epoch
        self._epoch_max = epoch_max

    def batches(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each valid batch, up to the first damage."""
        while self._position < self._size:
            start = self._position
            data = self._file.pread(SCAN_CHUNK_BYTES, start)
            try:
                for at, header in iterate_headers(data):
                    if self._misplaced(header) or not crc_is_valid(data, at, header):
                        return
                    yield start + at, header
                    self._advance(header)
            except DecodeError:
                return
            if self._position == start:
                return

    def damage(self) -> Damage | None:
        """Return what ended `batches`; None if that was the end of the file."""
        if self._position >= self._size:
            return None
        data = self._file.pread(HEADER_SIZE, self._position)
        search_from = self._position + 1
        if len(data) < HEADER_SIZE:
            reason = f"expected a batch header of {HEADER_SIZE} bytes, got {len(data)}"
        else:
            header = BatchHeader(*HEADER.unpack(data))
            reason = self._reason(header)
            if self._epoch_before <= header.partition_leader_epoch < self._epoch:
                # Rather the batch before has the wrong epoch, and this one follows it.
                search_from = self._position
        return Damage(
            position=self._position, reason=reason, valid_after=self._next_valid(search_from)
        )

    def _advance(self, header: BatchHeader) -> None:
        self._position += header.size
        self._expected_offset = header.next_offset
        self._epoch_before, self._epoch = self._epoch, header.partition_leader_epoch

    def _misplaced(self, header: BatchHeader) -> str:
        """Return why a batch cannot stand here; empty if it can."""
        if header.base_offset != self._expected_offset:
            return f"expected a batch at offset {self._expected_offset}, got {header.base_offset}"
        where = f"batch at offset {header.base_offset}"
        epoch = header.partition_leader_epoch
        if epoch < self._epoch:
            return f"{where} has leader epoch {epoch} after one of epoch {self._epoch}"
        if self._epoch_max is not None and epoch > self._epoch_max:
            return f"{where} has leader epoch {epoch}, the highest was {self._epoch_max}"
        return f"{where} ends before it begins" if header.last_offset_delta < 0 else ""

    def _reason(self, header: BatchHeader) -> str:
        if header.magic != MAGIC:
            return f"expected magic {MAGIC}, got {header.magic}"
        if header.batch_length < 0 or self._position + header.size > self._size:
            left = self._size - self._position
            return (
                f"batch at offset {self._expected_offset} has {header.size} bytes where {left} are "
                "left"
            )
        wrong_crc = f"batch at offset {self._expected_offset} has a wrong CRC"
        return self._misplaced(header) or wrong_crc

    def _next_valid(self, position: int) -> int | None:
        """Return where from a position on the next valid batch begins, None without one."""
        while position + HEADER_SIZE <= self._size:
            data = self._file.pread(SCAN_CHUNK_BYTES, position)
            for start in _possible_starts(data):
                if self._is_valid(position + start):
                    return position + start
            # A header that this chunk cuts off begins the next one.
            position += len(data) - HEADER_SIZE + 1
        return None

    def _is_valid(self, position: int) -> bool:
        try:
            header = read_header(self._file.pread(HEADER_SIZE, position))
        except DecodeError:
            return False
        if header.base_offset < self._expected_offset or header.size > MAX_BATCH_BYTES:
            return False
        return crc_is_valid(self._file.pread(header.size, position), 0, header)


def _possible_starts(data: bytes) -> Iterator[int]:
    """Yield the positions at which a batch of a metadata log may begin."""
    found = data.find(NO_PRODUCER, PRODUCER_ID_OFFSET)
    while found >= 0:
        yield found - PRODUCER_ID_OFFSET
        found = data.find(NO_PRODUCER, found + 1)
