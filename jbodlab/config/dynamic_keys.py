"""The broker settings that may be changed while brokers run.

They are set for one broker, or for all of them together. All others are read once, when a process
starts, and can be changed in its property file only.

Source: `kafka.server.DynamicBrokerConfig`, KIP-226; KIP-1066 for cordoned directories.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.config import key_table, node_keys, unused_keys
from jbodlab.config.key_table import LONG_MAX, Key, Kind
from jbodlab.vocabulary.errors import ConfigError

CORDONED_LOG_DIRS = "cordoned.log.dirs"
ALL_LOG_DIRS = "*"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


NOT_DYNAMIC = "Cannot update these configs"
"""How the reason begins for which a setting cannot be changed here at all."""


def _rate(name: str, meaning: str) -> Key:
    return Key(name, Kind.INTEGER, str(LONG_MAX), meaning, 0, LONG_MAX)


DYNAMIC_ONLY: tuple[Key, ...] = (
    _rate(LEADER_RATE, "maximum bytes per second that leaders of throttled replicas send"),
    _rate(FOLLOWER_RATE, "maximum bytes per second that throttled replicas fetch"),
    _rate(MOVE_RATE, "maximum bytes per second copied between log directories"),
)
"""Settings that a property file does not have."""

BROKER_TABLE: Mapping[str, Key] = {
    **node_keys.TABLE,
    **{key.name: key for key in DYNAMIC_ONLY},
}
"""All settings of a broker."""

PER_BROKER: frozenset[str] = frozenset({CORDONED_LOG_DIRS})
"""Those that mean something for one broker only."""

DYNAMIC: frozenset[str] = (
    PER_BROKER
    | unused_keys.DYNAMIC
    | {
        *(key.name for key in DYNAMIC_ONLY),
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.dir.placement",
        "log.flush.interval.messages",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "message.max.bytes",
        "min.insync.replicas",
        "producer.id.expiration.ms",
        "unclean.leader.election.enable",
    }
)
"""All that may be changed while brokers run."""


def is_read_only(name: str) -> bool:
    """Return whether a broker setting is read once, at the start of the process."""
    return name not in DYNAMIC


def check(configs: Mapping[str, str], *, all_brokers: bool) -> None:
    """Check the dynamic settings of one broker, or of all brokers.

    Raises:
        ConfigError: a setting is unknown, is no dynamic one or none of all brokers, or a value is
            not permitted.
    """
    unknown = sorted(name for name in configs if name not in BROKER_TABLE)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown broker config name")
    for refused, problem in (
        (is_read_only, f"{NOT_DYNAMIC} dynamically"),
        (
            lambda name: all_brokers and name in PER_BROKER,
            f"{NOT_DYNAMIC} at default cluster level, broker id must be specified",
        ),
    ):
        names = sorted(filter(refused, configs))
        if names:
            raise ConfigError(",".join(names), configs[names[0]], problem)
    key_table.read(BROKER_TABLE, configs)
    directories = words(configs.get(CORDONED_LOG_DIRS, ""))
    if ALL_LOG_DIRS in directories and len(directories) > 1:
        raise ConfigError(
            CORDONED_LOG_DIRS,
            configs[CORDONED_LOG_DIRS],
            f"{ALL_LOG_DIRS} must be the only value",
        )


def words(value: str) -> tuple[str, ...]:
    """Return what a comma list names."""
    return tuple(word.strip() for word in value.split(",") if word.strip())
