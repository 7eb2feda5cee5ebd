"""Figures of outages: partitions without leader, or under min ISR."""

from __future__ import annotations

from analytics.page.figure import LINES, POINTS, Figure
from analytics.page.log_span import LogSpan
from jbodlab.pages.plots import Bars, Intervals

CAUSES = 30


def outage_counts(span: LogSpan) -> Figure:
    """How many outages there were, and the longest."""
    lasted = span.lasted_sql("from_time", "to_time")
    return Figure(
        name="outage_counts",
        title="Outages",
        sql=(
            "SELECT count(*) AS outages,\n"
            "  count(*) FILTER (WHERE to_offset IS NULL) AS open_outages,\n"
            "  count(*) FILTER (WHERE kind = 'leaderless') AS leaderless_outages,\n"
            "  count(*) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr_outages,\n"
            f"  max({lasted}) FILTER (WHERE kind = 'leaderless') AS longest_leaderless_ms,\n"
            f"  max({lasted}) FILTER (WHERE kind = 'under_min_isr')\n"
            "    AS longest_under_min_isr_ms\n"
            "FROM outages"
        ),
    )


def outages_by_cause(span: LogSpan) -> Figure:
    """Outages by kind, cause and what was lost."""
    return Figure(
        name="outages_by_cause",
        title="Outages by cause",
        sql=(
            "SELECT kind, cause, broker, directory, count(*) AS outages,\n"
            "  count(DISTINCT (topic_id, partition)) AS partitions,\n"
            "  count(*) FILTER (WHERE to_offset IS NULL) AS open,\n"
            f"  max({span.lasted_sql('from_time', 'to_time')}) AS longest_ms,\n"
            f"  sum({span.lasted_sql('from_time', 'to_time')}) AS sum_ms,\n"
            "  min(from_time) AS first_time\n"
            "FROM outages GROUP BY kind, cause, broker, directory\n"
            "ORDER BY sum_ms DESC, kind, cause, broker, directory"
        ),
        note="A partition that has no leader and too few replicas in sync counts in both kinds.",
        is_open=True,
        limit=CAUSES,
    )


def outages_over_time(span: LogSpan) -> Figure:
    """Outages by the time of their begin."""
    return Figure(
        name="outages_over_time",
        title="Outages over time",
        sql=(
            f"SELECT {span.bucket_sql('from_time')} AS bucket, kind, cause,\n"
            "  count(*) AS outages\n"
            "FROM outages GROUP BY bucket, kind, cause ORDER BY bucket, kind, cause"
        ),
        plots=(
            Bars(
                title="Partitions that lost their leader, by cause",
                series="cause",
                value="outages",
                where={"kind": "leaderless"},
            ),
            Bars(
                title="Partitions that fell under min ISR, by cause",
                series="cause",
                value="outages",
                where={"kind": "under_min_isr"},
            ),
        ),
        limit=POINTS,
    )


def longest_outages(span: LogSpan) -> Figure:
    """The longest outages; outages that overlap in one partition count as one."""
    in_order = "OVER (PARTITION BY topic_id, partition ORDER BY from_offset, kind"
    return Figure(
        name="longest_outages",
        title="Longest outages",
        sql=(
            "WITH spans AS (\n"
            "  SELECT *, coalesce(to_offset, 9223372036854775807) AS until,\n"
            f"    {span.lasted_sql('from_time', 'to_time')} AS ms\n"
            "  FROM outages\n"
            "), begun AS (\n"
            "  SELECT *, CASE WHEN from_offset <= max(until)\n"
            f"      {in_order}\n"
            "        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)\n"
            "    THEN 0 ELSE 1 END AS begins\n"
            "  FROM spans\n"
            "), numbered AS (\n"
            f"  SELECT *, sum(begins) {in_order}\n"
            "        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number\n"
            "  FROM begun\n"
            "), merged AS (\n"
            "  SELECT topic, topic_id, partition, min(kind) AS kind,\n"
            "    first(cause ORDER BY kind, from_offset) AS cause,\n"
            "    first(broker ORDER BY kind, from_offset) AS broker,\n"
            "    first(directory ORDER BY kind, from_offset) AS directory,\n"
            "    first(from_time ORDER BY from_offset) AS from_time,\n"
            "    last(to_time ORDER BY until) AS to_time,\n"
            "    sum(ms) FILTER (WHERE kind = 'leaderless') AS leaderless_ms,\n"
            "    sum(ms) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr_ms,\n"
            "    min(from_offset) AS from_offset, last(to_offset ORDER BY until) AS to_offset\n"
            "  FROM numbered GROUP BY topic, topic_id, partition, number\n"
            ")\n"
            "SELECT topic, partition, kind, cause, broker, directory, from_time, to_time,\n"
            f"  {span.lasted_sql('from_time', 'to_time')} AS lasted_ms, leaderless_ms,\n"
            "  under_min_isr_ms, from_offset, to_offset\n"
            "FROM merged\n"
            "ORDER BY lasted_ms DESC, from_offset, topic, topic_id, partition, kind"
        ),
        titles={"kind": "Worst kind"},
        plots=(Intervals(lane=("topic", "partition"), colour="kind", one_each=True),),
        limit=LINES,
    )


_ENOUGH = "CASE WHEN count(ms) >= 10 THEN"
"""A percentile of fewer samples says nothing that the longest does not."""

RECOVERY = Figure(
    name="recovery",
    title="Time to recovery",
    sql=(
        "SELECT what, count(ms) AS times, count(*) FILTER (WHERE is_open) AS never,\n"
        f"  {_ENOUGH} percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) END AS p50_ms,\n"
        f"  {_ENOUGH} percentile_disc(0.95) WITHIN GROUP (ORDER BY ms) END AS p95_ms,\n"
        f"  {_ENOUGH} percentile_disc(0.99) WITHIN GROUP (ORDER BY ms) END AS p99_ms,\n"
        "  max(ms) AS max_ms\n"
        "FROM (\n"
        "  SELECT CASE kind WHEN 'leaderless' THEN 'partition without leader'\n"
        "      ELSE 'partition under min ISR' END AS what,\n"
        "    duration_ms AS ms, to_offset IS NULL AS is_open FROM outages\n"
        "  UNION ALL\n"
        "  SELECT 'directory failure until last new leader', time_to_last_leader_ms,\n"
        "    leaders_still_lost > 0 FROM directory_failures WHERE partitions_touched > 0\n"
        "  UNION ALL\n"
        "  SELECT 'directory failure until full ISR', time_to_full_isr_ms,\n"
        "    full_isr_offset IS NULL FROM directory_failures WHERE partitions_touched > 0\n"
        "  UNION ALL\n"
        "  SELECT 'broker failure until last new leader', time_to_last_leader_ms,\n"
        "    leaders_still_lost > 0 FROM broker_failures WHERE partitions_touched > 0\n"
        "  UNION ALL\n"
        "  SELECT 'broker failure until full ISR', time_to_full_isr_ms, full_isr_offset IS NULL\n"
        "  FROM broker_failures WHERE partitions_touched > 0\n"
        "  UNION ALL\n"
        "  SELECT 'broker failure until it serves again',\n"
        "    epoch_ms(closed_time) - epoch_ms(detected_time), state = 'open'\n"
        "  FROM broker_failures\n"
        ") WHERE ms IS NOT NULL OR is_open GROUP BY what ORDER BY what"
    ),
    is_open=True,
)
