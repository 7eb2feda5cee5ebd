"""ListOffsets: offsets by time, and the ends of a log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.api.followers import asking_replica, by_follower
from broker.api.parts import ApiHandler, ApiParts, serves
from broker.api.services.topic_results import by_topic
from broker.bounds.limits import OFFSETS_AT_ONCE
from broker.fetch.fetch_requests import OffsetAnswer, OffsetQuery
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import all_of, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.turns import Turns, slices
from jbodlab.vocabulary.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kio.schema.list_offsets.v10.request import ListOffsetsRequest

LIST_OFFSETS = ResponseStructs(ApiKey.LIST_OFFSETS, 11)

READ_UNCOMMITTED = 0


@serves(ApiKey.LIST_OFFSETS, (1, 11), all_of(by_follower, on_topics(AclOperation.DESCRIBE)))
class ListOffsetsApi(ApiHandler, FailsBySchema):
    """Asks the replicas."""

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._turns = Turns()

    def answer(self, request: ListOffsetsRequest, context: RequestContext) -> Answer:
        """Look every partition up."""
        replica_id = BrokerId(asking_replica(request, context, self._parts.cache))
        answering = asyncio.get_running_loop().create_task(self._look_up(request, replica_id))
        return Later(answering, partial(_response, request))

    async def _look_up(self, request: ListOffsetsRequest, replica_id: BrokerId) -> list[Any]:
        isolation = getattr(request, "isolation_level", READ_UNCOMMITTED)
        queries = (
            OffsetQuery(
                topic_partition=TopicPartition(topic.name, wanted.partition_index),
                timestamp=wanted.timestamp,
                current_leader_epoch=getattr(wanted, "current_leader_epoch", -1),
            )
            for topic in request.topics
            for wanted in topic.partitions
        )
        found: list[Any] = []
        for some in slices(queries, OFFSETS_AT_ONCE):
            found += map(
                _partition, await self._parts.offsets.list_offsets(some, replica_id, isolation)
            )
            if len(some) == OFFSETS_AT_ONCE:
                # Also where nothing had to be waited for.
                await self._turns.next()
        return found


def _response(request: ListOffsetsRequest, partitions: Iterable[Any]) -> Response:
    topics = by_topic(LIST_OFFSETS.ListOffsetsTopicResponse, request.topics, partitions)
    return LIST_OFFSETS.response(topics=topics)


def _partition(answer: OffsetAnswer) -> Any:
    return LIST_OFFSETS.ListOffsetsPartitionResponse(
        partition_index=answer.topic_partition.partition,
        error_code=told(answer.error_code),
        timestamp=answer.timestamp,
        offset=answer.offset,
        leader_epoch=answer.leader_epoch,
    )
