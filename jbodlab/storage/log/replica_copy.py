"""The copy of a replica's log in another log directory.

The copy mirrors the log: segments of the same base offsets with the same bytes at the same
positions. So this process reads no data: the kernel copies the bytes from file to file, and the
state of the copy is that of the log at a `CopyPoint`, as far as its segments were copied. At any
moment the copy is a complete log that ends at a batch. A copy may differ from its log after a
truncation, a deletion of segments or a crash; its end is then truncated before the copy continues.

Source: KIP-113. Apache Kafka fetches the log's batches and appends them to the copy.
"""

from __future__ import annotations

import msgspec

from jbodlab.storage.log.instructions import Instructions
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment
from jbodlab.storage.log.time_index import TimeIndex


class CopyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of a log at one moment.

    Attributes:
        segments: Bounds of all segments, ascending.
        active: A copy of the last one.
        cut_to: The smallest offset to which the log was cut since the last point, None if it was
            not cut. Behind this offset the last point may have had other batches.
        cut_count: How often the log had been cut in all.
    """

    start_offset: int
    end_offset: int
    segments: tuple[ClosedSegment, ...]
    active: ActiveSegment
    epochs: LeaderEpochs
    producers: ProducerState
    cut_to: int | None
    cut_count: int

    @classmethod
    def of(cls, log: LogState) -> CopyPoint:
        """Return the segments to copy now, and the smallest cut since the last copy point."""
        return cls(
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            segments=(*log.segments.closed, log.active.bounds()),
            active=log.active.copy(),
            epochs=log.epochs.copy(),
            producers=log.producers.copy(),
            cut_to=log.take_cut_to(),
            cut_count=log.disk.cut_count,
        )

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)


def common_end(copy: LogState, point: CopyPoint, cut_to: int | None) -> int:
    """Return up to where a copy has the same batches as its log.

    Args:
        copy: The copy.
        point: The segments of the log.
        cut_to: Offset to which the log was cut since the copy was made, None if it was not cut.
    """
    start = max(point.start_offset, copy.start_offset)
    end = min(point.end_offset, copy.end_offset)
    if start <= end:
        mine, theirs = copy.epochs.copy(), point.epochs.copy()
        mine.truncate_from(start)
        theirs.truncate_from(start)
        end = mine.common_end(theirs, end)
    return end if cut_to is None else min(end, cut_to)


def mirrors(copy: LogState, point: CopyPoint) -> bool:
    """Return whether a copy has the segments of its log, as far as it goes."""
    theirs = point.segments
    if len(copy.segments.closed) >= len(theirs):
        return False
    bounds = [each[:3] for each in copy.segments.closed]
    if any(mine != other[:3] for mine, other in zip(bounds, theirs, strict=False)):
        return False
    last, other = copy.active, theirs[len(copy.segments.closed)]
    return (
        last.base_offset == other.base_offset
        and last.size <= other.size
        and last.next_offset <= other.next_offset
        and (last.size == other.size) == (last.next_offset == other.next_offset)
    )


def mirror(copy: LogState, point: CopyPoint, count: int) -> Instructions:
    """Set the state of a copy to that of its log at a point, up to the last copied segment.

    Args:
        copy: The copy.
        point: The segments of the log.
        count: How many of these segments were copied as a whole.
    """
    *closed, last = point.segments[:count]
    is_whole = count == len(point.segments)
    if is_whole:
        active = point.active.copy()
    else:
        # The copy has no readers, and its index files were copied: it needs no indexes in memory.
        base_offset = last.base_offset
        active = ActiveSegment.loaded(
            last, OffsetIndex(base_offset), TimeIndex(base_offset), first_timestamp=-1, aborted=[]
        )
    epochs = point.epochs.copy()
    if active.next_offset < epochs.last_start:
        epochs.truncate_to(active.next_offset)
    first = max(copy.start_offset, point.segments[0].base_offset)
    epochs.truncate_from(first)
    producers = point.producers.copy() if is_whole else None
    return copy.become(closed, active, epochs, producers)
