"""Transactions: what coordinators and leaders know of them, and ending one at its leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from admin_tool.errors import RequestError, unknown
from admin_tool.kafka_calls.connection import Connection
from admin_tool.kafka_calls.topics import describe_topics, list_topics
from admin_tool.waiting import wait_until_empty
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

TRANSACTION_KEY = 1
WAIT_S, PAUSE_S = 10.0, 0.1
"""How long a coordinator may load or move, and how often it is asked."""

_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer of a partition; numbers are -1 where there are none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def list_transactions(
    connection: Connection,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[dict[str, Any]]:
    """Return the transactions of all coordinators that pass the filters, by transactional id.

    Raises:
        RequestError: a broker refuses it, or a state is unknown.
    """
    from kafka.protocol.admin import ListTransactionsRequest  # type: ignore[import-untyped]

    found = []
    for broker in connection.brokers():
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        response = _answer(connection, request, broker.id)
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


def describe_transactions(connection: Connection, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what the coordinators know of transactional ids, or a `RequestError` for one.

    A state has the time at which its transaction began in `start_ms`, -1 for none.
    """
    for name in ids:
        entry, broker = _described(connection, name)
        partitions = sorted(
            TopicPartition(topic.topic, index)
            for topic in entry.topics
            for index in topic.partitions
        )
        yield {
            "transactional_id": name,
            "coordinator": broker,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "state": entry.transaction_state,
            "timeout_ms": entry.transaction_timeout_ms,
            "start_ms": entry.transaction_start_time_ms,
            "partitions": [one._asdict() for one in partitions],
        }


def leaders(connection: Connection, topics: Iterable[str] = ()) -> dict[TopicPartition, int]:
    """Return the partitions of topics, all where none is named, that have a leader, and that."""
    known = [one.name for one in list_topics(connection)]
    for name in topics:
        if name not in known:
            raise unknown("topic", name, known)
    return {
        TopicPartition(topic.name, one.index): one.leader
        for topic in describe_topics(connection, topics or known).values()
        for one in topic.partitions
        if one.leader is not None
    }


def describe_producers(
    connection: Connection, partitions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Return the producers of partitions, each asked of the broker that is named.

    Raises:
        RequestError: a broker refuses it for a partition.
    """
    from kafka.protocol.admin import DescribeProducersRequest

    found = {}
    by_broker = sorted(partitions.items(), key=lambda item: (item[1], item[0]))
    for broker, some in groupby(by_broker, lambda item: item[1]):
        topics = groupby((one for one, _ in some), lambda one: one.topic)
        request = DescribeProducersRequest(
            topics=[(name, [one.partition for one in ones]) for name, ones in topics]
        )
        for topic in connection.call(request, broker).topics:
            for one in topic.partitions:
                if one.error_code:
                    text = f"{topic.name}-{one.partition_index}: {_text(one)}"
                    raise RequestError(one.error_code, text)
                found[TopicPartition(topic.name, one.partition_index)] = [
                    ActiveProducer(
                        **{name: getattr(each, name) for name in ActiveProducer.__slots__}
                    )
                    for each in one.active_producers
                ]
    return found


def abort_transaction(
    connection: Connection, partition: TopicPartition, leader: int, producer: ActiveProducer
) -> None:
    """End the transaction of a producer in one partition without asking its coordinator.

    Raises:
        RequestError: the leader refuses it.
    """
    from kafka.protocol.producer import WriteTxnMarkersRequest  # type: ignore[import-untyped]

    marker = (
        *(producer.producer_id, producer.producer_epoch, False),
        *([(partition.topic, [partition.partition])], max(0, producer.coordinator_epoch)),
    )
    response = connection.call(WriteTxnMarkersRequest(markers=[marker], max_version=1), leader)
    for result in response.markers[0].topics[0].partitions:
        if result.error_code:
            raise RequestError(result.error_code, f"{partition}: {_text(result)}")


def rows_of(
    producers: Mapping[TopicPartition, Iterable[ActiveProducer]],
) -> list[dict[str, Any]]:
    """Return producers as rows, by partition."""
    return [
        {**partition._asdict(), **asdict(each)}
        for partition, some in sorted(producers.items())
        for each in some
    ]


def _described(connection: Connection, name: str) -> tuple[Any, int]:
    from kafka.protocol.admin import DescribeTransactionsRequest
    from kafka.protocol.metadata import FindCoordinatorRequest  # type: ignore[import-untyped]

    found: list[tuple[Any, int]] = []

    def look() -> list[str]:
        where = connection.call(
            FindCoordinatorRequest(key_type=TRANSACTION_KEY, key=name, max_version=3)
        )
        if where.error_code in _PASSING:
            found[:] = [(where, -1)]
            return [name]
        _check(where, name)
        request = DescribeTransactionsRequest(transactional_ids=[name])
        (entry,) = connection.call(request, where.node_id).transaction_states
        found[:] = [(entry, where.node_id)]
        return [name] if entry.error_code in _PASSING else []

    wait_until_empty(look, WAIT_S, PAUSE_S)
    _check(found[0][0], name)
    return found[0]


def _answer(connection: Connection, request: Any, broker: int) -> Any:
    """Return an answer of coordinators, which may still load."""
    found: list[Any] = []

    def look() -> list[Any]:
        found[:] = [connection.call(request, broker)]
        return [one for one in found if one.error_code in _PASSING]

    wait_until_empty(look, WAIT_S, PAUSE_S)
    _check(found[0], f"broker {broker}")
    return found[0]


def _check(response: Any, name: str) -> None:
    if response.error_code:
        raise RequestError(response.error_code, f"{name}: {_text(response)}")


def _text(answer: Any) -> str:
    return str(getattr(answer, "error_message", None) or ErrorCode(answer.error_code).name)
