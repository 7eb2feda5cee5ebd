"""The bounds and indexes of segments that a log keeps in memory.

A log keeps the bounds of a closed segment; its indexes are on the disk and are read on demand. The
active segment, the last one, has its indexes in memory, as they grow with every append.
Sizes and positions are in bytes, timestamps in ms.

Source: `org.apache.kafka.storage.internals.log.LogSegment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jbodlab.record_batch.record_batch import SIZE_PREFIX, BatchHeader
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.storage.log.transactions import AbortedTransaction

RELATIVE_OFFSET_MAX = 2**31 - 1
POSITION_MAX = 2**31 - 1
"""Positions are int32 in the offset index."""


class ClosedSegment(NamedTuple):
    """Bounds of a segment that takes no more appends.

    Attributes:
        base_offset: First offset, which names the segment's files.
        next_offset: Offset behind its last batch.
        max_timestamp: Largest timestamp of its records, -1 without any.
        max_timestamp_offset: Last offset of the first batch with it.
    """

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int


def fitting_count(headers: Sequence[BatchHeader], segment: ActiveSegment, config: LogConfig) -> int:
    """Return how many of some batches an empty segment takes, at least one."""
    size, count = headers[0].size, 1
    for header in headers[1:]:
        size += header.size
        if (
            size > config.segment_bytes
            or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            break
        count += 1
    return count


class ActiveSegment:
    """The segment at the end of a log."""

    __slots__ = (
        "_bytes_since_index_entry",
        "aborted",
        "base_offset",
        "first_timestamp",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "time_index",
    )

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp = -1
        """Largest timestamp of the first batch, -1 without one."""
        self.index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.aborted: list[AbortedTransaction] = []
        """Transactions whose abort markers are in this segment."""
        self._bytes_since_index_entry = 0

    @classmethod
    def loaded(
        cls,
        bounds: ClosedSegment,
        index: OffsetIndex,
        time_index: TimeIndex,
        *,
        first_timestamp: int,
        aborted: list[AbortedTransaction],
    ) -> ActiveSegment:
        """Return a segment whose files were read."""
        segment = cls(bounds.base_offset)
        segment.next_offset = bounds.next_offset
        segment.size = bounds.size
        segment.max_timestamp = bounds.max_timestamp
        segment.max_timestamp_offset = bounds.max_timestamp_offset
        segment.first_timestamp = first_timestamp
        segment.index, segment.time_index = index, time_index
        segment.aborted = aborted
        segment._bytes_since_index_entry = bounds.size - index.last_position()
        return segment

    def note(self, header: BatchHeader, index_interval_bytes: int) -> None:
        """Add a batch that is appended."""
        position = self.size
        last_offset = header.base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        self.next_offset = last_offset + 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        since = self._bytes_since_index_entry
        if since > index_interval_bytes:
            self.index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            since = 0
        if not position:
            self.first_timestamp = timestamp
        size = SIZE_PREFIX + header.batch_length
        self._bytes_since_index_entry = since + size
        self.size = position + size

    def bounds(self) -> ClosedSegment:
        """Return the bounds that it has at this moment."""
        return ClosedSegment(
            self.base_offset,
            self.next_offset,
            self.size,
            self.max_timestamp,
            self.max_timestamp_offset,
        )

    def finish(self) -> None:
        """Close the time index off with the largest timestamp."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)

    def may_follow(self, header: BatchHeader) -> bool:
        """Return whether a batch may be the next one; compaction leaves gaps."""
        return (
            header.base_offset >= self.next_offset
            and header.last_offset_delta >= 0
            and header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def has_room(self, headers: Sequence[BatchHeader], size: int, config: LogConfig) -> bool:
        """Return whether the segment has room for an append, and need not be rolled before it.

        An empty segment takes any single batch. Records without timestamps never age a segment:
        this code has no clock.

        Args:
            headers: Headers of the batches to append.
            size: Bytes of all these batches.
            config: Settings of the log.
        """
        last = headers[-1]
        if last.base_offset + last.last_offset_delta - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        end = self.size + size
        if end > config.segment_bytes or end > POSITION_MAX:
            return self.size == 0 and len(headers) == 1
        if self.size == 0:
            return True
        first = self.first_timestamp
        return not (
            (first >= 0 and last.max_timestamp - first > config.segment_ms)
            or self.index.is_full(config.segment_index_bytes)
            or self.time_index.is_full(config.segment_index_bytes)
        )

    def copy(self) -> ActiveSegment:
        """Return an independent copy."""
        other = ActiveSegment.loaded(
            self.bounds(),
            self.index.copy(),
            self.time_index.copy(),
            first_timestamp=self.first_timestamp,
            aborted=list(self.aborted),
        )
        other._bytes_since_index_entry = self._bytes_since_index_entry
        return other
