"""Figures of availability: of everything, of topics, and by day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from analytics.page.figure import Figure
from analytics.page.log_span import LogSpan
from jbodlab.pages.plots import Intervals

TOPICS = 20
DAYS = 60


_SUMS = (
    "sum(partition_ms) AS partition_ms, sum(leaderless_ms) AS leaderless_ms,\n"
    "    sum(under_min_isr_ms) AS under_min_isr_ms,\n"
    "    sum(unwritable_ms) AS unwritable_ms"
)


_SHARES = (
    "1 - leaderless_ms / nullif(partition_ms, 0) AS availability,\n"
    "  1 - unwritable_ms / nullif(partition_ms, 0) AS write_availability"
)


_TIMES = "partition_ms leaderless_ms under_min_isr_ms unwritable_ms availability write_availability"


def _objective_sql(objective: float | None) -> str:
    return f"CAST({'NULL' if objective is None else repr(objective)} AS DOUBLE)"


def availability(objective: float | None) -> Figure:
    """Availability of everything, held against an objective, 0 to 1; None if there is none."""
    used = "{lost} / nullif(partition_ms * (1 - objective), 0)"
    below = "1 - unwritable_ms / nullif(partition_ms, 0) < objective"
    return Figure(
        name="availability",
        title="Availability of all topics, deleted ones included",
        sql=(
            f"SELECT topics_ever, partition_ms, leaderless_ms, under_min_isr_ms,\n"
            f"  unwritable_ms, {_SHARES}, objective,\n"
            f"  {used.format(lost='leaderless_ms')} AS read_budget_used,\n"
            f"  {used.format(lost='unwritable_ms')} AS write_budget_used,\n"
            "  topics_below_objective\n"
            "FROM (\n"
            f"  SELECT count(*) AS topics_ever, {_SUMS},\n"
            "    max(objective) AS objective,\n"
            f"    count(*) FILTER (WHERE {below}) AS topics_below_objective\n"
            "  FROM (\n"
            f"    SELECT topic_id, {_objective_sql(objective)} AS objective,\n"
            f"    {_SUMS}\n"
            "    FROM availability GROUP BY topic_id\n"
            "  )\n"
            ")"
        ),
    )


def topic_availability(objective: float | None) -> Figure:
    """Availability of the worst topics that exist, held against an objective."""
    return Figure(
        name="topic_availability",
        title="Topics that were not always available, the worst first",
        sql=(
            "SELECT topic, topic_id, partitions, partition_ms, leaderless_ms, under_min_isr_ms,\n"
            "  unwritable_ms, availability, write_availability, objective,\n"
            "  CASE WHEN availability < objective THEN 'reading and writing'\n"
            "    WHEN write_availability < objective THEN 'writing' END AS misses_objective\n"
            "FROM (\n"
            "  SELECT topic, topic_id, partitions, partition_ms, leaderless_ms,\n"
            f"    under_min_isr_ms, unwritable_ms, {_SHARES},\n"
            f"    {_objective_sql(objective)} AS objective\n"
            "  FROM (\n"
            f"    SELECT topic, topic_id, max(partitions) AS partitions, {_SUMS}\n"
            "    FROM availability SEMI JOIN topics USING (topic_id)\n"
            "    GROUP BY topic, topic_id\n"
            "  ) WHERE leaderless_ms > 0 OR under_min_isr_ms > 0\n"
            ")\n"
            "ORDER BY leaderless_ms DESC, under_min_isr_ms DESC, topic, topic_id"
        ),
        limit=TOPICS,
    )


def daily_availability(span: LogSpan) -> Figure:
    """Availability of the worst topics that exist, on each of the last days."""
    worst = (
        "SELECT topic_id FROM (\n"
        "    SELECT topic_id, min(topic) AS topic, sum(leaderless_ms) AS leaderless_ms,\n"
        "      sum(under_min_isr_ms) AS under_min_isr_ms\n"
        "    FROM availability SEMI JOIN topics USING (topic_id) GROUP BY topic_id\n"
        "  ) WHERE leaderless_ms > 0 OR under_min_isr_ms > 0\n"
        "  ORDER BY leaderless_ms DESC, under_min_isr_ms DESC, topic, topic_id\n"
        f"  LIMIT {TOPICS}"
    )
    return Figure(
        name="daily_availability",
        title="Availability by day, of the worst topics",
        sql=(
            "SELECT topic, topic_id, day, partitions, leaderless_ms, under_min_isr_ms,\n"
            "  availability\n"
            f"FROM availability JOIN (\n  {worst}\n) USING (topic_id)\n"
            f"WHERE day > DATE'{_days_before(span, DAYS)}'\n"
            "ORDER BY topic, topic_id, day"
        ),
        plots=(
            Intervals(
                title="Availability of the worst topics by day",
                lane=("topic",),
                start="day",
                end="day",
                colour="availability",
                days=True,
            ),
        ),
        limit=TOPICS * DAYS,
    )


def _days_before(span: LogSpan, days: int) -> str:
    if span.end_ms is None:
        return "0001-01-01"
    first = datetime(1, 1, 1, tzinfo=UTC)
    end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=span.end_ms)
    return max(first, end - min(timedelta(days), end - first)).date().isoformat()
