"""The tables that a replay writes: their columns, what these mean, and how a table is written.

This file is the data dictionary; `docs/data-dictionary.md` is rendered from it. What holds for all
tables:

* Columns carry the snake_case names of Kafka's record fields, ids are in Kafka's 22-character text
  form. Every fact about a log directory has the columns ``broker`` and ``directory``.
* A moment is an offset of the metadata log and the time of the batch that holds it, UTC. A state
  holds from ``valid_from`` inclusive to ``valid_to`` exclusive; null means that it still holds at
  the end of the log.
* All records of one batch are one moment for the cluster, so that states can be compared across
  keys with ``batch_base_offset``. The effects of a failure on partitions are often, but not always,
  in the batch of the failure: a controller closes a batch after 10,000 changes and writes their
  cause behind them, and a replica may leave the ISR before its broker is fenced. So the cause of an
  effect is looked for in its own batch, and then in the next 30 seconds.
* Where the log does not begin at offset 0, the first state comes from a snapshot; such a row has
  the record type ``SNAPSHOT``, the snapshot's end offset and the time of the last record in it.
* The column ``cluster`` is the label of the cluster, and part of every key: ``--input LABEL=URI``,
  else the id in the ``meta.properties`` beside the log, else the part of the path that tells the
  log from the others. The rows of a cluster are in ``TABLE/cluster=LABEL/``; readers of Parquet
  files take the column from this path, the files do not hold it.
* Every table is written, also when it is empty. Running the job again replaces the tables; of a
  cluster whose log has not changed they stay as they are.
"""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.derived import (
    ASSIGNMENT_LAG,
    AVAILABILITY,
    BROKER_FAILURES,
    BROKER_LOG_LINES,
    CHANGE_COUNTS,
    CONTROLLER_CHANGES,
    DERIVED_TABLES,
    DIRECTORY_FAILURES,
    GAUGES,
    ISR_FLAPS,
    LEADERSHIP_CHURN,
    MOVES,
    RECORD_RATES,
    SKEW,
    UNKNOWN_RECORDS,
    WHAT_IF,
)
from analytics.tables.facts import (
    BROKER_SESSIONS,
    CONFIGS,
    CONTROLLER_EPOCHS,
    FACT_TABLES,
    FEATURES,
    ISR_CHANGES,
    LEADERSHIP,
    RECORD_COUNTS,
    REPLICA_PLACEMENT,
)
from analytics.tables.table import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTS,
    LONG,
    PARTITION_KEY,
    SNAPSHOT_TYPE,
    STRING,
    STRINGS,
    TIME,
    VALID_FROM,
    VALID_TO,
    Table,
    TableColumn,
    columns,
    fields,
    list_of,
)

__all__ = [
    "ASSIGNMENT_LAG",
    "AVAILABILITY",
    "BINARY",
    "BOOLEAN",
    "BROKER",
    "BROKERS",
    "BROKER_FAILURES",
    "BROKER_HISTORY",
    "BROKER_LOG_LINES",
    "BROKER_SESSIONS",
    "CHANGE_COUNTS",
    "CONFIGS",
    "CONTROLLER_CHANGES",
    "CONTROLLER_EPOCHS",
    "DATE",
    "DERIVED_TABLES",
    "DIRECTORY_FAILURES",
    "DOUBLE",
    "END_POINTS",
    "FACT_TABLES",
    "FEATURES",
    "GAUGES",
    "INT",
    "INTS",
    "ISR_CHANGES",
    "ISR_FLAPS",
    "LEADERSHIP",
    "LEADERSHIP_CHURN",
    "LOGS",
    "LOG_DIRS",
    "LONG",
    "MOVES",
    "OUTAGES",
    "PARTITION",
    "PARTITIONS",
    "PARTITION_HISTORY",
    "PARTITION_KEY",
    "PROBLEMS",
    "RECORD",
    "RECORDS",
    "RECORD_COUNTS",
    "RECORD_RATES",
    "REPLICA_PLACEMENT",
    "SKEW",
    "SNAPSHOT_RECORDS",
    "SNAPSHOT_TYPE",
    "STRING",
    "STRINGS",
    "TABLES",
    "TIME",
    "TOPICS",
    "TOPIC_HISTORY",
    "UNKNOWN_RECORDS",
    "VALID_FROM",
    "VALID_TO",
    "WHAT_IF",
    "Table",
    "TableColumn",
    "columns",
    "fields",
    "list_of",
]

