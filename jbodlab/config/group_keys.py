"""Settings of group coordinators, under Kafka's names, defaults and ranges (4.3).

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorConfig`.
"""

from __future__ import annotations

from jbodlab.config.key_table import INT_MAX, LONG_MAX, SHORT_MAX, Key, Kind


def _integer(
    name: str, default: int, meaning: str, minimum: int | None = None, maximum: int = INT_MAX
) -> Key:
    return Key(name, Kind.INTEGER, str(default), meaning, minimum, maximum)


GROUP_KEYS: tuple[Key, ...] = (
    Key(
        "group.coordinator.rebalance.protocols",
        Kind.LIST,
        "classic,consumer,streams",
        "group protocols to serve; streams is not supported",
        choices=("classic", "consumer", "streams"),
    ),
    # Classic groups
    _integer("group.min.session.timeout.ms", 6_000, "minimum session timeout of a member"),
    _integer("group.max.session.timeout.ms", 1_800_000, "maximum session timeout of a member"),
    _integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        "time to wait for more members before an empty group rebalances",
    ),
    _integer("group.max.size", INT_MAX, "maximum members of a group", 1),
    # Committed offsets
    _integer(
        "offset.metadata.max.bytes", 4_096, "maximum size of the metadata of a committed offset"
    ),
    _integer("offsets.retention.minutes", 10_080, "age at which committed offsets expire", 1),
    Key(
        "offsets.retention.check.interval.ms",
        Kind.INTEGER,
        "600000",
        "interval between checks for expired offsets",
        1,
        LONG_MAX,
    ),
    _integer(
        "offsets.commit.timeout.ms", 5_000, "maximum wait for an offset commit to be replicated", 1
    ),
    _integer("offsets.topic.num.partitions", 50, "partitions of the offsets topic", 1),
    _integer(
        "offsets.topic.replication.factor",
        3,
        "replication factor of the offsets topic; fewer if fewer brokers are registered",
        1,
        SHORT_MAX,
    ),
    # Smaller than Kafka's 100 MiB: compaction begins earlier, and a new leader has less to read.
    _integer("offsets.topic.segment.bytes", 16_777_216, "segment size of the offsets topic", 1),
    # Groups of KIP-848
    _integer(
        "group.consumer.session.timeout.ms",
        45_000,
        "a member is removed after this time without heartbeats",
        1,
    ),
    _integer("group.consumer.min.session.timeout.ms", 45_000, "minimum for a group's setting", 1),
    _integer("group.consumer.max.session.timeout.ms", 60_000, "maximum for a group's setting", 1),
    _integer(
        "group.consumer.heartbeat.interval.ms", 5_000, "interval between heartbeats of a member", 1
    ),
    _integer("group.consumer.min.heartbeat.interval.ms", 5_000, "minimum for a group's setting", 1),
    _integer(
        "group.consumer.max.heartbeat.interval.ms", 15_000, "maximum for a group's setting", 1
    ),
    _integer(
        "group.consumer.assignment.interval.ms", 1_000, "minimum time between two assignments", 0
    ),
    _integer("group.consumer.min.assignment.interval.ms", 0, "minimum for a group's setting", 0),
    _integer(
        "group.consumer.max.assignment.interval.ms", 15_000, "maximum for a group's setting", 0
    ),
    _integer("group.consumer.max.size", INT_MAX, "maximum members of a group", 1),
    Key(
        "group.consumer.assignors",
        Kind.LIST,
        "uniform,range",
        "partition assignors; the first is the default",
        choices=("uniform", "range"),
    ),
    Key(
        "group.consumer.migration.policy",
        Kind.TEXT,
        "bidirectional",
        "allow groups with members to change between the classic protocol and KIP-848",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    Key(
        "group.consumer.regex.refresh.interval.ms",
        Kind.INTEGER,
        "600000",
        "interval between searches for topics that match regular expressions",
        10_000,
        INT_MAX,
    ),
)
