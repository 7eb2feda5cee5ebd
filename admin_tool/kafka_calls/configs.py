"""Settings of topics and brokers: reading them, and changing some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from admin_tool.errors import AdminError, RequestError
from admin_tool.kafka_calls.connection import Connection


class ResourceType(IntEnum):
    """A kind of resource that has settings."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from; the order has no meaning."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting; `synonyms` are the values it may have from elsewhere, the one in force first.

    Attributes:
        value: None where it is secret or empty.
        source: Number of a `Source`, or another of Kafka's.
    """

    name: str
    value: str | None
    source: int
    synonyms: tuple[tuple[str | None, int], ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it anywhere."""
        return self.source == Source.DEFAULT


Changes = Mapping[str, str | None]
"""New values of settings by key; None deletes one."""

TOPICS_AT_ONCE = 1000
"""Topics asked for in one DescribeConfigs."""

_SET, _DELETE = 0, 1


def describe_topic_configs(
    connection: Connection, names: Iterable[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """Return all settings of topics, in the order of the answer.

    Raises:
        UnsupportedRequestError: the cluster does not answer it.
        RequestError: a topic's settings cannot be read.
    """
    return _describe(connection, ResourceType.TOPIC, list(names), None, None)


def compacted_topics(connection: Connection, names: Iterable[str]) -> frozenset[str]:
    """Return those of the topics that are compacted; none where that cannot be told."""
    wanted = sorted(set(names))
    try:
        found = _describe(connection, ResourceType.TOPIC, wanted, None, ["cleanup.policy"])
    except AdminError:
        return frozenset()
    return frozenset(
        name
        for name, entries in found.items()
        if any("compact" in (entry.value or "") for entry in entries)
    )


def topic_settings(
    connection: Connection, names: Iterable[str], keys: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """Return some settings of topics, by topic and key.

    Raises:
        RequestError: a topic's settings cannot be read.
    """
    wanted = sorted(set(names))
    found: dict[str, dict[str, str | None]] = {}
    for start in range(0, len(wanted), TOPICS_AT_ONCE):
        some = wanted[start : start + TOPICS_AT_ONCE]
        answered = _describe(connection, ResourceType.TOPIC, some, None, list(keys))
        found |= {name: _by_key(entries, keys) for name, entries in answered.items()}
    return found


def broker_settings(
    connection: Connection, broker: int, keys: Sequence[str]
) -> dict[str, str | None]:
    """Return some settings of a broker by key; it leaves out those that it does not know.

    Raises:
        RequestError: the settings cannot be read.
    """
    name = str(broker)
    found = _describe(connection, ResourceType.BROKER, [name], broker, list(keys))
    return _by_key(found[name], keys)


def _by_key(entries: Iterable[ConfigEntry], keys: Sequence[str]) -> dict[str, str | None]:
    return {one.name: one.value for one in entries if one.name in keys}


def min_insync_replicas(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of topics.

    Raises:
        RequestError: a topic's settings cannot be read.
    """
    key = "min.insync.replicas"
    found = topic_settings(connection, names, [key])
    return {name: int(settings.get(key) or 1) for name, settings in found.items()}


def describe_broker_config(connection: Connection, broker: int, key: str) -> ConfigEntry | None:
    """Return one setting of a broker; None where the broker does not know it."""
    name = str(broker)
    entries = _describe(connection, ResourceType.BROKER, [name], broker, [key])[name]
    return next((entry for entry in entries if entry.name == key), None)


def describe_config(
    connection: Connection, kind: ResourceType, name: str
) -> tuple[ConfigEntry, ...]:
    """Return all settings of one resource; no name means all brokers.

    Raises:
        RequestError: the settings cannot be read.
    """
    return _describe(connection, kind, [name], _asked(kind, name), None)[name]


def alter_config(connection: Connection, kind: ResourceType, name: str, changes: Changes) -> None:
    """Change settings of one resource; no name means all brokers.

    Raises:
        RequestError: the cluster refuses a change.
    """
    _alter(connection, kind, {name: changes}, _asked(kind, name))


def alter_topic_configs(connection: Connection, changes: Mapping[str, Changes]) -> None:
    """Change settings of topics.

    Raises:
        RequestError: the cluster refuses a change.
    """
    if changes:
        _alter(connection, ResourceType.TOPIC, changes, None)


def alter_broker_config(connection: Connection, broker: int, changes: Changes) -> None:
    """Change settings of one broker.

    Raises:
        RequestError: the broker refuses a change.
    """
    _alter(connection, ResourceType.BROKER, {str(broker): changes}, broker)


def _asked(kind: ResourceType, name: str) -> int | None:
    """Return the broker that has to answer; None for any."""
    return int(name) if kind is ResourceType.BROKER and name else None


def _describe(
    connection: Connection,
    kind: ResourceType,
    names: list[str],
    broker: int | None,
    keys: list[str] | None,
) -> dict[str, tuple[ConfigEntry, ...]]:
    from kafka.protocol.admin import (  # type: ignore[import-untyped]
        DescribeConfigsRequest,
    )

    if not names:
        return {}
    request = DescribeConfigsRequest(
        resources=[(kind.value, name, keys) for name in names],
        include_synonyms=kind is ResourceType.BROKER,
    )
    found = {}
    for result in connection.call(request, broker).results:
        if result.error_code:
            raise RequestError(result.error_code, result.error_message)
        found[result.resource_name] = tuple(map(_entry, result.configs))
    return found


def _entry(one: Any) -> ConfigEntry:
    return ConfigEntry(
        name=one.name,
        value=one.value,
        source=one.config_source,
        synonyms=tuple((synonym.value, synonym.source) for synonym in one.synonyms or ()),
    )


def _alter(
    connection: Connection,
    kind: ResourceType,
    changes: Mapping[str, Changes],
    broker: int | None,
) -> None:
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    request = IncrementalAlterConfigsRequest(
        resources=[
            (
                kind.value,
                name,
                [(key, _DELETE if new is None else _SET, new) for key, new in wanted.items()],
            )
            for name, wanted in changes.items()
        ],
        validate_only=False,
    )
    for result in connection.call(request, broker).responses:
        if result.error_code:
            raise RequestError(result.error_code, result.error_message)
