"""Metadata: brokers, topics, leaders, and which replicas are offline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.api.cluster.encoded_topics import EncodedTopics, Known, TopicVariant
from broker.api.parts import ApiParts, serves
from broker.api.services.callers import caller_of
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey, item_class, response_class
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import InParts, RequestContext
from jbodlab.server.resources import Elsewhere, Resource, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import Client, client_of, cluster, operations_on, operations_on_cluster
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, NO_LEADER, TopicId

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequest

NULL_MEANS_ALL_FROM = 1
"""In version 0 an empty list asks for every topic."""

TOPIC_IDS_FROM = 12
"""The id is on the wire from version 10 on, where no broker has ever looked at it."""


HIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
"""Of a topic that a client may not know of, whether there is one or not."""


METADATA = ResponseStructs(ApiKey.METADATA, 13, 10)

Part = Any
"""A topic of an answer, or its bytes; a None has nothing but taken some time."""


@serves(ApiKey.METADATA, (0, 13), Elsewhere(on_topics(AclOperation.DESCRIBE)))
class MetadataApi:
    """Answers from the metadata cache, and has missing topics created where that is allowed."""

    def __init__(self, parts: ApiParts) -> None:
        self._cache = parts.cache
        self._cluster_id = parts.cluster_id
        self._topic_creator = parts.topic_creator if parts.auto_create_topics else None
        self._rights = parts.rights
        self._encoded = EncodedTopics()

    def answer(self, request: MetadataRequest, context: RequestContext) -> InParts:
        """Describe the topics of the request, or all of them."""
        listener, cache = context.listener_name, self._cache.frozen()
        brokers = tuple(
            METADATA.MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port, rack=b.rack)
            for b in cache.live_brokers(listener)
        )
        kind = TopicVariant(
            context.version,
            listener,
            getattr(request, "include_topic_authorized_operations", False),
        )
        # The operations of a client are told to nobody else.
        is_for_all = not (kind.with_operations and self._rights.is_enforced)
        known = self._encoded.of(cache.image, kind) if is_for_all else {}
        operations = operations_on(
            self._rights, context.session, ResourceType.TOPIC, is_asked=kind.with_operations
        )
        describe = _Describe(cache, kind, frozenset(b.node_id for b in brokers), known, operations)
        may_see = partial(self._may, client_of(context.session), AclOperation.DESCRIBE)
        asks_for_all = request.topics is None or (
            not request.topics and context.version < NULL_MEANS_ALL_FROM
        )
        return InParts(
            describe.all_topics(may_see if self._rights.is_enforced else None)
            if asks_for_all
            else self._asked_for(request, context, describe),
            lambda topics: METADATA.response(
                brokers=brokers,
                cluster_id=self._cluster_id,
                controller_id=cache.controller_id(),
                topics=tuple(topic for topic in topics if topic is not None),
                cluster_authorized_operations=operations_on_cluster(
                    self._rights,
                    context.session,
                    is_asked=getattr(request, "include_cluster_authorized_operations", False),
                ),
            ),
        )

    def failure(
        self, request: MetadataRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every topic, and for the whole where the version can say so."""
        topics = tuple(
            METADATA.MetadataResponseTopic(
                error_code=error.code,
                name=topic.name if context.version >= TOPIC_IDS_FROM else topic.name or "",
                topic_id=getattr(topic, "topic_id", None),
            )
            for topic in request.topics or ()
        )
        return METADATA.response(cluster_id=self._cluster_id, topics=topics, error_code=error.code)

    def _asked_for(
        self, request: MetadataRequest, context: RequestContext, describe: _Describe
    ) -> Iterator[Part]:
        image = describe.cache.image.topics
        may_see = partial(self._may, client_of(context.session), AclOperation.DESCRIBE)
        may_create = getattr(request, "allow_auto_topic_creation", True)
        for topic in request.topics or ():
            topic_id = getattr(topic, "topic_id", None)
            # A name beside an id may be empty, or none (`client_behaviour`).
            if topic_id is not None or topic.name is None:
                version = context.version
                if version < TOPIC_IDS_FROM:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"topic ids are not supported in Metadata requests of version {version}",
                    )
                found = None if topic_id is None else image.by_id.get(TopicId(topic_id))
                if found is None:
                    yield METADATA.MetadataResponseTopic(
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                    )
                    continue
                if not may_see(found.name, is_asked_for=True):
                    yield METADATA.MetadataResponseTopic(
                        error_code=HIDDEN, name=None, topic_id=topic_id
                    )
                    continue
            elif not may_see(topic.name, is_asked_for=True):
                yield METADATA.MetadataResponseTopic(error_code=HIDDEN, name=topic.name)
                continue
            else:
                found = image.by_name.get(topic.name)
                if found is None:
                    code = self._missing(topic.name, context, may_create=may_create)
                    yield METADATA.MetadataResponseTopic(error_code=code, name=topic.name)
                    continue
            yield from describe.topic(found)

    def _missing(self, name: str, context: RequestContext, *, may_create: bool) -> ErrorCode:
        if may_create and self._topic_creator is not None:
            client = client_of(context.session)
            if not self._rights.allows(
                client, cluster(AclOperation.CREATE), is_asked_for=False
            ) and not self._may(client, AclOperation.CREATE, name, is_asked_for=True):
                return HIDDEN
            caller = caller_of(client) if self._rights.is_enforced else None
            return self._topic_creator.create(name, context.header.client_id, caller).code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _may(
        self, client: Client, operation: AclOperation, name: str, *, is_asked_for: bool = False
    ) -> bool:
        if not self._rights.is_enforced:
            return True
        resource = Resource(ResourceType.TOPIC, name, operation)
        return self._rights.allows(client, resource, is_asked_for=is_asked_for)


