"""Figures of the log, the brokers, their directories and the controllers."""

from __future__ import annotations

from analytics.derive.log_span import LogSpan
from analytics.page.figure import Figure, Unit, figure_columns
from jbodlab.records.config_records import NoOpRecord

LANES = 40
INTERVALS = 800
FAILURES = 50
EPOCHS = 100
LINES = 20

LOG = Figure(
    name="log",
    title="The log",
    sql=(
        "SELECT coalesce(sum(records), 0) AS records,\n"
        "  min(first_offset) AS first_offset, max(last_offset) AS last_offset,\n"
        "  min(earliest_time) AS first_time, max(latest_time) AS last_time,\n"
        "  coalesce(max_by(last_time, last_offset),"
        " (SELECT max(valid_from_time) FROM {brokers})) AS end_time,\n"
        "  (SELECT count(*) FROM {controller_epochs}) AS epochs,\n"
        f"  coalesce(sum(records) FILTER (WHERE type = '{NoOpRecord.NAME}'), 0) AS no_ops\n"
        "FROM {record_counts}"
    ),
    columns=figure_columns(
        [
            ("records", "Records", Unit.NUMBER),
            ("first_offset", "First offset", Unit.LABEL),
            ("last_offset", "Last offset", Unit.LABEL),
            ("first_time", "From", Unit.TIME),
            ("last_time", "To", Unit.TIME),
            ("end_time", "Last record", Unit.TIME),
            ("epochs", "Controller epochs", Unit.NUMBER),
            ("no_ops", "No-ops", Unit.NUMBER),
        ]
    ),
)
ASSUMPTIONS = Figure(
    name="assumptions",
    title="What is assumed",
    sql=(
        "SELECT min_insync_replicas, min_insync_replicas_from,\n"
        "  (SELECT count_if(min_insync_replicas_from = 'assumed') FROM {topics}) AS topics\n"
        "FROM {logs}"
    ),
    columns=figure_columns(
        [
            ("min_insync_replicas", "min.insync.replicas", Unit.NUMBER),
            ("min_insync_replicas_from", "As said by", Unit.TEXT),
            ("topics", "Topics for which the log sets none", Unit.NUMBER),
        ]
    ),
    limit=LINES,
)
SNAPSHOTS = Figure(
    name="snapshots",
    title="Snapshots",
    sql=(
        "SELECT count(DISTINCT file) AS snapshots, count(*) AS snapshot_records\n"
        "FROM {snapshot_records}"
    ),
    columns=figure_columns(
        [
            ("snapshots", "Snapshots", Unit.NUMBER),
            ("snapshot_records", "Records in them", Unit.NUMBER),
        ]
    ),
)
PROBLEM_COUNT = Figure(
    name="problem_count",
    title="Problems",
    sql="SELECT count(*) AS problems FROM {problems}",
    columns=figure_columns([("problems", "Problems", Unit.NUMBER)]),
)
PROBLEM_KINDS = Figure(
    name="problem_kinds",
    title="Problems by kind",
    sql=(
        "SELECT kind, count(*) AS problems, min(offset) AS first_offset,\n"
        "  min_by(message, struct(coalesce(file, ''), position, offset, message)) AS message\n"
        "FROM {problems} GROUP BY kind ORDER BY kind"
    ),
    columns=figure_columns(
        [
            ("kind", "Kind", Unit.TEXT),
            ("problems", "Problems", Unit.NUMBER),
            ("first_offset", "First offset", Unit.LABEL),
            ("message", "The first one", Unit.TEXT),
        ]
    ),
)
TOPICS_NOW = Figure(
    name="topics_now",
    title="Topics at the end of the log",
    sql=(
        "SELECT count(DISTINCT topic_id) AS topics, count(*) AS partitions,\n"
        "  count_if(leader = -1) AS leaderless,\n"
        "  count_if(size(isr) < size(replicas)) AS under_replicated\n"
        "FROM {partitions}"
    ),
    columns=figure_columns(
        [
            ("topics", "Topics", Unit.NUMBER),
            ("partitions", "Partitions", Unit.NUMBER),
            ("leaderless", "Without leader now", Unit.NUMBER),
            ("under_replicated", "Under-replicated now", Unit.NUMBER),
        ]
    ),
)
FEATURES_NOW = Figure(
    name="features_now",
    title="Feature levels at the end of the log",
    sql=(
        "SELECT feature, level, valid_from_offset, valid_from_time\n"
        "FROM {features} WHERE valid_to_offset IS NULL ORDER BY feature"
    ),
    columns=figure_columns(
        [
            ("feature", "Feature", Unit.TEXT),
            ("level", "Level", Unit.LABEL),
            ("valid_from_offset", "Since offset", Unit.LABEL),
            ("valid_from_time", "Since", Unit.TIME),
        ]
    ),
    limit=LINES,
)
BROKERS_NOW = Figure(
    name="brokers_now",
    title="Brokers at the end of the log",
    sql=(
        "SELECT broker, rack,\n"
        "  CASE WHEN in_controlled_shutdown THEN 'in controlled shutdown'\n"
        "    WHEN fenced THEN 'fenced' ELSE 'active' END AS state,\n"
        "  broker_epoch, coalesce(online, 0) AS online, coalesce(offline, 0) AS offline,\n"
        "  coalesce(replicas, 0) AS replicas, coalesce(leaders, 0) AS leaders\n"
        "FROM {brokers} LEFT JOIN (\n"
        "  SELECT broker, count_if(state = 'online') AS online,\n"
        "    count_if(state = 'offline') AS offline\n"
        "  FROM {log_dirs} WHERE valid_to_offset IS NULL GROUP BY broker\n"
        ") USING (broker) LEFT JOIN (\n"
        "  SELECT broker, replicas, leaders FROM {skew} WHERE scope = 'broker'\n"
        ") USING (broker)\n"
        "ORDER BY offline DESC, state <> 'active' DESC, broker"
    ),
    columns=figure_columns(
        [
            ("broker", "Broker", Unit.LABEL),
            ("rack", "Rack", Unit.TEXT),
            ("state", "State", Unit.TEXT),
            ("broker_epoch", "Broker epoch", Unit.LABEL),
            ("online", "Directories online", Unit.NUMBER),
            ("offline", "Directories offline", Unit.NUMBER),
            ("replicas", "Replicas", Unit.NUMBER),
            ("leaders", "Leaders", Unit.NUMBER),
        ]
    ),
    limit=2 * LANES,
)
FAILING_DIRECTORIES = Figure(
    name="failing_directories",
    title="Directories that failed most",
    sql=(
        "SELECT broker, directory, count(*) AS failures, count_if(state = 'open') AS open,\n"
        "  sum(partitions_touched) AS partitions_touched, sum(leaders_lost) AS leaders_lost,\n"
        "  max(time_to_last_leader_ms) AS slowest_leader_ms,\n"
        "  max(time_to_full_isr_ms) AS slowest_isr_ms\n"
        "FROM {directory_failures} GROUP BY broker, directory\n"
        "ORDER BY failures DESC, partitions_touched DESC, broker, directory"
    ),
    columns=figure_columns(
        [
            ("broker", "Broker", Unit.LABEL),
            ("directory", "Directory", Unit.ID),
            ("failures", "Failures", Unit.NUMBER),
            ("open", "Open", Unit.NUMBER),
            ("partitions_touched", "Replicas touched", Unit.NUMBER),
            ("leaders_lost", "Left without leader", Unit.NUMBER),
            ("slowest_leader_ms", "Slowest last new leader", Unit.DURATION),
            ("slowest_isr_ms", "Slowest full ISR", Unit.DURATION),
        ]
    ),
    limit=LINES,
)
DIRECTORY_FAILURES = Figure(
    name="directory_failures",
    title="Directory failures, the latest first",
    sql=(
        "SELECT broker, directory, detected_offset, detected_time, partitions_touched,\n"
        "  leaders_moved, leaders_lost, leaders_still_lost,\n"
        "  CASE WHEN last_leader_in_same_batch THEN 'yes'\n"
        "    WHEN NOT last_leader_in_same_batch THEN 'no' END AS last_leader_in_same_batch,\n"
        "  time_to_last_leader_ms, full_isr_time,\n"
        "  time_to_full_isr_ms, state, closed_time, closed_by, noticed_time,\n"
        "  unix_millis(detected_time) - unix_millis(noticed_time) AS noticed_before_ms, noticed\n"
        "FROM {directory_failures} LEFT JOIN (\n"
        "  SELECT broker, directory, detected_offset, min(time) AS noticed_time,\n"
        "    min_by(message, struct(time, file, line)) AS noticed\n"
        "  FROM {broker_log_lines} WHERE detected_offset IS NOT NULL\n"
        "  GROUP BY broker, directory, detected_offset\n"
        ") USING (broker, directory, detected_offset)\n"
        "ORDER BY detected_offset DESC, broker, directory"
    ),
    columns=figure_columns(
        [
            ("broker", "Broker", Unit.LABEL),
            ("directory", "Directory", Unit.ID),
            ("detected_offset", "Offset", Unit.LABEL),
            ("detected_time", "Detected", Unit.TIME),
            ("partitions_touched", "Replicas touched", Unit.NUMBER),
            ("leaders_moved", "Leaders moved", Unit.NUMBER),
            ("leaders_lost", "Left without leader", Unit.NUMBER),
            ("leaders_still_lost", "Of these to the end", Unit.NUMBER),
            ("last_leader_in_same_batch", "Last new leader in the same batch", Unit.TEXT),
            ("time_to_last_leader_ms", "To the last new leader", Unit.DURATION),
            ("full_isr_time", "Full ISR", Unit.TIME),
            ("time_to_full_isr_ms", "To the full ISR", Unit.DURATION),
            ("state", "State", Unit.TEXT),
            ("closed_time", "Closed", Unit.TIME),
            ("closed_by", "Closed by", Unit.TEXT),
            ("noticed_time", "The broker wrote", Unit.TIME),
            ("noticed_before_ms", "Before that record", Unit.DURATION),
            ("noticed", "Its words", Unit.TEXT),
        ]
    ),
    limit=FAILURES,
)
CONTROLLER_EPOCHS = Figure(
    name="controller_epochs",
    title="Controller epochs, the latest first",
    sql=(
        "SELECT controller, epoch, from_offset, to_offset, from_time, to_time, records\n"
        "FROM {controller_epochs} ORDER BY epoch DESC"
    ),
    columns=figure_columns(
        [
            ("controller", "Controller", Unit.LABEL),
            ("epoch", "Epoch", Unit.LABEL),
            ("from_offset", "From offset", Unit.LABEL),
            ("to_offset", "To offset", Unit.LABEL),
            ("from_time", "From", Unit.TIME),
            ("to_time", "To", Unit.TIME),
            ("records", "Records", Unit.NUMBER),
        ]
    ),
    limit=EPOCHS,
)


