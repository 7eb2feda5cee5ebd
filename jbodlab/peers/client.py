"""A small asyncio client of the Kafka protocol: one connection, responses in request order.

Brokers fetch from each other with it. Responses are matched by correlation id. Any error of the
bytes, the deadline or the socket closes the connection, because later responses could not be
matched any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Self, cast

from jbodlab.kafka_wire.api_table import request_encoder, response_reader
from jbodlab.kafka_wire.framing import MAX_FRAME_BYTES, SIZE, FrameDecoder
from jbodlab.kafka_wire.headers import read_response_header, request_header
from jbodlab.runtime import tcp
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.limits import PEER_TIMEOUT_S

LAST_CORRELATION_ID = (1 << 31) - 1


class KafkaConnection:
    """A connection to one broker."""

    def __init__(self, protocol: _ClientProtocol, client_id: str) -> None:
        self._protocol = protocol
        self._client_id = client_id
        self._correlation_id = 0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        max_response_bytes: int = MAX_FRAME_BYTES,
    ) -> Self:
        """Connect.

        Raises:
            TimeoutError: no connection within `timeout_s` seconds.
            ConnectionError: refused, or the address does not answer.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, protocol = await loop.create_connection(
                    lambda: _ClientProtocol(max_response_bytes), host, port
                )
        except (ConnectionError, TimeoutError):
            raise
        except OSError as error:
            raise ConnectionError(f"cannot connect to {host}:{port}: {error}") from error
        return cls(protocol, client_id)

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._protocol.failure is None

    async def call(
        self, api_key: int, version: int, entity: Any, timeout_s: float = PEER_TIMEOUT_S
    ) -> Any:
        """Send a request and return the kio entity of its response; raises as `call_raw`."""
        pieces: list[bytes] = []
        request_encoder(api_key, version)(entity, pieces.append)
        body = await self.call_raw(api_key, version, pieces, timeout_s)
        try:
            response, _ = response_reader(api_key, version)(body, 0)
        except DecodeError:
            self.close()
            raise
        return response

    async def call_raw(
        self,
        api_key: int,
        version: int,
        body: Sequence[bytes],
        timeout_s: float = PEER_TIMEOUT_S,
    ) -> memoryview:
        """Send a request body and return the body of the response, read-only.

        Raises:
            TimeoutError: no response within `timeout_s` seconds.
            ConnectionError: the connection is closed, or was while waiting.
            DecodeError: the response is too large, or belongs to no request.
        """
        self._correlation_id = self._correlation_id % LAST_CORRELATION_ID + 1
        sent = self._correlation_id
        head = request_header(api_key, version, sent, self._client_id)
        size = len(head) + sum(map(len, body))
        try:
            async with asyncio.timeout(timeout_s):
                frame = await self._protocol.exchange([SIZE.pack(size) + head, *body])
            correlation_id, position = read_response_header(frame, api_key, version)
            if correlation_id != sent:
                raise DecodeError(
                    f"expected a response to request {sent}, got one to request {correlation_id}"
                )
        except (TimeoutError, DecodeError, asyncio.CancelledError):
            self.close()
            raise
        return frame[position:]

    def close(self) -> None:
        """Close the connection; a call that waits ends with ConnectionError."""
        self._protocol.close(ConnectionAbortedError("the connection was closed"))


class _ClientProtocol(asyncio.BufferedProtocol):
    """The socket's side: frames to the one call that waits."""

    def __init__(self, max_response_bytes: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes=max_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[memoryview]] = deque()
        self.failure: Exception | None = None
        """Why nothing more can be sent; None while the connection is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tcp.set_up(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.failure is not None:
            return
        try:
            for frame in self._decoder.received(nbytes):
                if not self._waiting or self._waiting[0].done():
                    raise DecodeError("the broker sent a response without a request")
                self._waiting.popleft().set_result(frame)
        except DecodeError as error:
            self.close(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(exc or ConnectionResetError("the broker closed the connection"))

    async def exchange(self, frame: Sequence[bytes]) -> memoryview:
        """Send one request and wait for the frame that answers it."""
        if self.failure is not None:
            raise self._as_raised()
        assert self._transport is not None
        waiting: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._transport.writelines(frame)
        return await waiting

    def close(self, failure: Exception) -> None:
        if self.failure is None:
            self.failure = failure
        if self._transport is not None:
            self._transport.abort()
        abandoned, self._waiting = self._waiting, deque()
        for waiting in abandoned:
            if not waiting.done():
                waiting.set_exception(self._as_raised())

    def _as_raised(self) -> Exception:
        if isinstance(self.failure, (ConnectionError, DecodeError)):
            return self.failure
        return ConnectionResetError(f"the connection failed: {self.failure}")
