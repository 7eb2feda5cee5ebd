"""Moving partitions between brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin_tool.errors import RequestError, text_of
from admin_tool.kafka_calls.connection import Connection
from admin_tool.kafka_calls.topics import by_topic
from jbodlab.vocabulary.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """An ongoing change of a partition's replicas; `replicas` are the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def list_reassignments(
    connection: Connection, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the ongoing reassignments of some partitions, or of all.

    Raises:
        UnsupportedRequestError: the cluster does not know reassignments.
        RequestError: the cluster refuses to say.
    """
    from kafka.protocol.admin import (  # type: ignore[import-untyped]
        ListPartitionReassignmentsRequest as Request,
    )

    topics = None if partitions is None else list(by_topic(partitions).items())
    timeout_ms = connection.config.request_timeout_ms
    response = connection.call(Request(timeout_ms=timeout_ms, topics=topics))
    if response.error_code:
        raise RequestError(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            replicas=tuple(one.replicas),
            adding=tuple(one.adding_replicas),
            removing=tuple(one.removing_replicas),
        )
        for topic in response.topics
        for one in topic.partitions
    }


def alter_reassignments(
    connection: Connection, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str]:
    """Start reassignments, or cancel those whose target is None.

    Returns:
        What the cluster said of the partitions that it refused.

    Raises:
        RequestError: the cluster refuses all.
    """
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

    wanted = {one: None if ids is None else list(ids) for one, ids in targets.items()}
    topics = [
        (name, [(index, wanted[TopicPartition(name, index)]) for index in indexes])
        for name, indexes in by_topic(targets).items()
    ]
    request = Request(timeout_ms=connection.config.request_timeout_ms, topics=topics)
    response = connection.call(request)
    if response.error_code:
        raise RequestError(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): text_of(one.error_code, one.error_message)
        for topic in response.responses
        for one in topic.partitions
        if one.error_code
    }
