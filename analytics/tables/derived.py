"""Tables that are derived from the tables of facts: failures, moves, lag, flaps, skew."""

from __future__ import annotations

from analytics.tables.table import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    PARTITION_KEY,
    STRING,
    STRINGS,
    TIME,
    Table,
    columns,
)

_COSTS = columns(
    ("leaderless", LONG, "partitions that had no leader because of it, at any time"),
    ("leaderless_ms", LONG, "for how long, summed; to the end of the log if they still have none"),
    ("longest_leaderless_ms", LONG, "the longest of these times; null = there is none"),
    ("under_min_isr", LONG, "partitions that had too few replicas in sync because of it"),
    ("under_min_isr_ms", LONG, "for how long, summed; to the end of the log if they still have"),
    ("longest_under_min_isr_ms", LONG, "the longest of these times; null = there is none"),
    ("still_short", LONG, "partitions that are so at the end of the log"),
)
"""What a failure cost."""

_COURSE_OF_FAILURE = columns(
    ("detected_offset", LONG, "offset of the record that says so"),
    ("detected_time", TIME, "time of that record"),
    ("partitions_touched", LONG, "replicas that were placed there then"),
    ("leaders_moved", LONG, "partitions led there that got another leader at once"),
    ("leaders_lost", LONG, "partitions led there that were left without a leader"),
    (
        "leaders_still_lost",
        LONG,
        "how many of these had no leader again up to the end of the log, or their own",
    ),
    (
        "last_leader_offset",
        LONG,
        "offset at which the last of these partitions had a leader again, of those that got "
        "one; null = none did, or none was led there",
    ),
    ("last_leader_time", TIME, "time of that record"),
    (
        "last_leader_in_same_batch",
        BOOLEAN,
        "whether that record was written at once with the one of the failure: detection and "
        "election then have one time; null = no such record exists",
    ),
    (
        "time_to_last_leader_ms",
        LONG,
        "milliseconds from detection to the last new leader; null = there was none, or in the "
        "same batch",
    ),
    (
        "full_isr_offset",
        LONG,
        "offset at which every touched partition had had its full ISR and a leader again, or "
        "was gone; null = not yet",
    ),
    ("full_isr_time", TIME, "time of that record"),
    ("time_to_full_isr_ms", LONG, "milliseconds from detection to the full ISR"),
    ("state", STRING, "open or closed"),
    ("closed_offset", LONG, "offset at which it ended; null = open"),
    ("closed_time", TIME, "time of that record"),
)
"""How the cluster came round, the same for directories and brokers."""

