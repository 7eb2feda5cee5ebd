"""Figures of changes of leaders and of ISRs."""

from __future__ import annotations

from analytics.page.figure import LINES, POINTS, Figure
from jbodlab.pages.plots import Bars, Ranking

CAUSES = 30


LEADERSHIP_OVER_TIME = Figure(
    name="leadership_over_time",
    title="Changes of leaders over time",
    sql=(
        "SELECT from_time AS bucket, cause, changes\n"
        "FROM change_counts WHERE what = 'leader' ORDER BY bucket, cause"
    ),
    titles={"changes": "Changes of leaders"},
    plots=(Bars(title="Changes of leaders, by cause", series="cause", value="changes"),),
    limit=POINTS,
)


LEADERSHIP_CAUSES = Figure(
    name="leadership_causes",
    title="Changes of leaders by cause",
    sql=(
        "SELECT cause, sum(changes) AS changes, sum(to_none) AS to_none\n"
        "FROM change_counts WHERE what = 'leader'\n"
        "GROUP BY cause ORDER BY changes DESC, cause"
    ),
)


CHURNING_PARTITIONS = Figure(
    name="churning_partitions",
    title="Partitions whose leader changed most",
    sql=(
        "SELECT topic, partition, changes, to_none, last_time FROM leadership_churn\n"
        "ORDER BY changes DESC, topic, topic_id, partition"
    ),
    titles={"last_time": "Last change"},
    plots=(Ranking(label=("topic", "partition"), values=("changes", "to_none")),),
    limit=LINES,
)


ISR_OVER_TIME = Figure(
    name="isr_over_time",
    title="Changes of the ISR over time",
    sql=(
        "SELECT from_time AS bucket, change, sum(changes) AS changes\n"
        "FROM change_counts WHERE what = 'isr'\n"
        "GROUP BY from_time, change ORDER BY bucket, change"
    ),
    titles={"changes": "Changes of ISRs"},
    plots=(Bars(title="Changes of the ISR", series="change", value="changes"),),
    limit=POINTS,
)


ISR_CAUSES = Figure(
    name="isr_causes",
    title="Changes of the ISR by cause",
    sql=(
        "SELECT cause, change, sum(changes) AS changes\n"
        "FROM change_counts WHERE what = 'isr'\n"
        "GROUP BY cause, change ORDER BY changes DESC, cause, change"
    ),
    limit=CAUSES,
)


FLAPPING_REPLICAS = Figure(
    name="flapping_replicas",
    title="Replicas that left the ISR most often",
    sql=(
        "SELECT topic, partition, broker, shrinks, expands, out_ms_total, out_ms_max,\n"
        "  first_time, last_time\n"
        "FROM isr_flaps\n"
        "ORDER BY shrinks DESC, out_ms_total DESC, topic, topic_id, partition, broker"
    ),
    plots=(Ranking(label=("topic", "partition", "broker"), values=("shrinks", "expands")),),
    limit=LINES,
)
