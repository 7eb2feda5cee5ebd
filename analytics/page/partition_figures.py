"""Figures of partitions: outages, leadership, ISR, placement, moves, availability."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from analytics.derive.log_span import LogSpan
from analytics.page.figure import Figure, Unit, figure_columns

LINES = 20
CAUSES = 30
POINTS = 2000
TOPICS = 20
DAYS = 60

_PARTITION = (("topic", "Topic", Unit.TEXT), ("partition", "Partition", Unit.LABEL))


def outages_by_cause(span: LogSpan) -> Figure:
    """Outages by kind, cause and what was lost."""
    return Figure(
        name="outages_by_cause",
        title="Outages by cause",
        sql=(
            "SELECT kind, cause, broker, directory, count(*) AS outages,\n"
            "  count(DISTINCT topic_id, partition) AS partitions,\n"
            "  count_if(to_offset IS NULL) AS open,\n"
            f"  max({span.lasted_sql('from_time', 'to_time')}) AS longest_ms,\n"
            f"  try_sum({span.lasted_sql('from_time', 'to_time')}) AS sum_ms,\n"
            "  min(from_time) AS first_time\n"
            "FROM {outages} GROUP BY kind, cause, broker, directory\n"
            "ORDER BY sum_ms DESC, kind, cause, broker, directory"
        ),
        columns=figure_columns(
            [
                ("kind", "Kind", Unit.TEXT),
                ("cause", "Cause", Unit.TEXT),
                ("broker", "Broker", Unit.LABEL),
                ("directory", "Directory", Unit.ID),
                ("outages", "Outages", Unit.NUMBER),
                ("partitions", "Partitions", Unit.NUMBER),
                ("open", "Open", Unit.NUMBER),
                ("longest_ms", "Longest", Unit.DURATION),
                ("sum_ms", "Sum over partitions", Unit.DURATION),
                ("first_time", "First", Unit.TIME),
            ]
        ),
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
            "FROM {outages} GROUP BY bucket, kind, cause ORDER BY bucket, kind, cause"
        ),
        columns=figure_columns(
            [
                ("bucket", "From", Unit.TIME),
                ("kind", "Kind", Unit.TEXT),
                ("cause", "Cause", Unit.TEXT),
                ("outages", "Outages that began", Unit.NUMBER),
            ]
        ),
        limit=POINTS,
    )


def longest_outages(span: LogSpan) -> Figure:
    """The outages that lasted longest; what overlaps in one partition is one of them."""
    in_order = "OVER (PARTITION BY topic_id, partition ORDER BY from_offset, kind"
    return Figure(
        name="longest_outages",
        title="Longest outages",
        sql=(
            "WITH spans AS (\n"
            "  SELECT *, coalesce(to_offset, 9223372036854775807L) AS until,\n"
            f"    {span.lasted_sql('from_time', 'to_time')} AS ms\n"
            "  FROM {outages}\n"
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
            "    min_by(cause, struct(kind, from_offset)) AS cause,\n"
            "    min_by(broker, struct(kind, from_offset)) AS broker,\n"
            "    min_by(directory, struct(kind, from_offset)) AS directory,\n"
            "    min_by(from_time, from_offset) AS from_time, max_by(to_time, until) AS to_time,\n"
            "    try_sum(ms) FILTER (WHERE kind = 'leaderless') AS leaderless_ms,\n"
            "    try_sum(ms) FILTER (WHERE kind = 'under_min_isr') AS under_min_isr_ms,\n"
            "    min(from_offset) AS from_offset, max_by(to_offset, until) AS to_offset\n"
            "  FROM numbered GROUP BY topic, topic_id, partition, number\n"
            ")\n"
            "SELECT topic, partition, kind, cause, broker, directory, from_time, to_time,\n"
            f"  {span.lasted_sql('from_time', 'to_time')} AS lasted_ms, leaderless_ms,\n"
            "  under_min_isr_ms, from_offset, to_offset\n"
            "FROM merged\n"
            "ORDER BY lasted_ms DESC, from_offset, topic, topic_id, partition, kind"
        ),
        columns=figure_columns(
            [
                *_PARTITION,
                ("kind", "Worst kind", Unit.TEXT),
                ("cause", "Cause", Unit.TEXT),
                ("broker", "Broker", Unit.LABEL),
                ("directory", "Directory", Unit.ID),
                ("from_time", "From", Unit.TIME),
                ("to_time", "To", Unit.TIME),
                ("lasted_ms", "Lasted", Unit.DURATION),
                ("leaderless_ms", "Of it without leader", Unit.DURATION),
                ("under_min_isr_ms", "Of it under min ISR", Unit.DURATION),
                ("from_offset", "From offset", Unit.LABEL),
                ("to_offset", "To offset", Unit.LABEL),
            ]
        ),
        limit=LINES,
    )


LEADERSHIP_OVER_TIME = Figure(
    name="leadership_over_time",
    title="Changes of leaders over time",
    sql=(
        "SELECT from_time AS bucket, cause, changes\n"
        "FROM {change_counts} WHERE what = 'leader' ORDER BY bucket, cause"
    ),
    columns=figure_columns(
        [
            ("bucket", "From", Unit.TIME),
            ("cause", "Cause", Unit.TEXT),
            ("changes", "Changes of leaders", Unit.NUMBER),
        ]
    ),
    limit=POINTS,
)


LEADERSHIP_CAUSES = Figure(
    name="leadership_causes",
    title="Changes of leaders by cause",
    sql=(
        "SELECT cause, sum(changes) AS changes, sum(to_none) AS to_none\n"
        "FROM {change_counts} WHERE what = 'leader'\n"
        "GROUP BY cause ORDER BY changes DESC, cause"
    ),
    columns=figure_columns(
        [
            ("cause", "Cause", Unit.TEXT),
            ("changes", "Changes", Unit.NUMBER),
            ("to_none", "Of these to no leader", Unit.NUMBER),
        ]
    ),
)


CHURNING_PARTITIONS = Figure(
    name="churning_partitions",
    title="Partitions whose leader changed most",
    sql=(
        "SELECT topic, partition, changes, to_none, last_time FROM {leadership_churn}\n"
        "ORDER BY changes DESC, topic, topic_id, partition"
    ),
    columns=figure_columns(
        [
            *_PARTITION,
            ("changes", "Changes", Unit.NUMBER),
            ("to_none", "Of these to no leader", Unit.NUMBER),
            ("last_time", "The last one", Unit.TIME),
        ]
    ),
    limit=LINES,
)


ISR_OVER_TIME = Figure(
    name="isr_over_time",
    title="Changes of the ISR over time",
    sql=(
        "SELECT from_time AS bucket, change, sum(changes) AS changes\n"
        "FROM {change_counts} WHERE what = 'isr'\n"
        "GROUP BY from_time, change ORDER BY bucket, change"
    ),
    columns=figure_columns(
        [
            ("bucket", "From", Unit.TIME),
            ("change", "Change", Unit.TEXT),
            ("changes", "Changes of ISRs", Unit.NUMBER),
        ]
    ),
    limit=POINTS,
)


ISR_CAUSES = Figure(
    name="isr_causes",
    title="Changes of the ISR by cause",
    sql=(
        "SELECT cause, change, sum(changes) AS changes\n"
        "FROM {change_counts} WHERE what = 'isr'\n"
        "GROUP BY cause, change ORDER BY changes DESC, cause, change"
    ),
    columns=figure_columns(
        [
            ("cause", "Cause", Unit.TEXT),
            ("change", "Change", Unit.TEXT),
            ("changes", "Changes", Unit.NUMBER),
        ]
    ),
    limit=CAUSES,
)


FLAPPING_REPLICAS = Figure(
    name="flapping_replicas",
    title="Replicas that left the ISR most often",
    sql=(
        "SELECT topic, partition, broker, shrinks, expands, out_ms_total, out_ms_max,\n"
        "  first_time, last_time\n"
        "FROM {isr_flaps}\n"
        "ORDER BY shrinks DESC, out_ms_total DESC, topic, topic_id, partition, broker"
    ),
    columns=figure_columns(
        [
            *_PARTITION,
            ("broker", "Broker", Unit.LABEL),
            ("shrinks", "Left", Unit.NUMBER),
            ("expands", "Came back", Unit.NUMBER),
            ("out_ms_total", "Outside in all", Unit.DURATION),
            ("out_ms_max", "Longest outside", Unit.DURATION),
            ("first_time", "First", Unit.TIME),
            ("last_time", "Last", Unit.TIME),
        ]
    ),
    limit=LINES,
)

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
_MOST_UNEVEN = "greatest(abs(deviation), abs(leader_deviation)) DESC"
BROKER_SKEW = Figure(
    name="broker_skew",
    title="Replicas and leaders of brokers, the most uneven first",
    sql=(
        "SELECT broker, replicas, leaders, preferred_leaders, share_of_replicas,\n"
        "  mean_replicas, deviation, mean_leaders, leader_deviation\n"
        f"FROM {{skew}} WHERE scope = 'broker' ORDER BY {_MOST_UNEVEN}, broker"
    ),
    columns=figure_columns([("broker", "Broker", Unit.LABEL), *_SKEW]),
    limit=LINES,
)
DIRECTORY_SKEW = Figure(
    name="directory_skew",
    title="Replicas and leaders of directories, the most uneven within their brokers first",
    sql=(
        "SELECT broker, directory, replicas, leaders, preferred_leaders, share_of_replicas,\n"
        "  mean_replicas, deviation, mean_leaders, leader_deviation\n"
        f"FROM {{skew}} WHERE scope = 'directory' ORDER BY {_MOST_UNEVEN}, broker, directory"
    ),
    columns=figure_columns(
        [("broker", "Broker", Unit.LABEL), ("directory", "Directory", Unit.ID), *_SKEW]
    ),
    limit=LINES,
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
                *_PARTITION,
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
        "SELECT broker, count(*) AS replicas, count_if(lag_ms IS NULL) AS unassigned,\n"
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
AVAILABILITY = Figure(
    name="availability",
    title="Availability of all topics, deleted ones included",
    sql=(
        "SELECT count(DISTINCT topic_id) AS topics, try_sum(partition_ms) AS partition_ms,\n"
        "  try_sum(leaderless_ms) AS leaderless_ms,\n"
        "  try_sum(under_min_isr_ms) AS under_min_isr_ms,\n"
        "  1 - try_divide(try_sum(leaderless_ms), try_sum(partition_ms)) AS availability\n"
        "FROM {availability}"
    ),
    columns=figure_columns(
        [
            ("topics", "Topics", Unit.NUMBER),
            ("partition_ms", "Time of all partitions", Unit.DURATION),
            ("leaderless_ms", "Without leader", Unit.DURATION),
            ("under_min_isr_ms", "Under min ISR", Unit.DURATION),
            ("availability", "Availability", Unit.SHARE),
        ]
    ),
)
TOPIC_AVAILABILITY = Figure(
    name="topic_availability",
    title="Topics that were not always available, the worst first",
    sql=(
        "SELECT * FROM (\n"
        "  SELECT topic, topic_id, max(partitions) AS partitions,\n"
        "    try_sum(partition_ms) AS partition_ms, try_sum(leaderless_ms) AS leaderless_ms,\n"
        "    try_sum(under_min_isr_ms) AS under_min_isr_ms,\n"
        "    1 - try_divide(try_sum(leaderless_ms), try_sum(partition_ms)) AS availability\n"
        "  FROM {availability} LEFT SEMI JOIN {topics} USING (topic_id)\n"
        "  GROUP BY topic, topic_id\n"
        ") WHERE leaderless_ms > 0 OR under_min_isr_ms > 0\n"
        "ORDER BY leaderless_ms DESC, under_min_isr_ms DESC, topic, topic_id"
    ),
    columns=figure_columns(
        [
            ("topic", "Topic", Unit.TEXT),
            ("topic_id", "Topic id", Unit.ID),
            ("partitions", "Partitions", Unit.NUMBER),
            ("partition_ms", "Time of all partitions", Unit.DURATION),
            ("leaderless_ms", "Without leader", Unit.DURATION),
            ("under_min_isr_ms", "Under min ISR", Unit.DURATION),
            ("availability", "Availability", Unit.SHARE),
        ]
    ),
    limit=TOPICS,
)


def daily_availability(span: LogSpan) -> Figure:
    """Availability of the worst topics that exist, on each of the last days."""
    worst = (
        "SELECT topic_id FROM (\n"
        "    SELECT topic_id, min(topic) AS topic, try_sum(leaderless_ms) AS leaderless_ms,\n"
        "      try_sum(under_min_isr_ms) AS under_min_isr_ms\n"
        "    FROM {availability} LEFT SEMI JOIN {topics} USING (topic_id) GROUP BY topic_id\n"
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
            f"FROM {{availability}} JOIN (\n  {worst}\n) USING (topic_id)\n"
            f"WHERE day > DATE'{_days_before(span, DAYS)}'\n"
            "ORDER BY topic, topic_id, day"
        ),
        columns=figure_columns(
            [
                ("topic", "Topic", Unit.TEXT),
                ("topic_id", "Topic id", Unit.ID),
                ("day", "Day", Unit.DAY),
                ("partitions", "Partitions", Unit.NUMBER),
                ("leaderless_ms", "Without leader", Unit.DURATION),
                ("under_min_isr_ms", "Under min ISR", Unit.DURATION),
                ("availability", "Availability", Unit.SHARE),
            ]
        ),
        limit=TOPICS * DAYS,
    )


def _days_before(span: LogSpan, days: int) -> str:
    if span.end_ms is None:
        return "0001-01-01"
    first = datetime(1, 1, 1, tzinfo=UTC)
    end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=span.end_ms)
    return max(first, end - min(timedelta(days), end - first)).date().isoformat()
