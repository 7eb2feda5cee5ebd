"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: each partition is asked about its offsets.

A question and its answer are values of the same field names as the elements of request and
response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from broker.api.followers import asking_replica, by_follower
from broker.api.parts import ApiHandler, ApiParts, serves
from broker.bounds.limits import OFFSETS_AT_ONCE
from broker.fetch.fetch_requests import EpochAnswer, EpochQuery, OffsetAnswer, OffsetQuery
from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, InParts, Later, RequestContext, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import all_of, on_topics
from jbodlab.server.response_structs import Maker, ResponseStructs
from jbodlab.server.turns import Turns, slices
from jbodlab.vocabulary.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest
    from kio.schema.list_offsets.v10.request import ListOffsetsRequest
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

LIST_OFFSETS = ResponseStructs(ApiKey.LIST_OFFSETS, 11)
OFFSET_FOR_LEADER_EPOCH = ResponseStructs(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
DELETE_RECORDS = ResponseStructs(ApiKey.DELETE_RECORDS, 2)

READ_UNCOMMITTED = 0


@serves(ApiKey.LIST_OFFSETS, (1, 11), all_of(by_follower, on_topics(AclOperation.DESCRIBE)))
class ListOffsetsApi(ApiHandler, FailsBySchema):
    """Offsets by time, and the ends of a log."""

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._turns = Turns()

    def answer(self, request: ListOffsetsRequest, context: RequestContext) -> Answer:
        """Look every partition up."""
        replica_id = BrokerId(asking_replica(request, context, self._parts.cache))
        answering = asyncio.get_running_loop().create_task(self._look_up(request, replica_id))
        return Later(
            answering,
            lambda found: LIST_OFFSETS.response(
                topics=_by_topic(LIST_OFFSETS.ListOffsetsTopicResponse, request, found)
            ),
        )

    async def _look_up(self, request: ListOffsetsRequest, replica_id: BrokerId) -> list[Any]:
        isolation = getattr(request, "isolation_level", READ_UNCOMMITTED)
        tell = partial(_told, LIST_OFFSETS.ListOffsetsPartitionResponse)
        found: list[Any] = []
        for some in slices(_asked(OffsetQuery, request), OFFSETS_AT_ONCE):
            found += map(tell, await self._parts.offsets.list_offsets(some, replica_id, isolation))
            if len(some) == OFFSETS_AT_ONCE:
                # Also where nothing had to be waited for.
                await self._turns.next()
        return found


@serves(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    (2, 4),
    on_topics(AclOperation.DESCRIBE, instead=AclOperation.CLUSTER_ACTION),
)
class OffsetForLeaderEpochApi(ApiHandler, FailsBySchema):
    """Ends of leader epochs."""

    def answer(self, request: OffsetForLeaderEpochRequest, context: RequestContext) -> InParts:
        """Look every partition up."""
        structs = OFFSET_FOR_LEADER_EPOCH
        tell = partial(_told, structs.EpochEndOffset, index="partition")
        answers = map(self._parts.offsets.epoch_end_offset, _asked(EpochQuery, request))
        return InParts(
            map(tell, answers),
            lambda found: structs.response(
                topics=_by_topic(structs.OffsetForLeaderTopicResult, request, found, "topic")
            ),
        )


@serves(ApiKey.DELETE_RECORDS, (0, 2), on_topics(AclOperation.DELETE))
class DeleteRecordsApi(ApiHandler, FailsBySchema):
    """Has logs that are led here begin later (KIP-107), see `BrokerParts.delete_records`."""

    def answer(self, request: DeleteRecordsRequest, context: RequestContext) -> Later:
        """Delete what is asked for, and answer when it is gone everywhere."""
        tell = partial(_told, DELETE_RECORDS.DeleteRecordsPartitionResult)
        deletions = list(_asked(RecordDeletion, request))
        deleting = self._parts.delete_records(deletions, milliseconds(request.timeout))
        return Later(
            asyncio.ensure_future(deleting),
            lambda found: DELETE_RECORDS.response(
                topics=_by_topic(DELETE_RECORDS.DeleteRecordsTopicResult, request, map(tell, found))
            ),
        )


def _asked(kind: Any, request: Any) -> Iterator[Any]:
    """Return the questions of a request, which are of one kind."""
    for topic in request.topics:
        for wanted in topic.partitions:
            if hasattr(topic, "name"):
                about = TopicPartition(topic.name, wanted.partition_index)
            else:
                about = TopicPartition(topic.topic, wanted.partition)
            yield value_of(kind, wanted, {"topic_partition": about})


def _told(
    make: Maker,
    answer: OffsetAnswer | EpochAnswer | DeletedRecords,
    index: str = "partition_index",
) -> Any:
    """Return the element of a response about one partition."""
    fields = asdict(answer)
    partition = fields.pop("topic_partition").partition
    code = told(fields.pop("error_code"))
    return make(**{index: partition}, error_code=code, **fields)


def _by_topic(
    make: Maker, request: Any, partitions: Iterable[Any], name: str = "name"
) -> tuple[Any, ...]:
    """Return the topics of a response; its partitions are in the order of the request."""
    remaining = iter(partitions)
    topics = tuple(
        make(
            **{name: getattr(topic, name)},
            partitions=tuple(islice(remaining, len(topic.partitions))),
        )
        for topic in request.topics
    )
    assert next(remaining, None) is None
    return topics
