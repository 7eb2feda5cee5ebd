"""Offsets of partitions, from their leaders."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from admin_tool.errors import RequestError
from admin_tool.requests.connection import Connection
from admin_tool.requests.topics import describe_topics
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSIONS = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Of ListOffsets, where not every version knows the question."""

RETRY_PAUSE_S = 0.1
_RETRIABLE = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """An offset that was asked for; -1 where no record is so late."""

    offset: int
    timestamp: int


def list_offsets(
    connection: Connection, wanted: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, PartitionOffset | RequestError]:
    """Return the offset of each partition at its timestamp, or at one of the special ones.

    A partition that does not exist or has no leader has that as its error, as has one whose leader
    is still moving at the deadline.

    Raises:
        UnsupportedRequestError: a leader does not know one of the special timestamps.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    found: dict[TopicPartition, PartitionOffset | RequestError] = {}
    rest = dict(wanted)
    while rest:
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        topics = describe_topics(connection, {one.topic for one in rest})
        for one, timestamp in rest.items():
            topic = topics.get(one.topic)
            partition = None if topic is None else topic.partition(one.partition)
            if partition is None:
                found[one] = RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif partition.leader is None:
                found[one] = RequestError(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                by_leader[partition.leader][one] = timestamp
        for leader, asked in by_leader.items():
            found.update(_ask(connection, leader, asked))
        rest = {
            one: timestamp
            for asked in by_leader.values()
            for one, timestamp in asked.items()
            if isinstance(answer := found[one], RequestError) and answer.code in _RETRIABLE
        }
        if not rest or time.monotonic() > deadline:
            break
        time.sleep(RETRY_PAUSE_S)
    return {one: found[one] for one in wanted}


def _ask(
    connection: Connection, leader: int, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionOffset | RequestError]:
    from kafka.protocol.consumer import ListOffsetsRequest as Request  # type: ignore[import-untyped]

    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one, timestamp in sorted(asked.items()):
        by_topic[one.topic].append((one.partition, timestamp))
    topic_type = Request.ListOffsetsTopic
    request = Request(
        replica_id=-1,
        isolation_level=0,
        topics=[
            topic_type(
                name=topic,
                partitions=[
                    topic_type.ListOffsetsPartition(
                        partition_index=index, current_leader_epoch=-1, timestamp=timestamp
                    )
                    for index, timestamp in partitions
                ],
            )
            for topic, partitions in by_topic.items()
        ],
        timeout_ms=connection.config.request_timeout_ms,
        min_version=max(FIRST_VERSIONS.get(timestamp, 1) for timestamp in asked.values()),
    )
    return {
        TopicPartition(topic.name, one.partition_index): (
            RequestError(one.error_code)
            if one.error_code
            else PartitionOffset(offset=one.offset, timestamp=one.timestamp)
        )
        for topic in connection.call(request, leader).topics
        for one in topic.partitions
    }
