"""DeleteRecords: logs of partitions that are led here begin later (KIP-107)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.replica.client_requests import DeletedRecords, RecordDeletion
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, milliseconds
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest


class DeleteRecordsPartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the first record of any replica is; -1 on an error."""

    partition_index: int
    low_watermark: int
    error_code: ErrorCode


class DeleteRecordsTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


class DeleteRecordsResponse(Response, frozen=True, kw_only=True):
    """One entry for each partition of the request."""

    topics: tuple[DeleteRecordsTopicResult, ...]


class DeleteRecordsApi(FailsBySchema):
    """Has logs begin later, see `BrokerParts.delete_records`."""

    def __init__(self, parts: ApiParts) -> None:
        self._delete_records = parts.delete_records

    def answer(self, request: DeleteRecordsRequest, context: RequestContext) -> Later:
        """Delete what is asked for, and answer when it is gone everywhere."""
        deletions = [
            RecordDeletion(
                topic_partition=TopicPartition(topic.name, wanted.partition_index),
                offset=wanted.offset,
            )
            for topic in request.topics
            for wanted in topic.partitions
        ]
        deleting = self._delete_records(deletions, milliseconds(request.timeout))
        return Later(asyncio.ensure_future(deleting), partial(_response, request))


def _response(
    request: DeleteRecordsRequest, results: Iterable[DeletedRecords]
) -> DeleteRecordsResponse:
    remaining = iter(results)
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(_partition(next(remaining)) for _ in topic.partitions),
        )
        for topic in request.topics
    )
    return DeleteRecordsResponse(topics=topics)


def _partition(result: DeletedRecords) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=result.topic_partition.partition,
        low_watermark=result.low_watermark,
        error_code=told(result.error_code),
    )


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DELETE_RECORDS,
        versions=(0, 2),
        resources=on_topics(AclOperation.DELETE),
        handler=DeleteRecordsApi,
    ),
)