def broker_timeline(span: LogSpan) -> Figure:
    """Sessions of the brokers that were most often anything but unfenced."""
    return Figure(
        name="broker_timeline",
        title="Sessions of brokers",
        sql=(
            "SELECT broker, state, valid_from_time, valid_to_time,\n"
            f"  {span.lasted_sql('valid_from_time', 'valid_to_time')} AS lasted_ms,\n"
            "  ended_by, broker_epoch, valid_from_offset\n"
            "FROM {broker_sessions} JOIN (\n"
            "  SELECT broker FROM {broker_sessions} GROUP BY broker\n"
            f"  ORDER BY count_if(state <> 'unfenced') DESC, broker LIMIT {LANES}\n"
            ") USING (broker)\n"
            "ORDER BY valid_to_offset IS NULL DESC, valid_from_offset DESC, broker"
        ),
        columns=figure_columns(
            [
                ("broker", "Broker", Unit.LABEL),
                ("state", "State", Unit.TEXT),
                ("valid_from_time", "From", Unit.TIME),
                ("valid_to_time", "To", Unit.TIME),
                ("lasted_ms", "Lasted", Unit.DURATION),
                ("ended_by", "Ended by", Unit.TEXT),
                ("broker_epoch", "Broker epoch", Unit.LABEL),
                ("valid_from_offset", "From offset", Unit.LABEL),
            ]
        ),
        limit=INTERVALS,
    )


