"""Topics: listing, describing, creating, growing, deleting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from admin_tool.errors import RequestError, UnsupportedRequestError, text_of, unknown
from admin_tool.kafka_calls.connection import Connection
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

PAGE_PARTITIONS = 2000
"""Partitions asked for in one DescribeTopicPartitions."""

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


def list_topics(connection: Connection) -> list[TopicListing]:
    """Return all topics, in the order of their names."""
    found = [
        TopicListing(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=bool(topic.is_internal),
            partitions=len(topic.partitions),
        )
        for topic in _metadata(connection, None)
        if topic.name
    ]
    return sorted(found, key=lambda topic: topic.name)


def describe_topics(connection: Connection, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics, in the order of their names; those that do not exist are left out.

    Raises:
        RequestError: a topic cannot be described for another reason.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    try:
        return _describe_in_pages(connection, wanted)
    except UnsupportedRequestError:
        # Metadata knows nothing of ELRs.
        return _described(_metadata(connection, wanted))


def create_topic(
    connection: Connection,
    name: str,
    configs: Mapping[str, str],
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
) -> None:
    """Create a topic; the cluster's defaults hold for numbers that are None.

    Args:
        connection: The cluster.
        name: Of the topic.
        configs: Values by key.
        partitions: How many.
        replication_factor: Replicas of each partition.
        assignment: Instead of both numbers, the brokers of each partition.

    Raises:
        RequestError: the cluster refuses it.
    """
    from kafka.protocol.admin import CreateTopicsRequest  # type: ignore[import-untyped]

    brokers = [(index, list(ids)) for index, ids in enumerate(assignment or ())]
    topic = (name, partitions or -1, replication_factor or -1, brokers, list(configs.items()))
    request = CreateTopicsRequest(
        topics=[topic], timeout_ms=connection.config.request_timeout_ms, validate_only=False
    )
    _check(connection.call(request).topics)


def create_partitions(
    connection: Connection,
    counts: Mapping[str, int],
    added: Mapping[str, Sequence[Sequence[int]]],
) -> None:
    """Give topics more partitions.

    Args:
        connection: The cluster.
        counts: How many each topic shall have.
        added: Brokers of the new partitions, for topics where the cluster shall not choose.

    Raises:
        RequestError: the cluster refuses it for one of them.
    """
    from kafka.protocol.admin import CreatePartitionsRequest

    topics = [
        (name, count, [(list(brokers),) for brokers in added[name]] if name in added else None)
        for name, count in counts.items()
    ]
    request = CreatePartitionsRequest(
        topics=topics, timeout_ms=connection.config.request_timeout_ms, validate_only=False
    )
    _check(connection.call(request).results)


def delete_topics(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Delete topics; returns why the cluster refuses some of them."""
    from kafka.protocol.admin import DeleteTopicsRequest

    request = DeleteTopicsRequest(
        topics=[(name, None) for name in names],
        timeout_ms=connection.config.request_timeout_ms,
    )
    return {
        one.name: text_of(one.error_code, one.error_message)
        for one in connection.call(request).responses
        if one.error_code
    }


def leaders(connection: Connection, topics: Iterable[str] = ()) -> dict[TopicPartition, int]:
    """Return the partitions of topics, all where none is named, that have a leader, and that.

    Raises:
        AdminError: the topic does not exist.
    """
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


def _check(results: Iterable[Any]) -> None:
    for result in results:
        if result.error_code:
            raise RequestError(result.error_code, getattr(result, "error_message", None))


def _metadata(connection: Connection, names: Sequence[str] | None) -> list[Any]:
    from kafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]

    wanted = None if names is None else [(None, name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return list(connection.call(request).topics)


def _describe_in_pages(connection: Connection, names: Sequence[str]) -> dict[str, TopicDescription]:
    from kafka.protocol.admin import DescribeTopicPartitionsRequest as Request

    found: list[Any] = []
    cursor = None
    while True:
        response = connection.call(
            Request(
                topics=[(name,) for name in names],
                response_partition_limit=PAGE_PARTITIONS,
                cursor=cursor,
            )
        )
        found += response.topics
        follows = response.next_cursor
        if follows is None:
            return _described(found)
        # Topics before the cursor would be described again.
        names = [name for name in names if name >= follows.topic_name]
        cursor = Request.Cursor(
            topic_name=follows.topic_name, partition_index=follows.partition_index
        )


def _described(answered: Iterable[Any]) -> dict[str, TopicDescription]:
    """Return topics by name; one may be answered in several pieces."""
    ids: dict[str, UUID] = {}
    partitions: dict[str, list[PartitionDescription]] = {}
    for topic in answered:
        if topic.error_code in _MISSING:
            continue
        if topic.error_code:
            raise RequestError(topic.error_code, f"{topic.name}: {text_of(topic.error_code, None)}")
        ids[topic.name] = topic.topic_id
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
        replicas=tuple(one.replica_nodes),
        isr=tuple(one.isr_nodes),
        offline=tuple(one.offline_replicas or ()),
        elr=_optional(getattr(one, "eligible_leader_replicas", None)),
        last_known_elr=_optional(getattr(one, "last_known_elr", None)),
    )


def _optional(brokers: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if brokers is None else tuple(brokers)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in partitions:
        found[one.topic].append(one.partition)
    return found