DIRECTORY_FAILURES = Table(
    name="directory_failures",
    row="one time that a log directory went offline",
    columns=(
        *columns(
            ("broker", INT, "broker of the directory"),
            ("directory", STRING, "id of the directory"),
        ),
        *_COURSE_OF_FAILURE,
        *_COSTS,
        *columns(
            (
                "closed_by",
                STRING,
                "registered (online again), unregistered (the broker was removed), replicas_gone "
                "(no replica is placed in it any more), snapshot (known from a snapshot only); "
                "null = open",
            ),
            ("partitions", STRINGS, "the partitions touched, as topic-partition, in order"),
        ),
    ),
    order=("detected_offset", "broker", "directory"),
)
BROKER_FAILURES = Table(
    name="broker_failures",
    row="one time that a broker stopped serving, from then until it is unfenced again",
    columns=(
        *columns(
            ("broker", INT, "id of the broker"),
            (
                "began_by",
                STRING,
                "fenced (its heartbeats were missing), controlled_shutdown (it asked to leave), "
                "registered (a new process registered before the former one was missed), "
                "unregistered (it was removed), snapshot (known from a snapshot only, so that "
                "what it led is not known)",
            ),
        ),
        *_COURSE_OF_FAILURE,
        *_COSTS,
        *columns(
            (
                "closed_by",
                STRING,
                "unfenced (it serves again), unregistered (it was removed), replicas_gone (no "
                "replica is placed there any more), snapshot (known from a snapshot only); "
                "null = open",
            ),
        ),
    ),
    order=("detected_offset", "broker"),
)
CONTROLLER_CHANGES = Table(
    name="controller_changes",
    row="one time that another epoch of the quorum began",
    columns=columns(
        ("epoch", INT, "the new epoch"),
        ("controller", INT, "node id of its controller; null if no record says"),
        ("previous_controller", INT, "of the epoch before; null if no record says"),
        ("last_offset", LONG, "offset of the last record of the epoch before"),
        ("last_time", TIME, "time of that record"),
        ("from_offset", LONG, "first offset of the new epoch"),
        ("from_time", TIME, "time of that record"),
        ("gap_ms", LONG, "milliseconds between the two, in which nothing was written"),
    ),
    order=("epoch",),
)
MOVES = Table(
    name="moves",
    row="one move of a replica to another log directory or another broker",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("broker", INT, "broker of the replica; for a reassignment the one that it leaves"),
            ("from_directory", STRING, "directory that it left; null = not known"),
            ("to_directory", STRING, "directory that it went to; null = not known"),
            ("kind", STRING, "directory (within a broker) or reassignment (to another broker)"),
            ("from_broker", INT, "broker that it left; null = only added"),
            ("to_broker", INT, "broker that it went to; null = only removed"),
            ("queued_offset", LONG, "offset of the record that began it; null = not in the log"),
            ("queued_time", TIME, "time of that record"),
            ("assigned_offset", LONG, "offset of the record that named the new directory"),
            ("assigned_time", TIME, "time of that record"),
            ("ended_offset", LONG, "offset of the record that ended it; null = still running"),
            ("ended_time", TIME, "time of that record"),
            (
                "outcome",
                STRING,
                "swapped (the new directory was assigned and stayed), reverted (the next one was "
                "back to the directory before); of a reassignment completed, cancelled (or "
                "replaced by another one), running",
            ),
            ("duration_ms", LONG, "milliseconds from begin to end; null = not known"),
        ),
    ),
    order=("topic", "partition", "broker", "assigned_offset"),
)
ASSIGNMENT_LAG = Table(
    name="assignment_lag",
    row="one replica that was created without a directory, and how long it had none",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("broker", INT, "broker of the replica"),
            ("created_offset", LONG, "offset of the record that created it"),
            ("created_time", TIME, "time of that record"),
            ("assigned_offset", LONG, "offset of the record that named its directory; null = none"),
            ("assigned_time", TIME, "time of that record"),
            ("directory", STRING, "the directory; null = none was named so far, or it was gone"),
            ("lag_ms", LONG, "milliseconds between the two; null = none was named"),
        ),
    ),
    order=("topic", "partition", "broker", "created_offset"),
)
ISR_FLAPS = Table(
    name="isr_flaps",
    row="one replica that left the ISR at least once",
    columns=(
        *PARTITION_KEY,
        *columns(
            ("broker", INT, "broker of the replica"),
            ("shrinks", LONG, "how often it left the ISR"),
            ("expands", LONG, "how often it came back"),
            ("first_time", TIME, "when it left first"),
            ("last_time", TIME, "its last change"),
            ("out_ms_total", LONG, "milliseconds outside, to the end of the log"),
            ("out_ms_max", LONG, "longest time outside"),
        ),
    ),
    order=("topic", "partition", "broker"),
)
LEADERSHIP_CHURN = Table(
    name="leadership_churn",
    row="one partition whose leader changed at least once",
    columns=(
        *PARTITION_KEY,
        *columns(
            (
                "changes",
                LONG,
                "how often; the begin of the partition or of the log is not a change",
            ),
            ("to_none", LONG, "how many of these left it without a leader"),
            ("first_time", TIME, "when its leader changed first"),
            ("last_time", TIME, "when its leader changed last"),
        ),
    ),
    order=("topic", "partition"),
)
CHANGE_COUNTS = Table(
    name="change_counts",
    row="one cause of changes in one stretch of time, a two-hundredth of the log or more",
    columns=columns(
        ("what", STRING, "what changed: leader or isr"),
        ("from_time", TIME, "begin of the stretch of time; null = the times are not known"),
        ("change", STRING, "of ISRs: shrink, expand or replace; null for leaders"),
        ("cause", STRING, "as in leadership and isr_changes"),
        ("changes", LONG, "how many there were"),
        ("to_none", LONG, "how many of these left a partition without a leader"),
    ),
    order=("what", "from_time", "change", "cause"),
)
GAUGES = Table(
    name="gauges",
    row="one number in one stretch of time in which it changed; it holds until the next row. The "
    "stretches are a two-hundredth of the log or more",
    columns=columns(
        (
            "what",
            STRING,
            "partitions; of these leaderless, under_replicated, under_min_isr, not_preferred (led "
            "by another than the first replica); offline_replicas (their directory or broker had "
            "failed); offline_directories; failed_brokers; replicas and leaders of a directory",
        ),
        ("broker", INT, "broker of the directory; null where all brokers are counted"),
        (
            "directory",
            STRING,
            "id of the directory, also reserved ones; null where all of the broker are counted",
        ),
        ("from_time", TIME, "begin of the stretch of time"),
        ("at_end", LONG, "how many there were at its end"),
        ("ever", LONG, "how many were so at any time in it; in the next ones at_end of them"),
    ),
    order=("what", "broker", "directory", "from_time"),
)
RECORD_RATES = Table(
    name="record_rates",
    row="one type of records in one stretch of time, a two-hundredth of the log or more",
    columns=columns(
        ("from_time", TIME, "begin of the stretch of time; null = the times are not known"),
        ("type", STRING, "type of the records"),
        ("records", LONG, "how many there are"),
        ("stretch_ms", LONG, "length of the stretch in milliseconds"),
    ),
    order=("from_time", "type"),
)
SKEW = Table(
    name="skew",
    row="one online directory or one broker, and its share of the replicas at the end of the log",
    columns=columns(
        ("scope", STRING, "directory (compared within its broker) or broker"),
        ("broker", INT, "id of the broker"),
        ("directory", STRING, "id of the directory; null for a broker"),
        ("replicas", LONG, "replicas placed there"),
        ("leaders", LONG, "partitions led there"),
        ("preferred_leaders", LONG, "partitions whose first replica is there"),
        ("share_of_replicas", DOUBLE, "replicas there by all of the same scope, 0 to 1"),
        ("mean_replicas", DOUBLE, "mean over its peers"),
        ("deviation", DOUBLE, "replicas / mean - 1; null where the mean is 0"),
        ("mean_leaders", DOUBLE, "mean of leaders over its peers"),
        ("leader_deviation", DOUBLE, "leaders / mean - 1; null where the mean is 0"),
    ),
    order=("scope", "broker", "directory"),
)
WHAT_IF = Table(
    name="what_if",
    row="one online directory or one broker, and what its failure at the end of the log would do, "
    "as `jbodlab what-if` tells for one of them",
    columns=columns(
        ("scope", STRING, "directory or broker"),
        ("broker", INT, "id of the broker"),
        ("directory", STRING, "id of the directory; null for a broker"),
        ("replicas", LONG, "replicas placed there"),
        ("only_copies", LONG, "of partitions without any other replica"),
        ("leaderless", LONG, "partitions that would be without a leader, and have one now"),
        ("under_min_isr", LONG, "that would have too few replicas in sync, and have enough now"),
        ("leaders_moved", LONG, "that another replica would lead"),
        ("unclean", LONG, "of these, by one that was not in sync: records would be lost"),
    ),
    order=("scope", "broker", "directory"),
)
AVAILABILITY = Table(
    name="availability",
    row="one topic on one day (UTC)",
    columns=columns(
        ("topic", STRING, "name of the topic"),
        ("topic_id", STRING, "id of the topic"),
        ("day", DATE, "the day"),
        ("partitions", LONG, "partitions that existed on that day"),
        ("partition_ms", LONG, "milliseconds of that day that they existed, summed"),
        ("leaderless_ms", LONG, "milliseconds without a leader, summed over partitions"),
        ("under_min_isr_ms", LONG, "milliseconds under min.insync.replicas, summed"),
        (
            "unwritable_ms",
            LONG,
            "milliseconds in which either was so, and acks=all could not be had, summed",
        ),
        ("availability", DOUBLE, "for reading: 1 - leaderless_ms / partition_ms"),
        ("write_availability", DOUBLE, "for writing: 1 - unwritable_ms / partition_ms"),
    ),
    order=("topic", "topic_id", "day"),
)