RECORD = columns(
    ("offset", LONG, "offset of the record; in a snapshot its position there"),
    ("timestamp", TIME, "when the record was written; null if outside the years 1 to 9999"),
    ("epoch", INT, "epoch of the controller that wrote the batch"),
    ("batch_base_offset", LONG, "offset of the first record of the batch"),
    ("file", STRING, "name of the file in the log directory"),
    ("position", LONG, "byte position of the batch in that file"),
    ("control", BOOLEAN, "whether the quorum itself wrote it, as LEADER_CHANGE"),
    (
        "type",
        STRING,
        "record type as Kafka's dump tool names it; UNKNOWN(n) if not known, or not this version",
    ),
    ("version", INT, "schema version of the record"),
    ("topic", STRING, "name of the topic, where the record carries it"),
    ("topic_id", STRING, "id of the topic, where the record carries it"),
    ("partition", INT, "partition, where the record is about one"),
    ("broker", INT, "broker, where the record is about one"),
    ("payload", STRING, "JSON as the dump tool prints it; null if the value cannot be decoded"),
    ("raw", BINARY, "the record's value, only for records without a payload"),
)

PARTITION = columns(
    ("topic", STRING, "name of the topic"),
    ("topic_id", STRING, "id of the topic"),
    ("partition", INT, "partition of the topic"),
    ("leader", INT, "broker that leads; -1 = none"),
    ("leader_epoch", INT, "rises with every election"),
    ("partition_epoch", INT, "rises with every change"),
    ("leader_recovery_state", INT, "0 recovered, 1 recovering from an unclean election"),
    ("replicas", INTS, "brokers, the preferred leader first"),
    ("isr", INTS, "replicas in sync"),
    ("removing_replicas", INTS, "replicas that leave in a running reassignment"),
    ("adding_replicas", INTS, "replicas that join in a running reassignment"),
    ("directories", STRINGS, "directory id of each replica, in the order of replicas"),
    ("eligible_leader_replicas", INTS, "ELR: replicas outside the ISR that may lead"),
    ("last_known_elr", INTS, "members that the ELR had before it was lost"),
)

END_POINTS = list_of(
    pa.struct(
        [
            pa.field("name", STRING),
            pa.field("host", STRING),
            pa.field("port", INT),
            pa.field("security_protocol", INT),
        ]
    )
)
SUPPORTED_FEATURES = list_of(
    pa.struct(
        [
            pa.field("name", STRING),
            pa.field("min_supported_version", INT),
            pa.field("max_supported_version", INT),
        ]
    )
)

BROKER = columns(
    ("broker", INT, "id of the broker, under the name that all tables have for it"),
    ("broker_id", INT, "the same, under the name of the record's field"),
    ("broker_epoch", LONG, "fencing token of the registration"),
    ("incarnation_id", STRING, "new with each start of the process"),
    ("end_points", END_POINTS, "its listeners"),
    ("features", SUPPORTED_FEATURES, "levels that it supports"),
    ("rack", STRING, "null = none"),
    ("fenced", BOOLEAN, "whether it is kept from leading and serving"),
    ("in_controlled_shutdown", BOOLEAN, "whether it asked to leave"),
    ("log_dirs", STRINGS, "ids of its online log directories"),
    ("cordoned_log_dirs", STRINGS, "ids of directories that take no new replicas"),
)

