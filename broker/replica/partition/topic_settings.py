"""Settings that apply to one topic: its own configs, else this broker's settings.

Source: `org.apache.kafka.common.config.TopicConfig`, `LogConfig.extractLogConfigMap`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TypeVar

import msgspec

from broker.bounds.limits import TOPIC_SETTINGS_REMEMBERED_MAX
from jbodlab.config import kafka_configs, topic_keys
from jbodlab.config.key_table import LONG_MAX, Values
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import ConfigError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """Which replicas of a topic are throttled while they are copied between brokers (KIP-73).

    Attributes:
        pairs: Partitions with brokers; None for all.
    """

    pairs: frozenset[tuple[int, int]] | None = frozenset()

    def covers(self, partition: int, broker_id: int) -> bool:
        """Return whether the replica of a broker is throttled."""
        return self.pairs is None or (partition, broker_id) in self.pairs


NOT_THROTTLED = ThrottledReplicas()


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's limits for batches; sizes in bytes, times in ms.

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
    """Followers that fetch at a limited rate while not in sync."""


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
    cleanup_policy = chosen.text("cleanup.policy").lower()
    segment_bytes = chosen.optional_integer(topic_keys.SEGMENT_BYTES) or integer("segment.bytes")
    compacted = "compact" in cleanup_policy
    max_compaction_lag_ms = integer("max.compaction.lag.ms")
    segment_ms = integer("segment.ms")
    log = chosen.settings(
        LogConfig,
        segment_bytes=segment_bytes,
        # Only closed segments are compacted.
        segment_ms=min(segment_ms, max_compaction_lag_ms) if compacted else segment_ms,
        cleanup_policy=cleanup_policy,
    )
    limits = chosen.settings(
        BatchLimits,
        "message.",
        segment_bytes=segment_bytes,
        log_append_time=chosen.text("message.timestamp.type").lower() == "logappendtime",
        compacted=compacted,
    )
    return TopicSettings(
        log=log,
        limits=limits,
        min_insync_replicas=integer("min.insync.replicas"),
        leader_throttled=_throttled(topic_keys.LEADER_THROTTLED, configs),
        follower_throttled=_throttled(topic_keys.FOLLOWER_THROTTLED, configs),
    )


def _throttled(name: str, configs: Mapping[str, str]) -> ThrottledReplicas:
    try:
        return ThrottledReplicas(topic_keys.throttled_replicas(name, configs.get(name, "")))
    except ConfigError as error:
        logger.warning("ignoring a throttle setting: %s", error)
        return NOT_THROTTLED


class _Chosen(Values):
    """One setting after the other: from the topic if it has it, else from the broker."""

    def __init__(self, values: Values, configs: Mapping[str, str]) -> None:
        super().__init__(kafka_configs.TOPIC, configs)
        self._inherited = values

    def integer(self, name: str) -> int:
        """Return an integer, in the unit of the topic's setting."""
        return self._choose(name, int, lambda: self._inherited_integer(name))

    def number(self, name: str) -> float:
        """Return a number."""
        return self._choose(name, float, lambda: self._inherited.number(_synonym(name)))

    def optional_integer(self, name: str) -> int | None:
        """Return an integer that only a topic may have."""
        return self._choose(name, int, lambda: None)

    def text(self, name: str) -> str:
        """Return a text."""
        return self._choose(name, str.strip, lambda: self._inherited.text(_synonym(name)))

    def _choose(self, key: str, parse: Callable[[str], T], default: Callable[[], T]) -> T:
        text = self._properties.get(key)
        if text is None:
            return default()
        try:
            return parse(text)
        except ValueError:
            logger.warning("topic config %s=%s is not a number; using the default", key, text)
            return default()

    def _inherited_integer(self, name: str) -> int:
        for synonym, factor in kafka_configs.TOPIC[name].synonyms:
            value = self._inherited.optional_integer(synonym)
            if value is not None:
                return value if value < 0 else min(value * factor, LONG_MAX)
        raise AssertionError(f"{name} has no default")


def _synonym(name: str) -> str:
    """Return the setting of the broker that a topic inherits."""
    return kafka_configs.TOPIC[name].synonyms[0][0]
