"""The settings of topics: which there are, which values they take, where these come from.

A topic setting that is not set has the value of a broker setting, its synonym, else a default.

Source: `org.apache.kafka.storage.internals.log.LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jbodlab.config import key_table
from jbodlab.config.key_table import INT_MAX, LONG_MAX, Key, Kind
from jbodlab.errors import ConfigError

LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

_REPLICAS = re.compile(r"\d+:\d+")


def _long(
    name: str, default: int, meaning: str, minimum: int | None = None, maximum: int = LONG_MAX
) -> Key:
    return Key(name, Kind.INTEGER, str(default), meaning, minimum, maximum)


def _integer(name: str, default: int, meaning: str, minimum: int | None = None) -> Key:
    return _long(name, default, meaning, minimum, INT_MAX)


def _flag(name: str, default: str, meaning: str) -> Key:
    return Key(name, Kind.FLAG, default, meaning)


_KEYS = (
    Key(
        "cleanup.policy",
        Kind.LIST,
        "delete",
        "what happens to old data; compaction is not there",
        choices=("delete",),
    ),
    Key("compression.gzip.level", Kind.INTEGER, "-1", "accepted; nothing is compressed", -1, 9),
    Key("compression.lz4.level", Kind.INTEGER, "9", "accepted; nothing is compressed", 1, 17),
    Key(
        "compression.type",
        Kind.TEXT,
        "producer",
        "accepted; batches are kept as they came",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    Key(
        "compression.zstd.level",
        Kind.INTEGER,
        "3",
        "accepted; nothing is compressed",
        -131_072,
        22,
    ),
    _long("delete.retention.ms", 86_400_000, "accepted; belongs to compaction", 0),
    _long("file.delete.delay.ms", 60_000, "time between renaming and removing a file", 0),
    _long("flush.messages", LONG_MAX, "messages after which a log is flushed", 1),
    _long("flush.ms", LONG_MAX, "accepted; logs are not flushed by the clock", 0),
    Key(
        FOLLOWER_THROTTLED,
        Kind.LIST,
        "",
        "replicas whose followers are throttled: partition:broker,... or *",
    ),
    _integer("index.interval.bytes", 4_096, "log bytes between two index entries", 0),
    Key(
        LEADER_THROTTLED,
        Kind.LIST,
        "",
        "replicas whose leaders are throttled: partition:broker,... or *",
    ),
    _long("max.compaction.lag.ms", LONG_MAX, "accepted; belongs to compaction", 1),
    _integer("max.message.bytes", 1_048_588, "largest batch that is accepted", 0),
    _long("message.timestamp.after.max.ms", 3_600_000, "newest accepted timestamp", 0),
    _long("message.timestamp.before.max.ms", LONG_MAX, "oldest accepted timestamp", 0),
    Key(
        "message.timestamp.type",
        Kind.TEXT,
        "CreateTime",
        "whose clock stamps a record",
        choices=("CreateTime", "LogAppendTime"),
    ),
    Key("min.cleanable.dirty.ratio", Kind.NUMBER, "0.5", "accepted; belongs to compaction", 0, 1),
    _long("min.compaction.lag.ms", 0, "accepted; belongs to compaction", 0),
    _integer("min.insync.replicas", 1, "ISR below which acks=all is refused", 1),
    _flag("preallocate", "false", "accepted; segments grow as they are written"),
    _long("retention.bytes", -1, "size above which the oldest segments are deleted", -1),
    _long("retention.ms", 604_800_000, "age at which a segment is deleted; -1 never", -1),
    _integer("segment.bytes", 1_073_741_824, "size at which a segment is closed", 14),
    _integer("segment.index.bytes", 10_485_760, "largest index of a segment", 4),
    _long("segment.jitter.ms", 0, "accepted; segments are closed at their full age", 0),
    _long("segment.ms", 604_800_000, "age at which a segment is closed", 1),
    _flag(UNCLEAN_ELECTION, "false", "elect replicas outside of the ISR"),
)
TOPIC_CONFIGS: Mapping[str, Key] = {key.name: key for key in _KEYS}

_HOURS, _MINUTES = 3_600_000, 60_000
_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.type": (("compression.type", 1),),
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


def synonyms(name: str) -> tuple[tuple[str, int], ...]:
    """Return the broker settings behind a topic setting, the strongest first.

    Each stands with the factor that makes a value of the topic setting out of its own.
    """
    return _SYNONYMS.get(name, ((name, 1),))


def check(configs: Mapping[str, str]) -> None:
    """Check the settings of one topic, all of them together.

    Raises:
        ConfigError: a setting is unknown, a value is not permitted, or two contradict each other.
    """
    check_cleanup_policy("cleanup.policy", configs)
    values, unknown = key_table.read(TOPIC_CONFIGS, configs)
    if unknown:
        raise ConfigError(unknown[0], configs[unknown[0]], "Unknown topic config name")
    for name in (LEADER_THROTTLED, FOLLOWER_THROTTLED):
        throttled_replicas(name, configs.get(name, ""))
    if values.integer("min.compaction.lag.ms") > values.integer("max.compaction.lag.ms"):
        raise ConfigError(
            "min.compaction.lag.ms",
            values.text("min.compaction.lag.ms"),
            f"more than max.compaction.lag.ms ({values.text('max.compaction.lag.ms')})",
        )


def check_cleanup_policy(name: str, configs: Mapping[str, str]) -> None:
    """Refuse compaction in words of its own.

    Raises:
        ConfigError: it is asked for.
    """
    if "compact" in (word.strip().lower() for word in configs.get(name, "").split(",")):
        raise ConfigError(name, configs[name], "log compaction is not supported, only delete is")


def throttled_replicas(name: str, value: str) -> frozenset[tuple[int, int]] | None:
    """Return pairs of partition and broker that a list of throttled replicas names.

    Returns:
        None for all.

    Raises:
        ConfigError: it is no such list.
    """
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == ["*"]:
        return None
    for word in words:
        if _REPLICAS.fullmatch(word) is None:
            raise ConfigError(
                name, value, "must be * or a list of partition:broker, with commas in between"
            )
    pairs = (word.split(":") for word in words)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
