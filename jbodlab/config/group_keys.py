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
        "kinds of groups that are served; streams groups are not there",
        choices=("classic", "consumer", "streams"),
    ),
    # Classic groups
    _integer("group.min.session.timeout.ms", 6_000, "shortest session timeout a member may want"),
    _integer("group.max.session.timeout.ms", 1_800_000, "longest session timeout"),
    _integer("group.initial.rebalance.delay.ms", 3_000, "wait for more members of an empty group"),
    _integer("group.max.size", INT_MAX, "most members of a group", 1),
    # Committed offsets
    _integer("offset.metadata.max.bytes", 4_096, "longest metadata of a committed offset"),
    _integer("offsets.retention.minutes", 10_080, "age at which a group's offsets expire", 1),
    Key(
        "offsets.retention.check.interval.ms",
        Kind.INTEGER,
        "600000",
        "time between two looks for expired offsets",
        1,
        LONG_MAX,
    ),
    _integer("offsets.commit.timeout.ms", 5_000, "longest wait for a commit to be replicated", 1),
    _integer("offsets.topic.num.partitions", 50, "partitions of the topic of the offsets", 1),
    _integer(
        "offsets.topic.replication.factor",
        3,
        "its replicas, at most one on each registered broker",
        1,
        SHORT_MAX,
    ),
    # Smaller than Kafka's 100 MiB: compaction begins earlier, and a new leader has less to read.
    _integer("offsets.topic.segment.bytes", 16_777_216, "size at which a segment is closed", 1),
    # Groups of KIP-848
    _integer("group.consumer.session.timeout.ms", 45_000, "silence that fences a member", 1),
    _integer("group.consumer.min.session.timeout.ms", 45_000, "shortest a group may set", 1),
    _integer("group.consumer.max.session.timeout.ms", 60_000, "longest a group may set", 1),
    _integer("group.consumer.heartbeat.interval.ms", 5_000, "time between two heartbeats", 1),
    _integer("group.consumer.min.heartbeat.interval.ms", 5_000, "shortest a group may set", 1),
    _integer("group.consumer.max.heartbeat.interval.ms", 15_000, "longest a group may set", 1),
    _integer("group.consumer.assignment.interval.ms", 1_000, "time between two assignments", 0),
    _integer("group.consumer.min.assignment.interval.ms", 0, "shortest a group may set", 0),
    _integer("group.consumer.max.assignment.interval.ms", 15_000, "longest a group may set", 0),
    _integer("group.consumer.max.size", INT_MAX, "most members of a group", 1),
    Key(
        "group.consumer.assignors",
        Kind.LIST,
        "uniform,range",
        "how partitions are assigned; the first where members want none",
        choices=("uniform", "range"),
    ),
    Key(
        "group.consumer.migration.policy",
        Kind.TEXT,
        "bidirectional",
        "whether living groups may change between the classic protocol and KIP-848",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    Key(
        "group.consumer.regex.refresh.interval.ms",
        Kind.INTEGER,
        "600000",
        "time between two looks for topics that match",
        10_000,
        INT_MAX,
    ),
)
