"""InitProducerId: ids for idempotent producers, out of blocks that the controller hands out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.api.parts import ApiParts
from broker.controller_link.channel import ControllerChannel
from broker.replica.client_requests import NO_TRANSACTIONS
from jbodlab.controller_api.requests import AllocateProducerIdsRequest
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import AclOperation, Resource, ResourceType, on_cluster
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

ALLOCATE_TIMEOUT_S = 5.0
PREFETCH_BELOW = 100
"""The next block is asked for when fewer ids than this are left, so that nobody waits for it."""


class ProducerIds:
    """The ids that this broker may give out; every id is given once in the life of the cluster."""

    def __init__(
        self,
        controller: ControllerChannel,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._current = range(0)
        self._next = range(0)
        self._allocation: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """Return a producer id that nobody has.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, no block is to be had now; clients retry.
        """
        while not self._current and not self._next:
            # Shielded: others wait for the same block when one client goes away.
            await asyncio.shield(self._allocate())
        if not self._current:
            self._current, self._next = self._next, range(0)
        producer_id = self._current[0]
        self._current = self._current[1:]
        if len(self._current) < PREFETCH_BELOW and not self._next:
            self._allocate().add_done_callback(_ignore_failure)
        return producer_id

    async def close(self) -> None:
        """Give up a request for a block that is still in progress."""
        if self._allocation is not None:
            self._allocation.cancel()
            await asyncio.gather(self._allocation, return_exceptions=True)

    def _allocate(self) -> asyncio.Task[None]:
        if self._allocation is None or self._allocation.done():
            self._allocation = asyncio.get_running_loop().create_task(self._fetch_block())
        return self._allocation

    async def _fetch_block(self) -> None:
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            block = await self._controller.call(request, ALLOCATE_TIMEOUT_S)
        except (ControllerUnavailableError, TimeoutError) as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        if block.error_code != ErrorCode.NONE:
            # A stale broker epoch for example: it is over when the registration is.
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, block.error_message)
        assert block.producer_id_len > 0
        self._next = range(block.producer_id_start, block.producer_id_start + block.producer_id_len)


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


def _ignore_failure(allocation: asyncio.Task[None]) -> None:
    """Take note of a prefetch that failed; whoever needs the block asks again."""
    if not allocation.cancelled():
        allocation.exception()


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
