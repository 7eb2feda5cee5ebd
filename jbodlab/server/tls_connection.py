"""TLS between the socket and a connection: protocol of the one, transport of the other.

The connection is made when the socket is accepted, so that it counts from there on, and hears of
bytes once the handshake is done. Its data are encrypted in pieces, of which no more wait for
the socket than its transport takes; between two turns of pieces other connections run.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from jbodlab.security.tls_layer import TlsError, TlsLayer
from jbodlab.server.connection import Connection
from jbodlab.vocabulary.limits import ALERT_S_MAX, CONNECTION_CLOSE_S

Buffer = bytes | bytearray | memoryview

PIECE_BYTES = 64 << 10
"""Encrypted by one call."""
TURN_BYTES = 256 << 10
"""Encrypted before other connections get a turn."""


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """Encrypts one accepted socket.

    Args:
        connection: The connection that the client speaks to.
        context: Of its TLS, which is made of the first bytes: who is sent away before costs none.
        scratch: Where bytes are received; others may share it, as nothing stays there.
        on_open: Called with the client's certificate once the handshake is done, and returns after
            how many seconds the connection ends, None for never; raises TlsError where the client
            is not wanted.
        on_failed: Called with the reason before the connection is closed for it.
    """

    def __init__(
        self,
        connection: Connection,
        context: ssl.SSLContext,
        scratch: memoryview,
        *,
        on_open: Callable[[Connection, bytes | None], float | None],
        on_failed: Callable[[Connection, TlsError], None],
    ) -> None:
        self._connection = connection
        self._context = context
        self._layer: TlsLayer
        self._has_layer = False
        self._scratch = scratch
        self._on_open = on_open
        self._on_failed = on_failed
        self._transport: asyncio.Transport
        self._backlog: deque[memoryview] = deque()
        """Plain bytes to be sent; the connection writes nothing more while there are some."""
        self._is_blocked = False
        """Whether the socket takes nothing for now."""
        self._is_paused = False
        """Whether the connection takes nothing for now."""
        self._is_closing = False
        self._has_ended = False
        """Whether the client's end of the socket has been closed."""
        self._end_is_told = False
        self._expiry: asyncio.TimerHandle | None = None

    # The protocol of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._is_closing = True
        self._backlog.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes belong."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt."""
        if self._is_closing:
            return
        if not self._has_layer:
            self._layer, self._has_layer = TlsLayer(self._context), True
        try:
            self._layer.receive(self._scratch[:nbytes])
        except TlsError as error:
            self._fail(error)
            return
        self._advance()

    def eof_received(self) -> bool:
        """Hand over what came before the end, then the end; the connection closes the socket."""
        self._has_ended = True
        if not self._has_layer:
            self._transport.close()
            return False
        if not self._is_closing:
            self._advance()
        return not self._is_closing or bool(self._backlog)

    def pause_writing(self) -> None:
        """Encrypt nothing more."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self._is_blocked = False
        self._go_on()

    # The transport of the connection.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the socket."""
        return self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Limit what waits for the socket."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait, encrypted or not."""
        return sum(map(len, self._backlog)) + self._transport.get_write_buffer_size()

    def write(self, data: Buffer) -> None:
        """Send."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send, as far as the socket takes it now; the connection is told to pause for the rest."""
        was_waiting = bool(self._backlog)
        self._backlog.extend(memoryview(each) for each in list_of_data if len(each))
        if was_waiting or not self._backlog:
            return
        self._encrypt()
        if self._backlog:
            self._connection.pause_writing()

    def is_closing(self) -> bool:
        """Return whether the connection has ended, or is about to."""
        return self._is_closing

    def close(self) -> None:
        """Send what waits, say that it is the end, and close."""
        if not self._is_closing:
            self._is_closing = True
            self._close_if_sent()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self._transport.abort()

    def pause_reading(self) -> None:
        """Hand over nothing more, and receive nothing."""
        self._is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on where `pause_reading` stopped; some bytes may have been decrypted already."""
        self._is_paused = False
        self._transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        if self._is_closing or not self._has_layer:
            return
        try:
            if not self._layer.is_open:
                self._shake_hands()
            if self._layer.is_open:
                self._deliver()
        except TlsError as error:
            self._fail(error)
            return
        self._flush()

    def _shake_hands(self) -> None:
        if self._layer.handshake():
            self._connection.tls_steps = 2
            left_s = self._on_open(self._connection, self._layer.certificate)
            if left_s is not None:
                loop = asyncio.get_running_loop()
                self._expiry = loop.call_later(left_s, self._connection.close)
        elif self._has_ended:
            raise TlsError("eof", "the client has gone before the end of the handshake")

    def _deliver(self) -> None:
        connection, layer = self._connection, self._layer
        while not (self._is_paused or self._is_closing):
            buffer = connection.get_buffer(-1)
            count = layer.read_into(buffer)
            is_all = count < len(buffer)
            if count:
                connection.buffer_updated(count)
            if is_all:
                if layer.has_ended or self._has_ended:
                    self._tell_end()
                return

    def _tell_end(self) -> None:
        """Hand the client's end over.

        One without a word of TLS counts, too: frames carry their length, so that none is cut
        unnoticed.
        """
        if self._is_closing or self._end_is_told:
            return
        self._end_is_told = True
        if not self._connection.eof_received():
            self.close()

    def _encrypt(self) -> None:
        """Encrypt and send a turn of pieces."""
        left = TURN_BYTES
        try:
            while self._backlog and left > 0 and not self._is_blocked:
                piece = self._next_piece()
                left -= len(piece)
                self._layer.write(piece)
                self._flush()
        except TlsError:
            self.abort()
            return
        if self._backlog and not self._is_blocked:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _next_piece(self) -> Buffer:
        """Take a piece: of one buffer where that is large, or else of several."""
        first = self._backlog.popleft()
        if len(first) > PIECE_BYTES:
            self._backlog.appendleft(first[PIECE_BYTES:])
            return first[:PIECE_BYTES]
        pieces, size = [first], len(first)
        while self._backlog and size + len(self._backlog[0]) <= PIECE_BYTES:
            pieces.append(self._backlog.popleft())
            size += len(pieces[-1])
        return first if len(pieces) == 1 else b"".join(pieces)

    def _go_on(self) -> None:
        if self._transport.is_closing() or not self._backlog:
            return
        if not self._is_blocked:
            self._encrypt()
        if not self._backlog:
            if self._is_closing:
                self._close_if_sent()
            else:
                self._connection.resume_writing()

    def _flush(self) -> None:
        data = self._layer.take()
        if data and not self._transport.is_closing():
            if not self._connection.tls_steps:
                self._connection.tls_steps = 1
            self._transport.write(data)

    def _close_if_sent(self) -> None:
        if self._backlog:
            return
        if self._has_layer and self._layer.is_open:
            self._layer.end()
            self._flush()
        self._transport.close()

    def _fail(self, error: TlsError) -> None:
        """Tell the client by an alert; its socket is closed by the client, or soon."""
        self._is_closing = True
        self._on_failed(self._connection, error)
        self._flush()
        loop = asyncio.get_running_loop()
        if error.reason == "not_tls" or self._has_ended or not self._transport.can_write_eof():
            self._transport.close()
            loop.call_later(CONNECTION_CLOSE_S, self._transport.abort)
            return
        # A socket with unread bytes that is closed takes the alert back.
        self._transport.write_eof()
        loop.call_later(ALERT_S_MAX, self._transport.abort)
