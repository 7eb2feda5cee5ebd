"""Figures of what brokers and their directories were, from one change to the next."""

from __future__ import annotations

from analytics.derive.log_span import LogSpan
from analytics.page.figure import PLACES, Figure, Line, Unit, figure_columns, names_of

LANES = 40
INTERVALS = 800


def broker_timeline(span: LogSpan) -> Figure:
    """Sessions of the brokers that were most often anything but unfenced."""
    return _timeline(
        span,
        "broker",
        table="broker_sessions",
        title="Sessions of brokers",
        odd="state <> 'unfenced'",
        more=(("broker_epoch", "Broker epoch", Unit.LABEL),),
    )


def directory_timeline(span: LogSpan) -> Figure:
    """Intervals of the directories that were most often offline."""
    return _timeline(
        span, "directory", table="log_dirs", title="Log directories", odd="state = 'offline'"
    )


def _timeline(
    span: LogSpan, scope: str, *, table: str, title: str, odd: str, more: tuple[Line, ...] = ()
) -> Figure:
    places = PLACES[scope]
    own = names_of(places)
    named = "".join(f", {name}" for name, _, _ in more)
    return Figure(
        name=f"{scope}_timeline",
        title=title,
        sql=(
            f"SELECT {own}, state, valid_from_time, valid_to_time,\n"
            f"  {span.lasted_sql('valid_from_time', 'valid_to_time')} AS lasted_ms,\n"
            f"  ended_by{named}, valid_from_offset\n"
            f"FROM {{{table}}} JOIN (\n"
            f"  SELECT {own} FROM {{{table}}} GROUP BY {own}\n"
            f"  ORDER BY count(*) FILTER (WHERE {odd}) DESC, {own} LIMIT {LANES}\n"
            f") USING ({own})\n"
            f"ORDER BY valid_to_offset IS NULL DESC, valid_from_offset DESC, {own}"
        ),
        columns=figure_columns(
            [
                *places,
                ("state", "State", Unit.TEXT),
                ("valid_from_time", "From", Unit.TIME),
                ("valid_to_time", "To", Unit.TIME),
                ("lasted_ms", "Lasted", Unit.DURATION),
                ("ended_by", "Ended by", Unit.TEXT),
                *more,
                ("valid_from_offset", "From offset", Unit.LABEL),
            ]
        ),
        limit=INTERVALS,
    )
