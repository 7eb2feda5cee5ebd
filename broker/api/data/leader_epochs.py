"""OffsetForLeaderEpoch: where a leader epoch ends, for clients that look for truncation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.fetch.offset_queries import OffsetQueries
from broker.replica.client_requests import EpochAnswer, EpochQuery
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import InParts, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest


class EpochEndOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The largest epoch not above the one asked for, and its end; -1 where unknown."""

    error_code: ErrorCode
    partition: int
    leader_epoch: int
    end_offset: int


class OffsetForLeaderTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


class OffsetForLeaderEpochResponse(Response, frozen=True, kw_only=True):
    """One entry for each partition asked for."""

    topics: tuple[OffsetForLeaderTopicResult, ...]


class OffsetForLeaderEpochApi(FailsBySchema):
    """Asks the replicas."""

    def __init__(self, offsets: OffsetQueries) -> None:
        self._offsets = offsets

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
            (_partition(self._offsets.epoch_end_offset(query)) for query in queries),
            lambda partitions: _response(request, partitions),
        )


def _response(
    request: OffsetForLeaderEpochRequest, partitions: Iterable[EpochEndOffset]
) -> OffsetForLeaderEpochResponse:
    remaining = iter(partitions)
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(islice(remaining, len(topic.partitions))),
        )
        for topic in request.topics
    )
    assert next(remaining, None) is None
    return OffsetForLeaderEpochResponse(topics=topics)


def _partition(answer: EpochAnswer) -> EpochEndOffset:
    return EpochEndOffset(
        error_code=told(answer.error_code),
        partition=answer.topic_partition.partition,
        leader_epoch=answer.leader_epoch,
        end_offset=answer.end_offset,
    )


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        versions=(2, 4),
        resources=on_topics(AclOperation.DESCRIBE, instead=AclOperation.CLUSTER_ACTION),
        handler=lambda parts: OffsetForLeaderEpochApi(parts.offsets),
    ),
)
