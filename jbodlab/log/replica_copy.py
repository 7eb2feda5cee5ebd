"""What it takes to make a copy of a replica's log in another log directory.

The copy mirrors the log: segments of the same base offsets with the same bytes at the same
positions. So nothing has to be read by this process: the bytes go from file to file, and what a
segment knows of them (`SegmentState`) is handed over. At any moment the copy is a log of its own
that ends at a batch, the `CopyPoint`s tell what is still missing, and `align` puts right what the
two do not have in common (any more): records that were truncated, segments that were deleted, or
whatever a crash left.

Source: KIP-113. Apache Kafka fetches the log's batches and appends them to the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jbodlab.log.leader_epochs import LeaderEpochs
from jbodlab.log.producer_state import ProducerState
from jbodlab.log.segment import SegmentState

if TYPE_CHECKING:
    from jbodlab.log.replica_log import ReplicaLog


class SegmentExtent(NamedTuple):
    """How far a segment reached at some moment."""

    base_offset: int
    size: int
    next_offset: int


class SegmentFiles(NamedTuple):
    """What a copy of a segment needs beside its bytes.

    `cut_to` is as in `CopyPoint`, but stays to be told again.
    """

    state: SegmentState
    snapshot: bytes | None
    cut_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPoint:
    """What a log consists of at one moment.

    Attributes:
        extents: All segments, ascending.
        active: State of the last one.
        cut_to: The smallest offset to which the log was cut since the last point, None if it was
            not: what lies behind it may have been other batches then.
    """

    log_start_offset: int
    log_end_offset: int
    extents: tuple[SegmentExtent, ...]
    active: SegmentState
    epochs: LeaderEpochs
    producers: ProducerState
    cut_to: int | None

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(extent.size for extent in self.extents)


def align(copy: ReplicaLog, point: CopyPoint, cut_to: int | None) -> None:
    """Cut a copy to what it has in common with its log; on the thread of the copy's directory.

    Args:
        copy: Afterwards it ends inside, or at the end, of one of the log's segments.
        point: What the log consists of.
        cut_to: Where it was cut since the copy was made, None if it was not.
    """
    first = point.extents[0].base_offset
    start = max(point.log_start_offset, copy.log_start_offset)
    end = min(point.log_end_offset, copy.log_end_offset)
    if start <= end:
        mine, theirs = copy.epochs.copy(), point.epochs.copy()
        mine.truncate_from(start)
        theirs.truncate_from(start)
        end = mine.common_end(theirs, end)
    if cut_to is not None:
        end = min(end, cut_to)
    if end < max(first, copy.segment_base_offsets[0]):
        copy.truncate_fully_to(first)
        return
    copy.truncate_to(end)
    copy.drop_before(first)
    if not _mirrors(copy, point):
        copy.truncate_fully_to(first)
    copy.advance_start_to(min(point.log_start_offset, copy.log_end_offset))


def is_complete(copy: ReplicaLog, point: CopyPoint) -> bool:
    """Return whether a copy that is aligned has all that the log has."""
    return copy.log_end_offset == point.log_end_offset


def _mirrors(copy: ReplicaLog, point: CopyPoint) -> bool:
    """Return whether the copy has the segments of the log, as far as it goes."""
    theirs = point.extents
    mine = copy.copy_point().extents
    if len(mine) > len(theirs):
        return False
    *whole, last = mine
    if any(a != b for a, b in zip(whole, theirs, strict=False)):
        return False
    other = theirs[len(whole)]
    return (
        last.base_offset == other.base_offset
        and last.size <= other.size
        and last.next_offset <= other.next_offset
        and (last.size == other.size) == (last.next_offset == other.next_offset)
    )
