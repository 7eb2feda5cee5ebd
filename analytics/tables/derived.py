"""Tables that are derived from the tables of facts: failures, moves, lag, flaps, skew."""

from __future__ import annotations

from analytics.tables.table import PARTITION_KEY, Table, declare

_COSTS = """
    leaderless (long): partitions that had no leader because of it, at any time
    leaderless_ms (long): for how long, summed; to the end of the log if they still have none
    longest_leaderless_ms (long): the longest of these times; null = there is none
    under_min_isr (long): partitions that had too few replicas in sync because of it
    under_min_isr_ms (long): for how long, summed; to the end of the log if they still have
    longest_under_min_isr_ms (long): the longest of these times; null = there is none
    still_short (long): partitions that are so at the end of the log
"""
"""What a failure cost."""

_COURSE_OF_FAILURE = """
    detected_offset (long): offset of the record that says so
    detected_time (timestamp): time of that record
    partitions_touched (long): replicas that were placed there then
    leaders_moved (long): partitions led there that got another leader at once
    leaders_lost (long): partitions led there that were left without a leader
    leaders_still_lost (long): how many of these had no leader again up to the end of the log, or
        their own
    last_leader_offset (long): offset at which the last of these partitions had a leader again, of
        those that got one; null = none did, or none was led there
    last_leader_time (timestamp): time of that record
    last_leader_in_same_batch (boolean): whether that record was written at once with the one of the
        failure: detection and election then have one time; null = no such record exists
    time_to_last_leader_ms (long): milliseconds from detection to the last new leader; null = there
        was none, or in the same batch
    full_isr_offset (long): offset at which every touched partition had had its full ISR and a
        leader again, or was gone; null = not yet
    full_isr_time (timestamp): time of that record
    time_to_full_isr_ms (long): milliseconds from detection to the full ISR
    state (string): open or closed
    closed_offset (long): offset at which it ended; null = open
    closed_time (timestamp): time of that record
"""
"""How the cluster came round, the same for directories and brokers."""

