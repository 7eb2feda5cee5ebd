"""The valid batches at the beginning of a segment's file, and the damage behind them.

A batch is valid if it is whole, its CRC is right, its offset continues the one before, and its
leader epoch is not lower. The CRC does not cover offset and epoch, so this module checks them.

The kind of damage matters less than the bytes behind it. No valid batch follows a torn append, as
each append is synced before the next one. So if a valid batch follows a damaged one, the damaged
one was on the disk as well, and the damage has hit an acknowledged record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from jbodlab.metadata.log.batches import MAX_BATCH_BYTES
from jbodlab.record_batch.record_batch import (
    HEADER,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    header_of,
)
from jbodlab.storage.directory.filesystem import AppendFile
from jbodlab.storage.log.segment_reader import SegmentReader, next_batch
from jbodlab.vocabulary.errors import CorruptRecordError


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The first bytes of a file that are not a valid batch at their position.

    Attributes:
        position: Where the valid batches end, bytes.
        reason: Why the bytes there are not a valid batch.
        valid_after: Position of the next valid batch; None if no valid batch follows.
    """

    position: int
    reason: str
    valid_after: int | None


class SegmentScan:
    """One pass over a file, from its beginning; blocking.

    Args:
        file: The `.log` file.
        path: Its path.
        base_offset: First offset that may be in it.
        epoch: Leader epoch of the batch before; -1 without one.
        epoch_max: Highest leader epoch that there was; None if unknown.
    """

    def __init__(
        self,
        file: AppendFile,
        path: Path,
        base_offset: int,
        *,
        epoch: int = -1,
        epoch_max: int | None = None,
    ) -> None:
        self._file = file
        self._path = path
        self._size = file.size()
        self._position = 0
        self._expected_offset = base_offset
        # Leader epochs of the last batch and of the one before it.
        self._epoch = self._epoch_before = epoch
        self._epoch_max = epoch_max

    def batches(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each valid batch, up to the first damage."""
        reader = SegmentReader(self._file, self._path, self._size)
        try:
            for position, header, data in reader.scan(batch_bytes_max=MAX_BATCH_BYTES):
                if self._misplaced(header) or not crc_is_valid(data, 0, header):
                    return
                yield position, header
                self._advance(header)
        except CorruptRecordError:
            return

    def damage(self) -> Damage | None:
        """Return the damage that ended `batches`; None if they ended at the end of the file."""
        if self._position >= self._size:
            return None
        data = self._file.pread(HEADER_SIZE, self._position)
        search_from = self._position + 1
        if len(data) < HEADER_SIZE:
            reason = f"expected a batch header of {HEADER_SIZE} bytes, got {len(data)}"
        else:
            header = header_of(HEADER.unpack(data))
            reason = self._reason(header)
            if self._epoch_before <= header.partition_leader_epoch < self._epoch:
                # Rather the batch before has the wrong epoch, and this one follows it.
                search_from = self._position
        valid_after = next_batch(
            self._file,
            search_from,
            self._size,
            self._expected_offset,
            batch_bytes_max=MAX_BATCH_BYTES,
        )
        return Damage(position=self._position, reason=reason, valid_after=valid_after)

    def _advance(self, header: BatchHeader) -> None:
        self._position += header.size
        self._expected_offset = header.next_offset
        self._epoch_before, self._epoch = self._epoch, header.partition_leader_epoch

    def _misplaced(self, header: BatchHeader) -> str:
        """Return why a batch is not valid at this position; empty if it is valid."""
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
