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

from analytics.tables.derived import DERIVED_TABLES
from analytics.tables.table import PARTITION_KEY, VALID_FROM, VALID_TO, Table, declare

RECORD = """
    offset (long): offset of the record; in a snapshot its position there
    timestamp (timestamp): when the record was written; null if outside the years 1 to 9999
    epoch (int): epoch of the controller that wrote the batch
    batch_base_offset (long): offset of the first record of the batch
    file (string): name of the file in the log directory
    position (long): byte position of the batch in that file
    control (boolean): whether the quorum itself wrote it, as LEADER_CHANGE
    type (string): record type as Kafka's dump tool names it; UNKNOWN(n) if not known, or not this
        version
    version (int): schema version of the record
    topic (string): name of the topic, where the record carries it
    topic_id (string): id of the topic, where the record carries it
    partition (int): partition, where the record is about one
    broker (int): broker, where the record is about one
    payload (string): JSON as the dump tool prints it; null if the value cannot be decoded
    raw (binary): the record's value, only for records without a payload
"""

PARTITION = f"""
    {PARTITION_KEY}
    leader (int): broker that leads; -1 = none
    leader_epoch (int): rises with every election
    partition_epoch (int): rises with every change
    leader_recovery_state (int): 0 recovered, 1 recovering from an unclean election
    replicas (int[]): brokers, the preferred leader first
    isr (int[]): replicas in sync
    removing_replicas (int[]): replicas that leave in a running reassignment
    adding_replicas (int[]): replicas that join in a running reassignment
    directories (string[]): directory id of each replica, in the order of replicas
    eligible_leader_replicas (int[]): ELR: replicas outside the ISR that may lead
    last_known_elr (int[]): members that the ELR had before it was lost
"""

BROKER = """
    broker (int): id of the broker, under the name that all tables have for it
    broker_id (int): the same, under the name of the record's field
    broker_epoch (long): fencing token of the registration
    incarnation_id (string): new with each start of the process
    end_points (end_point[]): its listeners
    features (feature[]): levels that it supports
    rack (string): null = none
    fenced (boolean): whether it is kept from leading and serving
    in_controlled_shutdown (boolean): whether it asked to leave
    log_dirs (string[]): ids of its online log directories
    cordoned_log_dirs (string[]): ids of directories that take no new replicas
"""

