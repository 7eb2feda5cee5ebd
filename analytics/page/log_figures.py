"""Figures of the log as a whole, and of the cluster at its end."""

from __future__ import annotations

from analytics.page.figure import LINES, Figure
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.pages.plots import Intervals

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
        "  FROM record_counts)\n"
        "CROSS JOIN (SELECT max(valid_from_time) AS registered FROM brokers)\n"
        "CROSS JOIN (SELECT count(*) AS epochs FROM controller_epochs)"
    ),
    titles={"first_time": "From", "last_time": "To"},
)


ASSUMPTIONS = Figure(
    name="assumptions",
    title="Assumptions",
    sql=(
        "SELECT min_insync_replicas, min_insync_replicas_from, topics FROM logs\n"
        "CROSS JOIN (\n"
        "  SELECT\n"
        "  count(*) FILTER (WHERE min_insync_replicas_from = 'assumed') AS topics FROM topics)"
    ),
    titles={"topics": "Topics without a value in the log"},
    is_open=True,
    limit=LINES,
)


SNAPSHOTS = Figure(
    name="snapshots",
    title="Snapshots",
    sql=(
        "SELECT coalesce(max(snapshots), 0) AS snapshots, max(records) AS snapshot_records\n"
        "FROM logs CROSS JOIN (SELECT count(*) AS records FROM snapshot_records)"
    ),
)


PROBLEM_COUNT = Figure(
    name="problem_count",
    title="Problems",
    sql="SELECT count(*) AS problems FROM problems",
)


PROBLEM_KINDS = Figure(
    name="problem_kinds",
    title="Problems by kind",
    sql=(
        'SELECT kind, count(*) AS problems, min("offset") AS first_offset,\n'
        "  first(message ORDER BY coalesce(file, ''), position, \"offset\", message)\n"
        "    AS message\n"
        "FROM problems GROUP BY kind ORDER BY kind"
    ),
    is_open=True,
)


UNKNOWN_RECORDS = Figure(
    name="unknown_records",
    title="Records of unknown types or versions",
    sql=(
        "SELECT CASE WHEN control THEN 'control ' ELSE '' END || 'type ' || type_id\n"
        "    || ' version ' || coalesce(CAST(version AS STRING), 'unknown') AS type,\n"
        '  count(*) AS records, min("offset") AS first_offset\n'
        "FROM unknown_records GROUP BY type ORDER BY type"
    ),
    is_open=True,
)


TOPICS_NOW = Figure(
    name="topics_now",
    title="Topics at the end of the log",
    sql=(
        "SELECT count(DISTINCT topic_id) AS topics, count(*) AS partitions,\n"
        "  count(*) FILTER (WHERE leader = -1) AS leaderless_now,\n"
        "  count(*) FILTER (WHERE len(isr) < len(replicas)) AS under_replicated_now\n"
        "FROM partitions"
    ),
)


FEATURES_NOW = Figure(
    name="features_now",
    title="Feature levels at the end of the log",
    sql=(
        "SELECT feature, level, valid_from_offset, valid_from_time\n"
        "FROM features WHERE valid_to_offset IS NULL ORDER BY feature"
    ),
    limit=LINES,
)


RIGHTS_NOW = Figure(
    name="rights_now",
    title="Who may do what at the end of the log",
    sql=(
        "SELECT principal, permission, operation, resource_type, resource_name, pattern, host,\n"
        "  valid_from_time\n"
        "FROM acls WHERE valid_to_offset IS NULL\n"
        "ORDER BY principal, permission DESC, resource_type, resource_name, operation, host, id"
    ),
    note="A DENY counts before every ALLOW. Super users are in no record.",
    limit=LINES,
)


USERS_NOW = Figure(
    name="users_now",
    title="Users with passwords at the end of the log",
    sql=(
        'SELECT "user", mechanism, iterations, valid_from_time\n'
        'FROM scram_users WHERE valid_to_offset IS NULL ORDER BY "user", mechanism'
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
        "FROM brokers LEFT JOIN (\n"
        "  SELECT broker, count(*) FILTER (WHERE state = 'online') AS online,\n"
        "    count(*) FILTER (WHERE state = 'offline') AS offline\n"
        "  FROM log_dirs WHERE valid_to_offset IS NULL GROUP BY broker\n"
        ") USING (broker) LEFT JOIN (\n"
        "  SELECT broker, replicas, leaders FROM skew WHERE scope = 'broker'\n"
        ") USING (broker)\n"
        "ORDER BY offline DESC, state <> 'active' DESC, broker"
    ),
    is_open=True,
    limit=BROKERS,
)


LANE_COUNTS = Figure(
    name="lane_counts",
    title="How many there are",
    sql=(
        "SELECT brokers, directories\n"
        "FROM (SELECT count(DISTINCT broker) AS brokers FROM broker_sessions)\n"
        "CROSS JOIN (SELECT count(DISTINCT (broker, directory)) AS directories FROM log_dirs)"
    ),
)


CONTROLLER_EPOCHS = Figure(
    name="controller_epochs",
    title="Controller epochs, the latest first",
    sql=(
        "SELECT controller, epoch, from_offset, to_offset, from_time, to_time, records\n"
        "FROM controller_epochs ORDER BY epoch DESC"
    ),
    plots=(
        Intervals(title="Which controller was active", lane=("controller",), colour="controller"),
    ),
    limit=EPOCHS,
)
