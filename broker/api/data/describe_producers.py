"""DescribeProducers: who has written to the replicas of this broker (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.storage.log.producer_state import ProducerEntry
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

DESCRIBE_PRODUCERS = ResponseStructs(ApiKey.DESCRIBE_PRODUCERS, 0)


@serves(ApiKey.DESCRIBE_PRODUCERS, (0, 0), on_topics(AclOperation.READ))
class DescribeProducersApi(ApiHandler, FailsBySchema):
    """Asks the replicas, leaders or not."""

    def answer(self, request: DescribeProducersRequest, context: RequestContext) -> Response:
        """Describe the producers of every partition."""
        return DESCRIBE_PRODUCERS.response(
            topics=tuple(
                DESCRIBE_PRODUCERS.TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        self._of(TopicPartition(topic.name, index))
                        for index in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def _of(self, topic_partition: TopicPartition) -> Any:
        try:
            producers = self._parts.registry.usable_log(topic_partition).producers.entries
        except KafkaError as error:
            return _failed(topic_partition.partition, error)
        return DESCRIBE_PRODUCERS.PartitionResponse(
            partition_index=topic_partition.partition, active_producers=_described(producers)
        )


def _failed(partition_index: int, error: KafkaError) -> Any:
    return DESCRIBE_PRODUCERS.PartitionResponse(
        partition_index=partition_index,
        error_code=told(error.code),
        error_message=error.message or None,
    )


def _described(
    producers: Iterable[tuple[int, ProducerEntry]],
) -> tuple[Any, ...]:
    return tuple(
        DESCRIBE_PRODUCERS.ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.transaction_start,
        )
        for producer_id, entry in producers
    )