LOGS = declare("""
    logs: the log that was replayed, and what was assumed where it says nothing
    order by source

    source (string): its directory
    start_offset (long): first offset of its segments; null = there are none
    replay_from (long): offset from which on states are known: 0, or a snapshot's end
    replay_from_time (timestamp): time of that snapshot; null = the log is known from its begin
    end_offset (long): the offset behind the last record
    size_bytes (long): bytes of segments and snapshots
    snapshots (int): complete snapshots
    min_insync_replicas (int): what counts for topics for which the log sets nothing
    min_insync_replicas_from (string): who says so: an option, a file, Kafka's default
""")
RECORDS = declare(f"""
    records: one record of the log, control records and no-ops included
    order by offset

    {RECORD}
""")
SNAPSHOT_RECORDS = declare(f"""
    snapshot_records: one record of a snapshot file
    order by file, offset

    {RECORD}
""")
BROKERS = declare(f"""
    brokers: one registered broker at the end of the log
    order by broker

    {BROKER}
    {VALID_FROM}
""")
BROKER_HISTORY = declare(f"""
    broker_history: one state of one broker's registration, complete, from one change to the next
    order by broker, valid_from_offset

    {BROKER}
    {VALID_FROM}
    {VALID_TO}
""")
TOPIC_HISTORY = declare(f"""
    topic_history: one existence of one topic
    order by topic, valid_from_offset

    topic (string): name of the topic
    topic_id (string): id of the topic
    {VALID_FROM}
    {VALID_TO}
""")
LOG_DIRS = declare(f"""
    log_dirs: one interval in which a log directory of a broker was online or offline
    order by broker, directory, valid_from_offset

    broker (int): id of the broker
    directory (string): id of the directory
    state (string): online or offline
    {VALID_FROM}
    {VALID_TO}
    ended_by (string): failed (reported offline), absent (missing when the broker registered),
        registered (online again), unregistered (the broker was removed), snapshot (known from a
        snapshot only); null = still
""")
TOPICS = declare(f"""
    topics: one topic at the end of the log
    order by topic

    topic (string): name of the topic
    topic_id (string): id of the topic
    partitions (int): number of partitions
    replication_factor (int): replicas of partition 0
    min_insync_replicas (int): in force for it
    min_insync_replicas_from (string): where that is set: topic, cluster (for all brokers), assumed
        (nowhere in the log: see the table logs)
    {VALID_FROM}
""")
PARTITIONS = declare(f"""
    partitions: one partition at the end of the log
    order by topic, partition

    {PARTITION}
    {VALID_FROM}
""")
PARTITION_HISTORY = declare(f"""
    partition_history: one state of one partition, complete, from one change to the next
    order by topic, topic_id, partition, valid_from_offset

    {PARTITION}
    {VALID_FROM}
    {VALID_TO}
""")
OUTAGES = declare(f"""
    outages: one interval in which a partition had no leader, or fewer replicas in sync than
        required
    order by from_offset, topic, partition, kind

    {PARTITION_KEY}
    kind (string): leaderless or under_min_isr; both may hold at once, in two rows
    from_offset (long): offset of the record that began it
    from_time (timestamp): time of that record
    to_offset (long): offset of the record that ended it; null = still
    to_time (timestamp): time of that record; null = still
    duration_ms (long): milliseconds from begin to end; null = still
    cause (string): directory (a replica's log directory went offline), broker (one was fenced,
        stopping or gone), controller (no replica was lost: creation, configuration, reassignment),
        unknown (a replica fell behind)
    broker (int): broker of the lost replica; null if the cause is controller
    directory (string): the directory that went offline, if that is the cause
""")
PROBLEMS = declare("""
    problems: one place where the log cannot be read or contradicts itself
    order by file, position, offset

    file (string): name of the file; null if found by the replay across files
    position (long): byte position in that file, if known
    offset (long): offset in the log, if known
    kind (string): torn_tail, crc, corrupt (bytes that are not a batch), gap, order (an offset that
        was there before), epoch (goes back, or rises without a change of the leader), undecodable,
        incomplete_snapshot, unreadable, transaction, replay (a change of something unknown),
        disagreement (log and snapshot tell different states)
    message (string): what was found, with the values
""")

