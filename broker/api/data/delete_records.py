"""DeleteRecords: logs of partitions that are led here begin later (KIP-107)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiParts, serves
from broker.api.services.topic_results import by_topic
from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

DELETE_RECORDS = ResponseStructs(ApiKey.DELETE_RECORDS, 2)


@serves(ApiKey.DELETE_RECORDS, (0, 2), on_topics(AclOperation.DELETE))
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


def _response(request: DeleteRecordsRequest, results: Iterable[DeletedRecords]) -> Response:
    make = DELETE_RECORDS.DeleteRecordsTopicResult
    topics = by_topic(make, request.topics, map(_partition, results))
    return DELETE_RECORDS.response(topics=topics)


def _partition(result: DeletedRecords) -> Any:
    return DELETE_RECORDS.DeleteRecordsPartitionResult(
        partition_index=result.topic_partition.partition,
        low_watermark=result.low_watermark,
        error_code=told(result.error_code),
    )