def directory_timeline(span: LogSpan) -> Figure:
    """Intervals of the directories that were most often offline."""
    return Figure(
        name="directory_timeline",
        title="Log directories",
        sql=(
            "SELECT broker, directory, state, valid_from_time, valid_to_time,\n"
            f"  {span.lasted_sql('valid_from_time', 'valid_to_time')} AS lasted_ms,\n"
            "  ended_by, valid_from_offset\n"
            "FROM {log_dirs} JOIN (\n"
            "  SELECT broker, directory FROM {log_dirs} GROUP BY broker, directory\n"
            f"  ORDER BY count_if(state = 'offline') DESC, broker, directory LIMIT {LANES}\n"
            ") USING (broker, directory)\n"
            "ORDER BY valid_to_offset IS NULL DESC, valid_from_offset DESC, broker, directory"
        ),
        columns=figure_columns(
            [
                ("broker", "Broker", Unit.LABEL),
                ("directory", "Directory", Unit.ID),
                ("state", "State", Unit.TEXT),
                ("valid_from_time", "From", Unit.TIME),
                ("valid_to_time", "To", Unit.TIME),
                ("lasted_ms", "Lasted", Unit.DURATION),
                ("ended_by", "Ended by", Unit.TEXT),
                ("valid_from_offset", "From offset", Unit.LABEL),
            ]
        ),
        limit=INTERVALS,
    )


LANE_COUNTS = Figure(
    name="lane_counts",
    title="How many there are",
    sql=(
        "SELECT (SELECT count(DISTINCT broker) FROM {broker_sessions}) AS brokers,\n"
        "  (SELECT count(DISTINCT broker, directory) FROM {log_dirs}) AS directories,\n"
        "  (SELECT count(*) FROM {directory_failures}) AS failures,\n"
        "  (SELECT count_if(state = 'open') FROM {directory_failures}) AS open_failures"
    ),
    columns=figure_columns(
        [
            ("brokers", "Brokers ever registered", Unit.NUMBER),
            ("directories", "Directories ever known", Unit.NUMBER),
            ("failures", "Directory failures", Unit.NUMBER),
            ("open_failures", "Still open", Unit.NUMBER),
        ]
    ),
)
