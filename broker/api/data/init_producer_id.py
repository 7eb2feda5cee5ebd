"""InitProducerId: an id for each idempotent producer that asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.api.parts import ApiParts
from broker.api.services.producer_ids import ProducerIds
from broker.replica.client_requests import NO_TRANSACTIONS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import AclOperation, Resource, ResourceType, on_cluster
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest


class InitProducerIdResponse(Response, frozen=True, kw_only=True):
    """The id with its first epoch; -1 on an error."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdApi(FailsBySchema):
    """Gives an id to every producer that asks."""

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    def answer(self, request: InitProducerIdRequest, context: RequestContext) -> Later:
        """Return a fresh id with epoch 0; without transactions a producer never resumes one."""
        if request.transactional_id is not None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_TRANSACTIONS)
        return in_background(self._respond())

    async def _respond(self) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            producer_id=await self._producer_ids.next_id(), producer_epoch=0
        )


def _resources(request: InitProducerIdRequest) -> Iterable[Resource]:
    """Return the transaction, or the cluster for a producer without transactions."""
    if request.transactional_id is None:
        return on_cluster(AclOperation.IDEMPOTENT_WRITE)(request)
    kind = ResourceType.TRANSACTIONAL_ID
    return (Resource(kind, request.transactional_id, AclOperation.WRITE),)


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.INIT_PRODUCER_ID,
        versions=(0, 5),
        resources=_resources,
        handler=lambda parts: InitProducerIdApi(parts.producer_ids),
    ),
)
