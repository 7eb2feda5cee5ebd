"""DescribeQuorum: who keeps the metadata log, as the controller says."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import DescribeQuorumRequest, QuorumReplica
from jbodlab.controller_api.requests import DescribeQuorumResponse as Quorum
from jbodlab.metadata.records.cluster_records import BrokerEndpoint
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import METADATA_TOPIC, NO_LEADER

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import (
        DescribeQuorumRequest as KafkaDescribeQuorumRequest,
    )

TIMEOUT = datetime.timedelta(seconds=30)
"""The request has no timeout of its own; clients wait this long by default."""


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A node with the metadata log; of the voter no directory id is told: the quorum is static."""

    replica_id: int
    replica_directory_id: UUID | None = None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class PartitionData(msgspec.Struct, frozen=True, kw_only=True):
    """The quorum of one partition; there is only that of the metadata log."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    high_watermark: int = -1
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class TopicData(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    topic_name: str
    partitions: tuple[PartitionData, ...]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A controller and where it listens."""

    node_id: int
    listeners: tuple[BrokerEndpoint, ...]


class DescribeQuorumResponse(Response, frozen=True, kw_only=True):
    """What is known of each partition that was asked for."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[TopicData, ...] = ()
    nodes: tuple[Node, ...] = ()


class DescribeQuorumApi(FailsBySchema):
    """Describes the quorum of the metadata log; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaDescribeQuorumRequest, context: RequestContext) -> Later:
        """Ask the controller."""
        return in_background(self._describe(request))

    async def _describe(self, request: KafkaDescribeQuorumRequest) -> DescribeQuorumResponse:
        quorum = await Deadline(TIMEOUT).call(
            self._controller.describe_quorum, DescribeQuorumRequest()
        )
        return DescribeQuorumResponse(
            topics=tuple(
                TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        _described(topic.topic_name, each.partition_index, quorum)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
            nodes=tuple(
                Node(node_id=controller.controller_id, listeners=controller.end_points)
                for controller in self._cache.image.cluster.controllers.values()
            ),
        )


def _described(topic: str, partition: int, quorum: Quorum) -> PartitionData:
    if (topic, partition) != (METADATA_TOPIC, 0):
        return PartitionData(
            partition_index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return PartitionData(
        partition_index=partition,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=_states(quorum.current_voters),
        observers=_states(quorum.observers),
    )


def _states(replicas: Iterable[QuorumReplica]) -> tuple[ReplicaState, ...]:
    return tuple(
        ReplicaState(
            replica_id=replica.replica_id,
            replica_directory_id=replica.replica_directory_id,
            log_end_offset=replica.log_end_offset,
            last_fetch_timestamp=replica.last_fetch_timestamp_ms,
            last_caught_up_timestamp=replica.last_caught_up_timestamp_ms,
        )
        for replica in replicas
    )
