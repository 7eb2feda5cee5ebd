"""The two requests that a follower sends to its leader, as Kafka messages.

Fetch 18 names topics by id and the replica with its broker epoch, and sends the known high
watermark. ListOffsets 5 is for the rare follower whose log end is outside the leader's log.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from broker.following.lane_session import LaneSession, SessionReplica
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicPartition

FETCH_VERSION = 18
LIST_OFFSETS_VERSION = 5


def fetch_request(
    asked: Iterable[SessionReplica],
    session: LaneSession,
    *,
    broker_id: BrokerId,
    broker_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> Any:
    """Build the fetch of a follower: what its session has to be told."""
    messages = _module(ApiKey.FETCH, FETCH_VERSION)
    by_topic: dict[TopicId, list[Any]] = {}
    for one in asked:
        by_topic.setdefault(one.partition.topic_id, []).append(
            messages.FetchPartition(
                partition=one.partition.topic_partition.partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.fetch_offset,
                last_fetched_epoch=one.last_fetched_epoch,
                log_start_offset=one.log_start_offset,
                partition_max_bytes=partition_max_bytes,
                replica_directory_id=one.log.log_dir.directory_id,
                high_watermark=one.partition.high_watermark,
            )
        )
    forgotten: dict[TopicId, list[int]] = {}
    for key in session.forgotten:
        forgotten.setdefault(key.topic_id, []).append(key.partition)
    return messages.FetchRequest(
        replica_state=messages.ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
        max_wait=dt.timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=tuple(
            messages.FetchTopic(topic_id=topic_id, partitions=tuple(wanted))
            for topic_id, wanted in by_topic.items()
        ),
        forgotten_topics_data=tuple(
            messages.ForgottenTopic(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in forgotten.items()
        ),
    )


def list_offsets_request(
    topic_partition: TopicPartition, *, broker_id: BrokerId, leader_epoch: int, timestamp: int
) -> Any:
    """Build the question for one end of the leader's log."""
    messages = _module(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION)
    wanted = messages.ListOffsetsPartition(
        partition_index=topic_partition.partition,
        current_leader_epoch=leader_epoch,
        timestamp=timestamp,
    )
    topic = messages.ListOffsetsTopic(name=topic_partition.topic, partitions=(wanted,))
    return messages.ListOffsetsRequest(replica_id=broker_id, isolation_level=0, topics=(topic,))


def listed_offset(response: Any) -> int:
    """Return the one offset of a ListOffsets response.

    Raises:
        KafkaError: the leader answered an error.
    """
    answer = response.topics[0].partitions[0]
    if int(answer.error_code) != ErrorCode.NONE:
        raise KafkaError(ErrorCode(int(answer.error_code)))
    offset: int = answer.offset
    return offset


def fetched_partitions(response: Any) -> Sequence[tuple[TopicId, Any]]:
    """Return topic id and data of each partition in a Fetch response."""
    return [
        (TopicId(topic.topic_id), data) for topic in response.responses for data in topic.partitions
    ]


@cache
def _module(key: ApiKey, version: int) -> Any:
    """Return the module with the classes of a request and its parts."""
    return sys.modules[request_class(key, version).__module__]
