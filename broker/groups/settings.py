"""The settings of group coordinators; fields are named after Kafka's keys.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorConfig`.
"""

from __future__ import annotations

import msgspec

from jbodlab.config.key_table import Values
from jbodlab.vocabulary.errors import ConfigError

MINUTE_MS = 60_000


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a coordinator."""

    rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1

    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 16_777_216

    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000


def group_settings(values: Values) -> GroupSettings:
    """Take the settings of groups from those of the broker.

    Raises:
        ConfigError: two settings contradict each other.
    """
    integer = values.integer
    for lower, upper in (
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
        ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
        ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
        ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ):
        if integer(lower) > integer(upper):
            raise ConfigError(lower, integer(lower), f"must be at most {upper} ({integer(upper)})")
    session = integer("group.consumer.session.timeout.ms")
    if integer("group.consumer.heartbeat.interval.ms") >= session:
        raise ConfigError(
            "group.consumer.heartbeat.interval.ms",
            integer("group.consumer.heartbeat.interval.ms"),
            f"must be less than group.consumer.session.timeout.ms ({session})",
        )
    return values.settings(
        GroupSettings,
        "group.",
        rebalance_protocols=_lower(values, "group.coordinator.rebalance.protocols"),
        offsets_retention_ms=integer("offsets.retention.minutes") * MINUTE_MS,
        consumer_assignors=_lower(values, "group.consumer.assignors"),
        consumer_migration_policy=values.text("group.consumer.migration.policy").lower(),
    )


def _lower(values: Values, name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in values.words(name))
