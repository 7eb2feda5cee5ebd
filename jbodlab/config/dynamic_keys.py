"""The broker settings that may be changed while brokers run.

They are set for one broker, or for all of them together. All others are read once, when a process
starts, and can be changed in its property file only.

Source: `kafka.server.DynamicBrokerConfig`, KIP-226; KIP-1066 for cordoned directories.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.config import kafka_configs, key_table
from jbodlab.vocabulary.errors import ConfigError

CORDONED_LOG_DIRS = "cordoned.log.dirs"
ALL_LOG_DIRS = "*"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

NOT_DYNAMIC = "Cannot update these configs"
"""Start of the reason for which a setting cannot be changed here at all."""


def is_read_only(name: str) -> bool:
    """Return whether a broker setting is read once, at the start of the process."""
    return kafka_configs.BROKER[name].update_mode == "read-only"


def check(configs: Mapping[str, str], *, all_brokers: bool) -> None:
    """Check the dynamic settings of one broker, or of all brokers.

    Raises:
        ConfigError: a setting is unknown, is not dynamic, is not one of all brokers, or a value
            is not permitted.
    """
    unknown = sorted(name for name in configs if name not in kafka_configs.BROKER)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown broker config name")
    for refused, problem in (
        (is_read_only, f"{NOT_DYNAMIC} dynamically"),
        (
            lambda name: all_brokers and kafka_configs.BROKER[name].update_mode == "per-broker",
            f"{NOT_DYNAMIC} at default cluster level, broker id must be specified",
        ),
    ):
        names = sorted(filter(refused, configs))
        if names:
            raise ConfigError(",".join(names), configs[names[0]], problem)
    key_table.read(kafka_configs.BROKER, configs)
    directories = words(configs.get(CORDONED_LOG_DIRS, ""))
    if ALL_LOG_DIRS in directories and len(directories) > 1:
        raise ConfigError(
            CORDONED_LOG_DIRS,
            configs[CORDONED_LOG_DIRS],
            f"{ALL_LOG_DIRS} must be the only value",
        )


def words(value: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list."""
    return tuple(word.strip() for word in value.split(",") if word.strip())
