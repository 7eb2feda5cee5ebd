"""InitProducerId: an id for each producer that asks, and an epoch that fences the one before.

Version 6 is accepted so that two-phase commit can be refused by its name; ApiVersions ends below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services.transactions import ProducerFailures, with_producer_id
from broker.transactions.requests import InitProducerId
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import Resource, on_cluster, on_transaction
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest


NO_TWO_PHASE_COMMIT = "two-phase commit (KIP-939) is not supported"


INIT_PRODUCER_ID = ResponseStructs(ApiKey.INIT_PRODUCER_ID, 5)


def _resources(request: InitProducerIdRequest) -> Iterable[Resource]:
    """Return the transaction, or the cluster for a producer without transactions."""
    if request.transactional_id is None:
        return on_cluster(AclOperation.IDEMPOTENT_WRITE)(request)
    return on_transaction(AclOperation.WRITE)(request)


@serves(
    ApiKey.INIT_PRODUCER_ID,
    (0, 5),
    _resources,
    accepted=(0, 6),
    around=lambda parts: parts.next_coordinator.around,
)
class InitProducerIdApi(ApiHandler, ProducerFailures):
    """Gives an id to every producer that asks."""

    FENCED_FROM = 4

    def answer(self, request: InitProducerIdRequest, context: RequestContext) -> Later:
        """Return an id and an epoch; a producer without a transactional id never resumes one."""
        if getattr(request, "enable2_pc", False):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TWO_PHASE_COMMIT)
        if getattr(request, "keep_prepared_txn", False):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_TWO_PHASE_COMMIT)
        if request.transactional_id is None:
            return in_background(self._fresh())
        return in_background(self._initialized(request))

    async def _fresh(self) -> Response:
        return INIT_PRODUCER_ID.response(
            producer_id=await self._parts.producer_ids.next_id(), producer_epoch=0
        )

    async def _initialized(self, request: Any) -> Response:
        producer: Producer = await with_producer_id(
            lambda fresh: self._parts.transactions.submit(
                request.transactional_id,
                value_of(InitProducerId, request, {"fresh_producer_id": fresh}),
            ),
            self._parts.producer_ids,
        )
        return INIT_PRODUCER_ID.response(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )
