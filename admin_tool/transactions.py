"""jbodlab transactions: which there are, who takes part, and ending one that hangs.

A transaction hangs if a partition has it open and its coordinator does not know of that: nobody
will end it, and readers of committed records stand before it.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from admin_tool.arguments import add_repeated, seconds
from admin_tool.errors import AdminError, RequestError
from admin_tool.kafka_calls import transactions
from admin_tool.kafka_calls.connection import Connection, connected
from admin_tool.kafka_calls.transactions import ActiveProducer
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from jbodlab.vocabulary.ids import TopicPartition

TIMEOUT_MAX_S = 900.0
"""The longest timeout that brokers allow by default."""

Open = Mapping[TopicPartition, Sequence[ActiveProducer]]


def _list_arguments(parser: Parser) -> None:
    add_repeated(parser, "--state", "STATE", "only in this state, such as Ongoing")
    add_repeated(parser, "--producer-id", "N", "only of this producer", int)
    text = "only those that began longer ago than this, such as 10s"
    parser.add_argument("--longer-than", metavar="TIME", type=seconds, help=text)
    text = "only transactional ids that this regular expression matches as a whole"
    parser.add_argument("--pattern", metavar="REGEX", help=text)


def _describe_arguments(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="the transactional ids")


def _partition_arguments(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("partition", metavar="PARTITION", type=int, help="number of the partition")


def _producers_arguments(parser: Parser) -> None:
    _partition_arguments(parser)
    text = "ask the replica on this broker, not the leader"
    parser.add_argument("--broker", metavar="N", type=int, help=text)


def _abort_arguments(parser: Parser) -> None:
    _partition_arguments(parser)
    text = "the first offset of the transaction, as find-hanging shows it"
    parser.add_argument("--start-offset", metavar="N", type=int, required=True, help=text)


def _hanging_arguments(parser: Parser) -> None:
    add_repeated(parser, "--topic", "TOPIC", "only this topic")
    parser.add_argument("--broker", metavar="N", type=int, help="only partitions that it leads")
    text = "only transactions without a record for longer than this (default: 15m)"
    parser.add_argument(
        "--longer-than", metavar="TIME", type=seconds, default=TIMEOUT_MAX_S, help=text
    )


def _list(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        found = transactions.list_transactions(
            connection,
            states=options.state,
            producer_ids=options.producer_id,
            duration_ms=-1 if options.longer_than is None else round(options.longer_than * 1000),
            pattern=options.pattern,
        )
    output.rows(found, "no transactions")
    return 0


def _describe(options: Namespace, output: Output) -> int:
    code = 0
    shown: list[dict[str, Any]] = []
    with connected(options) as connection:
        for name in dict.fromkeys(options.ids):
            try:
                shown += transactions.describe_transactions(connection, [name])
            except RequestError as error:
                code = 1
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return code


def _producers(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        partition, leader = _partition(connection, options)
        broker = leader if options.broker is None else connection.broker(options.broker).id
        found = transactions.describe_producers(connection, {partition: broker})
    output.rows(transactions.rows_of(found), "no producers")
    return 0


def _abort(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        partition, leader = _partition(connection, options)
        producers = transactions.describe_producers(connection, {partition: leader})[partition]
        wanted = [
            one for one in producers if one.current_txn_start_offset == options.start_offset >= 0
        ]
        if not wanted:
            raise AdminError(
                f"{partition} has no open transaction at offset {options.start_offset}"
            )
        (producer,) = wanted
        output.confirm(
            f"abort the transaction of producer {producer.producer_id} in {partition}?",
            yes=options.yes,
        )
        transactions.abort_transaction(connection, partition, leader, producer)
    output.line(f"aborted the transaction of producer {producer.producer_id} in {partition}")
    return 0


def _find_hanging(options: Namespace, output: Output) -> int:
    with connected(options) as connection:
        places = transactions.leaders(connection, options.topic)
        if options.broker is not None:
            broker = connection.broker(options.broker).id
            places = {one: leader for one, leader in places.items() if leader == broker}
        before_ms = (time.time() - options.longer_than) * 1000
        late = {
            partition: [one for one in some if _is_open(one) and one.last_timestamp < before_ms]
            for partition, some in transactions.describe_producers(connection, places).items()
        }
        found = hanging(late, _known(connection, late))
    output.rows(transactions.rows_of(found), "no hanging transactions")
    return 0


def hanging(late: Open, known: Mapping[int, frozenset[TopicPartition]]) -> Open:
    """Return the open transactions that nobody will end; pure.

    Args:
        late: Producers with a transaction that is open in a partition.
        known: The partitions that coordinators know of, by producer id.
    """
    return {
        partition: [one for one in some if partition not in known.get(one.producer_id, frozenset())]
        for partition, some in late.items()
    }


def _known(connection: Connection, late: Open) -> dict[int, frozenset[TopicPartition]]:
    """Return the partitions of the producers' transactions, as their coordinators know them."""
    ids = sorted({one.producer_id for some in late.values() for one in some})
    if not ids:
        return {}
    names = [
        one["transactional_id"]
        for one in transactions.list_transactions(connection, producer_ids=ids)
    ]
    return {
        one["producer_id"]: frozenset(TopicPartition(**each) for each in one["partitions"])
        for one in transactions.describe_transactions(connection, names)
    }


def _is_open(producer: ActiveProducer) -> bool:
    return producer.current_txn_start_offset >= 0


def _partition(connection: Connection, options: Namespace) -> tuple[TopicPartition, int]:
    """Return the partition of a command line, and its leader."""
    partition = TopicPartition(options.topic, options.partition)
    leader = transactions.leaders(connection, [options.topic]).get(partition)
    if leader is None:
        raise AdminError(f"{partition} does not exist, or has no leader")
    return partition, leader


def _text(one: Mapping[str, Any]) -> str:
    """Return a transaction as a person reads it."""
    took = (
        "" if one["start_ms"] < 0 else f", began {time.time() - one['start_ms'] / 1000:.0f} s ago"
    )
    lines = [
        f"{one['transactional_id']}: {one['state']}{took}",
        f"producer {one['producer_id']} epoch {one['producer_epoch']}, "
        f"timeout {one['timeout_ms'] / 1000:g} s, coordinator broker {one['coordinator']}",
    ]
    if one["partitions"]:
        partitions = ", ".join(str(TopicPartition(**each)) for each in one["partitions"])
        lines.append(f"partitions {partitions}")
    return "\n".join(lines)


VERBS = {
    "list": servers_command(
        "list transactional ids and the states of their transactions",
        _list,
        _list_arguments,
        ("transactions list", "transactions list --state Ongoing --longer-than 1m"),
        reads=True,
    ),
    "describe": servers_command(
        "show the producer and the partitions of transactions",
        _describe,
        _describe_arguments,
        ("transactions describe payments-1",),
        reads=True,
    ),
    "producers": servers_command(
        "show the producers of a partition, and what they have open",
        _producers,
        _producers_arguments,
        ("transactions producers orders 0",),
        reads=True,
    ),
    "find-hanging": servers_command(
        "find transactions that nobody will end",
        _find_hanging,
        _hanging_arguments,
        ("transactions find-hanging --topic orders",),
        reads=True,
    ),
    "abort": servers_command(
        "end a hanging transaction in one partition",
        _abort,
        _abort_arguments,
        ("transactions abort orders 0 --start-offset 4711",),
        asks=True,
    ),
}
