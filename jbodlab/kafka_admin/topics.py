"""Topics: listing, describing, creating, growing, deleting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jbodlab.kafka_admin.errors import RequestError, UnsupportedRequestError, check, text_of
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

PAGE_PARTITIONS = 2000
"""Partitions asked for in one DescribeTopicPartitions."""

UNKNOWN_ID = UUID(int=0)
"""Of a topic whose id is not told."""

_MISSING = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One topic of the cluster, and how many partitions it has."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """The state of one partition.

    Attributes:
        leader: None where there is none.
        offline: Replicas whose broker or log directory is offline.
        elr: None where the cluster does not answer it, as `last_known_elr`.
    """

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic with its partitions, in the order of their indexes."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionDescription, ...]

    def partition(self, index: int) -> PartitionDescription | None:
        """Return one partition, None where the topic has fewer."""
        return next((one for one in self.partitions if one.index == index), None)


async def list_topics(client: AdminClient) -> list[TopicListing]:
    """Return all topics, in the order of their names."""
    found = [
        TopicListing(
            name=topic.name,
            topic_id=topic.topic_id or UNKNOWN_ID,
            is_internal=topic.is_internal,
            partitions=len(topic.partitions),
        )
        for topic in await _metadata(client, None)
        if topic.name
    ]
    return sorted(found, key=lambda topic: topic.name)


async def describe_topics(client: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics, in the order of their names; those that do not exist are left out.

    Raises:
        RequestError: a topic cannot be described for another reason.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    try:
        return await _describe_in_pages(client, wanted)
    except UnsupportedRequestError:
        # Metadata knows nothing of ELRs.
        return _described(await _metadata(client, wanted))


async def create_topic(
    client: AdminClient,
    name: str,
    configs: Mapping[str, str],
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
) -> None:
    """Create a topic; the cluster's defaults hold for numbers that are None.

    Args:
        client: The cluster.
        name: Of the topic.
        configs: Values by key.
        partitions: How many.
        replication_factor: Replicas of each partition.
        assignment: Instead of both numbers, the brokers of each partition.

    Raises:
        RequestError: the cluster refuses it.
    """
    topic = {
        "name": name,
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "assignments": [
            {"partition_index": index, "broker_ids": ids}
            for index, ids in enumerate(assignment or ())
        ],
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    values = {"topics": [topic], "timeout": client.properties.request_timeout}
    for result in (await client.call(ApiKey.CREATE_TOPICS, values)).topics:
        check(result)


async def create_partitions(
    client: AdminClient,
    counts: Mapping[str, int],
    added: Mapping[str, Sequence[Sequence[int]]],
) -> None:
    """Give topics more partitions.

    Args:
        client: The cluster.
        counts: How many each topic shall have.
        added: Brokers of the new partitions, for topics where the cluster shall not choose.

    Raises:
        RequestError: the cluster refuses it for one of them.
    """
    topics = [
        {
            "name": name,
            "count": count,
            "assignments": (
                [{"broker_ids": brokers} for brokers in added[name]] if name in added else None
            ),
        }
        for name, count in counts.items()
    ]
    values = {
        "topics": topics,
        "timeout": client.properties.request_timeout,
        "validate_only": False,
    }
    for result in (await client.call(ApiKey.CREATE_PARTITIONS, values)).results:
        check(result)


async def delete_topics(client: AdminClient, names: Iterable[str]) -> dict[str, RequestError]:
    """Delete topics; returns why the cluster refuses some of them."""
    values = {
        "topics": [{"name": name} for name in names],
        "timeout": client.properties.request_timeout,
    }
    return {
        one.name: RequestError(one.error_code, one.error_message)
        for one in (await client.call(ApiKey.DELETE_TOPICS, values)).responses
        if one.error_code
    }


def replicas_of(
    topics: Mapping[str, TopicDescription], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of partitions; those that do not exist are left out."""
    found = {}
    for one in partitions:
        topic = topics.get(one.topic)
        partition = topic.partition(one.partition) if topic is not None else None
        if partition is not None:
            found[one] = partition.replicas
    return found


async def _metadata(client: AdminClient, names: Sequence[str] | None) -> Sequence[Any]:
    wanted = None if names is None else [{"name": name} for name in names]
    values = {"topics": wanted, "allow_auto_topic_creation": False}
    found: Sequence[Any] = (await client.call(ApiKey.METADATA, values)).topics
    return found


async def _describe_in_pages(
    client: AdminClient, names: Sequence[str]
) -> dict[str, TopicDescription]:
    found: list[Any] = []
    cursor: dict[str, Any] | None = None
    while True:
        values = {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": PAGE_PARTITIONS,
            "cursor": cursor,
        }
        response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, values)
        found += response.topics
        follows = response.next_cursor
        if follows is None:
            return _described(found)
        # Topics before the cursor would be described again.
        names = [name for name in names if name >= follows.topic_name]
        cursor = {"topic_name": follows.topic_name, "partition_index": follows.partition_index}


def _described(answered: Iterable[Any]) -> dict[str, TopicDescription]:
    """Return topics by name; one may be answered in several pieces."""
    ids: dict[str, UUID] = {}
    partitions: dict[str, list[PartitionDescription]] = {}
    for topic in answered:
        if topic.error_code in _MISSING:
            continue
        if topic.error_code:
            raise RequestError(topic.error_code, f"{topic.name}: {text_of(topic.error_code, None)}")
        ids[topic.name] = topic.topic_id or UNKNOWN_ID
        partitions.setdefault(topic.name, []).extend(map(_partition, topic.partitions))
    return {
        name: TopicDescription(
            name=name,
            topic_id=ids[name],
            partitions=tuple(sorted(partitions[name], key=lambda one: one.index)),
        )
        for name in sorted(ids)
    }


def _partition(one: Any) -> PartitionDescription:
    return PartitionDescription(
        index=one.partition_index,
        leader=one.leader_id if one.leader_id >= 0 else None,
        replicas=one.replica_nodes,
        isr=one.isr_nodes,
        offline=one.offline_replicas,
        elr=getattr(one, "eligible_leader_replicas", None),
        last_known_elr=getattr(one, "last_known_elr", None),
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in partitions:
        found[one.topic].append(one.partition)
    return found
