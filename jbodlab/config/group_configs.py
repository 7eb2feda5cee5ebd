"""The settings of one group (resource type GROUP of configs) together: what contradicts what.

Two settings of the broker are the bounds of each.

Source: `org.apache.kafka.coordinator.group.GroupConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.config import kafka_configs, key_table
from jbodlab.config.key_table import Values
from jbodlab.vocabulary.errors import ConfigError

CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


def bounds(name: str) -> tuple[str, str]:
    """Return the broker settings for the least and the most that a group may set."""
    kind, rest = name.split(".", 1)
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def check(configs: Mapping[str, str], node: Values) -> None:
    """Check the settings of one group, all of them together.

    Args:
        configs: What the group sets.
        node: Settings of the node that checks.

    Raises:
        ConfigError: a setting is unknown, or a value is not permitted.
    """
    values, unknown = key_table.read(kafka_configs.GROUP, configs)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown group config name")
    for name, text in configs.items():
        lowest, highest = map(node.integer, bounds(name))
        if not lowest <= values.integer(name) <= highest:
            raise ConfigError(name, text, f"must be between {lowest} and {highest}")
    session_ms, heartbeat_ms = (
        values.integer(name) if name in configs else node.integer(f"group.{name}")
        for name in (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL)
    )
    if session_ms <= heartbeat_ms:
        raise ConfigError(
            CONSUMER_SESSION_TIMEOUT,
            session_ms,
            f"must be more than {CONSUMER_HEARTBEAT_INTERVAL} ({heartbeat_ms})",
        )
