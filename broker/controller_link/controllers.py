"""The way to the active controller, which may be at any of several addresses.

A broker that has lost its controller asks all addresses at once who leads the metadata log, and
takes the answer with the highest epoch. An answer of an epoch lower than one that was seen before
is that of a controller that was cut off, and counts for nothing, unless the controllers have lost
their logs. Each answer names the controllers in the metadata, so a broker that begins with the
address of one finds all. It asks again as soon as the metadata name others: those that it knows may
be gone when one of the new ones leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from broker.bounds.limits import (
    CONTROLLER_ANSWER_S,
    CONTROLLER_ASK_S,
    CONTROLLER_LATE_S,
    CONTROLLER_OTHERS_S,
    CONTROLLER_PAUSE_S,
    STREAM_LATE_S,
)
from jbodlab.controller_api.requests import (
    ControllerAddress,
    FindControllerRequest,
    FindControllerResponse,
)
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import NotControllerError, RpcTransport
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError
from jbodlab.vocabulary.ids import BrokerId

logger = logging.getLogger(__name__)

T = TypeVar("T")
Connect = Callable[[str], RpcTransport]
"""Returns the way to the controller at `host:port`."""


class FoundLeader(NamedTuple):
    """A controller that leads in an epoch; one that has not claimed yet comes behind its like."""

    epoch: int
    is_active: bool
    address: str


NOBODY_LEADS = FoundLeader(-1, is_active=False, address="")


class KnownEpoch(NamedTuple):
    """The newest epoch that a controller knows, -1 if it gave no answer, and whether it leads."""

    epoch: int
    leader: FoundLeader = NOBODY_LEADS


Questions = dict[str, asyncio.Task[KnownEpoch]]
"""Questions to controllers that are under way, by their addresses."""


class ControllerDirectory:
    """The way to the active controller among several; used on a running event loop.

    A call waits until one is active, for as long as it may take altogether, and goes to the next
    one if it was refused without being carried out. When another one has become active, calls that
    the former one has not answered fail. That is looked for when an answer is late, or a stream is
    silent: a controller that hangs keeps its connections.

    A single controller is not asked whether it is active, until it says that it is not, or the
    metadata name others as well.

    Args:
        addresses: `host:port` of each; at least one.
        connect: Opens the way to one of them.
        random: Draws a number of [0, 1).
        on_found: Called when another controller than before, or in another epoch, is active.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        connect: Connect,
        random: Callable[[], float],
        on_found: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._random = random
        self._on_found = on_found
        self._ways = {address: connect(address) for address in addresses}
        self.is_sole = len(addresses) == 1
        """Whether no other controller than this one is known."""
        self._node_ids: dict[str, BrokerId] = {}
        """Those of the controllers that have answered."""
        self._named: dict[ControllerAddress, None] = {}
        """Controllers that the last answers named."""
        self._active: str | None = None
        self._former = ""
        """The active one that was lost; empty before the first."""
        self._epoch = -1
        """Highest that was seen."""
        self._search: asyncio.Task[None] | None = None
        self._looks: set[asyncio.Task[list[KnownEpoch]]] = set()
        """Questions for the addresses of controllers that are new."""
        self._closing: set[asyncio.Task[None]] = set()
        """Connections to former active controllers; each fails its calls as it is closed."""
        self._is_closed = False

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        """Call a method; returns its response."""
        if self.is_sole:
            with self._perhaps_one_of_several():
                return await self._only.unary(method, message, timeout_s)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while True:
            try:
                async with asyncio.timeout_at(end_s):
                    address = await self._find()
            except TimeoutError as error:
                raise ControllerUnavailableError(
                    f"{method}: no active controller at {', '.join(self._ways)}",
                    is_outcome_unknown=False,
                ) from error
            call = self._ways[address].unary(method, message, end_s - loop.time())
            try:
                return await self._unless_replaced(address, method, call, CONTROLLER_LATE_S)
            except NotControllerError as error:
                self._lost(address, error.hint)
                if error.is_outcome_unknown:
                    raise
            except ControllerUnavailableError:
                self._lost(address)
                raise

    async def _unless_replaced(
        self, address: str, method: str, work: Awaitable[T], late_s: float
    ) -> T:
        """Wait for an answer, and ask who is active each time when it is late."""
        call = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({call}, timeout=late_s))[0]:
                newest = _newest(await self._ask_all())
                if newest.epoch > self._epoch and newest.address != address and not call.done():
                    raise ControllerUnavailableError(
                        f"{method}: the controller at {newest.address} is active, not that at "
                        f"{address}"
                    )
            return call.result()
        finally:
            if not call.done():
                call.cancel()
                # A generator cannot be closed before it has stopped.
                await asyncio.wait({call})

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Call a method that goes on responding; closing the generator ends the call."""
        if self.is_sole:
            with self._perhaps_one_of_several():
                async with contextlib.aclosing(self._only.stream(method, message)) as stream:
                    async for response in stream:
                        yield response
            return
        address = await self._find()
        try:
            async with contextlib.aclosing(self._ways[address].stream(method, message)) as stream:
                while True:
                    following = anext(stream, None)
                    response = await self._unless_replaced(
                        address, method, following, STREAM_LATE_S
                    )
                    if response is None:
                        break
                    yield response
        except NotControllerError as error:
            self._lost(address, error.hint)
            raise
        except ControllerUnavailableError:
            self._lost(address)
            raise
        self._lost(address)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Look for the active controller among several as soon as there are; see the listener."""
        if len(image.cluster.controllers) > 1:
            self.is_sole = False
        if delta.cluster.changed_controllers and not (self.is_sole or self._is_closed):
            look = asyncio.create_task(self._ask_all(), name="find new controllers")
            self._keep(self._looks, look)

    def _keep(self, tasks: set[asyncio.Task[T]], task: asyncio.Task[T]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    @property
    def _only(self) -> RpcTransport:
        (way,) = self._ways.values()
        return way

    @contextlib.contextmanager
    def _perhaps_one_of_several(self) -> Iterator[None]:
        try:
            yield
        except NotControllerError:
            self.is_sole = False
            raise

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        self._is_closed = True
        if self._search is not None:
            self._search.cancel()
        for look in self._looks:
            look.cancel()
        await asyncio.gather(*self._closing, *(way.close() for way in self._ways.values()))

    def _lost(self, address: str, hint: FindControllerResponse | None = None) -> None:
        """Look for the next one at once, where the former one has not named it."""
        if address != self._active or self._is_closed:
            return
        self._active, self._former = None, address
        self._begin_search(self._hinted(hint))

    def _hinted(self, hint: FindControllerResponse | None) -> FoundLeader:
        """Return the leader that a refusal names, if it leads in a later epoch."""
        if hint is None or hint.leader_epoch <= self._epoch:
            return NOBODY_LEADS
        address = self._address_of(hint.leader_id)
        if not address:
            return NOBODY_LEADS
        return FoundLeader(hint.leader_epoch, is_active=False, address=address)

    def _address_of(self, node_id: BrokerId) -> str:
        found = (address for address, known in self._node_ids.items() if known == node_id)
        return next(found, "")

    def _begin_search(self, hinted: FoundLeader = NOBODY_LEADS) -> asyncio.Task[None]:
        if self._search is None or self._search.done():
            search = self._search_active(hinted)
            self._search = asyncio.create_task(search, name="find controller")
        return self._search

    async def _find(self) -> str:
        """Wait until a controller is active; returns its address."""
        while self._active is None:
            # Others wait for the same search.
            await asyncio.shield(self._begin_search())
        return self._active

    async def _search_active(self, found: FoundLeader) -> None:
        lost = FoundLeader(self._epoch, is_active=True, address=self._former)
        is_first = True
        with _questions() as asked:
            while not found.address:
                # A late answer counts the next time: a busy controller would else never be found.
                answers = await self._answers(asked)
                found = _newest(answers)
                is_former = (found.epoch, found.address) == (lost.epoch, lost.address)
                # One that refuses and says that it leads may need a moment.
                if found.epoch >= max(0, self._epoch) and not (is_first and is_former):
                    break
                if self._is_forgotten(self._epoch, answers):
                    break
                is_first, found = False, NOBODY_LEADS
                await asyncio.sleep(CONTROLLER_PAUSE_S * (1 + self._random()))
        is_other = (found.epoch, found.address) != (lost.epoch, lost.address)
        self._epoch = found.epoch
        if self._former and self._former != found.address:
            logger.info("the controller at %s is active in epoch %d", found.address, found.epoch)
            former = self._ways[self._former]
            self._ways[self._former] = self._connect(self._former)
            # Whatever waits for the next one does not wait for that.
            self._keep(self._closing, asyncio.create_task(former.close(), name="leave controller"))
        self._active = found.address
        if is_other:
            self._on_found()

    async def is_forgotten(self, epoch: int) -> bool:
        """Ask whether the controllers have lost the log in which one of them led in this epoch.

        A single controller was replaced by nobody, so it need not be asked.
        """
        return self.is_sole or self._is_forgotten(epoch, await self._ask_all())

    def _is_forgotten(self, epoch: int, answers: Sequence[KnownEpoch]) -> bool:
        """Return whether one is active, and of most that are known each answers an earlier epoch.

        Voters write an epoch down before they vote in it. So of every majority one knows the epoch
        of an elected leader, unless it has lost its directory.
        """
        known = [each.epoch for each in answers if each.epoch >= 0]
        is_most = 2 * len(known) > len(self._ways)
        return is_most and max(known) < epoch and _newest(answers).is_active

    async def _ask_all(self) -> list[KnownEpoch]:
        """Ask all once; returns what those know that have answered in time."""
        with _questions() as asked:
            return await self._answers(asked)

    async def _answers(self, asked: Questions) -> list[KnownEpoch]:
        """Ask all but those that are being asked; returns the answers that are there in time.

        Behind the answer of one that is active in a later epoch than those before, the others get a
        moment only: a controller that hangs gives no answer.
        """
        for address in self._ways:
            if address not in asked:
                asked[address] = asyncio.create_task(self._ask(address), name=f"ask {address}")
        waiting = {*asked.values()}
        loop = asyncio.get_running_loop()
        end_s = late_s = loop.time() + CONTROLLER_ASK_S
        answers: list[KnownEpoch] = []
        while waiting and (left_s := end_s - loop.time()) > 0:
            answered, waiting = await asyncio.wait(
                waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            answers += (each.result() for each in answered)
            newest = _newest(answers)
            if newest.epoch > self._epoch and newest.is_active:
                end_s = min(end_s, loop.time() + CONTROLLER_OTHERS_S)
        for address, each in [*asked.items()]:
            if each not in waiting:
                del asked[address]
            elif loop.time() >= late_s:
                self._node_ids.pop(address, None)
        self._learn()
        return answers

    async def _ask(self, address: str) -> KnownEpoch:
        """Return what a controller knows."""
        request = to_proto(FindControllerRequest())
        try:
            message = await self._ways[address].unary(
                FindControllerRequest.method(), request, CONTROLLER_ANSWER_S
            )
            response: FindControllerResponse = from_proto(message)
        except (ControllerUnavailableError, DecodeError):
            # Another controller may have its id by now, at another address.
            self._node_ids.pop(address, None)
            return KnownEpoch(-1)
        self._node_ids[address] = response.node_id
        self._named |= dict.fromkeys(response.controllers)
        epoch = response.leader_epoch
        if response.leader_id != response.node_id:
            return KnownEpoch(epoch)
        return KnownEpoch(epoch, FoundLeader(epoch, response.is_active, address))

    def _learn(self) -> None:
        """Take note of controllers at other addresses than those that have answered."""
        for each in self._named:
            address = address_text(each.host, each.port)
            is_known = each.node_id in self._node_ids.values() or address in self._ways
            if not is_known and not self._is_closed:
                logger.info("controller %d is at %s", each.node_id, address)
                self._ways[address] = self._connect(address)
        self._named.clear()


@contextlib.contextmanager
def _questions() -> Iterator[Questions]:
    """Yield a place for questions; those without an answer end with the block."""
    asked: Questions = {}
    try:
        yield asked
    finally:
        for each in asked.values():
            each.cancel()


def _newest(answers: Sequence[KnownEpoch]) -> FoundLeader:
    """Return the one that leads in the highest epoch."""
    return max((each.leader for each in answers), default=NOBODY_LEADS)