BROKER_SESSIONS = declare(f"""
    broker_sessions: one interval in which a registered broker was fenced, unfenced or in controlled
        shutdown
    order by broker, valid_from_offset

    broker (int): id of the broker
    broker_epoch (long): fencing token of the registration
    incarnation_id (string): new with each start of the process
    state (string): fenced, unfenced or controlled_shutdown
    {VALID_FROM}
    {VALID_TO}
    duration_ms (long): milliseconds from begin to end; null = still
    ended_by (string): registered, fenced, unfenced, controlled_shutdown, unregistered, snapshot
        (known from a snapshot only); null = still
""")
REPLICA_PLACEMENT = declare(f"""
    replica_placement: one interval in which the metadata placed a replica in one log directory
    order by topic, topic_id, partition, broker, valid_from_offset

    {PARTITION_KEY}
    broker (int): broker of the replica
    directory (string): id of the directory; also Kafka's reserved ids MIGRATING, UNASSIGNED and
        LOST
    {VALID_FROM}
    {VALID_TO}
    ended_by (string): moved (another directory of the broker), replica_removed, topic_deleted,
        snapshot (known from a snapshot only); null = still
""")
LEADERSHIP = declare(f"""
    leadership: one interval in which a partition had one leader, or none
    order by topic, topic_id, partition, valid_from_offset

    {PARTITION_KEY}
    leader (int): broker that led; -1 = none
    leader_epoch (int): leader epoch at the begin of the interval
    {VALID_FROM}
    {VALID_TO}
    duration_ms (long): milliseconds from begin to end; null = still
    cause (string): why the interval began: created, directory (the former leader's log directory
        went offline), broker (it was fenced), controlled_shutdown, unregistered, reassignment,
        preferred (back to the first replica), unclean (out of the ISR), recovered (from none),
        snapshot, unknown
    previous_leader (int): leader of the interval before; null = there was none
    broker (int): the broker that was lost, where that is the cause
    directory (string): the directory that went offline, where that is the cause
""")
ISR_CHANGES = declare(f"""
    isr_changes: one change of the replicas in sync of one partition
    order by topic, topic_id, partition, offset

    {PARTITION_KEY}
    offset (long): offset of the record
    time (timestamp): time of the record
    record_type (string): type of the record
    batch_base_offset (long): first offset of its batch
    change (string): shrink, expand or replace (both at once)
    isr (int[]): replicas in sync afterwards
    previous_isr (int[]): replicas in sync before
    joined (int[]): replicas that came in
    left (int[]): replicas that went out
    leader_epoch (int): leader epoch afterwards
    partition_epoch (int): partition epoch afterwards
    cause (string): directory, broker, controlled_shutdown, reassignment, follower (it fell behind
        or caught up), elected (it leads where nobody did), unknown
    broker (int): the broker that was lost, where that is the cause
    directory (string): the directory that went offline, where that is the cause
""")
CONFIGS = declare(f"""
    configs: one interval in which a setting was set to one value
    order by resource_type, resource_name, name, valid_from_offset

    resource_type (string): broker, topic, ... as Kafka names the kind
    resource_name (string): name of the topic, id of the broker; empty = all brokers
    name (string): key of the setting
    value (string): its value
    {VALID_FROM}
    {VALID_TO}
""")
FEATURES = declare(f"""
    features: one interval in which a feature had one finalized level
    order by feature, valid_from_offset

    feature (string): name of the feature, such as metadata.version
    level (int): finalized level
    {VALID_FROM}
    {VALID_TO}
""")
ACLS = declare(f"""
    acls: one interval in which there was one access control entry
    order by principal, resource_type, resource_name, operation, id, valid_from_offset

    id (string): id of the entry
    principal (string): whom it is about, such as User:alice; User:* = everybody
    permission (string): allow or deny
    operation (string): read, write, ..., all
    resource_type (string): topic, group, cluster, transactional_id, ...
    resource_name (string): name of the resource; * = all of the type
    pattern (string): literal, or prefixed: all names that begin with it
    host (string): address that the principal connects from; * = everywhere
    {VALID_FROM}
    {VALID_TO}
""")
SCRAM_USERS = declare(f"""
    scram_users: one interval in which a user could log in by one password
    order by user, mechanism, valid_from_offset

    user (string): name of the user
    mechanism (string): SCRAM-SHA-256 or SCRAM-SHA-512
    iterations (int): how often the password was hashed
    keys (string): always (redacted): salt and keys are in no table
    {VALID_FROM}
    {VALID_TO}
""")
CONTROLLER_EPOCHS = declare("""
    controller_epochs: one epoch of the quorum, led by one controller
    order by epoch

    epoch (int): epoch of the quorum's leader
    controller (int): node id of the controller; null if no record says
    from_offset (long): first offset written in this epoch
    from_time (timestamp): time of that record
    to_offset (long): first offset of the next epoch; null = still
    to_time (timestamp): time of that record; null = still
    records (long): records written in this epoch
""")

RECORD_COUNTS = declare("""
    record_counts: one type of records of one epoch; without the snapshots
    order by epoch, type

    epoch (int): epoch of the controller that wrote them
    type (string): type of the records
    records (long): how many there are
    first_offset (long): offset of the first one
    first_time (timestamp): time of that record
    last_offset (long): offset of the last one
    last_time (timestamp): time of that record
    earliest_time (timestamp): least time of them; clocks are set back at times
    latest_time (timestamp): greatest time of them
""")

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
    BROKER_SESSIONS,
    REPLICA_PLACEMENT,
    LEADERSHIP,
    ISR_CHANGES,
    CONFIGS,
    FEATURES,
    ACLS,
    SCRAM_USERS,
    CONTROLLER_EPOCHS,
    RECORD_COUNTS,
    *DERIVED_TABLES,
)
"""Tables that the replay writes."""
