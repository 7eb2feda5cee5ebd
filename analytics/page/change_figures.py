"""Figures of changes of leaders and of ISRs."""

from __future__ import annotations

from analytics.page.figure import LINES, PARTITION, POINTS, Figure, Unit, figure_columns

CAUSES = 30


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
            *PARTITION,
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
            *PARTITION,
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
