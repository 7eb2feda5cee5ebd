"""All derived tables, each from the tables that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from analytics import tables as t
from analytics.derived.availability import availability
from analytics.derived.directory_failures import directory_failures
from analytics.derived.isr_flaps import isr_flaps
from analytics.derived.log_end import LogEnd, log_end
from analytics.derived.moves import moves
from analytics.derived.placement_steps import assignment_lag
from analytics.derived.skew import skew

Tables = Mapping[str, DataFrame]

_FROM_TABLES: Mapping[t.Table, Callable[[Tables], DataFrame]] = {
    t.DIRECTORY_FAILURES: directory_failures,
    t.MOVES: moves,
    t.ASSIGNMENT_LAG: assignment_lag,
    t.SKEW: skew,
}
_TO_THE_END: Mapping[t.Table, Callable[[Tables, LogEnd], DataFrame]] = {
    t.ISR_FLAPS: isr_flaps,
    t.AVAILABILITY: availability,
}
"""Tables in which what still holds counts up to the end of the log."""


def derived_frames(tables: Tables) -> dict[t.Table, DataFrame]:
    """Return every derived table, not yet computed but for the end of the log.

    Args:
        tables: The tables of records and facts, by name, as they were written.
    """
    end = log_end(tables)
    frames = {table: make(tables) for table, make in _FROM_TABLES.items()}
    frames |= {table: make(tables, end) for table, make in _TO_THE_END.items()}
    return {table: t.conform(frame, table) for table, frame in frames.items()}
