"""Where the value of a setting comes from, and which others it would have from elsewhere.

    topic    <  one broker, dynamic  <  all brokers, dynamic  <  property file  <  default

The first that has a value wins. A topic setting looks for its synonyms in all layers but the first.

Source: `kafka.server.ConfigHelper`, KIP-226, KIP-569 (types and documentation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jbodlab.config import dynamic_keys, topic_keys
from jbodlab.config.key_table import INT_MAX, Key, Kind

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_ALL_BROKERS = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5
"""Kafka's numbers."""

_TYPES = {Kind.FLAG: 1, Kind.TEXT: 2, Kind.NUMBER: 6, Kind.LIST: 7}
_TYPE_INT, _TYPE_LONG = 3, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """What is set of broker settings, layer by layer."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A value that a setting has somewhere, under the name that it has there."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One setting of a topic or broker; of its synonyms the first is in force."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    config_type: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(configs: Mapping[str, str], layers: BrokerLayers) -> tuple[Described, ...]:
    """Return all settings of a topic, by name."""
    return tuple(
        _described(key, _topic_values(key, configs, layers), is_read_only=False)
        for _, key in sorted(topic_keys.TOPIC_CONFIGS.items())
    )


def describe_broker(layers: BrokerLayers) -> tuple[Described, ...]:
    """Return all settings of a broker, by name."""
    return tuple(
        _described(
            key,
            [
                *(Synonym(name=name, value=value, source=at) for value, at in layers.of(name)),
                *_default(name, key.default),
            ],
            is_read_only=dynamic_keys.is_read_only(name),
        )
        for name, key in sorted(dynamic_keys.BROKER_TABLE.items())
    )


def describe_all_brokers(configs: Mapping[str, str]) -> tuple[Described, ...]:
    """Return what is set for all brokers, and nothing else."""
    return tuple(
        _described(
            dynamic_keys.BROKER_TABLE[name],
            [Synonym(name=name, value=value, source=SOURCE_ALL_BROKERS)],
            is_read_only=dynamic_keys.is_read_only(name),
        )
        for name, value in sorted(configs.items())
        if name in dynamic_keys.BROKER_TABLE
    )


def _topic_values(key: Key, configs: Mapping[str, str], layers: BrokerLayers) -> list[Synonym]:
    found = []
    if key.name in configs:
        found.append(Synonym(name=key.name, value=configs[key.name], source=SOURCE_TOPIC))
    for name, factor in topic_keys.synonyms(key.name):
        found += [
            Synonym(name=name, value=_scaled(value, factor), source=source)
            for value, source in layers.of(name)
        ]
    return [*found, *_default(key.name, key.default)]


def _scaled(value: str, factor: int) -> str:
    # -1 means without end in every unit.
    return value if factor == 1 or int(value) < 0 else str(int(value) * factor)


def _default(name: str, value: str | None) -> tuple[Synonym, ...]:
    return () if value is None else (Synonym(name=name, value=value, source=SOURCE_DEFAULT),)


def _described(key: Key, values: Sequence[Synonym], *, is_read_only: bool) -> Described:
    return Described(
        name=key.name,
        value=values[0].value if values else None,
        source=values[0].source if values else SOURCE_DEFAULT,
        is_read_only=is_read_only,
        config_type=_config_type(key),
        documentation=key.meaning,
        synonyms=tuple(values),
    )


def _config_type(key: Key) -> int:
    if key.kind is Kind.INTEGER:
        return _TYPE_INT if key.maximum is not None and key.maximum <= INT_MAX else _TYPE_LONG
    return _TYPES[key.kind]
