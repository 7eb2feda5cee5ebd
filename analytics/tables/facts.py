"""Tables of facts that the log states directly: sessions, placement, leadership, settings."""

from __future__ import annotations

from analytics.tables.table import (
    INT,
    INTS,
    LONG,
    PARTITION_KEY,
    STRING,
    TIME,
    VALID_FROM,
    VALID_TO,
    Table,
    columns,
)

BROKER_SESSIONS = Table(
    name="broker_sessions",
    row="one interval in which a registered broker was fenced, unfenced or in controlled shutdown",
    columns=(
        *columns(
            ("broker", INT, "id of the broker"),
            ("broker_epoch", LONG, "fencing token of the registration"),
            ("incarnation_id", STRING, "new with each start of the process"),
            ("state", STRING, "fenced, unfenced or controlled_shutdown"),
        ),
        *VALID_FROM,
        *VALID_TO,
        *columns(
            ("duration_ms", LONG, "milliseconds from begin to end; null = still"),
            (
                "ended_by",
                STRING,
                "registered, fenced, unfenced, controlled_shutdown, unregistered, "
                "snapshot (known from a snapshot only); null = still",
            ),
        ),
    ),
    order=("broker", "valid_from_offset"),
)
REPLICA_PLACEMENT = Table(
    name="replica_placement",
    row="one interval in which the metadata placed a replica in one log directory",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("broker", INT, "broker of the replica"),
            (
                "directory",
                STRING,
                "id of the directory; also Kafka's reserved ids MIGRATING, UNASSIGNED and LOST",
            ),
        ),
        *VALID_FROM,
        *VALID_TO,
        *columns(
            (
                "ended_by",
                STRING,
                "moved (another directory of the broker), replica_removed, topic_deleted, "
                "snapshot (known from a snapshot only); null = still",
            ),
        ),
    ),
    order=("topic", "topic_id", "partition", "broker", "valid_from_offset"),
)
LEADERSHIP = Table(
    name="leadership",
    row="one interval in which a partition had one leader, or none",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("leader", INT, "broker that led; -1 = none"),
            ("leader_epoch", INT, "leader epoch at the begin of the interval"),
        ),
        *VALID_FROM,
        *VALID_TO,
        *columns(
            ("duration_ms", LONG, "milliseconds from begin to end; null = still"),
            (
                "cause",
                STRING,
                "why the interval began: created, directory (the former leader's log directory "
                "went offline), broker (it was fenced), controlled_shutdown, unregistered, "
                "reassignment, preferred (back to the first replica), unclean (out of the ISR), "
                "recovered (from none), snapshot, unknown",
            ),
            ("previous_leader", INT, "leader of the interval before; null = there was none"),
            ("broker", INT, "the broker that was lost, where that is the cause"),
            ("directory", STRING, "the directory that went offline, where that is the cause"),
        ),
    ),
    order=("topic", "topic_id", "partition", "valid_from_offset"),
)
ISR_CHANGES = Table(
    name="isr_changes",
    row="one change of the replicas in sync of one partition",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("offset", LONG, "offset of the record"),
            ("time", TIME, "time of the record"),
            ("record_type", STRING, "type of the record"),
            ("batch_base_offset", LONG, "first offset of its batch"),
            ("change", STRING, "shrink, expand or replace (both at once)"),
            ("isr", INTS, "replicas in sync afterwards"),
            ("previous_isr", INTS, "replicas in sync before"),
            ("joined", INTS, "replicas that came in"),
            ("left", INTS, "replicas that went out"),
            ("leader_epoch", INT, "leader epoch afterwards"),
            ("partition_epoch", INT, "partition epoch afterwards"),
            (
                "cause",
                STRING,
                "directory, broker, controlled_shutdown, reassignment, follower (it fell behind "
                "or caught up), elected (it leads where nobody did), unknown",
            ),
            ("broker", INT, "the broker that was lost, where that is the cause"),
            ("directory", STRING, "the directory that went offline, where that is the cause"),
        ),
    ),
    order=("topic", "topic_id", "partition", "offset"),
)
CONFIGS = Table(
    name="configs",
    row="one interval in which a setting was set to one value",
    columns=(
        *columns(
            ("resource_type", STRING, "broker, topic, ... as Kafka names the kind"),
            ("resource_name", STRING, "name of the topic, id of the broker; empty = all brokers"),
            ("name", STRING, "key of the setting"),
            ("value", STRING, "its value"),
        ),
        *VALID_FROM,
        *VALID_TO,
    ),
    order=("resource_type", "resource_name", "name", "valid_from_offset"),
)
FEATURES = Table(
    name="features",
    row="one interval in which a feature had one finalized level",
    columns=(
        *columns(
            ("feature", STRING, "name of the feature, such as metadata.version"),
            ("level", INT, "finalized level"),
        ),
        *VALID_FROM,
        *VALID_TO,
    ),
    order=("feature", "valid_from_offset"),
)
CONTROLLER_EPOCHS = Table(
    name="controller_epochs",
    row="one epoch of the quorum, led by one controller",
    columns=columns(
        ("epoch", INT, "epoch of the quorum's leader"),
        ("controller", INT, "node id of the controller; null if no record says"),
        ("from_offset", LONG, "first offset written in this epoch"),
        ("from_time", TIME, "time of that record"),
        ("to_offset", LONG, "first offset of the next epoch; null = still"),
        ("to_time", TIME, "time of that record; null = still"),
        ("records", LONG, "records written in this epoch"),
    ),
    order=("epoch",),
)

RECORD_COUNTS = Table(
    name="record_counts",
    row="one type of records of one epoch; without the snapshots",
    columns=columns(
        ("epoch", INT, "epoch of the controller that wrote them"),
        ("type", STRING, "type of the records"),
        ("records", LONG, "how many there are"),
        ("first_offset", LONG, "offset of the first one"),
        ("first_time", TIME, "time of that record"),
        ("last_offset", LONG, "offset of the last one"),
        ("last_time", TIME, "time of that record"),
        ("earliest_time", TIME, "least time of them; clocks are set back at times"),
        ("latest_time", TIME, "greatest time of them"),
    ),
    order=("epoch", "type"),
)

FACT_TABLES: tuple[Table, ...] = (
    BROKER_SESSIONS,
    REPLICA_PLACEMENT,
    LEADERSHIP,
    ISR_CHANGES,
    CONFIGS,
    FEATURES,
    CONTROLLER_EPOCHS,
    RECORD_COUNTS,
)