LOGS = Table(
    name="logs",
    row="the log that was replayed, and what was assumed where it says nothing",
    columns=columns(
        ("source", STRING, "its directory"),
        ("start_offset", LONG, "first offset of its segments; null = there are none"),
        ("replay_from", LONG, "offset from which on states are known: 0, or a snapshot's end"),
        ("replay_from_time", TIME, "time of that snapshot; null = the log is known from its begin"),
        ("end_offset", LONG, "the offset behind the last record"),
        ("size_bytes", LONG, "bytes of segments and snapshots"),
        ("snapshots", INT, "complete snapshots"),
        ("min_insync_replicas", INT, "what counts for topics for which the log sets nothing"),
        ("min_insync_replicas_from", STRING, "who says so: an option, a file, Kafka's default"),
    ),
    order=("source",),
)
RECORDS = Table(
    name="records",
    row="one record of the log, control records and no-ops included",
    columns=RECORD,
    order=("offset",),
)
SNAPSHOT_RECORDS = Table(
    name="snapshot_records",
    row="one record of a snapshot file",
    columns=RECORD,
    order=("file", "offset"),
)
BROKERS = Table(
    name="brokers",
    row="one registered broker at the end of the log",
    columns=(*BROKER, *VALID_FROM),
    order=("broker",),
)
BROKER_HISTORY = Table(
    name="broker_history",
    row="one state of one broker's registration, complete, from one change to the next",
    columns=(*BROKER, *VALID_FROM, *VALID_TO),
    order=("broker", "valid_from_offset"),
)
TOPIC_HISTORY = Table(
    name="topic_history",
    row="one existence of one topic",
    columns=(
        *columns(
            ("topic", STRING, "name of the topic"),
            ("topic_id", STRING, "id of the topic"),
        ),
        *VALID_FROM,
        *VALID_TO,
    ),
    order=("topic", "valid_from_offset"),
)
LOG_DIRS = Table(
    name="log_dirs",
    row="one interval in which a log directory of a broker was online or offline",
    columns=(
        *columns(
            ("broker", INT, "id of the broker"),
            ("directory", STRING, "id of the directory"),
            ("state", STRING, "online or offline"),
        ),
        *VALID_FROM,
        *VALID_TO,
        *columns(
            (
                "ended_by",
                STRING,
                "failed (reported offline), absent (missing when the broker registered), "
                "registered (online again), unregistered (the broker was removed), "
                "snapshot (known from a snapshot only); null = still",
            ),
        ),
    ),
    order=("broker", "directory", "valid_from_offset"),
)
TOPICS = Table(
    name="topics",
    row="one topic at the end of the log",
    columns=(
        *columns(
            ("topic", STRING, "name of the topic"),
            ("topic_id", STRING, "id of the topic"),
            ("partitions", INT, "number of partitions"),
            ("replication_factor", INT, "replicas of partition 0"),
            ("min_insync_replicas", INT, "in force for it"),
            (
                "min_insync_replicas_from",
                STRING,
                "where that is set: topic, cluster (for all brokers), assumed (nowhere in the "
                "log: see the table logs)",
            ),
        ),
        *VALID_FROM,
    ),
    order=("topic",),
)
PARTITIONS = Table(
    name="partitions",
    row="one partition at the end of the log",
    columns=(*PARTITION, *VALID_FROM),
    order=("topic", "partition"),
)
PARTITION_HISTORY = Table(
    name="partition_history",
    row="one state of one partition, complete, from one change to the next",
    columns=(*PARTITION, *VALID_FROM, *VALID_TO),
    order=("topic", "topic_id", "partition", "valid_from_offset"),
)
OUTAGES = Table(
    name="outages",
    row="one interval in which a partition had no leader, or fewer replicas in sync than required",
    columns=(
        *columns(
            ("topic", STRING, "name of the topic"),
            ("topic_id", STRING, "id of the topic"),
            ("partition", INT, "partition of the topic"),
            ("kind", STRING, "leaderless or under_min_isr; both may hold at once, in two rows"),
            ("from_offset", LONG, "offset of the record that began it"),
            ("from_time", TIME, "time of that record"),
            ("to_offset", LONG, "offset of the record that ended it; null = still"),
            ("to_time", TIME, "time of that record; null = still"),
            ("duration_ms", LONG, "milliseconds from begin to end; null = still"),
            (
                "cause",
                STRING,
                "directory (a replica's log directory went offline), broker (one was fenced, "
                "stopping or gone), controller (no replica was lost: creation, configuration, "
                "reassignment), unknown (a replica fell behind)",
            ),
            ("broker", INT, "broker of the lost replica; null if the cause is controller"),
            ("directory", STRING, "the directory that went offline, if that is the cause"),
        ),
    ),
    order=("from_offset", "topic", "partition", "kind"),
)
PROBLEMS = Table(
    name="problems",
    row="one place where the log cannot be read or contradicts itself",
    columns=columns(
        ("file", STRING, "name of the file; null if found by the replay across files"),
        ("position", LONG, "byte position in that file, if known"),
        ("offset", LONG, "offset in the log, if known"),
        (
            "kind",
            STRING,
            "torn_tail, crc, corrupt (bytes that are not a batch), gap, order (an offset that was "
            "there before), epoch (goes back, or rises without a change of the leader), "
            "undecodable, incomplete_snapshot, unreadable, transaction, replay (a change of "
            "something unknown), disagreement (log and snapshot tell different states)",
        ),
        ("message", STRING, "what was found, with the values"),
    ),
    order=("file", "position", "offset"),
)

TABLES: tuple[Table, ...] = (
    LOGS,
    RECORDS,
    SNAPSHOT_RECORDS,
    BROKERS,
    BROKER_HISTORY,
    LOG_DIRS,
    TOPICS,
    TOPIC_HISTORY,
    PARTITIONS,
    PARTITION_HISTORY,
    OUTAGES,
    PROBLEMS,
    *FACT_TABLES,
    *DERIVED_TABLES,
)
"""Tables that the replay writes."""