DIRECTORY_FAILURES = declare(f"""
    directory_failures: one time that a log directory went offline
    order by detected_offset, broker, directory

    broker (int): broker of the directory
    directory (string): id of the directory
    {_COURSE_OF_FAILURE}
    {_COSTS}
    closed_by (string): registered (online again), unregistered (the broker was removed),
        replicas_gone (no replica is placed in it any more), snapshot (known from a snapshot only);
        null = open
    partitions (string[]): the partitions touched, as topic-partition, in order
""")
BROKER_FAILURES = declare(f"""
    broker_failures: one time that a broker stopped serving, from then until it is unfenced again
    order by detected_offset, broker

    broker (int): id of the broker
    began_by (string): fenced (its heartbeats were missing), controlled_shutdown (it asked to
        leave), registered (a new process registered before the former one was missed), unregistered
        (it was removed), snapshot (known from a snapshot only, so that what it led is not known)
    {_COURSE_OF_FAILURE}
    {_COSTS}
    closed_by (string): unfenced (it serves again), unregistered (it was removed), replicas_gone (no
        replica is placed there any more), snapshot (known from a snapshot only); null = open
""")
CONTROLLER_CHANGES = declare("""
    controller_changes: one time that another epoch of the quorum began
    order by epoch

    epoch (int): the new epoch
    controller (int): node id of its controller; null if no record says
    previous_controller (int): of the epoch before; null if no record says
    last_offset (long): offset of the last record of the epoch before
    last_time (timestamp): time of that record
    from_offset (long): first offset of the new epoch
    from_time (timestamp): time of that record
    gap_ms (long): milliseconds between the two records
""")
MOVES = declare(f"""
    moves: one move of a replica to another log directory or another broker
    order by topic, partition, broker, assigned_offset

    {PARTITION_KEY}
    broker (int): broker of the replica; for a reassignment the one that it leaves
    from_directory (string): directory that it left; null = not known
    to_directory (string): directory that it went to; null = not known
    kind (string): directory (within a broker) or reassignment (to another broker)
    from_broker (int): broker that it left; null = only added
    to_broker (int): broker that it went to; null = only removed
    queued_offset (long): offset of the record that began it; null = not in the log
    queued_time (timestamp): time of that record
    assigned_offset (long): offset of the record that named the new directory
    assigned_time (timestamp): time of that record
    ended_offset (long): offset of the record that ended it; null = still running
    ended_time (timestamp): time of that record
    outcome (string): swapped (the new directory was assigned and stayed), reverted (the next one
        was back to the directory before); of a reassignment completed, cancelled (or replaced by
        another one), running
    duration_ms (long): milliseconds from begin to end; null = not known
""")
ASSIGNMENT_LAG = declare(f"""
    assignment_lag: one replica that was created without a directory, and how long it had none
    order by topic, partition, broker, created_offset

    {PARTITION_KEY}
    broker (int): broker of the replica
    created_offset (long): offset of the record that created it
    created_time (timestamp): time of that record
    assigned_offset (long): offset of the record that named its directory; null = none
    assigned_time (timestamp): time of that record
    directory (string): the directory; null = none was named so far, or it was gone
    lag_ms (long): milliseconds between the two; null = none was named
""")
ISR_FLAPS = declare(f"""
    isr_flaps: one replica that left the ISR at least once
    order by topic, partition, broker

    {PARTITION_KEY}
    broker (int): broker of the replica
    shrinks (long): how often it left the ISR
    expands (long): how often it came back
    first_time (timestamp): when it left first
    last_time (timestamp): its last change
    out_ms_total (long): milliseconds outside, to the end of the log
    out_ms_max (long): longest time outside
""")
LEADERSHIP_CHURN = declare(f"""
    leadership_churn: one partition whose leader changed at least once
    order by topic, partition

    {PARTITION_KEY}
    changes (long): how often; the begin of the partition or of the log is not a change
    to_none (long): how many of these left it without a leader
    first_time (timestamp): when its leader changed first
    last_time (timestamp): when its leader changed last
""")
CHANGE_COUNTS = declare("""
    change_counts: one cause of changes in one stretch of time, a two-hundredth of the log or more
    order by what, from_time, change, cause

    what (string): what changed: leader or isr
    from_time (timestamp): begin of the stretch of time; null = the times are not known
    change (string): of ISRs: shrink, expand or replace; null for leaders
    cause (string): as in leadership and isr_changes
    changes (long): how many there were
    to_none (long): how many of these left a partition without a leader
""")
GAUGES = declare("""
    gauges: one number in one stretch of time in which it changed; it holds until the next row. The
        stretches are a two-hundredth of the log or more
    order by what, broker, directory, from_time

    what (string): partitions; of these leaderless, under_replicated, under_min_isr, not_preferred
        (led by another than the first replica); offline_replicas (their directory or broker had
        failed); offline_directories; failed_brokers; replicas and leaders of a directory
    broker (int): broker of the directory; null where all brokers are counted
    directory (string): id of the directory, also reserved ones; null where all of the broker are
        counted
    from_time (timestamp): begin of the stretch of time
    at_end (long): how many there were at its end
    ever (long): how many were so at any time in it; in the next ones at_end of them
""")
RECORD_RATES = declare("""
    record_rates: one type of records in one stretch of time, a two-hundredth of the log or more
    order by from_time, type

    from_time (timestamp): begin of the stretch of time; null = the times are not known
    type (string): type of the records
    records (long): how many there are
    stretch_ms (long): length of the stretch in milliseconds
""")
SKEW = declare("""
    skew: one online directory or one broker, and its share of the replicas at the end of the log
    order by scope, broker, directory

    scope (string): directory (compared within its broker) or broker
    broker (int): id of the broker
    directory (string): id of the directory; null for a broker
    replicas (long): replicas placed there
    leaders (long): partitions led there
    preferred_leaders (long): partitions whose first replica is there
    share_of_replicas (double): replicas there by all of the same scope, 0 to 1
    mean_replicas (double): mean over its peers
    deviation (double): replicas / mean - 1; null where the mean is 0
    mean_leaders (double): mean of leaders over its peers
    leader_deviation (double): leaders / mean - 1; null where the mean is 0
""")
WHAT_IF = declare("""
    what_if: one online directory or one broker, and what its failure at the end of the log would
        do, as `jbodlab what-if` tells for one of them
    order by scope, broker, directory

    scope (string): directory or broker
    broker (int): id of the broker
    directory (string): id of the directory; null for a broker
    replicas (long): replicas placed there
    only_copies (long): of partitions without any other replica
    leaderless (long): partitions that would be without a leader, and have one now
    under_min_isr (long): that would have too few replicas in sync, and have enough now
    leaders_moved (long): that another replica would lead
    unclean (long): of these, by one that was not in sync: records would be lost
""")
AVAILABILITY = declare("""
    availability: one topic on one day (UTC)
    order by topic, topic_id, day

    topic (string): name of the topic
    topic_id (string): id of the topic
    day (date): the day
    partitions (long): partitions that existed on that day
    partition_ms (long): milliseconds of that day that they existed, summed
    leaderless_ms (long): milliseconds without a leader, summed over partitions
    under_min_isr_ms (long): milliseconds under min.insync.replicas, summed
    unwritable_ms (long): milliseconds in which either was so, and acks=all could not be had, summed
    availability (double): for reading: 1 - leaderless_ms / partition_ms
    write_availability (double): for writing: 1 - unwritable_ms / partition_ms
""")

UNKNOWN_RECORDS = declare("""
    unknown_records: one record of a type or version that is not known; what it changes is in no
        other table
    order by file, offset

    offset (long): offset of the record; in a snapshot its position there
    timestamp (timestamp): when the record was written; null if outside the years 1 to 9999
    batch_base_offset (long): offset of the first record of the batch
    file (string): name of the file in the log directory
    position (long): byte position of the batch in that file
    control (boolean): whether it is a control record, whose types are numbered apart
    type_id (int): number of the type
    version (int): schema version of the record
    value (binary): bytes of the record's value, envelope included; null if it has none
""")

