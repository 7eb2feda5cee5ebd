"""Elections of leaders by the preference of replicas, or of one that may have lost records."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from jbodlab.kafka_admin.errors import check, text_of
from jbodlab.kafka_admin.topics import by_topic
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class ElectionType(IntEnum):
    """Which replica is to lead."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect_leaders(
    client: AdminClient, kind: ElectionType, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, str]:
    """Have leaders elected; returns why partitions keep theirs; raises RequestError."""
    topics = [
        {"topic": name, "partitions": indexes} for name, indexes in by_topic(partitions).items()
    ]
    values = {
        "election_type": kind,
        "topic_partitions": topics,
        "timeout": client.properties.request_timeout,
    }
    answer = await client.call(ApiKey.ELECT_LEADERS, values)
    check(answer)
    return {
        TopicPartition(topic.topic, one.partition_id): text_of(one.error_code, one.error_message)
        for topic in answer.replica_election_results
        for one in topic.partition_result
        if int(one.error_code)
    }
