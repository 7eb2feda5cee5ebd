"""The settings of topics: which there are, which values they take, where these come from.

A topic setting that is not set has the value of a broker setting, its synonym, else a default.

Source: `org.apache.kafka.storage.internals.log.LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from jbodlab.config import key_table
from jbodlab.config.key_table import INT_MAX, LONG_MAX, Key, Kind
from jbodlab.vocabulary.errors import ConfigError

LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
SEGMENT_BYTES = "internal.segment.bytes"
TIERED = "remote.storage.enable"

_REPLICAS = re.compile(r"[0-9]+:[0-9]+")


def _long(
    name: str, default: int, meaning: str, minimum: int | None = None, maximum: int = LONG_MAX
) -> Key:
    return Key(name, Kind.INTEGER, str(default), meaning, minimum, maximum)


def _integer(
    name: str, default: int, meaning: str, minimum: int | None = None, maximum: int = INT_MAX
) -> Key:
    return _long(name, default, meaning, minimum, maximum)


def _flag(name: str, default: str, meaning: str) -> Key:
    return Key(name, Kind.FLAG, default, meaning)


def _unused(key: Key, reason: str) -> Key:
    return replace(key, meaning=f"ignored: {reason}", has_effect=False)


_AS_THEY_CAME = "batches are stored as producers sent them"
_NO_TIERS = "tiered storage is not supported"

_KEYS = (
    Key(
        "cleanup.policy",
        Kind.LIST,
        "delete",
        "what to do with old data: delete, compact or both",
        choices=("delete", "compact"),
    ),
    _unused(
        replace(
            _integer("compression.gzip.level", -1, "", -1, 9),
            choices=("-1", *map(str, range(1, 10))),
        ),
        _AS_THEY_CAME,
    ),
    _unused(_integer("compression.lz4.level", 9, "", 1, 17), _AS_THEY_CAME),
    _unused(
        Key(
            "compression.type",
            Kind.TEXT,
            "producer",
            "",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        _AS_THEY_CAME,
    ),
    _unused(_integer("compression.zstd.level", 3, "", -131_072, 22), _AS_THEY_CAME),
    _long("delete.retention.ms", 86_400_000, "how long compaction keeps tombstones", 0),
    _long(
        "file.delete.delay.ms",
        60_000,
        "delay between the renaming and the removal of a deleted file",
        0,
    ),
    _long("flush.messages", LONG_MAX, "flush a log after this many records", 1),
    _unused(_long("flush.ms", LONG_MAX, "", 0), "logs are not flushed by time"),
    Key(
        FOLLOWER_THROTTLED,
        Kind.LIST,
        "",
        "replicas whose followers are throttled: partition:broker,... or *",
    ),
    _integer("index.interval.bytes", 4_096, "bytes of log between two index entries", 0),
    Key(
        LEADER_THROTTLED,
        Kind.LIST,
        "",
        "replicas whose leaders are throttled: partition:broker,... or *",
    ),
    Key(
        SEGMENT_BYTES,
        Kind.INTEGER,
        None,
        "segment size smaller than segment.bytes permits; for tests",
        14,
        INT_MAX,
        is_internal=True,
    ),
    _unused(_long("local.retention.bytes", -2, "", -2), _NO_TIERS),
    _unused(_long("local.retention.ms", -2, "", -2), _NO_TIERS),
    _long("max.compaction.lag.ms", LONG_MAX, "compact records that are older than this", 1),
    _integer("max.message.bytes", 1_048_588, "largest record batch that is accepted", 0),
    _long(
        "message.timestamp.after.max.ms",
        3_600_000,
        "reject records whose timestamp is this far in the future",
        0,
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "reject records whose timestamp is older than this",
        0,
    ),
    Key(
        "message.timestamp.type",
        Kind.TEXT,
        "CreateTime",
        "set record timestamps by the producer's or the broker's clock",
        choices=("CreateTime", "LogAppendTime"),
    ),
    Key(
        "min.cleanable.dirty.ratio",
        Kind.NUMBER,
        "0.5",
        "compact a log when this share of it is dirty",
        0,
        1,
    ),
    _long("min.compaction.lag.ms", 0, "do not compact records younger than this", 0),
    _integer("min.insync.replicas", 1, "reject acks=all if the ISR is smaller", 1),
    _unused(_flag("preallocate", "false", ""), "segment files grow as they are written"),
    _unused(_flag("remote.log.copy.disable", "false", ""), _NO_TIERS),
    _unused(_flag("remote.log.delete.on.disable", "false", ""), _NO_TIERS),
    _flag(TIERED, "false", "tiered storage; not supported"),
    _long(
        "retention.bytes",
        -1,
        "log size above which the oldest segments are deleted; -1: no limit",
        -1,
    ),
    _long("retention.ms", 604_800_000, "age at which a segment is deleted; -1: never", -1),
    _integer("segment.bytes", 1_073_741_824, "size at which a segment is rolled", 1 << 20),
    _integer("segment.index.bytes", 10_485_760, "maximum size of a segment's index", 4),
    _unused(_long("segment.jitter.ms", 0, "", 0), "segments are rolled at their full age"),
    _long("segment.ms", 604_800_000, "age at which a segment is rolled", 1),
    _flag(
        UNCLEAN_ELECTION, "false", "elect leaders outside the ISR if no replica in it is available"
    ),
)
TOPIC_CONFIGS: Mapping[str, Key] = {key.name: key for key in _KEYS}

_HOURS, _MINUTES = 3_600_000, 60_000
_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    **{
        name: ((name, 1),)
        for name in (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "min.insync.replicas",
            UNCLEAN_ELECTION,
        )
    },
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
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
    """Return the broker settings behind a topic setting, the strongest first; some have none.

    Each stands with the factor that makes a value of the topic setting out of its own.
    """
    return _SYNONYMS.get(name, ())


def check(configs: Mapping[str, str]) -> None:
    """Check the settings of one topic, all of them together.

    Raises:
        ConfigError: a setting is unknown, a value is not permitted, or two contradict each other.
    """
    values, unknown = key_table.read(TOPIC_CONFIGS, configs)
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
        ConfigError: it is no such list.
    """
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == ["*"]:
        return None
    for word in words:
        if _REPLICAS.fullmatch(word) is None:
            raise ConfigError(name, value, "expected * or partition:broker,...")
    pairs = (word.split(":") for word in words)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
