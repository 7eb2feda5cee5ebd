"""What applies to one topic: its own configs, else this broker's settings.

Source: `org.apache.kafka.common.config.TopicConfig`, `LogConfig.extractLogConfigMap`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from broker.limits import TOPIC_SETTINGS_REMEMBERED_MAX
from broker.replica.throttled_replicas import ThrottledReplicas
from jbodlab.config import topic_keys
from jbodlab.config.key_table import LONG_MAX, Values
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import ConfigError

T = TypeVar("T")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

NOT_THROTTLED = ThrottledReplicas()

logger = logging.getLogger(__name__)


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic accepts; sizes in bytes, times in ms.

    Attributes:
        log_append_time: Whether the broker's clock stamps the batch.
        compacted: Whether every record needs a key.
    """

    max_message_bytes: int
    segment_bytes: int
    log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    compacted: bool = False


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one topic for its replicas here."""

    log: LogConfig
    limits: BatchLimits
    min_insync_replicas: int
    leader_throttled: ThrottledReplicas = NOT_THROTTLED
    """Whose leaders send at a limited rate to replicas that are not in sync."""
    follower_throttled: ThrottledReplicas = NOT_THROTTLED
    """Who fetches at a limited rate while not in sync."""


class SettingsOfTopics:
    """Knows this broker's defaults, and puts a topic's configs above them."""

    def __init__(self, values: Values) -> None:
        self.use(values)

    def use(self, values: Values) -> None:
        """Have other settings of this broker count from now on."""
        self._values = values
        # Partitions of a topic have the same ones, and most topics have those of others.
        self._made = lru_cache(TOPIC_SETTINGS_REMEMBERED_MAX)(partial(_settings, values))
        self.defaults = self.of_topic({})

    @property
    def producer_id_expiration_ms(self) -> int:
        """After how long a silent producer is forgotten."""
        return self._values.integer("producer.id.expiration.ms")

    def of_topic(self, configs: Mapping[str, str]) -> TopicSettings:
        """Return the settings of a topic with these configs; the controller has checked them."""
        return self._made(tuple(sorted(configs.items())))


def _settings(values: Values, own: tuple[tuple[str, str], ...]) -> TopicSettings:
    configs = dict(own)
    chosen = _Chosen(values, configs)
    integer = chosen.integer
    cleanup_policy = chosen.text("cleanup.policy", "log.cleanup.policy").lower()
    segment_bytes = chosen.optional_integer(topic_keys.SEGMENT_BYTES) or integer(
        "segment.bytes", "log.segment.bytes"
    )
    compacted = "compact" in cleanup_policy
    max_compaction_lag_ms = integer("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    segment_ms = integer("segment.ms", "log.roll.ms", ("log.roll.hours", HOUR_MS))
    log = LogConfig(
        segment_bytes=segment_bytes,
        # Only closed segments are compacted.
        segment_ms=min(segment_ms, max_compaction_lag_ms) if compacted else segment_ms,
        segment_index_bytes=integer("segment.index.bytes", "log.index.size.max.bytes"),
        index_interval_bytes=integer("index.interval.bytes", "log.index.interval.bytes"),
        retention_ms=integer(
            "retention.ms",
            "log.retention.ms",
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ),
        retention_bytes=integer("retention.bytes", "log.retention.bytes"),
        cleanup_policy=cleanup_policy,
        min_cleanable_dirty_ratio=chosen.number(
            "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"
        ),
        min_compaction_lag_ms=integer("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
        max_compaction_lag_ms=max_compaction_lag_ms,
        delete_retention_ms=integer("delete.retention.ms", "log.cleaner.delete.retention.ms"),
        file_delete_delay_ms=integer("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        flush_messages=integer("flush.messages", "log.flush.interval.messages"),
    )
    timestamp_type = chosen.text("message.timestamp.type", "log.message.timestamp.type")
    limits = BatchLimits(
        max_message_bytes=integer("max.message.bytes", "message.max.bytes"),
        segment_bytes=segment_bytes,
        log_append_time=timestamp_type.lower() == "logappendtime",
        timestamp_before_max_ms=integer(
            "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
        ),
        timestamp_after_max_ms=integer(
            "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
        ),
        compacted=compacted,
    )
    return TopicSettings(
        log=log,
        limits=limits,
        min_insync_replicas=integer("min.insync.replicas", "min.insync.replicas"),
        leader_throttled=_throttled(topic_keys.LEADER_THROTTLED, configs),
        follower_throttled=_throttled(topic_keys.FOLLOWER_THROTTLED, configs),
    )


def _throttled(name: str, configs: Mapping[str, str]) -> ThrottledReplicas:
    try:
        return ThrottledReplicas(topic_keys.throttled_replicas(name, configs.get(name, "")))
    except ConfigError as error:
        logger.warning("ignoring a throttle setting: %s", error)
        return ThrottledReplicas()


class _Chosen:
    """One setting after the other: from the topic if it has it, else from the broker."""

    def __init__(self, values: Values, configs: Mapping[str, str]) -> None:
        self._values = values
        self._configs = configs

    def integer(self, topic_key: str, broker_key: str, *coarser: tuple[str, int]) -> int:
        """Return an integer; `coarser` are older broker keys in larger units, with the factor."""
        return self._choose(topic_key, int, lambda: self._of_broker(broker_key, coarser))

    def number(self, topic_key: str, broker_key: str) -> float:
        """Return a number."""
        return self._choose(topic_key, float, lambda: self._values.number(broker_key))

    def optional_integer(self, topic_key: str) -> int | None:
        """Return an integer that only a topic may have."""
        return self._choose(topic_key, int, lambda: None)

    def text(self, topic_key: str, broker_key: str) -> str:
        """Return a text."""
        return self._choose(topic_key, str.strip, lambda: self._values.text(broker_key))

    def _choose(self, key: str, parse: Callable[[str], T], default: Callable[[], T]) -> T:
        text = self._configs.get(key)
        if text is None:
            return default()
        try:
            return parse(text)
        except ValueError:
            logger.warning("topic config %s=%s is not a number; using the default", key, text)
            return default()

    def _of_broker(self, key: str, coarser: tuple[tuple[str, int], ...]) -> int:
        value = self._values.optional_integer(key)
        if value is not None:
            return value
        for coarser_key, factor in coarser:
            value = self._values.optional_integer(coarser_key)
            if value is not None:
                return value if value < 0 else min(value * factor, LONG_MAX)
        raise AssertionError(f"{key} has no default")