BROKER_LOG_LINES = declare("""
    broker_log_lines: one warning or error about a log directory in a broker's own log, where logs
        were given
    order by file, line

    broker (int): broker that wrote it; null if its file does not say
    directory (string): id of the directory, of the line or of the failure it tells of
    detected_offset (long): the failure that it tells of, as in directory_failures: the only one of
        this broker that the controller recorded within a minute; null = none, or several
    time (timestamp): time of the line, which has no zone: taken as UTC
    level (string): WARN, ERROR, ...
    log_dir (string): path of the directory
    message (string): the broker's own words
    file (string): file of the line
    line (long): number of the line in it
""")

DERIVED_TABLES: tuple[Table, ...] = (
    DIRECTORY_FAILURES,
    BROKER_FAILURES,
    CONTROLLER_CHANGES,
    MOVES,
    ASSIGNMENT_LAG,
    ISR_FLAPS,
    LEADERSHIP_CHURN,
    CHANGE_COUNTS,
    GAUGES,
    RECORD_RATES,
    SKEW,
    WHAT_IF,
    AVAILABILITY,
    UNKNOWN_RECORDS,
    BROKER_LOG_LINES,
)

FAILURES = declare("""
    failures: one time that a log directory was offline or a broker did not serve
    order by failure

    failure (int): its number
    broker (int): that failed, or whose directory failed
    directory (string): id of the directory; null = the whole broker failed
    began_by (string): of a broker, as in broker_failures
    detected_offset (long): offset of the record that says so
    detected_time (timestamp): time of that record
    batch (long): first offset of its batch
    back_offset (long): offset at which it was over; null = it is not
    back_time (timestamp): time of that record
    back_by (string): how it was over, as in closed_by of its table
    touched_at_most (long): partitions that the log knows of
""")
"""What buckets are asked about."""

LIVES = declare("""
    lives: equal lives of partitions of a topic

    topic (string): name of the topic
    topic_id (string): id of the topic
    from_time (timestamp): when they had replicas first
    to_time (timestamp): when they had none any more, or the end of the log
    count (long): how many there are
""")
PLACES = declare("""
    places: one directory of a broker

    broker (int): id of the broker
    directory (string): id of the directory; null = not known
    replicas (long): replicas placed there
    leaders (long): partitions led there
    preferred_leaders (long): partitions whose first replica is there
""")
CHANGES = Table(name="changes", row=CHANGE_COUNTS.row, columns=CHANGE_COUNTS.columns, order=())
SHORTAGES = declare("""
    shortages: equal outages of partitions of a topic

    topic_id (string): id of the topic
    kind (string): leaderless, under_min_isr, or unwritable: either of them
    from_time (timestamp): when they began
    to_time (timestamp): when they were over, or the end of the log
    count (long): how many there are
""")
GAUGE_STEPS = Table(
    name="gauge_steps",
    row="by how much one number changes from one stretch of time to the next",
    columns=GAUGES.columns,
    order=(),
)
FAILURE_PARTS = declare("""
    failure_parts: one failure, and when the replicas that it touched were whole again or gone

    failure (int): its number
    touched (long): replicas that were placed there then
    gone (long): how many of these are placed there no more
    last_gone_offset (long): offset at which the last of these left
    last_gone_time (timestamp): time of that record
    done (long): how many have had their full ISR and a leader again, or were removed
    last_done_offset (long): offset at which the last of these had
    last_done_time (timestamp): time of that record
    partitions (string[]): what a directory touched, as topic-partition
""")
FAILURE_LEADERS = declare("""
    failure_leaders: one failure, and the leaders that the replicas it touched lost and got: of one
        of them, if the first change after the failure is this one, or of all for which that is
        certain

    failure (int): its number
    of_topic (string): id of the topic; null = certain
    of_partition (int): partition of the topic; null = certain
    since_offset (long): offset of the change; null = certain
    moved (long): partitions led there that got another leader at once
    lost (long): partitions led there that were left without a leader
    still_lost (long): how many of these had no leader again, or their own end
    last_leader_offset (long): offset at which the last of these had a leader again
    last_leader_time (timestamp): time of that record
""")
FAILURE_COSTS = declare(f"""
    failure_costs: one failure, and the outages that are put down to it

    failure (int): its number
    {_COSTS}
""")
BUCKET_SUMS = (
    LIVES,
    PLACES,
    CHANGES,
    SHORTAGES,
    GAUGE_STEPS,
    FAILURE_PARTS,
    FAILURE_LEADERS,
    FAILURE_COSTS,
)
"""What each bucket gives few rows of, to be summed up over buckets; no result has them."""
