"""The settings of one topic together: which values contradict each other, what throttles name.

Source: `org.apache.kafka.storage.internals.log.LogConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jbodlab.config import kafka_configs, key_table
from jbodlab.vocabulary.errors import ConfigError

LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
SEGMENT_BYTES = "internal.segment.bytes"
TIERED = "remote.storage.enable"

_REPLICAS = re.compile(r"[0-9]+:[0-9]+")


def check(configs: Mapping[str, str]) -> None:
    """Check the settings of one topic, all of them together.

    Raises:
        ConfigError: a setting is unknown, a value is not permitted, or two contradict each other.
    """
    values, unknown = key_table.read(kafka_configs.TOPIC, configs)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown topic config name")
    if values.flag(TIERED):
        raise ConfigError(TIERED, configs[TIERED], "tiered storage is not supported")
    for name in (LEADER_THROTTLED, FOLLOWER_THROTTLED):
        throttled_replicas(name, configs.get(name, ""))
    if values.integer("min.compaction.lag.ms") > values.integer("max.compaction.lag.ms"):
        raise ConfigError(
            "min.compaction.lag.ms",
            values.text("min.compaction.lag.ms"),
            f"must be at most max.compaction.lag.ms ({values.text('max.compaction.lag.ms')})",
        )


def throttled_replicas(name: str, value: str) -> frozenset[tuple[int, int]] | None:
    """Return pairs of partition and broker that a list of throttled replicas names.

    Returns:
        None for all.

    Raises:
        ConfigError: it is not such a list.
    """
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == ["*"]:
        return None
    for word in words:
        if _REPLICAS.fullmatch(word) is None:
            raise ConfigError(name, value, "expected * or partition:broker,...")
    pairs = (word.split(":") for word in words)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
