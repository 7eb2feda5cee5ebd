"""Runs of rows that make one interval, and intervals that are still open from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.rare.states import STILL, States
from analytics.read.arrays import Bools, Column, Longs
from analytics.read.partition_events import NO_TIME

MOMENT = ("from_offset", "from_time", "from_type", "base")
"""Columns of the moment at which an interval began, as in states."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of partitions: `topic`, `partition`, MOMENT, `to_offset`, `to_time`, and more."""

    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.columns["topic"])

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def take(self, rows: Column) -> Intervals:
        """Return some of the rows, given by numbers or as a mask."""
        return Intervals({name: column[rows] for name, column in self.columns.items()})

    @property
    def is_open(self) -> Bools:
        """Rows that have not ended."""
        still: Bools = self["to_offset"] == STILL
        return still

    def duration_ms(self) -> tuple[Longs, Bools]:
        """Return milliseconds from begin to end, and where they are not known."""
        unknown = self.is_open | (self["from_time"] == NO_TIME) | (self["to_time"] == NO_TIME)
        span = np.where(unknown, 0, self["to_time"]) - np.where(unknown, 0, self["from_time"])
        return span // 1000, unknown


def moments(states: States, rows: Column) -> dict[str, Column]:
    """Return whose rows these are, and the moments at which they begin."""
    return {name: states[name][rows] for name in ("topic", "partition", *MOMENT)}


def run_ends(starts: Longs, size: int) -> Longs:
    """Return the last row of each run, for runs that begin at some rows and cover all."""
    ends: Longs = np.append(starts[1:], size)[: len(starts)] - 1
    return ends


def place_in(known: Longs, wanted: Longs) -> Longs:
    """Return where each wanted key stands among known ones, which are sorted and hold all of them.

    The two must fit: an interval that is still open belongs to a state that still holds.
    """
    places: Longs = np.searchsorted(known, wanted)
    assert len(wanted) == 0 or (known[places] == wanted).all()
    return places
