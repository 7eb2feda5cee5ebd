"""Producer ids, out of blocks that the controller allocates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.bounds.limits import ALLOCATE_TIMEOUT_S
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.requests import AllocateProducerIdsRequest
from jbodlab.runtime.supervised import end_tasks
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId

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
        await end_tasks([self._allocation])

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


def _ignore_failure(allocation: asyncio.Task[None]) -> None:
    """Take note of a prefetch that failed; whoever needs the block asks again."""
    if not allocation.cancelled():
        allocation.exception()
