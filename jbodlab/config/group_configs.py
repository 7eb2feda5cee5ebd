"""The settings of one group (resource type GROUP of configs) together: what contradicts what.

Settings of the broker are the bounds of most.

Source: `org.apache.kafka.coordinator.group.GroupConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jbodlab.config import kafka_configs, key_table
from jbodlab.config.key_table import Values
from jbodlab.vocabulary.errors import ConfigError

CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
SHARE_OFFSET_RESET = "share.auto.offset.reset"

_BY_DURATION = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+([.][0-9]{1,9})?S)?)?"
)


STANDBY_REPLICAS = "streams.num.standby.replicas"


def bounds(name: str) -> tuple[str | None, str | None]:
    """Return the broker settings for the least and the most of a setting; None: no bound."""
    kind, rest = name.split(".", 1)
    if name == STANDBY_REPLICAS:
        return None, "group.streams.max.standby.replicas"
    lowest, highest = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    return (
        lowest if lowest in kafka_configs.NODE else None,
        highest if highest in kafka_configs.NODE else None,
    )


def check(configs: Mapping[str, str], node: Values) -> None:
    """Check the settings of one group, all of them together.

    Args:
        configs: Settings of the group.
        node: Settings of the node that checks.

    Raises:
        ConfigError: a setting is unknown, or a value is not permitted.
    """
    values, unknown = key_table.read(kafka_configs.GROUP, configs)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown group config name")
    for name, text in configs.items():
        lowest, highest = bounds(name)
        if lowest is not None and values.integer(name) < node.integer(lowest):
            raise ConfigError(name, text, f"must be at least {lowest} ({node.integer(lowest)})")
        if highest is not None and values.integer(name) > node.integer(highest):
            raise ConfigError(name, text, f"must be at most {highest} ({node.integer(highest)})")
    if SHARE_OFFSET_RESET in configs:
        _check_offset_reset(configs[SHARE_OFFSET_RESET])
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = (
            values.integer(name) if name in configs else node.integer(f"group.{name}")
            for name in (session, heartbeat)
        )
        if session_ms <= heartbeat_ms:
            raise ConfigError(
                session, session_ms, f"must be more than {heartbeat} ({heartbeat_ms})"
            )


def _check_offset_reset(text: str) -> None:
    if text not in ("latest", "earliest") and _BY_DURATION.fullmatch(text) is None:
        raise ConfigError(
            SHARE_OFFSET_RESET, text, "expected latest, earliest or by_duration:PnDTnHnMn.nS"
        )
