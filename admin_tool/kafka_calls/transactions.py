"""Transactions: what coordinators and leaders know of them, and ending one at its leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from admin_tool.errors import RequestError, text_of, unknown
from admin_tool.kafka_calls.connection import Connection
from admin_tool.kafka_calls.topics import by_topic
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

TRANSACTION_KEY = 1
WAIT_S, PAUSE_S = 10.0, 0.1
"""How long a coordinator may load or move, and how often it is asked."""
Row = dict[str, Any]
_PASSING = (
    *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ErrorCode.NOT_COORDINATOR,
)


def list_transactions(connection: Connection, **filters: Any) -> list[Row]:
    """Return the transactions that pass the filters of the request; raises RequestError."""
    from kafka.protocol.admin import ListTransactionsRequest  # type: ignore[import-untyped]

    request, found = ListTransactionsRequest(**filters), list[Row]()
    for broker in connection.brokers():
        response = _answer(f"broker {broker.id}", partial(connection.call, request, broker.id))
        for state in response.unknown_state_filters:
            raise unknown("state", state, ())
        found += [
            {
                "transactional_id": each.transactional_id,
                "coordinator": broker.id,
                "producer_id": each.producer_id,
                "state": each.transaction_state,
            }
            for each in response.transaction_states
        ]
    return sorted(found, key=lambda one: str(one["transactional_id"]))


def describe_transaction(connection: Connection, name: str) -> Row:
    """Return what is known of an id, `start_ms` -1 for no transaction; raises RequestError."""
    from kafka.protocol.admin import DescribeTransactionsRequest
    from kafka.protocol.metadata import FindCoordinatorRequest  # type: ignore[import-untyped]

    find = FindCoordinatorRequest(key_type=TRANSACTION_KEY, key=name, max_version=3)
    where, request = find, DescribeTransactionsRequest(transactional_ids=[name])

    def ask() -> Any:
        nonlocal where
        where = connection.call(find)
        if where.error_code:
            return where
        return connection.call(request, where.node_id).transaction_states[0]

    entry = _answer(name, ask)
    return {
        "transactional_id": name,
        "coordinator": where.node_id,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "state": entry.transaction_state,
        "timeout_ms": entry.transaction_timeout_ms,
        "start_ms": entry.transaction_start_time_ms,
        "partitions": [
            {"topic": topic.topic, "partition": index}
            for topic in sorted(entry.topics, key=lambda topic: topic.topic)
            for index in sorted(topic.partitions)
        ],
    }


def describe_producers(
    connection: Connection, partitions: Mapping[TopicPartition, int]
) -> list[Row]:
    """Return the producers of partitions, each asked of a broker; raises RequestError."""
    from kafka.protocol.admin import DescribeProducersRequest

    found = []
    by_broker = sorted(partitions.items(), key=lambda item: (item[1], item[0]))
    for broker, some in groupby(by_broker, lambda item: item[1]):
        wanted = [*by_topic(one for one, _ in some).items()]
        for topic in connection.call(DescribeProducersRequest(topics=wanted), broker).topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                _check(one, str(place))
                found += [{**place._asdict(), **each.to_dict()} for each in one.active_producers]
    return sorted(found, key=lambda row: (row["topic"], row["partition"]))


def abort_transaction(connection: Connection, leader: int, producer: Row) -> None:
    """End the transaction of a producer without its coordinator; raises RequestError."""
    from kafka.protocol.producer import WriteTxnMarkersRequest  # type: ignore[import-untyped]

    place = TopicPartition(producer["topic"], producer["partition"])
    topics, epoch = [(place.topic, [place.partition])], max(0, producer["coordinator_epoch"])
    marker = (producer["producer_id"], producer["producer_epoch"], False, topics, epoch)
    response = connection.call(WriteTxnMarkersRequest(markers=[marker], max_version=1), leader)
    _check(response.markers[0].topics[0].partitions[0], str(place))


def _answer(name: str, ask: Callable[[], Any]) -> Any:
    """Return an answer of a coordinator, which may still load or move; raises RequestError."""
    end_s = time.monotonic() + WAIT_S
    while (answer := ask()).error_code in _PASSING and time.monotonic() < end_s:
        time.sleep(PAUSE_S)
    _check(answer, name)
    return answer


def _check(answer: Any, name: str) -> None:
    if answer.error_code:
        text = text_of(answer.error_code, getattr(answer, "error_message", None))
        raise RequestError(answer.error_code, f"{name}: {text}")
