"""Transactions: what coordinators and leaders know of them, and ending one at its leader."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jbodlab.kafka_admin.errors import AdminError, check
from jbodlab.kafka_admin.topics import by_topic
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import DescribedTransaction, ListedTransaction, Producer
    from jbodlab.kafka_admin.client import AdminClient

TRANSACTION_KEY = 1
"""Of FindCoordinator."""
_MARKERS_NEWEST = 1
"""Later versions of WriteTxnMarkers say how the transaction was begun, which is not known here."""


async def list_transactions(client: AdminClient, **filters: Any) -> list[ListedTransaction]:
    """Return the transactions that pass the filters of the request; raises RequestError.

    Args:
        client: The cluster.
        filters: Fields of the request; those that are None are left out, so that a version without
            them does, too.

    Raises:
        AdminError: a broker does not know a state that is asked for.
    """
    values = {key: value for key, value in filters.items() if value is not None}
    values = {"state_filters": (), "producer_id_filters": (), **values}
    found: list[ListedTransaction] = []
    for broker in await client.brokers():
        ask = partial(client.call, ApiKey.LIST_TRANSACTIONS, values, broker.id)
        response = await client.ask(ask)
        check(response, f"broker {broker.id}")
        for state in response.unknown_state_filters:
            raise AdminError(f"unknown state {state!r}")
        found += [
            {
                "transactional_id": each.transactional_id,
                "coordinator": broker.id,
                "producer_id": int(each.producer_id),
                "state": each.transaction_state,
            }
            for each in response.transaction_states
        ]
    return sorted(found, key=lambda one: str(one["transactional_id"]))


async def describe_transaction(client: AdminClient, name: str) -> DescribedTransaction:
    """Return what is known of an id, `start_ms` -1 for no transaction; raises RequestError."""
    values = {"transactional_ids": [name]}
    where, entry = await client.at_coordinator(
        TRANSACTION_KEY,
        name,
        lambda broker: client.call(ApiKey.DESCRIBE_TRANSACTIONS, values, broker),
        lambda answer: answer.transaction_states[0],
    )
    check(entry, name)
    start = entry.transaction_start_time
    return {
        "transactional_id": name,
        "coordinator": where,
        "producer_id": int(entry.producer_id),
        "producer_epoch": int(entry.producer_epoch),
        "state": entry.transaction_state,
        "timeout_ms": round(entry.transaction_timeout.total_seconds() * 1000),
        "start_ms": -1 if start is None else round(start.timestamp() * 1000),
        "partitions": [
            {"topic": topic.topic, "partition": index}
            for topic in sorted(entry.topics, key=lambda topic: topic.topic)
            for index in sorted(topic.partitions)
        ],
    }


async def describe_producers(
    client: AdminClient, partitions: Mapping[TopicPartition, int]
) -> list[Producer]:
    """Return the producers of partitions, each asked of a broker; raises RequestError."""
    found: list[Producer] = []
    by_broker = sorted(partitions.items(), key=lambda item: (item[1], item[0]))
    for broker, some in groupby(by_broker, lambda item: item[1]):
        topics = [
            {"name": name, "partition_indexes": indexes}
            for name, indexes in by_topic(one for one, _ in some).items()
        ]
        response = await client.call(ApiKey.DESCRIBE_PRODUCERS, {"topics": topics}, broker)
        for topic in response.topics:
            for one in topic.partitions:
                check(one, str(TopicPartition(topic.name, one.partition_index)))
                found += [
                    {
                        "topic": topic.name,
                        "partition": one.partition_index,
                        "producer_id": int(each.producer_id),
                        "producer_epoch": int(each.producer_epoch),
                        "last_sequence": int(each.last_sequence),
                        "last_timestamp": int(each.last_timestamp),
                        "coordinator_epoch": int(each.coordinator_epoch),
                        "current_txn_start_offset": int(each.current_txn_start_offset),
                    }
                    for each in one.active_producers
                ]
    return sorted(found, key=lambda row: (row["topic"], row["partition"]))


async def abort_transaction(client: AdminClient, leader: int, producer: Producer) -> None:
    """End the transaction of a producer without its coordinator; raises RequestError."""
    place = TopicPartition(producer["topic"], producer["partition"])
    marker = {
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["producer_epoch"],
        "transaction_result": False,
        "topics": [{"name": place.topic, "partition_indexes": [place.partition]}],
        "coordinator_epoch": max(0, producer["coordinator_epoch"]),
    }
    values = {"markers": [marker]}
    response = await client.call(ApiKey.WRITE_TXN_MARKERS, values, leader, newest=_MARKERS_NEWEST)
    check(response.markers[0].topics[0].partitions[0], str(place))
