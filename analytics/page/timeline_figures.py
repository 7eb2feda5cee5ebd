"""Figures of what brokers and their directories were, from one change to the next."""

from __future__ import annotations

from analytics.page.figure import PLACES, Figure
from analytics.page.log_span import LogSpan
from jbodlab.pages.plots import Intervals

LANES = 40
INTERVALS = 800


def broker_timeline(span: LogSpan) -> Figure:
    """Sessions of the brokers that were most often anything but unfenced."""
    return _timeline(
        span,
        "broker",
        table="broker_sessions",
        title="Brokers: fenced, unfenced or in controlled shutdown",
        odd="state <> 'unfenced'",
        more=", broker_epoch",
        note="The brokers that were fenced or shutting down most often come first.",
    )


def directory_timeline(span: LogSpan) -> Figure:
    """Intervals of the directories that were most often offline."""
    return _timeline(
        span,
        "directory",
        table="log_dirs",
        title="Log directories: online or offline",
        odd="state = 'offline'",
    )


def _timeline(
    span: LogSpan, scope: str, *, table: str, title: str, odd: str, more: str = "", note: str = ""
) -> Figure:
    own = PLACES[scope]
    return Figure(
        name=f"{scope}_timeline",
        title=title,
        sql=(
            f"SELECT {own}, state, valid_from_time, valid_to_time,\n"
            f"  {span.lasted_sql('valid_from_time', 'valid_to_time')} AS lasted_ms,\n"
            f"  ended_by{more}, valid_from_offset\n"
            f"FROM {table} JOIN (\n"
            f"  SELECT {own} FROM {table} GROUP BY {own}\n"
            f"  ORDER BY count(*) FILTER (WHERE {odd}) DESC, {own} LIMIT {LANES}\n"
            f") USING ({own})\n"
            f"ORDER BY valid_to_offset IS NULL DESC, valid_from_offset DESC, {own}"
        ),
        plots=(
            Intervals(
                lane=tuple(own.split(", ")),
                start="valid_from_time",
                end="valid_to_time",
                colour="state",
            ),
        ),
        note=note,
        limit=INTERVALS,
    )
