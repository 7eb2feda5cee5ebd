"""Figures of incidents: what happened to directories, brokers and controllers, and what it cost."""

from __future__ import annotations

from analytics.page.figure import LINES, Figure
from analytics.page.log_span import LogSpan
from analytics.read.merged_layout import SEVERAL
from jbodlab.pages.plots import Intervals, Ranking

INCIDENTS = 100
FAILURES = 50
CHANGES = 100

INCIDENT_COUNTS = Figure(
    name="incident_counts",
    title="Incidents",
    sql=(
        "SELECT directory_failures + broker_failures AS incidents,\n"
        "  open_directory_failures + open_broker_failures AS open_incidents,\n"
        "  directory_failures, open_directory_failures, broker_failures, open_broker_failures,\n"
        "  controller_changes\n"
        "FROM (SELECT count(*) AS directory_failures,\n"
        "    count(*) FILTER (WHERE state = 'open')\n"
        "      AS open_directory_failures FROM directory_failures)\n"
        "CROSS JOIN (SELECT count(*) AS broker_failures,\n"
        "    count(*) FILTER (WHERE state = 'open')\n"
        "      AS open_broker_failures FROM broker_failures)\n"
        "CROSS JOIN (SELECT count(*) AS controller_changes FROM controller_changes)"
    ),
)

_COURSE = (
    "broker AS node, {directory} AS directory,\n"
    "    detected_time AS from_time, closed_time AS to_time, detected_offset AS from_offset,\n"
    "    closed_offset AS to_offset, closed_by AS ended_by, partitions_touched, leaders_moved,\n"
    "    leaderless, longest_leaderless_ms, leaderless_ms, under_min_isr,\n"
    "    longest_under_min_isr_ms, under_min_isr_ms, still_short"
)
# Text that a shell takes as one word, whatever the directory's name; of copies, as several.
_QUOTED = r"'''' || replace(max(source), '''', '''\''''') || ''''"
_SOURCE = rf"replace({_QUOTED}, '{SEVERAL}', ''' --input ''')"


def incidents(span: LogSpan) -> Figure:
    """One line for each failure of a directory or broker, and for each change of the controller."""
    return Figure(
        name="incidents",
        title="Incidents, open ones first, then the latest",
        sql=(
            "SELECT what, node, directory, from_time,\n"
            f"  {span.lasted_sql('from_time', 'to_time')} AS lasted_ms, began_by, ended_by,\n"
            "  leaderless, longest_leaderless_ms, under_min_isr, longest_under_min_isr_ms,\n"
            "  still_short, partitions_touched, leaders_moved, to_time, leaderless_ms,\n"
            "  under_min_isr_ms, from_offset, to_offset,\n"
            "  CASE WHEN what <> 'controller' THEN\n"
            "    'jbodlab why ' || what || ' ' || coalesce(directory, CAST(node AS STRING)) ||\n"
            "      ' --input ' || source || ' --at ' || from_offset END AS why\n"
            "FROM (\n"
            f"  SELECT 'directory' AS what, {_COURSE.format(directory='directory')},\n"
            "    CAST(NULL AS STRING) AS began_by FROM directory_failures\n"
            "  UNION ALL\n"
            f"  SELECT 'broker', {_COURSE.format(directory='NULL')},\n"
            "    began_by FROM broker_failures\n"
            "  UNION ALL\n"
            "  SELECT 'controller', previous_controller, NULL, last_time, from_time, last_offset,\n"
            "    from_offset,\n"
            "    'controller ' || coalesce(CAST(controller AS STRING), 'unknown'),\n"
            "    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'silent'\n"
            "  FROM controller_changes\n"
            f") CROSS JOIN (SELECT {_SOURCE} AS source FROM logs)\n"
            "ORDER BY to_offset IS NULL DESC, from_offset DESC, what, node, directory"
        ),
        note="One line for each failure of a directory or a broker, and for each change of "
        "the controller; the command in the last column shows the records behind it.",
        plots=(Intervals(title="Incidents", lane=("what", "node", "directory"), colour="what"),),
        is_open=True,
        limit=INCIDENTS,
    )


_COURSE_COLUMNS = (
    "detected_offset detected_time partitions_touched leaders_moved leaders_lost "
    "leaders_still_lost last_leader_in_same_batch time_to_last_leader_ms full_isr_time "
    "time_to_full_isr_ms state closed_time closed_by"
)

