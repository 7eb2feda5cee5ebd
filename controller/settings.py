"""Topic configs: which there are, which values they take, and what a topic's effective ones are.

A topic config that is not set has the value of a key of the configuration file, else a default.

Source: `org.apache.kafka.storage.internals.log.LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbodlab import config_table
from jbodlab.config_table import INT_MAX, LONG_MAX, Key, Kind
from jbodlab.error_code import ErrorCode
from jbodlab.errors import ConfigError, KafkaError
from jbodlab.requests import TopicConfigEntry

SOURCE_TOPIC, SOURCE_STATIC, SOURCE_DEFAULT = 1, 4, 5
"""`config_source` of a value: set on the topic, in the file, nowhere."""


def _long(name: str, default: int, minimum: int | None = None, maximum: int = LONG_MAX) -> Key:
    return Key(name, Kind.INTEGER, str(default), "", minimum, maximum)


def _integer(name: str, default: int, minimum: int | None = None) -> Key:
    return _long(name, default, minimum, INT_MAX)


def _flag(name: str, default: str) -> Key:
    return Key(name, Kind.FLAG, default, "")


_KEYS = (
    Key("cleanup.policy", Kind.LIST, "delete", "", choices=("delete", "compact")),
    Key("compression.gzip.level", Kind.INTEGER, "-1", "", -1, 9),
    Key("compression.lz4.level", Kind.INTEGER, "9", "", 1, 17),
    Key(
        "compression.type",
        Kind.TEXT,
        "producer",
        "",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    Key("compression.zstd.level", Kind.INTEGER, "3", "", -131_072, 22),
    _long("delete.retention.ms", 86_400_000, 0),
    _long("file.delete.delay.ms", 60_000, 0),
    _long("flush.messages", LONG_MAX, 1),
    _long("flush.ms", LONG_MAX, 0),
    Key("follower.replication.throttled.replicas", Kind.LIST, "", ""),
    _integer("index.interval.bytes", 4_096, 0),
    Key("leader.replication.throttled.replicas", Kind.LIST, "", ""),
    _long("max.compaction.lag.ms", LONG_MAX, 1),
    _integer("max.message.bytes", 1_048_588, 0),
    _long("message.timestamp.after.max.ms", 3_600_000, 0),
    _long("message.timestamp.before.max.ms", LONG_MAX, 0),
    Key(
        "message.timestamp.type",
        Kind.TEXT,
        "CreateTime",
        "",
        choices=("CreateTime", "LogAppendTime"),
    ),
    Key("min.cleanable.dirty.ratio", Kind.NUMBER, "0.5", "", 0, 1),
    _long("min.compaction.lag.ms", 0, 0),
    _integer("min.insync.replicas", 1, 1),
    _flag("preallocate", "false"),
    _long("retention.bytes", -1, -1),
    _long("retention.ms", 604_800_000, -1),
    _integer("segment.bytes", 1_073_741_824, 14),
    _integer("segment.index.bytes", 10_485_760, 4),
    _long("segment.jitter.ms", 0, 0),
    _long("segment.ms", 604_800_000, 1),
    _flag("unclean.leader.election.enable", "false"),
)
TOPIC_CONFIGS: Mapping[str, Key] = {key.name: key for key in _KEYS}

_HOURS, _MINUTES = 3_600_000, 60_000
_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTES),
        ("log.retention.hours", _HOURS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOURS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOURS)),
}
"""Keys of the configuration file behind a topic config, the strongest first, with their factors.

Configs that are not listed have the same name in the file.
"""


def check_topic_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Check the configs of a new topic; of a name given twice the last value counts.

    Raises:
        KafkaError: INVALID_CONFIG: a value is null or not permitted, or the name is unknown.
    """
    values: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        values[name] = value
    try:
        _, unknown = config_table.read(TOPIC_CONFIGS, values)
    except ConfigError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {error.value} for configuration {error.key}: {error.reason}",
        ) from error
    if unknown:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}")
    return values


def effective_configs(
    topic_configs: Mapping[str, str], static_configs: Mapping[str, str]
) -> tuple[TopicConfigEntry, ...]:
    """Return all configs of a topic, by name, each with the source of its value."""
    return tuple(
        _effective(TOPIC_CONFIGS[name], topic_configs, static_configs)
        for name in sorted(TOPIC_CONFIGS)
    )


def _effective(
    key: Key, topic_configs: Mapping[str, str], static_configs: Mapping[str, str]
) -> TopicConfigEntry:
    if key.name in topic_configs:
        return TopicConfigEntry(
            name=key.name, value=topic_configs[key.name], config_source=SOURCE_TOPIC
        )
    for name, factor in _SYNONYMS.get(key.name, ((key.name, 1),)):
        if name in static_configs:
            value = static_configs[name].strip()
            if factor != 1:
                # -1 means without end in every unit.
                value = value if int(value) < 0 else str(int(value) * factor)
            return TopicConfigEntry(name=key.name, value=value, config_source=SOURCE_STATIC)
    return TopicConfigEntry(name=key.name, value=key.default, config_source=SOURCE_DEFAULT)
