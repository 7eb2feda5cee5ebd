"""FindCoordinator: which broker leads the partition that a group belongs to.

Every broker answers from its metadata. The first question after a coordinator has the topic of
coordinators created. Two answers differ from Kafka's: why that failed stands in the answer and not
in a broker's log only, and a broker whose own replica is offline does not name itself. A client
would come here, be sent away at once, ask again, and so on until the controller has acted.

Source: `kafka.server.KafkaApis.getCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from broker.api.parts import ApiParts
from broker.api.services.coordinators import GroupCoordinators
from broker.api.services.topic_creator import TopicCreator
from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import NO_TRANSACTIONS
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.resources import AclOperation, Resource, ResourceType
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, BrokerId

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Key types; they exist from version 1, that of share groups from version 6."""

SHARE_FROM = 6
BATCHED_FROM = 4

LIBRDKAFKA_VERSION = 2
"""With which librdkafka asks for coordinators, and kafkajs, which does not say what it is."""

NO_SHARE_GROUPS = "this broker does not support share groups"


class Coordinator(msgspec.Struct, frozen=True, kw_only=True):
    """Where one key is coordinated; -1 and empty on an error."""

    key: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class FindCoordinatorResponse(Response, frozen=True, kw_only=True):
    """One entry for each key; versions before 4 have one key and these fields themselves."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: tuple[Coordinator, ...]


class FindCoordinatorApi:
    """Names the leader of a group's partition.

    Args:
        cache: The committed metadata.
        broker_id: Ours.
        groups: The coordinators that are here.
        creator: Creates the topic of coordinators.
    """

    def __init__(
        self,
        cache: MetadataCache,
        broker_id: BrokerId,
        groups: GroupCoordinators,
        creator: TopicCreator,
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._groups = groups
        self._creator = creator

    def answer(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Find the coordinator of every key."""
        key_type = getattr(request, "key_type", GROUP)
        if key_type == TRANSACTION:
            if context.version <= LIBRDKAFKA_VERSION and not context.session.software_name:
                return _coordinators(
                    self._who_refuses(key, context.listener_name)
                    for key in _keys(request, context.version)
                )
            raise KafkaError(_transactions_refusal(context.version), NO_TRANSACTIONS)
        if key_type == SHARE and context.version >= SHARE_FROM:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_SHARE_GROUPS)
        if key_type != GROUP:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown key type {key_type}")
        return _coordinators(
            self._of_group(key, context.listener_name) for key in _keys(request, context.version)
        )

    def failure(
        self, request: FindCoordinatorRequest, context: RequestContext, error: KafkaError
    ) -> FindCoordinatorResponse:
        """Return the error for every key."""
        return _coordinators(_failed(key, error) for key in _keys(request, context.version))

    def _of_group(self, group_id: str, listener_name: str) -> Coordinator:
        topic = self._cache.image.topics.by_name.get(GROUP_METADATA_TOPIC)
        if topic is None:
            return _failed(group_id, self._created())
        index = coordinator_partition(group_id, len(topic.partitions))
        leader = topic.partitions[index].leader
        broker = next((b for b in self._cache.live_brokers(listener_name) if b.id == leader), None)
        if broker is None or (leader == self._broker_id and self._groups.is_offline(index)):
            text = f"{GROUP_METADATA_TOPIC}-{index} has no available leader"
            return _failed(group_id, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
        return Coordinator(key=group_id, node_id=broker.id, host=broker.host, port=broker.port)

    def _who_refuses(self, transactional_id: str, listener_name: str) -> Coordinator:
        """Name this broker, which refuses to initialise the producer.

        kafkajs shows every error of this question as "Failed to find group coordinator", and the
        code of the next one.
        """
        for broker in self._cache.live_brokers(listener_name):
            if broker.id == self._broker_id:
                return Coordinator(
                    key=transactional_id, node_id=broker.id, host=broker.host, port=broker.port
                )
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker is not registered yet")

    def _created(self) -> KafkaError:
        """Have the topic created; returns what to say meanwhile, or why it failed before."""
        error = self._creator.create(GROUP_METADATA_TOPIC)
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = f"{GROUP_METADATA_TOPIC} is being created"
        else:
            text = f"{GROUP_METADATA_TOPIC} cannot be created: {error}"
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)


def _transactions_refusal(version: int) -> ErrorCode:
    """Return the code with which a client shows the words that come with it, at once.

    librdkafka asks again without an end, and in silence, unless this is about rights; then it
    shows code and words. The others show the words, or at least the code, of any other error.
    """
    if version == LIBRDKAFKA_VERSION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.UNSUPPORTED_VERSION


def _keys(request: Any, version: int) -> tuple[str, ...]:
    if version >= BATCHED_FROM:
        keys: tuple[str, ...] = request.coordinator_keys
        return keys
    return (request.key,)


def _failed(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(key=key, error_code=error.code, error_message=error.message or None)


def _coordinators(found: Iterable[Coordinator]) -> FindCoordinatorResponse:
    coordinators = tuple(found)
    first = coordinators[0] if coordinators else Coordinator()
    return FindCoordinatorResponse(
        error_code=first.error_code,
        error_message=first.error_message,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=coordinators,
    )


def _resources(request: Any) -> Iterable[Resource]:
    """Return what is coordinated; a key of share groups begins with that of the group."""
    is_transaction = getattr(request, "key_type", GROUP) == TRANSACTION
    kind = ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP
    for key in request.coordinator_keys if hasattr(request, "coordinator_keys") else (request.key,):
        yield Resource(kind, key, AclOperation.DESCRIBE)


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.FIND_COORDINATOR,
        versions=(0, 6),
        resources=_resources,
        handler=lambda parts: FindCoordinatorApi(
            parts.cache, parts.broker_id, parts.groups, parts.topic_creator
        ),
    ),
)