DIRECTORY_FAILURES = Figure(
    name="directory_failures",
    title="Directory failures, open ones first, then the latest",
    sql=(
        "SELECT broker, directory, detected_offset, detected_time, partitions_touched,\n"
        "  leaders_moved, leaders_lost, leaders_still_lost,\n"
        "  CASE WHEN last_leader_in_same_batch THEN 'yes'\n"
        "    WHEN NOT last_leader_in_same_batch THEN 'no' END AS last_leader_in_same_batch,\n"
        "  time_to_last_leader_ms, full_isr_time,\n"
        "  time_to_full_isr_ms, state, closed_time, closed_by, noticed_time,\n"
        "  epoch_ms(detected_time) - epoch_ms(noticed_time) AS noticed_before_ms, noticed\n"
        "FROM directory_failures LEFT JOIN (\n"
        "  SELECT broker, directory, detected_offset, min(time) AS noticed_time,\n"
        "    first(message ORDER BY time, file, line) AS noticed\n"
        "  FROM broker_log_lines WHERE detected_offset IS NOT NULL\n"
        "  GROUP BY broker, directory, detected_offset\n"
        ") USING (broker, directory, detected_offset)\n"
        "ORDER BY closed_offset IS NULL DESC, detected_offset DESC, broker, directory"
    ),
    note="From the record that reported a directory offline to the end of the failure.",
    plots=(
        Intervals(
            title="Directory failures",
            lane=("broker", "directory"),
            start="detected_time",
            end="closed_time",
            colour="state",
        ),
    ),
    is_open=True,
    limit=FAILURES,
)

BROKER_LOGS = Figure(
    name="broker_logs",
    title="Lines about log directories in the brokers' logs",
    sql=(
        "SELECT count(*) AS lines,\n"
        "  count(*) FILTER (WHERE detected_offset IS NULL) AS without_failure\n"
        "FROM broker_log_lines HAVING count(*) > 0"
    ),
    is_open=True,
    limit=1,
)

BROKER_FAILURES = Figure(
    name="broker_failures",
    title="Broker failures, open ones first, then the latest",
    sql=(
        "SELECT broker, began_by, detected_offset, detected_time, partitions_touched,\n"
        "  leaders_moved, leaders_lost, leaders_still_lost,\n"
        "  CASE WHEN last_leader_in_same_batch THEN 'yes'\n"
        "    WHEN NOT last_leader_in_same_batch THEN 'no' END AS last_leader_in_same_batch,\n"
        "  time_to_last_leader_ms, full_isr_time, time_to_full_isr_ms, state, closed_time,\n"
        "  closed_by\n"
        "FROM broker_failures\n"
        "ORDER BY closed_offset IS NULL DESC, detected_offset DESC, broker"
    ),
    note="From the record that stopped a broker from serving to the record that lets "
    "it serve again.",
    plots=(
        Intervals(
            title="Broker failures",
            lane=("broker",),
            start="detected_time",
            end="closed_time",
            colour="began_by",
        ),
    ),
    limit=FAILURES,
)

CONTROLLER_CHANGES = Figure(
    name="controller_changes",
    title="Changes of the controller, the latest first",
    sql=(
        "SELECT previous_controller, controller, epoch, last_offset, last_time, from_offset,\n"
        "  from_time, gap_ms\n"
        "FROM controller_changes ORDER BY epoch DESC"
    ),
    limit=CHANGES,
)

FAILING_DIRECTORIES = Figure(
    name="failing_directories",
    title="Directories that failed most",
    sql=(
        "SELECT broker, directory, count(*) AS failures,\n"
        "  count(*) FILTER (WHERE state = 'open') AS open,\n"
        "  sum(partitions_touched) AS partitions_touched, sum(leaders_lost) AS leaders_lost,\n"
        "  max(time_to_last_leader_ms) AS slowest_leader_ms,\n"
        "  max(time_to_full_isr_ms) AS slowest_isr_ms\n"
        "FROM directory_failures GROUP BY broker, directory\n"
        "ORDER BY failures DESC, partitions_touched DESC, broker, directory"
    ),
    plots=(Ranking(label=("broker", "directory"), values=("failures", "open")),),
    limit=LINES,
)