BROKER_LOG_LINES = Table(
    name="broker_log_lines",
    row="one warning or error about a log directory in a broker's own log, where logs were given",
    columns=columns(
        ("broker", INT, "broker that wrote it; null if its file does not say"),
        ("directory", STRING, "id of the directory, of the line or of the failure it tells of"),
        (
            "detected_offset",
            LONG,
            "the failure that it tells of, as in directory_failures: the only one of this broker "
            "that the controller recorded within a minute; null = none, or several",
        ),
        ("time", TIME, "time of the line, which has no zone: taken as UTC"),
        ("level", STRING, "WARN, ERROR, ..."),
        ("log_dir", STRING, "path of the directory"),
        ("message", STRING, "the broker's own words"),
        ("file", STRING, "file of the line"),
        ("line", LONG, "number of the line in it"),
    ),
    order=("file", "line"),
)

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
    BROKER_LOG_LINES,
)

FAILURES = Table(
    name="failures",
    row="one time that a log directory was offline or a broker did not serve",
    columns=columns(
        ("failure", INT, "its number"),
        ("broker", INT, "that failed, or whose directory failed"),
        ("directory", STRING, "id of the directory; null = the whole broker failed"),
        ("began_by", STRING, "of a broker, as in broker_failures"),
        ("detected_offset", LONG, "offset of the record that says so"),
        ("detected_time", TIME, "time of that record"),
        ("batch", LONG, "first offset of its batch"),
        ("back_offset", LONG, "offset at which it was over; null = it is not"),
        ("back_time", TIME, "time of that record"),
        ("back_by", STRING, "how it was over, as in closed_by of its table"),
        ("touched_at_most", LONG, "partitions that the log knows of"),
    ),
    order=("failure",),
)
"""What buckets are asked about."""

