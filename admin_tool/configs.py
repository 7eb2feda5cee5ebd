"""jbodlab configs: show and change the configs of topics, brokers, the cluster and groups."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.errors import unknown
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin import topics
from jbodlab.kafka_admin.configs import (
    ConfigResourceType,
    ConfigSource,
    alter_config,
    describe_config,
)
from jbodlab.kafka_admin.errors import RequestError

if TYPE_CHECKING:
    from jbodlab.cli.results import Config
    from jbodlab.kafka_admin.client import AdminClient


async def describe(options: Namespace, output: Output) -> int:
    """Show configs; returns the exit code."""
    kind = _checked(options)
    async with connected(options) as client:
        await _check_known(client, options)
        entries = await describe_config(client, kind, options.name)
    rows: list[Config] = [
        {
            "name": one.name,
            "value": one.value,
            "source": ConfigSource(one.source).name.lower().replace("_", " "),
        }
        for one in sorted(entries, key=lambda one: one.name)
        if options.all or not one.is_default
    ]
    output.rows(rows, "every config is the default")
    return 0


async def alter(options: Namespace, output: Output) -> int:
    """Change configs, all of them or none; returns the exit code."""
    kind = _checked(options)
    changes: dict[str, str | None] = {**dict(options.set), **dict.fromkeys(options.delete)}
    if not changes:
        raise UsageError("missing --set or --delete")
    async with connected(options) as client:
        await _check_known(client, options)
        try:
            await alter_config(client, kind, options.name, changes)
        except RequestError as error:
            # The cluster has only what somebody has set: a broker knows all keys.
            name = options.name or str((await client.brokers())[0].id)
            known = [one.name for one in await describe_config(client, kind, name)]
            for key in changes:
                if key not in known:
                    raise unknown("key", key, known) from error
            raise
    what = f"{options.kind} {options.name}".strip()
    for key, value in changes.items():
        output.line(f"{what}: {key}{' deleted' if value is None else f'={value}'}")
    return 0


def _checked(options: Namespace) -> ConfigResourceType:
    """Insist that the command line names one entity; returns its kind."""
    is_cluster = options.kind == "cluster"
    if is_cluster != (options.name == ""):
        raise UsageError(f"unexpected argument {options.name!r}" if is_cluster else "missing NAME")
    if options.kind == "broker" and not (options.name.isascii() and options.name.isdecimal()):
        raise UsageError(f"expected the id of a broker, got {options.name!r}")
    return ConfigResourceType["BROKER" if is_cluster else options.kind.upper()]


async def _check_known(client: AdminClient, options: Namespace) -> None:
    if options.kind == "topic":
        known = [one.name for one in await topics.list_topics(client)]
        if options.name not in known:
            raise unknown("topic", options.name, known)
