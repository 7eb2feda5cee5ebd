"""DescribeTopicPartitions: topics page by page (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker.api.cluster.metadata import leader_or_error
from broker.api.parts import ApiHandler, serves
from broker.api.services.topic_creator import TOPIC_NAME
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Elsewhere, Resource, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import client_of, operations_on
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

DESCRIBED = ResponseStructs(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), Elsewhere(on_topics(AclOperation.DESCRIBE)))
class DescribeTopicPartitionsApi(ApiHandler, FailsBySchema):
    """Answers from the metadata cache, of topics that the client may describe."""

    def answer(self, request: DescribeTopicPartitionsRequest, context: RequestContext) -> Response:
        """Describe the topics of the request, or all, from the cursor on.

        Raises:
            KafkaError: INVALID_REQUEST, the cursor is none that a response has named.
        """
        _check_cursor(request)
        by_name = self._parts.cache.image.topics.by_name
        listener = context.listener_name
        live = frozenset(broker.id for broker in self._parts.cache.live_brokers(listener))
        left = min(max(request.response_partition_limit, 1), self._parts.described_partitions_max)
        topics: list[Any] = []
        client = client_of(context.session)
        operations = operations_on(
            self._parts.rights, context.session, ResourceType.TOPIC, is_asked=True
        )
        for name, first in _names(request, by_name):
            topic = by_name.get(name)
            resource = Resource(ResourceType.TOPIC, name, AclOperation.DESCRIBE)
            if not self._parts.rights.allows(client, resource, is_asked_for=bool(request.topics)):
                if request.topics:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    topics.append(
                        DESCRIBED.DescribeTopicPartitionsResponseTopic(error_code=code, name=name)
                    )
                continue
            if topic is None:
                is_possible = TOPIC_NAME.fullmatch(name) is not None
                code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if is_possible
                    else ErrorCode.INVALID_TOPIC_EXCEPTION
                )
                topics.append(
                    DESCRIBED.DescribeTopicPartitionsResponseTopic(error_code=code, name=name)
                )
                continue
            indexes = sorted(index for index in topic.partitions if index >= first)
            if left == 0:
                return _page(topics, name, first)
            described = DESCRIBED.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=tuple(
                    self._partition(index, topic.partitions[index], listener, live)
                    for index in indexes[:left]
                ),
                topic_authorized_operations=operations(name),
            )
            topics.append(described)
            if len(indexes) > left:
                return _page(topics, name, indexes[left])
            left -= len(indexes)
        return DESCRIBED.response(topics=tuple(topics))

    def _partition(
        self,
        index: int,
        partition: PartitionRegistration,
        listener_name: str,
        live: frozenset[int],
    ) -> Any:
        leader, error_code = leader_or_error(partition, live)
        return DESCRIBED.DescribeTopicPartitionsResponsePartition(
            error_code=error_code,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            eligible_leader_replicas=partition.elr,
            last_known_elr=partition.last_known_elr,
            offline_replicas=tuple(self._parts.cache.offline_replicas(partition, listener_name)),
        )


def _check_cursor(request: DescribeTopicPartitionsRequest) -> None:
    cursor = request.cursor
    if cursor is None:
        return
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the cursor names the topic {cursor.topic_name}, which is none of the request",
        )
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the cursor names the partition {cursor.partition_index} of {cursor.topic_name}",
        )


def _names(
    request: DescribeTopicPartitionsRequest, known: Iterable[str]
) -> Iterator[tuple[str, int]]:
    """Yield the names to describe in order, each with the first partition wanted of it."""
    wanted = {topic.name for topic in request.topics} or known
    cursor = request.cursor
    for name in sorted(wanted):
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, cursor.partition_index


def _page(topics: list[Any], name: str, partition_index: int) -> Response:
    cursor = DESCRIBED.Cursor(topic_name=name, partition_index=partition_index)
    return DESCRIBED.response(topics=tuple(topics), next_cursor=cursor)
