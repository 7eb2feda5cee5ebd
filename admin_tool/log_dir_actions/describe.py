"""jbod-log-dirs --describe: JSON, a table, or a table that follows the moves."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from admin_tool.errors import AdminError, UsageError
from admin_tool.log_dir_actions.described import described
from admin_tool.log_dir_actions.table import BrokerDirs, moves, render
from admin_tool.options import Parsed, broker_ids, comma_list
from admin_tool.requests.configs import compacted_topics
from admin_tool.requests.connection import Broker, Connection, connected
from admin_tool.requests.dir_details import dir_details
from admin_tool.requests.log_dirs import describe_log_dirs

DEFAULT_INTERVAL_S = 1.0
INTERVAL_MIN_S = 0.1
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def run(options: Parsed) -> int:
    """Show the directories; returns the exit code."""
    topics = frozenset(comma_list(options.text("topic-list")))
    wanted = sorted(set(broker_ids(options.text("broker-list"))))
    interval_s = _interval_s(options)
    with connected(options) as connection:
        brokers = _brokers(connection, wanted)
        if options.has("watch"):
            _watch(connection, brokers, topics, interval_s)
        elif options.has("table"):
            found = _ask(connection, brokers)
            print(render(found, topics, compacted=_compacted(connection, found)))
        else:
            print("Querying brokers for log directories information")
            ids = [broker.id for broker in brokers]
            answers = {broker: describe_log_dirs(connection, broker) for broker in ids}
            print(f"Received log directory information from brokers {_listed(ids)}")
            print(described(answers, topics))
    return 0


def _interval_s(options: Parsed) -> float:
    text = options.text("interval")
    if text is None:
        return DEFAULT_INTERVAL_S
    if not options.has("watch"):
        raise UsageError('Missing required argument "[watch]"')
    try:
        return max(float(text), INTERVAL_MIN_S)
    except ValueError:
        raise UsageError(f"Cannot parse argument '{text}' of option interval") from None


def _brokers(connection: Connection, wanted: Sequence[int]) -> list[Broker]:
    known = {broker.id: broker for broker in connection.brokers()}
    missing = [broker for broker in wanted if broker not in known]
    if missing:
        raise AdminError(
            f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. "
            f"Current existent brokers: {_listed(known)}"
        )
    return [known[broker] for broker in wanted or known]


def _ask(connection: Connection, brokers: Sequence[Broker]) -> list[BrokerDirs]:
    """Ask every broker; one that does not answer takes nothing from what others say."""
    found = []
    for broker in brokers:
        try:
            log_dirs = describe_log_dirs(connection, broker.id)
            details = dir_details(connection, broker)
            found.append(BrokerDirs(broker=broker.id, log_dirs=log_dirs, details=details))
        except AdminError as error:
            found.append(BrokerDirs(broker=broker.id, problem=str(error)))
    return found


def _compacted(connection: Connection, found: Sequence[BrokerDirs]) -> frozenset[str]:
    return compacted_topics(connection, (move.topic for move in moves(found)))


def _watch(
    connection: Connection, brokers: Sequence[Broker], topics: frozenset[str], interval_s: float
) -> None:
    """Print a table again and again, until somebody stops it."""
    before: dict[tuple[int, str, str], int] = {}
    asked_s = time.monotonic()
    while True:
        found = _ask(connection, brokers)
        now_s = time.monotonic()
        copied = {
            (move.broker, move.name, move.target): move.copied_bytes
            for move in moves(found, topics)
        }
        rates = {
            key: max(size - before[key], 0) / (now_s - asked_s)
            for key, size in copied.items()
            if key in before
        }
        before, asked_s = copied, now_s
        text = render(found, topics, rates, _compacted(connection, found))
        print(f"{CLEAR_SCREEN}{text}" if sys.stdout.isatty() else f"{text}\n", flush=True)
        time.sleep(interval_s)


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
