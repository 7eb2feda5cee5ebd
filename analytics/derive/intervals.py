"""Intervals of things in one bucket, by columns: joined where they overlap, and counted over time.

Times are microseconds since 1970. An interval goes from its start inclusive to its end exclusive;
one of a batch that undoes what it did has no length, and was there all the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_reading import FOR_EVER, firsts
from analytics.decode.partition_events import NO_TIME

_CELLS_MIN, _CELLS_PER_STEP = 1 << 16, 4
"""Up to so many pairs of places and stretches each has a sum; beyond that steps are sorted."""


class Intervals(NamedTuple):
    """Intervals of things that have a key, counted at a place."""

    place: Longs
    key: Longs
    start: Longs
    """NO_TIME where it is not known; such an interval counts nowhere."""
    end: Longs
    """FOR_EVER if it has not ended."""

    def take(self, rows: Longs) -> Intervals:
        """Return some of them."""
        return Intervals(*(column[rows] for column in self))


class Steps(NamedTuple):
    """How numbers change from one stretch of time to the next."""

    place: Longs
    stretch: Longs
    """Number of the stretch since 1970."""
    at_end: Longs
    """By how much the number of things there at the end of the stretch changes."""
    ever: Longs
    """By how much the number of those that were there at any time in it changes."""


def joined(given: Intervals) -> Intervals:
    """Return intervals, those of a key at a place that overlap or touch as one."""
    found = _in_order(given)
    if not len(found.key):
        return found
    group = np.cumsum(firsts(found.place, found.key)) - 1
    # Ends by their order, so that groups and ends fit one number.
    ends, rank = np.unique(found.end, return_inverse=True)
    reached = np.maximum.accumulate(group * len(ends) + rank)
    before = np.roll(reached, 1)
    goes_on = (before // len(ends) == group) & (ends[before % len(ends)] >= found.start)
    goes_on[0] = False
    begins = np.nonzero(~goes_on)[0]
    last = np.append(begins[1:], len(group)) - 1
    return Intervals(
        found.place[begins], found.key[begins], found.start[begins], ends[reached[last] % len(ends)]
    )


def steps(given: Intervals, width_us: int) -> Steps:
    """Count intervals of which those of one key at one place do not overlap.

    Args:
        given: The intervals.
        width_us: Length of the stretches of time.
    """
    found = _in_order(given)
    begin = found.start // width_us
    is_open = found.end == FOR_EVER
    last = np.where(is_open, FOR_EVER, np.maximum(begin, (found.end - 1) // width_us))
    behind = np.where(is_open, FOR_EVER, found.end // width_us)
    # Who was there in a stretch already is not counted in it again.
    same = ~firsts(found.place, found.key)
    before = np.where(same, np.roll(last, 1), -1)
    fresh = np.where(
        same, np.maximum(begin, np.where(before == FOR_EVER, begin, before + 1)), begin
    )
    new = np.nonzero((fresh <= last) & ~(same & (before == FOR_EVER)))[0]
    ends, gone = np.nonzero(~is_open)[0], new[last[new] != FOR_EVER]
    one = np.ones(len(begin), dtype=np.int64)
    parts = (
        (found.place, begin, one, 0 * one),
        (found.place[ends], behind[ends], -one[ends], 0 * one[ends]),
        (found.place[new], fresh[new], 0 * one[new], one[new]),
        (found.place[gone], last[gone] + 1, 0 * one[gone], -one[gone]),
    )
    return _summed(Steps(*(np.concatenate(columns) for columns in zip(*parts, strict=True))))


def _in_order(given: Intervals) -> Intervals:
    known = given.take(np.nonzero((given.start != NO_TIME) & (given.end != NO_TIME))[0])
    # A clock that was set back makes an interval end before it began.
    known = known._replace(end=np.maximum(known.start, known.end))
    return known.take(np.lexsort((known.start, known.key, known.place)))


def _summed(given: Steps) -> Steps:
    """Return the sum of the steps of each place and stretch that are not 0, in order."""
    size = len(given.place)
    if not size:
        return given
    first = int(given.stretch.min())
    width = int(given.stretch.max()) - first + 1
    cells = (int(given.place.max()) + 1) * width
    if cells > _CELLS_MIN + _CELLS_PER_STEP * size:
        return _summed_in_order(given)
    cell = given.place * width + (given.stretch - first)
    # Sums of ones are whole numbers, and far from where a double has none of them.
    at_end, ever = (
        np.bincount(cell, each, cells).astype(np.int64) for each in (given.at_end, given.ever)
    )
    changed = np.nonzero((at_end != 0) | (ever != 0))[0]
    return Steps(changed // width, changed % width + first, at_end[changed], ever[changed])


def _summed_in_order(given: Steps) -> Steps:
    """Return the same where there are far more stretches than steps."""
    order = np.lexsort((given.stretch, given.place))
    place, stretch = given.place[order], given.stretch[order]
    starts = np.nonzero(firsts(place, stretch))[0]
    at_end, ever = (np.add.reduceat(each[order], starts) for each in (given.at_end, given.ever))
    changed = np.nonzero((at_end != 0) | (ever != 0))[0]
    heads = starts[changed]
    return Steps(place[heads], stretch[heads], at_end[changed], ever[changed])
