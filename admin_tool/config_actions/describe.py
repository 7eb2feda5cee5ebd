"""jbod-configs --describe."""

from __future__ import annotations

from collections.abc import Mapping

from admin_tool.config_actions.kinds import QUOTA_KINDS, RESOURCES, dynamic_source, singular
from admin_tool.configs import Entities
from admin_tool.errors import AdminError
from admin_tool.options import DEFAULT_TIMEOUT_MS, Parsed
from admin_tool.requests.configs import (
    ConfigEntry,
    ResourceType,
    Source,
    describe_config,
    names_with_config,
)
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.groups import list_groups
from admin_tool.requests.quotas import ANY, DEFAULT, EXACT, Entity, describe_quotas
from admin_tool.requests.topics import list_topics
from jbodlab.records.json_form import double_text

_SHOWN_KINDS = {"user": "user-principal"}


def run(options: Parsed, entities: Entities) -> int:
    """Show settings; returns the exit code."""
    with connected(options) as connection:
        kind, name = entities[0]
        if kind in RESOURCES:
            names = _names(connection, kind) if name is None else [name]
            for each in names:
                print("\n".join(_shown(connection, kind, each, with_all=options.has("all"))))
            return 0
        wanted = [
            (
                QUOTA_KINDS[each],
                ANY if given is None else EXACT if given else DEFAULT,
                given or None,
            )
            for each, given in entities
        ]
        for entity, quotas in describe_quotas(connection, wanted):
            print(quota_line(entity, quotas))
    return 0


def described(
    kind: str, name: str, entries: tuple[ConfigEntry, ...], *, with_all: bool
) -> list[str]:
    """Return what is shown of an entity: its own settings, or all in force."""
    if name:
        lines = [f"{'All' if with_all else 'Dynamic'} configs for {singular(kind)} {name} are:"]
    else:
        lines = [f"Default configs for {kind} in the cluster are:"]
    source = dynamic_source(RESOURCES[kind], name)
    return lines + [
        f"  {one.name}={_text(one.value)} sensitive={str(one.is_sensitive).lower()} "
        f"synonyms={{{_synonyms(one)}}}"
        for one in sorted(entries, key=lambda one: one.name)
        if with_all or one.source == source
    ]


def quota_line(entity: Entity, quotas: Mapping[str, float]) -> str:
    """Return what is shown of the quotas of an entity."""
    named = ", ".join(
        f"the default {shown}" if name is None else f"{shown} '{name}'"
        for kind, name in sorted(entity.items(), reverse=True)
        for shown in (_SHOWN_KINDS.get(kind, kind),)
    )
    values = ", ".join(f"{key}={double_text(value)}" for key, value in sorted(quotas.items()))
    return f"Quota configs for {named} are {values}"


def _names(connection: Connection, kind: str) -> list[str]:
    match RESOURCES[kind]:
        case ResourceType.TOPIC:
            return [one.name for one in list_topics(connection)]
        case ResourceType.BROKER:
            return [*(str(one.id) for one in connection.brokers()), ""]
        case ResourceType.GROUP:
            return [one.group_id for one in list_groups(connection, DEFAULT_TIMEOUT_MS)]
        case ResourceType.CLIENT_METRICS as kind_of_name:
            return names_with_config(connection, kind_of_name)
        case ResourceType.BROKER_LOGGER:
            raise AssertionError("refused on the command line")


def _shown(connection: Connection, kind: str, name: str, *, with_all: bool) -> list[str]:
    """Return what is shown of an entity, which may be none: any group or metrics have defaults."""
    nothing = [f"The {singular(kind)} '{name}' doesn't exist and doesn't have dynamic config."]
    resource = RESOURCES[kind]
    is_metrics = resource is ResourceType.CLIENT_METRICS
    if is_metrics and not with_all and name not in _names(connection, kind):
        return nothing
    lines = described(kind, name, describe_config(connection, resource, name), with_all=with_all)
    if resource is ResourceType.GROUP and len(lines) == 1 and name not in _names(connection, kind):
        return nothing
    return lines


def _synonyms(entry: ConfigEntry) -> str:
    return ", ".join(
        f"{_source_name(source)}:{name}={_text(value)}"
        for name, (value, source) in zip(entry.synonym_names, entry.synonyms, strict=True)
    )


def _source_name(source: int) -> str:
    try:
        return f"{Source(source).name}_CONFIG"
    except ValueError:
        raise AdminError(f"a setting comes from source {source}, which is not known") from None


def _text(value: str | None) -> str:
    return "null" if value is None else value
