"""Settings of topics and brokers: reading them, and changing some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from jbodlab.kafka_admin.errors import AdminError, check
from jbodlab.kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class ConfigResourceType(IntEnum):
    """A kind of resource that has settings."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
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
        source: Number of a `ConfigSource`, or another of Kafka's.
    """

    name: str
    value: str | None
    source: int
    synonyms: tuple[tuple[str | None, int], ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it anywhere."""
        return self.source == ConfigSource.DEFAULT


Changes = Mapping[str, str | None]
"""New values of settings by key; None deletes one."""

TOPICS_AT_ONCE = 1000
"""Topics asked for in one DescribeConfigs."""

_SET, _DELETE = 0, 1


async def describe_topic_configs(
    client: AdminClient, names: Iterable[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """Return all settings of topics, in the order of the answer.

    Raises:
        UnsupportedRequestError: the cluster does not answer it.
        RequestError: a topic's settings cannot be read.
    """
    return await _describe(client, ConfigResourceType.TOPIC, list(names), None, None)


async def compacted_topics(client: AdminClient, names: Iterable[str]) -> frozenset[str]:
    """Return those of the topics that are compacted; none where that cannot be told."""
    wanted = sorted(set(names))
    try:
        found = await _describe(client, ConfigResourceType.TOPIC, wanted, None, ["cleanup.policy"])
    except AdminError:
        return frozenset()
    return frozenset(
        name
        for name, entries in found.items()
        if any("compact" in (entry.value or "") for entry in entries)
    )


async def topic_settings(
    client: AdminClient, names: Iterable[str], keys: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """Return some settings of topics, by topic and key.

    Raises:
        RequestError: a topic's settings cannot be read.
    """
    wanted = sorted(set(names))
    found: dict[str, dict[str, str | None]] = {}
    for start in range(0, len(wanted), TOPICS_AT_ONCE):
        some = wanted[start : start + TOPICS_AT_ONCE]
        answered = await _describe(client, ConfigResourceType.TOPIC, some, None, list(keys))
        found |= {name: _by_key(entries, keys) for name, entries in answered.items()}
    return found


async def broker_settings(
    client: AdminClient, broker: int, keys: Sequence[str]
) -> dict[str, str | None]:
    """Return some settings of a broker by key; it leaves out those that it does not know.

    Raises:
        RequestError: the settings cannot be read.
    """
    name = str(broker)
    found = await _describe(client, ConfigResourceType.BROKER, [name], broker, list(keys))
    return _by_key(found[name], keys)


def _by_key(entries: Iterable[ConfigEntry], keys: Sequence[str]) -> dict[str, str | None]:
    return {one.name: one.value for one in entries if one.name in keys}


async def min_insync_replicas(client: AdminClient, names: Iterable[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of topics.

    Raises:
        RequestError: a topic's settings cannot be read.
    """
    key = "min.insync.replicas"
    found = await topic_settings(client, names, [key])
    return {name: int(settings.get(key) or 1) for name, settings in found.items()}


async def describe_broker_config(client: AdminClient, broker: int, key: str) -> ConfigEntry | None:
    """Return one setting of a broker; None where the broker does not know it."""
    name = str(broker)
    found = await _describe(client, ConfigResourceType.BROKER, [name], broker, [key])
    return next((entry for entry in found[name] if entry.name == key), None)


async def describe_config(
    client: AdminClient, kind: ConfigResourceType, name: str
) -> tuple[ConfigEntry, ...]:
    """Return all settings of one resource; no name means all brokers.

    Raises:
        RequestError: the settings cannot be read.
    """
    return (await _describe(client, kind, [name], _asked(kind, name), None))[name]


async def alter_config(
    client: AdminClient, kind: ConfigResourceType, name: str, changes: Changes
) -> None:
    """Change settings of one resource; no name means all brokers.

    Raises:
        RequestError: the cluster refuses a change.
    """
    await _alter(client, kind, {name: changes}, _asked(kind, name))


async def alter_topic_configs(client: AdminClient, changes: Mapping[str, Changes]) -> None:
    """Change settings of topics.

    Raises:
        RequestError: the cluster refuses a change.
    """
    if changes:
        await _alter(client, ConfigResourceType.TOPIC, changes, None)


async def alter_broker_config(client: AdminClient, broker: int, changes: Changes) -> None:
    """Change settings of one broker.

    Raises:
        RequestError: the broker refuses a change.
    """
    await _alter(client, ConfigResourceType.BROKER, {str(broker): changes}, broker)


def _asked(kind: ConfigResourceType, name: str) -> int | None:
    """Return the broker that has to answer; None for any."""
    return int(name) if kind is ConfigResourceType.BROKER and name else None


async def _describe(
    client: AdminClient,
    kind: ConfigResourceType,
    names: list[str],
    broker: int | None,
    keys: list[str] | None,
) -> dict[str, tuple[ConfigEntry, ...]]:
    if not names:
        return {}
    resources = [
        {"resource_type": kind.value, "resource_name": name, "configuration_keys": keys}
        for name in names
    ]
    values = {"resources": resources, "include_synonyms": kind is ConfigResourceType.BROKER}
    found = {}
    for result in (await client.call(ApiKey.DESCRIBE_CONFIGS, values, broker)).results:
        check(result)
        found[result.resource_name] = tuple(map(_entry, result.configs))
    return found


def _entry(one: Any) -> ConfigEntry:
    return ConfigEntry(
        name=one.name,
        value=one.value,
        source=one.config_source,
        synonyms=tuple((synonym.value, synonym.source) for synonym in one.synonyms),
    )


async def _alter(
    client: AdminClient,
    kind: ConfigResourceType,
    changes: Mapping[str, Changes],
    broker: int | None,
) -> None:
    resources = [
        {
            "resource_type": kind.value,
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": _DELETE if new is None else _SET, "value": new}
                for key, new in wanted.items()
            ],
        }
        for name, wanted in changes.items()
    ]
    values = {"resources": resources, "validate_only": False}
    response = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, values, broker)
    for result in response.responses:
        check(result)
