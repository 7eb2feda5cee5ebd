"""The segments of one log, in order, and the offsets that each holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from jbodlab.storage.log.segment_ranges import SearchStart, SegmentRange, TimedRange
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment


class SegmentList:
    """The closed segments and, behind them, the active one.

    Args:
        closed: Ascending; they do not overlap.
        active: The active segment, behind all closed ones.
        aborted_counts: Number of entries of each index of aborted transactions, by the base offset
            of its closed segment; segments without such an index are not in it.
    """

    __slots__ = ("_bases", "aborted_counts", "active", "closed", "put_aside")

    def __init__(
        self,
        closed: Sequence[ClosedSegment],
        active: ActiveSegment,
        aborted_counts: Mapping[int, int] | None = None,
    ) -> None:
        self.closed = list(closed)
        self.active = active
        self.aborted_counts = dict(sorted((aborted_counts or {}).items()))
        self.put_aside: list[tuple[int, int]] = []
        """Segments whose files were set aside: when these may be removed, and the base offset."""
        self._bases = [segment.base_offset for segment in closed]

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Base offsets of all, ascending."""
        return (*self._bases, self.active.base_offset)

    @property
    def first_base_offset(self) -> int:
        """Base offset of the first one."""
        return self._bases[0] if self._bases else self.active.base_offset

    @property
    def all(self) -> Sequence[ClosedSegment | ActiveSegment]:
        """All of them, ascending."""
        return (*self.closed, self.active)

    @property
    def size_bytes(self) -> int:
        """Bytes of all, without indexes and small files."""
        return sum(segment.size for segment in self.closed) + self.active.size

    @property
    def has_aborted(self) -> bool:
        """Whether a transaction of which there may be records was aborted."""
        return bool(self.aborted_counts or self.active.aborted)

    def ranges(self, offset: int) -> tuple[SegmentRange, ...]:
        """Return the segment ranges in which a reader looks for an offset, in order.

        Most often the first one has the offset; behind a gap left by compaction a later one has it.
        """
        active = self.active
        if offset >= active.base_offset or not self.closed:
            return (_in_active(active, active.index.lookup(offset)),)
        first = last = max(0, bisect_right(self._bases, offset) - 1)
        ranges = [_in_closed(self.closed[first])]
        while (last := last + 1) < len(self.closed):
            ranges.append(_in_closed(self.closed[last]))
            # Compaction leaves some segments empty.
            if self.closed[last].size:
                return tuple(ranges)
        return (*ranges, _in_active(active, 0))

    def ranges_by_time(self, timestamp: int) -> tuple[SegmentRange, ...]:
        """Return the segments that may hold a record with a timestamp or a larger one."""
        found = [_in_closed(each) for each in self.closed if each.max_timestamp >= timestamp]
        active = self.active
        if active.max_timestamp >= timestamp:
            position = active.index.lookup(active.time_index.lookup(timestamp))
            found.append(_in_active(active, position))
        return tuple(found)

    def ranges_by_newest(self, start: int, end: int) -> tuple[TimedRange, ...]:
        """Return the segments with records from `start` to before `end`, the newest first."""
        found = [
            TimedRange(each.max_timestamp, _in_closed(each), None)
            for each in self.closed
            if each.base_offset < end and each.next_offset > start
        ]
        active = self.active
        if active.base_offset < end and active.next_offset > start:
            starts = SearchStart.all_of(
                active.index, active.time_index, active.max_timestamp, start, end
            )
            found.append(TimedRange(active.max_timestamp, _in_active(active, 0), starts))
        return tuple(
            sorted(
                (each for each in found if each.max_timestamp >= 0),
                key=lambda each: -each.max_timestamp,
            )
        )

    def ranges_before(self, offset: int) -> tuple[SegmentRange, ...]:
        """Return all segments that begin before an offset."""
        return tuple(
            SegmentRange(each.base_offset, each.size, each.next_offset, None)
            for each in self.all
            if each.base_offset < offset
        )

    def aborted_from(self, offset: int) -> tuple[tuple[int, int], ...]:
        """Return the indexes of aborted transactions that may reach an offset, with their sizes."""
        if not self.aborted_counts:
            return ()
        first = max(0, bisect_right(self._bases, offset) - 1)
        base_offset = self._bases[first] if self._bases else 0
        # Readers are at the end most often, and all that is before them stays unseen.
        behind = takewhile(
            lambda each: each[0] >= base_offset, reversed(self.aborted_counts.items())
        )
        return tuple(reversed(tuple(behind)))

    def from_offset(self, offset: int) -> list[ClosedSegment]:
        """Return the closed segments with records at or behind an offset."""
        first = max(0, bisect_right(self._bases, offset) - 1)
        return [each for each in self.closed[first:] if each.next_offset > offset]

    def count_below(self, offset: int) -> int:
        """Count the segments entirely below an offset, the active one included if not empty."""
        count = max(0, bisect_right(self._bases, offset) - 1)
        if offset < self.active.base_offset:
            return count
        return len(self._bases) + (bool(self.active.size) and self.active.next_offset <= offset)

    def close_active(self, base_offset: int) -> ActiveSegment:
        """Close the active segment off, begin another one, and return the former."""
        former = self.active
        former.finish()
        self.closed.append(former.bounds())
        self._bases.append(former.base_offset)
        if former.aborted:
            self.aborted_counts[former.base_offset] = len(former.aborted)
        self.active = ActiveSegment(base_offset)
        return former

    def cut(self, active: ActiveSegment) -> list[int]:
        """Make a segment the active one, in its state up to a position.

        Returns:
            Base offsets of the segments behind it, which were dropped, the last one first.
        """
        gone = [base for base in reversed(self.base_offsets) if base > active.base_offset]
        keep = bisect_left(self._bases, active.base_offset)
        del self.closed[keep:], self._bases[keep:]
        self._keep_aborted(lambda base: base < active.base_offset)
        self.active = active
        return gone

    def restart(self, base_offset: int) -> list[int]:
        """Drop all segments; returns their base offsets, the last one first."""
        gone = list(reversed(self.base_offsets))
        self.closed.clear()
        self._bases.clear()
        self.aborted_counts.clear()
        self.active = ActiveSegment(base_offset)
        return gone

    def drop_first(self, count: int) -> list[int]:
        """Drop the first closed segments; returns their base offsets."""
        gone = self._bases[:count]
        del self.closed[:count], self._bases[:count]
        first = self.first_base_offset
        self._keep_aborted(lambda base: base >= first)
        return gone

    def has(self, segments: Sequence[ClosedSegment]) -> bool:
        """Return whether the log still has some consecutive closed segments, unchanged."""
        first = bisect_left(self._bases, segments[0].base_offset)
        return self.closed[first : first + len(segments)] == list(segments)

    def replace(
        self, former: Sequence[ClosedSegment], cleaned: Sequence[tuple[ClosedSegment, int]]
    ) -> None:
        """Replace some closed segments by others.

        Args:
            former: The segments to replace, which are consecutive.
            cleaned: Each with the size of its index of aborted transactions; the first has the base
                offset of the first former one.
        """
        assert self.has(former)
        assert former[0].base_offset == cleaned[0][0].base_offset
        gone = {each.base_offset for each in former}
        first = bisect_left(self._bases, former[0].base_offset)
        self.closed[first : first + len(former)] = [bounds for bounds, _ in cleaned]
        self._bases = [each.base_offset for each in self.closed]
        stays = [each for each in self.aborted_counts.items() if each[0] not in gone]
        new = [(bounds.base_offset, count) for bounds, count in cleaned if count]
        self.aborted_counts = dict(sorted((*stays, *new)))

    def _keep_aborted(self, stays: Callable[[int], bool]) -> None:
        counts = self.aborted_counts
        self.aborted_counts = {base: count for base, count in counts.items() if stays(base)}

    def become(self, closed: Sequence[ClosedSegment], active: ActiveSegment) -> None:
        """Replace all segments."""
        self.closed = list(closed)
        self._bases = [segment.base_offset for segment in closed]
        self.active = active

    def set_aside(self, base_offset: int, due_ms: int) -> None:
        """Note that the files of a segment are set aside, and when they may be removed."""
        self.put_aside = [each for each in self.put_aside if each[1] != base_offset]
        self.put_aside.append((due_ms, base_offset))

    def expired(self, now_ms: int) -> list[int]:
        """Return and forget the base offsets of dropped segments whose files may be removed now."""
        if not self.put_aside:
            return []
        expired = [base for due_ms, base in self.put_aside if due_ms <= now_ms]
        self.put_aside = [each for each in self.put_aside if each[0] > now_ms]
        return expired


def _in_closed(segment: ClosedSegment) -> SegmentRange:
    return SegmentRange(segment.base_offset, segment.size, segment.next_offset, None)


def _in_active(segment: ActiveSegment, position: int) -> SegmentRange:
    return SegmentRange(segment.base_offset, segment.size, segment.next_offset, position)
