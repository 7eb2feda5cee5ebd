"""Moving partitions between brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbodlab.kafka_admin.errors import check, text_of
from jbodlab.kafka_admin.topics import by_topic
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """An ongoing change of a partition's replicas; `replicas` are the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def list_reassignments(
    client: AdminClient, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the ongoing reassignments of some partitions, or of all.

    Raises:
        UnsupportedRequestError: the cluster does not know reassignments.
        RequestError: the cluster refuses to say.
    """
    topics = None
    if partitions is not None:
        topics = [
            {"name": name, "partition_indexes": indexes}
            for name, indexes in by_topic(partitions).items()
        ]
    values = {"topics": topics, "timeout": client.properties.request_timeout}
    response = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, values)
    check(response)
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            replicas=one.replicas, adding=one.adding_replicas, removing=one.removing_replicas
        )
        for topic in response.topics
        for one in topic.partitions
    }


async def alter_reassignments(
    client: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str]:
    """Start reassignments, or cancel those whose target is None.

    Returns:
        The cluster's errors for the partitions that it refused.

    Raises:
        RequestError: the cluster refuses all.
    """
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "replicas": targets[TopicPartition(name, index)]}
                for index in indexes
            ],
        }
        for name, indexes in by_topic(targets).items()
    ]
    values = {"topics": topics, "timeout": client.properties.request_timeout}
    response = await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, values)
    check(response)
    return {
        TopicPartition(topic.name, one.partition_index): text_of(one.error_code, one.error_message)
        for topic in response.responses
        for one in topic.partitions
        if one.error_code
    }
