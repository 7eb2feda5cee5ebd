"""Where in its segments something of a log is, or is to be looked for."""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.log.producer_state import ProducerState
from jbodlab.log.segments import ActiveSegment, ClosedSegment


class Place(NamedTuple):
    """Where a reader of a segment begins.

    Attributes:
        size: So far the segment is to be read.
        next_offset: Behind the batch that ends there.
        position: Of a batch that is not behind what is wanted; None if its index file knows.
    """

    base_offset: int
    size: int
    next_offset: int
    position: int | None

    @classmethod
    def of(cls, segment: ClosedSegment | ActiveSegment) -> Place:
        """Return all of a segment, for a reader that begins at its beginning or asks its index."""
        position = 0 if isinstance(segment, ActiveSegment) else None
        return cls(segment.base_offset, segment.size, segment.next_offset, position)


class CutRequest(NamedTuple):
    """Where a cut is wanted: the question that the files answer with a `CutPoint`.

    Attributes:
        place: The segment with the offset.
        active: A copy of that segment if it is the active one; None: its index files know.
        snapshots: Those from which the producers may be made anew, the newest first; None if the
            state can go back by itself.
        segments: Those up to the cut.
        cut_count: How often the log had been cut before.
    """

    offset: int
    place: Place
    active: ActiveSegment | None
    snapshots: tuple[int, ...] | None
    segments: tuple[Place, ...]
    cut_count: int


class CutPoint(NamedTuple):
    """The place of a cut: where the batch begins that contains the offset, or the next one.

    Attributes:
        active: What the segment is up to there.
        producers: Their state there; None if the state goes back by itself.
    """

    request: CutRequest
    active: ActiveSegment
    producers: ProducerState | None
