"""jbodlab dirs list and describe."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence

from admin_tool.arguments import add_brokers, names
from admin_tool.errors import AdminError
from admin_tool.kafka_calls.configs import compacted_topics
from admin_tool.kafka_calls.connection import Broker, Connection, connected
from admin_tool.kafka_calls.log_dirs import describe_log_dirs
from admin_tool.log_dir_actions import render_replicas
from admin_tool.log_dir_actions.planning import dirs_of
from admin_tool.log_dir_actions.table import BrokerDirs, as_value, moves, render
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser, UsageError

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


def _list_arguments(parser: Parser) -> None:
    add_brokers(parser, "only directories of these brokers")
    parser.add_argument(
        "--watch", action="store_true", help="print again and again, with the speed of moves"
    )
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=interval,
        help=f"with --watch: time between two tables (default: {DEFAULT_INTERVAL_S:g})",
    )


def _list(options: Namespace, output: Output) -> int:
    if options.interval is not None and not options.watch:
        raise UsageError("--interval needs --watch")
    with connected(options) as connection:
        brokers = connection.selected(options.brokers)
        if options.watch:
            _watch(connection, brokers, options.interval or DEFAULT_INTERVAL_S, output)
        found, problems = _ask(connection, brokers)
        compacted = _compacted(connection, found)
    output.result(as_value(found, compacted), render(found, compacted=compacted))
    if problems:
        raise AdminError("; ".join(problems))
    return 0


def _describe_arguments(parser: Parser) -> None:
    add_brokers(parser, "only directories of these brokers")
    parser.add_argument(
        "--topics",
        metavar="A,B",
        type=names,
        default=frozenset(),
        help="only replicas of these topics",
    )


def _describe(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        brokers = connection.selected(options.brokers)
        found = {one.id: describe_log_dirs(connection, one.id) for one in brokers}
    output.result(
        render_replicas.as_value(found, options.topics),
        render_replicas.as_text(found, options.topics),
    )
    return 0


def _ask(connection: Connection, brokers: Sequence[Broker]) -> tuple[list[BrokerDirs], list[str]]:
    """Ask every broker; returns what brokers answer, and why some do not."""
    found, problems = [], []
    for broker in brokers:
        try:
            found.append(dirs_of(connection, broker))
        except AdminError as error:
            problems.append(str(error))
    return found, problems


def _compacted(connection: Connection, found: Sequence[BrokerDirs]) -> frozenset[str]:
    return compacted_topics(connection, (move.topic for move in moves(found)))


def _watch(
    connection: Connection, brokers: Sequence[Broker], interval_s: float, output: Output
) -> None:
    """Print the tables again and again, until somebody stops it."""
    before: dict[tuple[int, str, str], int] = {}
    asked_s = time.monotonic()
    while True:
        found, problems = _ask(connection, brokers)
        now_s = time.monotonic()
        copied = {(move.broker, move.name, move.target): move.copied_bytes for move in moves(found)}
        rates = {
            key: max(size - before[key], 0) / (now_s - asked_s)
            for key, size in copied.items()
            if key in before
        }
        before, asked_s = copied, now_s
        compacted = _compacted(connection, found)
        text = "\n".join([render(found, rates, compacted), *problems])
        clear = CLEAR_SCREEN if output.out.isatty() else ""
        output.result(as_value(found, compacted), f"{clear}{text}\n")
        sys.stdout.flush()
        time.sleep(interval_s)


LIST = servers_command(
    help="list directories: state, space, number of replicas, and the moves under way",
    run=_list,
    arguments=_list_arguments,
    examples=("dirs list", "dirs list --watch", "dirs list --brokers 1,2 --output json"),
    reads=True,
)
DESCRIBE = servers_command(
    help="show the replicas in directories; as JSON in the form of kafka-log-dirs",
    run=_describe,
    arguments=_describe_arguments,
    examples=("dirs describe --topics orders", "dirs describe --brokers 1,2 --output json"),
    reads=True,
)
