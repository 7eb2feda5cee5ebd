"""OffsetForLeaderEpoch: where a leader epoch ends, for clients that look for truncation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services.topic_results import by_topic
from broker.fetch.fetch_requests import EpochAnswer, EpochQuery
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import InParts, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

OFFSET_FOR_LEADER_EPOCH = ResponseStructs(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)


@serves(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    (2, 4),
    on_topics(AclOperation.DESCRIBE, instead=AclOperation.CLUSTER_ACTION),
)
class OffsetForLeaderEpochApi(ApiHandler, FailsBySchema):
    """Asks the replicas."""

    def answer(self, request: OffsetForLeaderEpochRequest, context: RequestContext) -> InParts:
        """Look every partition up."""
        queries = (
            EpochQuery(
                topic_partition=TopicPartition(topic.topic, wanted.partition),
                leader_epoch=wanted.leader_epoch,
                current_leader_epoch=wanted.current_leader_epoch,
            )
            for topic in request.topics
            for wanted in topic.partitions
        )
        return InParts(
            (_partition(self._parts.offsets.epoch_end_offset(query)) for query in queries),
            lambda partitions: _response(request, partitions),
        )


def _response(request: OffsetForLeaderEpochRequest, partitions: Iterable[Any]) -> Response:
    make = OFFSET_FOR_LEADER_EPOCH.OffsetForLeaderTopicResult
    topics = by_topic(make, request.topics, partitions, "topic")
    return OFFSET_FOR_LEADER_EPOCH.response(topics=topics)


def _partition(answer: EpochAnswer) -> Any:
    return OFFSET_FOR_LEADER_EPOCH.EpochEndOffset(
        error_code=told(answer.error_code),
        partition=answer.topic_partition.partition,
        leader_epoch=answer.leader_epoch,
        end_offset=answer.end_offset,
    )
