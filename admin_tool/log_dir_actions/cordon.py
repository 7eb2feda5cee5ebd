"""jbodlab dirs cordon and uncordon: the dynamic config `cordoned.log.dirs` of a broker.

Its value is a comma list of the broker's log directories, or `*` for all of them (KIP-1066). It is
read, changed and written back: of two operators at once the later one wins.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from admin_tool.arguments import listed
from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import resolve
from jbodlab.cli.dir_names import DirName
from jbodlab.cli.output import Output
from jbodlab.kafka_admin.configs import (
    ConfigEntry,
    ConfigSource,
    alter_broker_config,
    describe_broker_config,
)
from jbodlab.kafka_admin.errors import UnsupportedRequestError
from jbodlab.kafka_admin.log_dirs import describe_log_dirs

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

KEY = "cordoned.log.dirs"
ALL = "*"


async def run(options: Namespace, output: Output, verb: str) -> int:
    """Let no new replicas into directories, or let them in again; returns the exit code."""
    is_cordon = verb == "cordon"
    by_broker: dict[int, list[DirName]] = {}
    for name in options.dirs:
        by_broker.setdefault(name.broker, []).append(name)
    async with connected(options) as client:
        for broker in by_broker:
            await client.broker(broker)
        for broker, names in sorted(by_broker.items()):
            after = await _change(client, broker, names, is_cordon=is_cordon)
            output.line(f"cordoned directories of broker {broker}: {listed(after) or 'none'}")
    return 0


async def _change(
    client: AdminClient, broker: int, names: Sequence[DirName], *, is_cordon: bool
) -> list[str]:
    log_dirs = await describe_log_dirs(client, broker)
    wanted = [ALL if name.is_broker else resolve(name, log_dirs).path for name in names]
    entry = await describe_broker_config(client, broker, KEY)
    if entry is None:
        raise UnsupportedRequestError(f"broker {broker} does not know the config {KEY}")
    before = [part for part in (entry.value or "").split(",") if part]
    after = cordoned(before, wanted, [one.path for one in log_dirs], is_cordon=is_cordon)
    if after != before:
        await alter_broker_config(client, broker, {KEY: new_value(entry, after)})
    return after


def cordoned(
    before: Sequence[str], wanted: Sequence[str], paths: Sequence[str], *, is_cordon: bool
) -> list[str]:
    """Return the new value of the config; pure.

    Args:
        before: Its value so far.
        wanted: The directories to cordon or uncordon, or `*`.
        paths: All directories of the broker.
        is_cordon: False takes them out.
    """
    if ALL in wanted:
        return [ALL] if is_cordon else []
    if is_cordon:
        if ALL in before:
            return [ALL]
        return [*before, *(path for path in dict.fromkeys(wanted) if path not in before)]
    # Taken out of all, the others stay.
    held = sorted(paths) if ALL in before else before
    return [path for path in held if path not in wanted]


def new_value(entry: ConfigEntry, after: Sequence[str]) -> str | None:
    """Return the new value of the config, None where it is deleted; pure.

    An empty one is deleted, unless another value would then come forth from below: that of the
    broker's property file, or of all brokers.
    """
    below = [value for value, source in entry.synonyms if source != ConfigSource.DYNAMIC_BROKER]
    return ",".join(after) if after or any(below) else None
