"""The settings of one group (resource type GROUP of configs): which there are, which values.

What a group does not set has the value of a broker setting; two more of these are its bounds.

Source: `org.apache.kafka.coordinator.group.GroupConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jbodlab.config import key_table
from jbodlab.config.key_table import Key, Kind, Values
from jbodlab.vocabulary.errors import ConfigError

CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

GROUP_CONFIGS: Mapping[str, Key] = MappingProxyType(
    {
        key.name: key
        for key in (
            Key(
                CONSUMER_SESSION_TIMEOUT,
                Kind.INTEGER,
                "45000",
                "a member is removed after this time without heartbeats",
                1,
            ),
            Key(
                CONSUMER_HEARTBEAT_INTERVAL,
                Kind.INTEGER,
                "5000",
                "interval between heartbeats of a member",
                1,
            ),
            Key(
                CONSUMER_ASSIGNMENT_INTERVAL,
                Kind.INTEGER,
                "1000",
                "minimum time between two assignments",
                0,
            ),
        )
    }
)


def synonym(name: str) -> str:
    """Return the broker setting that holds where a group sets nothing."""
    return f"group.{name}"


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
    values, unknown = key_table.read(GROUP_CONFIGS, configs)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown group config name")
    for name, text in configs.items():
        lowest, highest = map(node.integer, bounds(name))
        if not lowest <= values.integer(name) <= highest:
            raise ConfigError(name, text, f"must be between {lowest} and {highest}")
    session_ms, heartbeat_ms = (
        values.integer(name) if name in configs else node.integer(synonym(name))
        for name in (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL)
    )
    if session_ms <= heartbeat_ms:
        raise ConfigError(
            CONSUMER_SESSION_TIMEOUT,
            session_ms,
            f"must be more than {CONSUMER_HEARTBEAT_INTERVAL} ({heartbeat_ms})",
        )
