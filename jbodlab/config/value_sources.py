"""Where the value of a setting comes from, and which others it would have from elsewhere.

    topic, group  <  one broker, dynamic  <  all brokers, dynamic  <  property file  <  default

The first that has a value wins. A topic setting looks for its synonyms in all layers but the first.

Source: `kafka.server.ConfigHelper`, KIP-226, KIP-569 (types and documentation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from jbodlab.config import dynamic_keys, kafka_configs
from jbodlab.config.key_table import ConfigType, Key
from jbodlab.vocabulary.errors import is_provided

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_ALL_BROKERS = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5
SOURCE_BROKER_LOGGER = 6
SOURCE_CLIENT_METRICS = 7
SOURCE_GROUP = 8
"""Kafka's numbers."""


class BrokerLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Broker settings that are set, layer by layer."""

    broker: Mapping[str, str]
    all_brokers: Mapping[str, str]
    static: Mapping[str, str]

    def of(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield what one setting is set to, with the sources, the strongest first."""
        for configs, source in (
            (self.broker, SOURCE_BROKER),
            (self.all_brokers, SOURCE_ALL_BROKERS),
            (self.static, SOURCE_STATIC),
        ):
            if name in configs:
                yield configs[name].strip(), source


class Synonym(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a setting has somewhere, under the name that it has there."""

    name: str
    value: str | None
    source: int


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a topic, group or broker; of its synonyms the first is in force."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    config_type: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(configs: Mapping[str, str], layers: BrokerLayers) -> tuple[Described, ...]:
    """Return all settings of a topic, by name."""
    return tuple(
        _of_own(key, configs, layers, SOURCE_TOPIC)
        for name, key in sorted(kafka_configs.TOPIC.items())
        if name in configs or not key.is_internal
    )


def describe_group(configs: Mapping[str, str], layers: BrokerLayers) -> tuple[Described, ...]:
    """Return all settings of a group, by name."""
    return tuple(
        _of_own(key, configs, layers, SOURCE_GROUP)
        for name, key in sorted(kafka_configs.GROUP.items())
    )


def describe_client_metrics(configs: Mapping[str, str]) -> tuple[Described, ...]:
    """Return all settings of a subscription to clients' metrics, by name."""
    found = (
        (key, [Synonym(name=name, value=configs[name], source=SOURCE_CLIENT_METRICS)])
        if name in configs
        else (key, [])
        for name, key in sorted(kafka_configs.CLIENT_METRICS.items())
    )
    return tuple(
        _described(key, synonyms, configs.get(key.name, key.default), is_read_only=False)
        for key, synonyms in found
    )


def describe_loggers(levels: Mapping[str, str]) -> tuple[Described, ...]:
    """Return the levels of a broker's loggers, by name."""
    return tuple(
        Described(
            name=name,
            value=level,
            source=SOURCE_BROKER_LOGGER,
            is_read_only=False,
            is_sensitive=False,
            config_type=ConfigType.UNKNOWN.value,
            documentation="",
            synonyms=(),
        )
        for name, level in sorted(levels.items())
    )


def describe_broker(layers: BrokerLayers) -> tuple[Described, ...]:
    """Return the settings of a property file, and what else is set, by name."""
    # A property file may hold anything, and what nobody knows there is not described.
    found = layers.broker.keys() | layers.all_brokers.keys()
    found |= layers.static.keys() & kafka_configs.BROKER.keys()
    found |= {name for name, key in kafka_configs.NODE.items() if not key.is_internal}
    return tuple(
        _of_broker(
            name,
            [
                *(Synonym(name=name, value=value, source=at) for value, at in layers.of(name)),
                *_default(name, _declared(name).default),
            ],
        )
        for name in sorted(found)
    )


def describe_all_brokers(configs: Mapping[str, str]) -> tuple[Described, ...]:
    """Return only the settings that are set for all brokers."""
    return tuple(
        _of_broker(name, [Synonym(name=name, value=value, source=SOURCE_ALL_BROKERS)])
        for name, value in sorted(configs.items())
    )


def _declared(name: str) -> Key:
    """Return how a setting is declared; what nobody knows may be a secret, as in Kafka."""
    return dynamic_keys.key_of(name) or Key(name, ConfigType.UNKNOWN, None, "")


def _of_broker(name: str, synonyms: Sequence[Synonym]) -> Described:
    value = synonyms[0].value if synonyms else None
    is_read_only = dynamic_keys.is_read_only(name)
    key = _declared(name)
    is_sensitive = key.kind in (ConfigType.PASSWORD, ConfigType.UNKNOWN) or is_provided(name)
    return _described(key, synonyms, value, is_read_only=is_read_only, is_sensitive=is_sensitive)


def _of_own(
    key: Key,
    configs: Mapping[str, str],
    layers: BrokerLayers,
    source_of_own: int,
) -> Described:
    """Return a setting of a topic or group; each value is in the unit of its own name."""
    found: list[Synonym] = []
    values: list[str] = []
    if key.name in configs:
        found.append(Synonym(name=key.name, value=configs[key.name], source=source_of_own))
        values.append(configs[key.name])
    for name, factor in key.synonyms:
        for value, source in layers.of(name):
            found.append(Synonym(name=name, value=value, source=source))
            values.append(_scaled(value, factor))
    for name, _ in key.synonyms[:1]:
        found += _default(name, kafka_configs.BROKER[name].default)
    if source_of_own == SOURCE_GROUP and not key.synonyms:
        found += _default(key.name, key.default)
    return _described(key, found, values[0] if values else key.default, is_read_only=False)


def _scaled(value: str, factor: int) -> str:
    # -1 means without end in every unit.
    return value if factor == 1 or int(value) < 0 else str(int(value) * factor)


def _default(name: str, value: str | None) -> tuple[Synonym, ...]:
    return () if value is None else (Synonym(name=name, value=value, source=SOURCE_DEFAULT),)


def _described(
    key: Key,
    synonyms: Sequence[Synonym],
    value: str | None,
    *,
    is_read_only: bool,
    is_sensitive: bool = False,
) -> Described:
    if is_sensitive:
        value, synonyms = None, [replace(each, value=None) for each in synonyms]
    return Described(
        name=key.name,
        value=value,
        source=synonyms[0].source if synonyms else SOURCE_DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=is_sensitive,
        config_type=key.kind.value,
        documentation=key.meaning,
        synonyms=tuple(synonyms),
    )
