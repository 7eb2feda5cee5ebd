"""jbodlab transactions: which there are, who takes part, and ending one that hangs."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Collection
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.errors import unknown
from jbodlab.cli.output import Output
from jbodlab.kafka_admin import transactions
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.kafka_admin.topics import describe_topics, list_topics
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import DescribedTransaction
    from jbodlab.kafka_admin.client import AdminClient


async def list_all(options: Namespace, output: Output) -> int:
    """List transactional ids and the states of their transactions; returns the exit code."""
    filters = {
        "state_filters": options.state,
        "producer_id_filters": options.producer_id,
        "duration_filter": None
        if options.longer_than is None
        else round(options.longer_than * 1e3),
        "transactional_id_pattern": options.pattern,
    }
    async with connected(options) as client:
        output.rows(await transactions.list_transactions(client, **filters), "no transactions")
    return 0


async def describe(options: Namespace, output: Output) -> int:
    """Show the producer and the partitions of transactions; returns the exit code."""
    code = 0
    shown: list[DescribedTransaction] = []
    async with connected(options) as client:
        for name in dict.fromkeys(options.ids):
            try:
                shown.append(await transactions.describe_transaction(client, name))
            except RequestError as error:
                code = 1
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return code


async def producers(options: Namespace, output: Output) -> int:
    """Show the producers of a partition, and what they have open; returns the exit code."""
    async with connected(options) as client:
        place, leader = await _place(client, options)
        broker = leader if options.broker is None else (await client.broker(options.broker)).id
        output.rows(await transactions.describe_producers(client, {place: broker}), "no producers")
    return 0


async def abort(options: Namespace, output: Output) -> int:
    """End a hanging transaction in one partition; returns the exit code."""
    offset = options.start_offset
    async with connected(options) as client:
        place, leader = await _place(client, options)
        for producer in await transactions.describe_producers(client, {place: leader}):
            if producer["current_txn_start_offset"] == offset >= 0:
                what = f"the transaction of producer {producer['producer_id']} in {place}"
                output.confirm(f"abort {what}?", yes=options.yes)
                await transactions.abort_transaction(client, leader, producer)
                output.line(f"aborted {what}")
                return 0
    raise AdminError(f"{place} has no open transaction at offset {offset}")


async def find_hanging(options: Namespace, output: Output) -> int:
    """Find transactions that nobody will end; returns the exit code."""
    before_ms = (time.time() - options.longer_than) * 1000
    async with connected(options) as client:
        by = None if options.broker is None else (await client.broker(options.broker)).id
        places = await _leaders(client, options.topic)
        places = {one: leader for one, leader in places.items() if by in (None, leader)}
        late = [
            row
            for row in await transactions.describe_producers(client, places)
            if row["current_txn_start_offset"] >= 0 and row["last_timestamp"] < before_ms
        ]
        ids = sorted({row["producer_id"] for row in late})
        listed = (
            await transactions.list_transactions(client, producer_id_filters=ids) if ids else []
        )
        known = [
            await transactions.describe_transaction(client, one["transactional_id"])
            for one in listed
        ]
        # Transactions that coordinators know are ended by them.
        ended = {
            (one["producer_id"], each["topic"], each["partition"])
            for one in known
            for each in one["partitions"]
        }
    hanging = [
        row for row in late if (row["producer_id"], row["topic"], row["partition"]) not in ended
    ]
    output.rows(hanging, "no hanging transactions")
    return 0


async def _place(client: AdminClient, options: Namespace) -> tuple[TopicPartition, int]:
    """Return the partition of a command line, and its leader."""
    place = TopicPartition(options.topic, options.partition)
    if (leader := (await _leaders(client, [place.topic])).get(place)) is None:
        raise AdminError(f"{place} does not exist, or has no leader")
    return place, leader


async def _leaders(client: AdminClient, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Return the partitions of topics, all where none is named, that have a leader, and that.

    Raises:
        AdminError: the topic does not exist.
    """
    known = [one.name for one in await list_topics(client)]
    for name in topics:
        if name not in known:
            raise unknown("topic", name, known)
    return {
        TopicPartition(topic.name, one.index): one.leader
        for topic in (await describe_topics(client, topics or known)).values()
        for one in topic.partitions
        if one.leader is not None
    }


def _text(one: DescribedTransaction) -> str:
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