def leader_or_error(
    partition: PartitionRegistration, live: frozenset[int]
) -> tuple[int, ErrorCode]:
    """Return the leader that clients can reach, or -1 and LEADER_NOT_AVAILABLE."""
    if partition.leader == NO_LEADER or partition.leader not in live:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return partition.leader, ErrorCode.NONE


class _Describe:
    """Topics as one listener's clients see them, in the bytes of one version."""

    def __init__(
        self,
        cache: MetadataCache,
        kind: TopicVariant,
        live: frozenset[int],
        known: Known,
        operations: Callable[[str], int],
    ) -> None:
        self._operations = operations
        self.cache = cache
        self._kind = kind
        self._live = live
        self._known = known

    def all_topics(self, may_see: Callable[[str], bool] | None) -> Iterator[Part]:
        for name, topic in self.cache.image.topics.by_name.items():
            if may_see is None or may_see(name):
                yield from self.topic(topic)
            else:
                yield None

    def topic(self, topic: TopicImage) -> Iterator[Part]:
        known = self._known.get(topic.topic_id)
        if known is None or known[0] is not topic:
            topic_class, partition_class = _classes(self._kind.version)
            partitions: list[bytes] = []
            for index in sorted(topic.partitions):
                described = self._partition(index, topic.partitions[index])
                partitions.append(encode(partition_class, described))
                yield None
            known = topic, encode(topic_class, self._described(topic, partitions))
            self._known[topic.topic_id] = known
        yield known[1]

    def _described(self, topic: TopicImage, partitions: Iterable[bytes]) -> Any:
        return METADATA.MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(partitions),
            topic_authorized_operations=self._operations(topic.name),
        )

    def _partition(self, index: int, partition: PartitionRegistration) -> Any:
        leader, error_code = leader_or_error(partition, self._live)
        listener_name = self._kind.listener_name
        return METADATA.MetadataResponsePartition(
            error_code=error_code,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=tuple(self.cache.offline_replicas(partition, listener_name)),
        )


@functools.cache
def _classes(version: int) -> tuple[EntityClass, EntityClass]:
    """Return the layouts of a topic and of a partition."""
    topic_class = item_class(response_class(ApiKey.METADATA, version), "topics")
    return topic_class, item_class(topic_class, "partitions")
