"""Connections of a server to other nodes, such as the brokers that lead partitions.

A call borrows a connection from the pool, exclusively: no call waits for another one, and a failure
concerns one call. If the other node keeps state for a connection, such as a fetch session, a
`PeerConnection` keeps that connection for one user. The pool opens both kinds.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from jbodlab.peers.client import KafkaConnection, PeerRefusedError
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.vocabulary.limits import PEER_IDLE_S

Address = tuple[str, int]
"""Host and port."""

REFUSED_S, REFUSED_S_MAX = 1.0, 30.0
"""First and, for most, longest time for which a node that refuses this one is left alone."""


class PeerRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A node that does not know this one, or is not known by it.

    Attributes:
        text: The problem.
        context: The keys that this node had; others are tried at once.
        pause_s: For how long it is left alone.
        until_s: Until when, on the clock of the loop.
    """

    text: str
    context: ssl.SSLContext | None
    pause_s: float
    until_s: float


class PeerPool:
    """Opens connections, and keeps those that are idle; on the event loop.

    A node that refuses this one is left alone for a second, then for twice as long each time, until
    it has answered a request or this node has other keys; no connection to it is opened meanwhile.

    Args:
        client_id: Client id, as this node names itself.
        connect_timeout_s: Longest wait for a connection.
        security: How to encrypt and to log in; None for neither.
        refused_s_max: Longest time for which a node that refuses this one is left alone.
    """

    def __init__(
        self,
        client_id: str,
        connect_timeout_s: float,
        security: ClientSecurity | None = None,
        refused_s_max: float = REFUSED_S_MAX,
    ) -> None:
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._security = security
        self._refused_s_max = refused_s_max
        self._idle: dict[KafkaConnection, tuple[Address, asyncio.TimerHandle]] = {}
        self._refusals: dict[Address, PeerRefusal] = {}

    async def open(self, address: Address) -> KafkaConnection:
        """Open a connection that the caller closes.

        Raises:
            PeerRefusedError: one side does not know the other, or that is so since a moment ago.
            OSError: no node is reached there.
            TimeoutError: it does not answer in time.
        """
        refusal = self._refusals.get(address)
        now_s = asyncio.get_running_loop().time()
        if refusal and refusal.context is self._context() and now_s < refusal.until_s:
            raise PeerRefusedError(refusal.text)
        try:
            return await KafkaConnection.open(
                *address,
                client_id=self._client_id,
                timeout_s=self._connect_timeout_s,
                security=self._security,
            )
        except PeerRefusedError as error:
            self.refused(address, error)
            raise

    def refused(self, address: Address, error: PeerRefusedError) -> None:
        """Leave a node alone for some time."""
        was, context = self._refusals.get(address), self._context()
        is_again = was is not None and was.context is context
        pause_s = min(self._refused_s_max, 2 * was.pause_s) if was and is_again else REFUSED_S
        until_s = asyncio.get_running_loop().time() + pause_s
        self._refusals[address] = PeerRefusal(
            text=str(error), context=context, pause_s=pause_s, until_s=until_s
        )
        if self._security is not None:
            self._security.refusals[f"{address[0]}:{address[1]}"] += 1

    def answered(self, address: Address) -> None:
        """Take notice that a node serves this one."""
        self._refusals.pop(address, None)

    def _context(self) -> ssl.SSLContext | None:
        security = self._security
        return None if security is None or security.tls is None else security.tls()

    @asynccontextmanager
    async def borrowed(self, address: Address) -> AsyncIterator[KafkaConnection]:
        """Borrow a connection, an idle one if there is one.

        After an error, which closes it, the connection is not kept.

        Raises:
            OSError, TimeoutError: as `open`.
        """
        connection = self._take_idle(address) or await self.open(address)
        try:
            yield connection
        except BaseException as error:
            connection.close()
            if isinstance(error, PeerRefusedError):
                self.refused(address, error)
            raise
        self.answered(address)
        timer = asyncio.get_running_loop().call_later(PEER_IDLE_S, partial(self._drop, connection))
        self._idle[connection] = address, timer

    async def call(
        self,
        address: Address,
        api_key: int,
        version: int,
        request: Any,
        timeout_s: float,
        client_id: str | None = None,
    ) -> Any:
        """Send a request to a node, and return its response; the time is for both.

        Raises:
            OSError, TimeoutError, DecodeError: as `KafkaConnection.call`, and as `open`.
        """
        async with asyncio.timeout(timeout_s), self.borrowed(address) as connection:
            return await connection.call(api_key, version, request, timeout_s, client_id)

    def close(self) -> None:
        """Close what is idle; what is borrowed ends with its calls."""
        for connection in [*self._idle]:
            self._drop(connection)

    def _take_idle(self, address: Address) -> KafkaConnection | None:
        for connection, (its_address, timer) in [*self._idle.items()]:
            if not connection.is_open or connection.tls is not self._context():
                # Other keys concern open connections, too.
                self._drop(connection)
            elif its_address == address:
                del self._idle[connection]
                timer.cancel()
                return connection
        return None

    def _drop(self, connection: KafkaConnection) -> None:
        self._idle.pop(connection)[1].cancel()
        connection.close()


class PeerConnection:
    """The one connection to a node, opened with the first call, and anew after a failure.

    Args:
        pool: Opens it.
        name: Of the node, for messages.
        address: Returns where the node is; None while that is not known.
        timeout_s: Longest wait for a response.
        on_opened: Called before a connection is opened; the state of the last one is lost.
    """

    def __init__(
        self,
        pool: PeerPool,
        name: str,
        *,
        address: Callable[[], Address | None],
        timeout_s: float,
        on_opened: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._name = name
        self._address = address
        self._timeout_s = timeout_s
        self._on_opened = on_opened
        self._connection: KafkaConnection | None = None
        self._opened_at: Address = ("", 0)

    @property
    def is_there(self) -> bool:
        """Whether there is a connection, alive or not."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect, unless there is an open connection.

        Raises:
            OSError: the node is not reached, or its address is not known.
            TimeoutError: it does not answer.
        """
        if self._connection is not None and self._connection.is_open:
            return
        address = self._address()
        if address is None:
            raise ConnectionError(f"the address of {self._name} is unknown")
        self._on_opened()
        self._connection = await self._pool.open(address)
        self._opened_at = address

    def close(self) -> None:
        """Close the connection, so that the node drops its requests."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def call(self, api_key: int, version: int, request: Any) -> Any:
        """Send a request over the open connection, and return the response.

        Several calls may be in progress; the node answers them in their order.

        Raises:
            OSError, TimeoutError: the connection failed, or was given up since it was opened.
            DecodeError: the response cannot be read.
        """
        if self._connection is None:
            raise ConnectionError(f"the connection to {self._name} was closed")
        try:
            answer = await self._connection.call(
                api_key, version, request, timeout_s=self._timeout_s
            )
        except PeerRefusedError as error:
            self._pool.refused(self._opened_at, error)
            raise
        self._pool.answered(self._opened_at)
        return answer
