"""Tables that are made of other tables, and the rows of buckets that they are summed up from."""

from __future__ import annotations

from analytics.tables.catalog import BY_NAME
from analytics.tables.table import Table, declare

DIRECTORY_FAILURES = BY_NAME["directory_failures"]
BROKER_FAILURES = BY_NAME["broker_failures"]
CONTROLLER_CHANGES = BY_NAME["controller_changes"]
MOVES = BY_NAME["moves"]
ASSIGNMENT_LAG = BY_NAME["assignment_lag"]
ISR_FLAPS = BY_NAME["isr_flaps"]
LEADERSHIP_CHURN = BY_NAME["leadership_churn"]
CHANGE_COUNTS = BY_NAME["change_counts"]
GAUGES = BY_NAME["gauges"]
RECORD_RATES = BY_NAME["record_rates"]
SKEW = BY_NAME["skew"]
WHAT_IF = BY_NAME["what_if"]
AVAILABILITY = BY_NAME["availability"]
UNKNOWN_RECORDS = BY_NAME["unknown_records"]
BROKER_LOG_LINES = BY_NAME["broker_log_lines"]

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
