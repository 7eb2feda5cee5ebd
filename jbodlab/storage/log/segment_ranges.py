"""Parts of segments: for a reader, for a search by timestamp, and for a cut."""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment
from jbodlab.storage.log.time_index import TimeIndex


class SegmentRange(NamedTuple):
    """A part of a segment, for a reader.

    Attributes:
        size: Position at which the reader ends, bytes.
        next_offset: Offset behind the batch that ends there.
        position: Position of a batch at or before the requested offset; None to look it up in the
            index file.
    """

    base_offset: int
    size: int
    next_offset: int
    position: int | None

    @classmethod
    def of(cls, segment: ClosedSegment | ActiveSegment) -> SegmentRange:
        """Return all of a segment, for a reader that begins at its beginning or asks its index."""
        position = 0 if isinstance(segment, ActiveSegment) else None
        return cls(segment.base_offset, segment.size, segment.next_offset, position)


class SearchStart(NamedTuple):
    """Position at which a search for the newest record in a range of offsets begins.

    Attributes:
        position: Where a batch begins.
        enough_ms: All before that position is older; a record of this time in the range decides.
    """

    position: int
    enough_ms: int

    @classmethod
    def all_of(
        cls, index: OffsetIndex, times: TimeIndex, max_timestamp: int, start: int, end: int
    ) -> tuple[SearchStart, ...]:
        """Return the starts to try one after the other, the nearest first.

        The newest record of the segment may be outside of the range; then the time index gives
        the largest timestamp up to near the end of the range. The last start is that of the range.

        Args:
            index: Offset index of the segment.
            times: Time index of the segment.
            max_timestamp: Largest timestamp of the segment, in ms.
            start: First offset of the range.
            end: Offset behind the range.
        """
        near_ms, near_offset = times.last_before(end)
        return (
            cls(index.lookup(times.lookup(max_timestamp)), max_timestamp),
            cls(index.lookup(near_offset), near_ms),
            cls(index.lookup(start), -1),
        )


class TimedRange(NamedTuple):
    """A segment in which the newest record may be.

    Attributes:
        max_timestamp: Largest of all its records in ms, in the range or not.
        starts: Starts of the search; None to look them up in the index files.
    """

    max_timestamp: int
    segment_range: SegmentRange
    starts: tuple[SearchStart, ...] | None


class CutRequest(NamedTuple):
    """The offset of a truncation; the files give the `CutPoint` for it.

    Attributes:
        segment_range: The segment with the offset.
        active: A copy of that segment if it is the active one; None to read its index files.
        aborted_count: Number of entries that its index of aborted transactions has if it is closed.
        snapshots: Snapshots from which the producer state may be rebuilt, the newest first; None
            if the producer state can go back without the files.
        segments: Segments up to the cut.
        cut_count: How often the log had been cut before.
    """

    offset: int
    segment_range: SegmentRange
    active: ActiveSegment | None
    aborted_count: int
    snapshots: tuple[int, ...] | None
    segments: tuple[SegmentRange, ...]
    cut_count: int


class CutPoint(NamedTuple):
    """The place of a cut: the beginning of the batch with the offset, or of the next batch.

    Attributes:
        active: State of the segment up to there.
        producers: Producer state there; None if it goes back without the files.
    """

    request: CutRequest
    active: ActiveSegment
    producers: ProducerState | None
