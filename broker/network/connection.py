"""One client connection: frames in, responses out in the order of the requests.

Requests of a connection are worked on one at a time, as in Kafka, with one exception. A Produce
request with acks=all waits for the followers, and clients send the next ones meanwhile; if these
were not started, a connection could carry only one batch per replication round trip. So
pipelined requests (`RequestHandler.is_pipelined`) start while earlier ones of their kind wait, up
to a limit. They start in order, so what they append keeps its order, and their responses leave in
order. Every other request starts when all before it have been answered, and nothing starts
behind it before it has been; a request that waits for news without need is told that another one
came (`Pending.hurry`).

Back-pressure: the socket is not read while too many requests are queued, or while the client does
not take its responses.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

from broker.api.request_handler import (
    Buffers,
    CloseConnectionError,
    ConnectionInfo,
    Pending,
    RequestHandler,
)
from jbodlab import tcp
from jbodlab.errors import DecodeError
from jbodlab.protocol.framing import MAX_FRAME_BYTES, FrameDecoder

logger = logging.getLogger(__name__)

MIN_REQUEST_BYTES = 8
"""API key, version and correlation id."""

MAX_QUEUED_REQUESTS = 64
MAX_QUEUED_BYTES = 32 << 20
MAX_PIPELINED_REQUESTS = 8
MAX_PIPELINED_BYTES = 16 << 20
WRITE_HIGH_WATER_BYTES = 1 << 20
CLOSE_TIMEOUT_S = 5.0


class _InProgress(NamedTuple):
    """A request that has started and whose response has not left; in request order."""

    pending: Pending
    size_bytes: int
    pipelined: bool


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    def __init__(
        self,
        handler: RequestHandler,
        listener_name: str,
        *,
        on_made: Callable[[Connection], bool],
        on_lost: Callable[[Connection], None],
        max_request_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._handler = handler
        self._listener_name = listener_name
        self._on_made = on_made
        self._on_lost = on_lost
        self._decoder = FrameDecoder(
            max_frame_bytes=max_request_bytes, min_frame_bytes=MIN_REQUEST_BYTES
        )
        self._info = ConnectionInfo(listener_name=listener_name, peer="")
        self._transport: asyncio.Transport | None = None
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._in_progress: deque[_InProgress] = deque()
        self._in_progress_bytes = 0
        self._out: list[bytes | bytearray | memoryview] = []
        self._write_blocked = False
        self._is_serving = True
        self._reading_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket up, or close it where the listener has no room."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._info = ConnectionInfo(
            listener_name=self._listener_name, peer=f"{peer[0]}:{peer[1]}" if peer else ""
        )
        if not self._on_made(self):
            self._transport.abort()
            return
        tcp.set_up(transport, keep_alive=True)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what waits: nobody is there to read it."""
        self._transport = None
        self._drop_all()
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes belong."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Queue the requests that became whole, and start what may start."""
        if not self._is_open():
            return
        try:
            frames = self._decoder.received(nbytes)
        except DecodeError as error:
            self._refuse(error)
            return
        for frame in frames:
            self._queue.append(frame)
            self._queued_bytes += len(frame)
        self._pump()

    def pause_writing(self) -> None:
        """Read and start nothing more: the client does not take its responses."""
        self._write_blocked = True
        self._update_reading()

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self._write_blocked = False
        self._pump()

    def stop_serving(self) -> None:
        """Start no request any more, and read none; those in progress are answered."""
        self._is_serving = False
        self._update_reading()

    def close(self) -> None:
        """Send what is answered, drop what waits, and close."""
        self._send()
        self._drop_all()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            # A client that does not read would keep the socket for ever.
            loop = asyncio.get_running_loop()
            loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        """Close without sending anything more."""
        self._drop_all()
        if self._transport is not None:
            self._transport.abort()

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _pump(self) -> None:
        """Start what may start, and send what is answered in one write."""
        while self._is_open() and self._queue and self._may_start(self._queue[0]):
            frame = self._queue.popleft()
            self._queued_bytes -= len(frame)
            try:
                self._start(frame)
            except (DecodeError, CloseConnectionError) as error:
                self._refuse(error)
            except Exception:
                # One client must not end the others; the traceback is all that is left of it.
                logger.exception("request failed", extra={"peer": self._info.peer})
                self.abort()
        self._send()
        self._update_reading()
        if self._queue and self._in_progress:
            hurry = self._in_progress[0].pending.hurry
            if hurry is not None:
                hurry()

    def _may_start(self, frame: memoryview) -> bool:
        if self._write_blocked or not self._is_serving:
            return False
        if not self._in_progress:
            return True
        return (
            len(self._in_progress) < MAX_PIPELINED_REQUESTS
            and self._in_progress_bytes + len(frame) <= MAX_PIPELINED_BYTES
            and self._in_progress[-1].pipelined
            and self._handler.is_pipelined(frame)
        )

    def _start(self, frame: memoryview) -> None:
        pipelined = self._handler.is_pipelined(frame)
        answer = self._handler.handle(frame, self._info)
        if isinstance(answer, Pending) and not (answer.future.done() and not self._in_progress):
            self._in_progress.append(_InProgress(answer, len(frame), pipelined))
            self._in_progress_bytes += len(frame)
            answer.future.add_done_callback(self._answered)
        elif self._in_progress:
            self._wait_in_line(answer, len(frame), pipelined)
        else:
            self._out += answer.buffers() if isinstance(answer, Pending) else answer

    def _wait_in_line(self, answer: Buffers | Pending, size_bytes: int, pipelined: bool) -> None:
        assert not isinstance(answer, Pending)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        pending = Pending(done, lambda: answer)
        self._in_progress.append(_InProgress(pending, size_bytes, pipelined))
        self._in_progress_bytes += size_bytes

    def _answered(self, future: asyncio.Future[object]) -> None:
        """Take the responses that are next in line; called as each one comes."""
        if not self._is_open():
            return
        try:
            while self._in_progress and self._in_progress[0].pending.future.done():
                first = self._in_progress.popleft()
                self._in_progress_bytes -= first.size_bytes
                self._out += first.pending.buffers()
        except (DecodeError, CloseConnectionError) as error:
            self._refuse(error)
        except asyncio.CancelledError:
            # What would have answered has been shut down.
            self.abort()
        except Exception:
            # As above: this connection ends, the broker goes on.
            logger.exception("request failed", extra={"peer": self._info.peer})
            self.abort()
        self._pump()

    def _send(self) -> None:
        if self._out and self._is_open():
            assert self._transport is not None
            out, self._out = self._out, []
            self._transport.writelines(out)

    def _update_reading(self) -> None:
        if not self._is_open():
            return
        assert self._transport is not None
        pause = (
            self._write_blocked
            or not self._is_serving
            or len(self._queue) >= MAX_QUEUED_REQUESTS
            or self._queued_bytes >= MAX_QUEUED_BYTES
        )
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _refuse(self, reason: Exception) -> None:
        logger.warning("connection closed: %s", reason, extra={"peer": self._info.peer})
        self.close()

    def _drop_all(self) -> None:
        in_progress, self._in_progress = self._in_progress, deque()
        self._in_progress_bytes = 0
        self._queue.clear()
        self._queued_bytes = 0
        self._out = []
        for request in in_progress:
            request.pending.future.remove_done_callback(self._answered)
            request.pending.future.cancel()
