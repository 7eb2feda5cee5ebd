"""Figures of where replicas lie, and of their moves."""

from __future__ import annotations

from analytics.derive.log_span import LogSpan
from analytics.page.figure import LINES, PARTITION, PLACES, Figure, Unit, figure_columns, names_of

_SKEW = (
    ("replicas", "Replicas", Unit.NUMBER),
    ("leaders", "Leaders", Unit.NUMBER),
    ("preferred_leaders", "Preferred leaders", Unit.NUMBER),
    ("share_of_replicas", "Share of replicas", Unit.SHARE),
    ("mean_replicas", "Mean of its peers", Unit.NUMBER),
    ("deviation", "Replicas off the mean", Unit.DEVIATION),
    ("mean_leaders", "Mean of leaders", Unit.NUMBER),
    ("leader_deviation", "Leaders off the mean", Unit.DEVIATION),
)


def _skew(scope: str, title: str) -> Figure:
    places = PLACES[scope]
    own = names_of(places)
    return Figure(
        name=f"{scope}_skew",
        title=title,
        sql=(
            f"SELECT {own}, replicas, leaders, preferred_leaders, share_of_replicas,\n"
            "  mean_replicas, deviation, mean_leaders, leader_deviation\n"
            f"FROM {{skew}} WHERE scope = '{scope}'\n"
            "ORDER BY greatest(abs(deviation), abs(leader_deviation)) DESC,\n"
            f"  {own}"
        ),
        columns=figure_columns([*places, *_SKEW]),
        limit=LINES,
    )


BROKER_SKEW = _skew("broker", "Replicas and leaders of brokers, the most uneven first")
DIRECTORY_SKEW = _skew(
    "directory",
    "Replicas and leaders of directories, the most uneven within their brokers first",
)


MOVES_BY_OUTCOME = Figure(
    name="moves_by_outcome",
    title="Moves by outcome",
    sql=(
        "SELECT kind, outcome, count(*) AS moves, max(duration_ms) AS longest_ms,\n"
        "  CAST(round(avg(duration_ms)) AS BIGINT) AS mean_ms\n"
        "FROM {moves} GROUP BY kind, outcome ORDER BY kind, outcome"
    ),
    columns=figure_columns(
        [
            ("kind", "Kind", Unit.TEXT),
            ("outcome", "Outcome", Unit.TEXT),
            ("moves", "Moves", Unit.NUMBER),
            ("longest_ms", "Longest", Unit.DURATION),
            ("mean_ms", "Mean", Unit.DURATION),
        ]
    ),
)


def slowest_moves(span: LogSpan, kind: str, title: str) -> Figure:
    """The moves of one kind that took longest, or run since."""
    return Figure(
        name=f"slowest_moves_{kind}",
        title=title,
        sql=(
            "SELECT topic, partition, outcome, from_broker, from_directory, to_broker,\n"
            "  to_directory, coalesce(queued_time, assigned_time) AS begin_time, ended_time,\n"
            "  CASE WHEN outcome = 'running' THEN\n"
            f"    {span.lasted_sql('queued_time', 'ended_time')}\n"
            "    ELSE duration_ms END AS lasted_ms,\n"
            "  coalesce(queued_offset, assigned_offset) AS begin_offset, ended_offset\n"
            f"FROM {{moves}} WHERE kind = '{kind}'\n"
            "ORDER BY lasted_ms DESC, begin_offset, topic, topic_id, partition,\n"
            "  from_broker, to_broker"
        ),
        columns=figure_columns(
            [
                *PARTITION,
                ("outcome", "Outcome", Unit.TEXT),
                ("from_broker", "From broker", Unit.LABEL),
                ("from_directory", "From directory", Unit.ID),
                ("to_broker", "To broker", Unit.LABEL),
                ("to_directory", "To directory", Unit.ID),
                ("begin_time", "Begin", Unit.TIME),
                ("ended_time", "End", Unit.TIME),
                ("lasted_ms", "Lasted", Unit.DURATION),
                ("begin_offset", "From offset", Unit.LABEL),
                ("ended_offset", "To offset", Unit.LABEL),
            ]
        ),
        limit=LINES,
    )


ASSIGNMENT_LAG = Figure(
    name="assignment_lag",
    title="Replicas created without a directory",
    sql=(
        "SELECT broker, count(*) AS replicas,\n"
        "  count(*) FILTER (WHERE lag_ms IS NULL) AS unassigned,\n"
        "  max(lag_ms) AS slowest_ms, CAST(round(avg(lag_ms)) AS BIGINT) AS mean_ms\n"
        "FROM {assignment_lag} GROUP BY broker ORDER BY slowest_ms DESC, broker"
    ),
    columns=figure_columns(
        [
            ("broker", "Broker", Unit.LABEL),
            ("replicas", "Replicas", Unit.NUMBER),
            ("unassigned", "Never assigned", Unit.NUMBER),
            ("slowest_ms", "Slowest", Unit.DURATION),
            ("mean_ms", "Mean", Unit.DURATION),
        ]
    ),
    limit=LINES,
)
