"""jbodlab transactions: which there are, who takes part, and ending one that hangs."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial

from admin_tool.arguments import add_repeated, seconds
from admin_tool.errors import AdminError, RequestError
from admin_tool.kafka_calls import transactions
from admin_tool.kafka_calls.connection import Connection, connected
from admin_tool.kafka_calls.topics import leaders
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from jbodlab.vocabulary.ids import TopicPartition


def _list_arguments(parser: Parser) -> None:
    add_repeated(parser, "--state", "STATE", "only in this state, such as Ongoing")
    add_repeated(parser, "--producer-id", "N", "only of this producer", int)
    text = "only those that began longer ago than this, such as 10s"
    parser.add_argument("--longer-than", metavar="TIME", type=seconds, help=text)
    text = "only transactional ids that this regular expression matches as a whole"
    parser.add_argument("--pattern", metavar="REGEX", help=text)


def _place_arguments(name: str, text: str, parser: Parser, *, required: bool = False) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("partition", metavar="PARTITION", type=int, help="number of the partition")
    parser.add_argument(name, metavar="N", type=int, required=required, help=text)


_producers_arguments = partial(
    _place_arguments, "--broker", "ask the replica on this broker, not the leader"
)
START = "the first offset of the transaction, as find-hanging shows it"
_abort_arguments = partial(_place_arguments, "--start-offset", START, required=True)


def _hanging_arguments(parser: Parser) -> None:
    add_repeated(parser, "--topic", "TOPIC", "only this topic")
    parser.add_argument("--broker", metavar="N", type=int, help="only partitions that it leads")
    text = "only transactions without a record for longer than this (default: 15m)"
    parser.add_argument("--longer-than", metavar="TIME", type=seconds, default=900.0, help=text)


def _list(options: Namespace, output: Output) -> int:
    filters = {
        "state_filters": options.state,
        "producer_id_filters": options.producer_id,
        "duration_filter": -1 if options.longer_than is None else round(options.longer_than * 1e3),
        "transactional_id_pattern": options.pattern,
        # A version that has the filters: an older one would leave them out.
        "min_version": 2 if options.pattern else int(options.longer_than is not None),
    }
    with connected(options) as connection:
        output.rows(transactions.list_transactions(connection, **filters), "no transactions")
    return 0


def _describe(options: Namespace, output: Output) -> int:
    code, shown = 0, list[transactions.Row]()
    with connected(options) as connection:
        for name in dict.fromkeys(options.ids):
            try:
                shown.append(transactions.describe_transaction(connection, name))
            except RequestError as error:
                code = 1
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return code


def _producers(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        place, leader = _place(connection, options)
        broker = leader if options.broker is None else connection.broker(options.broker).id
        output.rows(transactions.describe_producers(connection, {place: broker}), "no producers")
    return 0


def _abort(options: Namespace, output: Output) -> int:
    offset = options.start_offset
    with connected(options) as connection:
        place, leader = _place(connection, options)
        for producer in transactions.describe_producers(connection, {place: leader}):
            if producer["current_txn_start_offset"] == offset >= 0:
                what = f"the transaction of producer {producer['producer_id']} in {place}"
                output.confirm(f"abort {what}?", yes=options.yes)
                transactions.abort_transaction(connection, leader, producer)
                output.line(f"aborted {what}")
                return 0
    raise AdminError(f"{place} has no open transaction at offset {offset}")


def _find_hanging(options: Namespace, output: Output) -> int:
    before_ms = (time.time() - options.longer_than) * 1000
    with connected(options) as connection:
        by = None if options.broker is None else connection.broker(options.broker).id
        places = leaders(connection, options.topic)
        places = {one: leader for one, leader in places.items() if by in (None, leader)}
        late = [
            row
            for row in transactions.describe_producers(connection, places)
            if row["current_txn_start_offset"] >= 0 and row["last_timestamp"] < before_ms
        ]
        ids = sorted({row["producer_id"] for row in late})
        known = transactions.list_transactions(connection, producer_id_filters=ids) if ids else []
        names = [one["transactional_id"] for one in known]
        # What coordinators know of they end.
        ended = [
            {"producer_id": one["producer_id"], **each}.items()
            for one in map(partial(transactions.describe_transaction, connection), names)
            for each in one["partitions"]
        ]
    hanging = [row for row in late if not any(each <= row.items() for each in ended)]
    output.rows(hanging, "no hanging transactions")
    return 0


def _place(connection: Connection, options: Namespace) -> tuple[TopicPartition, int]:
    """Return the partition of a command line, and its leader."""
    place = TopicPartition(options.topic, options.partition)
    if (leader := leaders(connection, [place.topic]).get(place)) is None:
        raise AdminError(f"{place} does not exist, or has no leader")
    return place, leader


def _text(one: transactions.Row) -> str:
    """Return a transaction as a person reads it."""
    age_s = time.time() - one["start_ms"] / 1000
    took = "" if one["start_ms"] < 0 else f", began {age_s:.0f} s ago"
    partitions = ", ".join(str(TopicPartition(**each)) for each in one["partitions"])
    return (
        f"{one['transactional_id']}: {one['state']}{took}\n"
        f"producer {one['producer_id']} epoch {one['producer_epoch']}, "
        f"timeout {one['timeout_ms'] / 1000:g} s, coordinator broker {one['coordinator']}"
        + (f"\npartitions {partitions}" if partitions else "")
    )


_reading = partial(servers_command, reads=True)
VERBS = {
    "list": _reading(
        "list transactional ids and the states of their transactions",
        _list,
        _list_arguments,
        ("transactions list", "transactions list --state Ongoing --longer-than 1m"),
    ),
    "describe": _reading(
        "show the producer and the partitions of transactions",
        _describe,
        lambda parser: parser.add_argument(
            "ids", metavar="ID", nargs="+", help="the transactional ids"
        ),
        ("transactions describe payments-1",),
    ),
    "producers": _reading(
        "show the producers of a partition, and what they have open",
        _producers,
        _producers_arguments,
        ("transactions producers orders 0",),
    ),
    "find-hanging": _reading(
        "find transactions that nobody will end",
        _find_hanging,
        _hanging_arguments,
        ("transactions find-hanging --topic orders",),
    ),
    "abort": servers_command(
        "end a hanging transaction in one partition",
        _abort,
        _abort_arguments,
        ("transactions abort orders 0 --start-offset 4711",),
        asks=True,
    ),
}
