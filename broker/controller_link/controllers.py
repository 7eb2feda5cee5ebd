"""The way to the active controller, which may be at any of several addresses.

A broker that has lost its controller asks all addresses at once who leads the metadata log, and
takes the answer with the highest epoch. An answer of an epoch lower than one that was seen before
is that of a controller that was cut off, and counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from broker.bounds.limits import CONTROLLER_ASK_S, CONTROLLER_LATE_S, CONTROLLER_PAUSE_S
from jbodlab.controller_api.requests import DescribeQuorumRequest, DescribeQuorumResponse
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import RpcTransport
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError

logger = logging.getLogger(__name__)

Connect = Callable[[str], RpcTransport]
"""Returns the way to the controller at `host:port`."""


def way_to_controllers(
    addresses: Sequence[str], connect: Connect, random: Callable[[], float]
) -> RpcTransport:
    """Return the way to whichever controller is active; a single one is not asked for that.

    Args:
        addresses: `host:port` of each controller; at least one.
        connect: Opens the way to one of them.
        random: Draws a number of [0, 1).
    """
    if len(addresses) == 1:
        return connect(addresses[0])
    return ControllerDirectory(addresses, connect, random)


class ControllerDirectory:
    """The way to the active controller among several; used on a running event loop.

    A call waits until one is active, for as long as it may take altogether. When another one has
    become active, calls that the former one has not answered fail. That is looked for when an
    answer is late: a controller that hangs keeps its connections.

    Args:
        addresses: `host:port` of each.
        connect: Opens the way to one of them.
        random: Draws a number of [0, 1).
    """

    def __init__(
        self, addresses: Sequence[str], connect: Connect, random: Callable[[], float]
    ) -> None:
        self._connect = connect
        self._random = random
        self._ways = {address: connect(address) for address in addresses}
        self._active: str | None = None
        self._former = ""
        """The active one that was lost; empty before the first."""
        self._epoch = -1
        """Highest that was seen."""
        self._search: asyncio.Task[None] | None = None

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        """Call a method; returns its response."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(end_s):
                address = await self._find()
        except TimeoutError as error:
            raise ControllerUnavailableError(
                f"{method}: no active controller at {', '.join(self._ways)}"
            ) from error
        try:
            return await self._answer(address, method, message, end_s - loop.time())
        except ControllerUnavailableError:
            self._lost(address)
            raise

    async def _answer(self, address: str, method: str, message: Any, timeout_s: float) -> Any:
        call = asyncio.ensure_future(self._ways[address].unary(method, message, timeout_s))
        try:
            while not (await asyncio.wait({call}, timeout=CONTROLLER_LATE_S))[0]:
                epoch, other = await self._newest()
                if epoch > self._epoch and other != address and not call.done():
                    raise ControllerUnavailableError(
                        f"{method}: the controller at {other} is active, not that at {address}"
                    )
            return call.result()
        finally:
            call.cancel()

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Call a method that goes on responding; closing the generator ends the call."""
        address = await self._find()
        try:
            async with contextlib.aclosing(self._ways[address].stream(method, message)) as stream:
                async for response in stream:
                    yield response
        except ControllerUnavailableError:
            self._lost(address)
            raise
        self._lost(address)

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        if self._search is not None:
            self._search.cancel()
        for way in self._ways.values():
            await way.close()

    def _lost(self, address: str) -> None:
        if address == self._active:
            self._active, self._former = None, address

    async def _find(self) -> str:
        """Wait until a controller is active; returns its address."""
        while self._active is None:
            if self._search is None or self._search.done():
                self._search = asyncio.create_task(self._search_active(), name="find controller")
            # Others wait for the same search.
            await asyncio.shield(self._search)
        return self._active

    async def _search_active(self) -> None:
        while True:
            epoch, address = await self._newest()
            if epoch >= max(0, self._epoch):
                break
            await asyncio.sleep(CONTROLLER_PAUSE_S * (1 + self._random()))
        self._epoch = epoch
        if self._former and self._former != address:
            logger.info("the controller at %s is active in epoch %d", address, epoch)
            former = self._ways[self._former]
            self._ways[self._former] = self._connect(self._former)
            await former.close()
        self._active = address

    async def _newest(self) -> tuple[int, str]:
        """Ask all; returns the highest epoch, -1 if nobody leads, and the address of its leader."""
        answers = await asyncio.gather(*map(self._epoch_of, self._ways))
        return max(zip(answers, self._ways, strict=True))

    async def _epoch_of(self, address: str) -> int:
        """Return the epoch in which a controller leads; -1 if it does not, or does not answer."""
        request = to_proto(DescribeQuorumRequest())
        try:
            message = await self._ways[address].unary(
                DescribeQuorumRequest.method(), request, CONTROLLER_ASK_S
            )
            response: DescribeQuorumResponse = from_proto(message)
        except (ControllerUnavailableError, DecodeError):
            return -1
        return response.leader_epoch if response.error_code == ErrorCode.NONE else -1