LIVES = Table(
    name="lives",
    row="equal lives of partitions of a topic",
    columns=columns(
        ("topic", STRING, "name of the topic"),
        ("topic_id", STRING, "id of the topic"),
        ("from_time", TIME, "when they had replicas first"),
        ("to_time", TIME, "when they had none any more, or the end of the log"),
        ("count", LONG, "how many there are"),
    ),
    order=(),
)
PLACES = Table(
    name="places",
    row="one directory of a broker",
    columns=columns(
        ("broker", INT, "id of the broker"),
        ("directory", STRING, "id of the directory; null = not known"),
        ("replicas", LONG, "replicas placed there"),
        ("leaders", LONG, "partitions led there"),
        ("preferred_leaders", LONG, "partitions whose first replica is there"),
    ),
    order=(),
)
CHANGES = Table(name="changes", row=CHANGE_COUNTS.row, columns=CHANGE_COUNTS.columns, order=())
SHORTAGES = Table(
    name="shortages",
    row="equal outages of partitions of a topic",
    columns=columns(
        ("topic_id", STRING, "id of the topic"),
        ("kind", STRING, "leaderless, under_min_isr, or unwritable: either of them"),
        ("from_time", TIME, "when they began"),
        ("to_time", TIME, "when they were over, or the end of the log"),
        ("count", LONG, "how many there are"),
    ),
    order=(),
)
GAUGE_STEPS = Table(
    name="gauge_steps",
    row="by how much one number changes from one stretch of time to the next",
    columns=GAUGES.columns,
    order=(),
)
FAILURE_PARTS = Table(
    name="failure_parts",
    row="one failure, and when the replicas that it touched were whole again or gone",
    columns=columns(
        ("failure", INT, "its number"),
        ("touched", LONG, "replicas that were placed there then"),
        ("gone", LONG, "how many of these are placed there no more"),
        ("last_gone_offset", LONG, "offset at which the last of these left"),
        ("last_gone_time", TIME, "time of that record"),
        ("done", LONG, "how many have had their full ISR and a leader again, or were removed"),
        ("last_done_offset", LONG, "offset at which the last of these had"),
        ("last_done_time", TIME, "time of that record"),
        ("partitions", STRINGS, "what a directory touched, as topic-partition"),
    ),
    order=(),
)
FAILURE_LEADERS = Table(
    name="failure_leaders",
    row="one failure, and the leaders that the replicas it touched lost and got: of one of "
    "them, if the first change after the failure is this one, or of all for which that is certain",
    columns=columns(
        ("failure", INT, "its number"),
        ("of_topic", STRING, "id of the topic; null = certain"),
        ("of_partition", INT, "partition of the topic; null = certain"),
        ("since_offset", LONG, "offset of the change; null = certain"),
        ("moved", LONG, "partitions led there that got another leader at once"),
        ("lost", LONG, "partitions led there that were left without a leader"),
        ("still_lost", LONG, "how many of these had no leader again, or their own end"),
        ("last_leader_offset", LONG, "offset at which the last of these had a leader again"),
        ("last_leader_time", TIME, "time of that record"),
    ),
    order=(),
)
FAILURE_COSTS = Table(
    name="failure_costs",
    row="one failure, and the outages that are put down to it",
    columns=(*columns(("failure", INT, "its number")), *_COSTS),
    order=(),
)
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
