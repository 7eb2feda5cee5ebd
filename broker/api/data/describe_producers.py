"""DescribeProducers: who has written to the replicas of this broker (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.replica.registry import ReplicaRegistry
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.storage.log.producer_state import ProducerEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest


class ProducerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One producer; sequence, time and offset are -1 where there are none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionProducers(msgspec.Struct, frozen=True, kw_only=True):
    """The producers of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    active_producers: tuple[ProducerDescription, ...] = ()


class TopicProducers(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    name: str
    partitions: tuple[PartitionProducers, ...]


class DescribeProducersResponse(Response, frozen=True, kw_only=True):
    """One entry for each partition of the request."""

    topics: tuple[TopicProducers, ...]


class DescribeProducersApi(FailsBySchema):
    """Asks the replicas, leaders or not."""

    def __init__(self, registry: ReplicaRegistry) -> None:
        self._registry = registry

    def answer(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> DescribeProducersResponse:
        """Describe the producers of every partition."""
        return DescribeProducersResponse(
            topics=tuple(
                TopicProducers(
                    name=topic.name,
                    partitions=tuple(
                        self._of(TopicPartition(topic.name, index))
                        for index in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def _of(self, topic_partition: TopicPartition) -> PartitionProducers:
        try:
            producers = self._registry.usable_log(topic_partition).producers.entries
        except KafkaError as error:
            return _failed(topic_partition.partition, error)
        return PartitionProducers(
            partition_index=topic_partition.partition, active_producers=_described(producers)
        )


def _failed(partition_index: int, error: KafkaError) -> PartitionProducers:
    return PartitionProducers(
        partition_index=partition_index,
        error_code=told(error.code),
        error_message=error.message or None,
    )


def _described(
    producers: Iterable[tuple[int, ProducerEntry]],
) -> tuple[ProducerDescription, ...]:
    return tuple(
        ProducerDescription(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.transaction_start,
        )
        for producer_id, entry in producers
    )


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_PRODUCERS,
        versions=(0, 0),
        resources=on_topics(AclOperation.READ),
        handler=lambda parts: DescribeProducersApi(parts.registry),
    ),
)
