"""Figures of the log as a whole, and of the cluster at its end."""

from __future__ import annotations

from analytics.page.figure import LINES, Figure, Unit, figure_columns
from jbodlab.records.config_records import NoOpRecord

BROKERS = 80
EPOCHS = 100


LOG = Figure(
    name="log",
    title="The log",
    sql=(
        "SELECT records, first_offset, last_offset, first_time, last_time,\n"
        "  coalesce(written, registered) AS end_time, epochs, no_ops\n"
        "FROM (\n"
        "  SELECT coalesce(sum(records), 0) AS records,\n"
        "    min(first_offset) AS first_offset, max(last_offset) AS last_offset,\n"
        "    min(earliest_time) AS first_time, max(latest_time) AS last_time,\n"
        "    last(last_time ORDER BY last_offset) AS written,\n"
        f"    coalesce(sum(records) FILTER (WHERE type = '{NoOpRecord.NAME}'), 0) AS no_ops\n"
        "  FROM {record_counts})\n"
        "CROSS JOIN (SELECT max(valid_from_time) AS registered FROM {brokers})\n"
        "CROSS JOIN (SELECT count(*) AS epochs FROM {controller_epochs})"
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
    title="Assumptions",
    sql=(
        "SELECT min_insync_replicas, min_insync_replicas_from, topics FROM {logs}\n"
        "CROSS JOIN (\n"
        "  SELECT\n"
        "  count(*) FILTER (WHERE min_insync_replicas_from = 'assumed') AS topics FROM {topics})"
    ),
    columns=figure_columns(
        [
            ("min_insync_replicas", "min.insync.replicas", Unit.NUMBER),
            ("min_insync_replicas_from", "Source", Unit.TEXT),
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
        'SELECT kind, count(*) AS problems, min("offset") AS first_offset,\n'
        "  first(message ORDER BY coalesce(file, ''), position, \"offset\", message)\n"
        "    AS message\n"
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


UNKNOWN_RECORDS = Figure(
    name="unknown_records",
    title="Records of unknown types or versions",
    sql=(
        "SELECT CASE WHEN control THEN 'control ' ELSE '' END || 'type ' || type_id\n"
        "    || ' version ' || coalesce(CAST(version AS STRING), 'unknown') AS type,\n"
        '  count(*) AS records, min("offset") AS first_offset\n'
        "FROM {unknown_records} GROUP BY type ORDER BY type"
    ),
    columns=figure_columns(
        [
            ("type", "Type", Unit.TEXT),
            ("records", "Records", Unit.NUMBER),
            ("first_offset", "First offset", Unit.LABEL),
        ]
    ),
)


TOPICS_NOW = Figure(
    name="topics_now",
    title="Topics at the end of the log",
    sql=(
        "SELECT count(DISTINCT topic_id) AS topics, count(*) AS partitions,\n"
        "  count(*) FILTER (WHERE leader = -1) AS leaderless_now,\n"
        "  count(*) FILTER (WHERE len(isr) < len(replicas)) AS under_replicated_now\n"
        "FROM {partitions}"
    ),
    columns=figure_columns(
        [
            ("topics", "Topics", Unit.NUMBER),
            ("partitions", "Partitions", Unit.NUMBER),
            ("leaderless_now", "Without leader now", Unit.NUMBER),
            ("under_replicated_now", "Under-replicated now", Unit.NUMBER),
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
        "  SELECT broker, count(*) FILTER (WHERE state = 'online') AS online,\n"
        "    count(*) FILTER (WHERE state = 'offline') AS offline\n"
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
    limit=BROKERS,
)


LANE_COUNTS = Figure(
    name="lane_counts",
    title="How many there are",
    sql=(
        "SELECT brokers, directories\n"
        "FROM (SELECT count(DISTINCT broker) AS brokers FROM {broker_sessions})\n"
        "CROSS JOIN (SELECT count(DISTINCT (broker, directory)) AS directories FROM {log_dirs})"
    ),
    columns=figure_columns(
        [
            ("brokers", "Brokers ever registered", Unit.NUMBER),
            ("directories", "Directories ever known", Unit.NUMBER),
        ]
    ),
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
