"""Figures of where replicas lie, and of their moves."""

from __future__ import annotations

from analytics.page.figure import LINES, PLACES, Figure
from analytics.page.log_span import LogSpan
from jbodlab.pages.plots import Intervals, Ranking

_SKEW = (
    "replicas leaders preferred_leaders share_of_replicas mean_replicas deviation mean_leaders "
    "leader_deviation"
)


def _skew(scope: str, title: str) -> Figure:
    own = PLACES[scope]
    return Figure(
        name=f"{scope}_skew",
        title=f"Replicas and leaders of {title}, the most uneven first",
        sql=(
            f"SELECT {own}, replicas, leaders, preferred_leaders, share_of_replicas,\n"
            "  mean_replicas, deviation, mean_leaders, leader_deviation\n"
            f"FROM skew WHERE scope = '{scope}'\n"
            "ORDER BY greatest(abs(deviation), abs(leader_deviation)) DESC,\n"
            f"  {own}"
        ),
        plots=(
            Ranking(
                title=f"Replicas and leaders of {title}; the line is the mean of replicas",
                label=tuple(own.split(", ")),
                values=("replicas", "leaders"),
                mark="mean_replicas",
            ),
        ),
        limit=LINES,
    )


BROKER_SKEW = _skew("broker", "brokers")
DIRECTORY_SKEW = _skew("directory", "directories")


MOVES_BY_OUTCOME = Figure(
    name="moves_by_outcome",
    title="Moves by outcome",
    sql=(
        "SELECT kind, outcome, count(*) AS moves, max(duration_ms) AS longest_ms,\n"
        "  CAST(round(avg(duration_ms)) AS BIGINT) AS mean_ms\n"
        "FROM moves GROUP BY kind, outcome ORDER BY kind, outcome"
    ),
    is_open=True,
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
            f"FROM moves WHERE kind = '{kind}'\n"
            "ORDER BY lasted_ms DESC, begin_offset, topic, topic_id, partition,\n"
            "  from_broker, to_broker"
        ),
        plots=(
            Intervals(
                lane=("topic", "partition"),
                start="begin_time",
                end="ended_time",
                colour="outcome",
                one_each=True,
            ),
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
        "FROM assignment_lag GROUP BY broker ORDER BY slowest_ms DESC, broker"
    ),
    limit=LINES,
)
