"""jbodlab dirs list and describe."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.log_dir_actions import render_replicas
from admin_tool.log_dir_actions.planning import dirs_of
from admin_tool.log_dir_actions.table import BrokerDirs, as_value, moves, render
from admin_tool.waiting import pause
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.configs import compacted_topics
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import describe_log_dirs

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient, Broker

DEFAULT_INTERVAL_S = 1.0
INTERVAL_MIN_S = 0.1
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def interval(text: str) -> float:
    """Return a number of seconds, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one, or too small.
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not INTERVAL_MIN_S <= found < float("inf"):
        raise ArgumentTypeError(f"expected at least {INTERVAL_MIN_S} seconds, got {text!r}")
    return found


async def list_all(options: Namespace, output: Output) -> int:
    """List directories: state, space, number of replicas, and the moves under way."""
    if options.interval is not None and not options.watch:
        raise UsageError("--interval needs --watch")
    async with connected(options) as client:
        chosen = await client.selected(options.brokers or ())
        if options.watch:
            await _watch(client, chosen, options.interval or DEFAULT_INTERVAL_S, output)
        found, problems = await _ask(client, chosen)
        compacted = await _compacted(client, found)
    output.result(as_value(found, compacted), render(found, compacted=compacted))
    if problems:
        raise AdminError("; ".join(problems))
    return 0


async def describe(options: Namespace, output: Output) -> int:
    """Show the replicas in directories; as JSON in the form of kafka-log-dirs."""
    async with connected(options) as client:
        chosen = await client.selected(options.brokers or ())
        found = {one.id: await describe_log_dirs(client, one.id) for one in chosen}
    output.result(
        render_replicas.as_value(found, options.topics),
        render_replicas.as_text(found, options.topics),
    )
    return 0


async def _ask(client: AdminClient, asked: Sequence[Broker]) -> tuple[list[BrokerDirs], list[str]]:
    """Ask every broker; returns what brokers answer, and why some do not."""
    found, problems = [], []
    for broker in asked:
        try:
            found.append(await dirs_of(client, broker))
        except AdminError as error:
            problems.append(str(error))
    return found, problems


async def _compacted(client: AdminClient, found: Sequence[BrokerDirs]) -> frozenset[str]:
    return await compacted_topics(client, (move.topic for move in moves(found)))


async def _watch(
    client: AdminClient, asked: Sequence[Broker], interval_s: float, output: Output
) -> None:
    """Print the tables again and again, until somebody stops it."""
    before: dict[tuple[int, str, str], int] = {}
    asked_s = time.monotonic()
    while True:
        found, problems = await _ask(client, asked)
        now_s = time.monotonic()
        copied = {(move.broker, move.name, move.target): move.copied_bytes for move in moves(found)}
        rates = {
            key: max(size - before[key], 0) / (now_s - asked_s)
            for key, size in copied.items()
            if key in before
        }
        before, asked_s = copied, now_s
        compacted = await _compacted(client, found)
        text = "\n".join([render(found, rates, compacted), *problems])
        clear = CLEAR_SCREEN if output.out.isatty() else ""
        output.result(as_value(found, compacted), f"{clear}{text}\n")
        sys.stdout.flush()
        await pause(interval_s)
