"""FindCoordinator: which broker leads the partition of a group, or of a transactional id.

Every broker answers from its metadata. The first question after a coordinator has the topic of
coordinators created. Two answers differ from Kafka's: why that failed stands in the answer and not
in a broker's log only, and a broker whose own replica is offline does not name itself. A client
would come here, be sent away at once, ask again, and so on until the controller has acted.

Source: `kafka.server.KafkaApis.getCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from broker.api.parts import ApiHandler, ApiParts, serves
from broker.api.services.coordinators import LocalCoordinators
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Each, Resource, all_of
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Key types; they exist from version 1, that of share groups from version 6."""

SHARE_FROM = 6
BATCHED_FROM = 4

NO_SHARE_GROUPS = "this broker does not support share groups"


FIND_COORDINATOR = ResponseStructs(ApiKey.FIND_COORDINATOR, 6, 3)


def _resource(request: Any, key: str) -> Resource:
    """Return what is coordinated; a key of share groups begins with that of the group."""
    is_transaction = getattr(request, "key_type", GROUP) == TRANSACTION
    kind = ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP
    return Resource(kind, key, AclOperation.DESCRIBE)


def _of_the_only_key(request: Any) -> Iterable[Resource]:
    if not hasattr(request, "coordinator_keys"):
        yield _resource(request, request.key)


@serves(
    ApiKey.FIND_COORDINATOR,
    (0, 6),
    all_of(_of_the_only_key, Each(field="coordinator_keys", resource=_resource)),
)
class FindCoordinatorApi(ApiHandler, FailsBySchema):
    """Names the leader of the partition of a key."""

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._places: Mapping[int, tuple[str, LocalCoordinators[Any]]] = {
            GROUP: (GROUP_METADATA_TOPIC, parts.groups),
            TRANSACTION: (TRANSACTION_STATE_TOPIC, parts.transactions),
        }

    def answer(self, request: FindCoordinatorRequest, context: RequestContext) -> Response:
        """Find the coordinator of every key."""
        key_type = getattr(request, "key_type", GROUP)
        if key_type == SHARE and context.version >= SHARE_FROM:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_SHARE_GROUPS)
        place = self._places.get(key_type)
        if place is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown key type {key_type}")
        # Before version 4 there is one key.
        one: Any = request
        keys = request.coordinator_keys if context.version >= BATCHED_FROM else (one.key,)
        return _coordinators(self._of(key, *place, context.listener_name) for key in keys)

    def _of(self, key: str, name: str, own: LocalCoordinators[Any], listener_name: str) -> Any:
        found = self._parts.cache.coordinator(name, key)
        if found is None:
            return _failed(key, self._created(name))
        (_, index), leader = found
        broker = next(
            (b for b in self._parts.cache.live_brokers(listener_name) if b.id == leader), None
        )
        if broker is None or (leader == self._parts.broker_id and own.is_offline(index)):
            text = f"{name}-{index} has no available leader"
            return _failed(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
        return FIND_COORDINATOR.Coordinator(
            key=key, node_id=broker.id, host=broker.host, port=broker.port
        )

    def _created(self, name: str) -> KafkaError:
        """Have a topic created; returns what to say meanwhile, or why it failed before."""
        error = self._parts.topic_creator.create(name)
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = f"{name} is being created"
        else:
            text = f"{name} cannot be created: {error}"
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)


def _failed(key: str, error: KafkaError) -> Any:
    return FIND_COORDINATOR.Coordinator(
        key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message or None
    )


def _coordinators(found: Iterable[Any]) -> Response:
    """Return one entry for each key; versions before 4 have one key, and its fields themselves."""
    coordinators = tuple(found)
    first: Any = {}
    for one in coordinators[:1]:
        first = structs.asdict(one)
        del first["key"]
    return FIND_COORDINATOR.response(coordinators=coordinators, **first)
