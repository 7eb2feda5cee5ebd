"""One client connection: frames in, responses out in the order of the requests.

Requests of a connection are worked on one at a time, as in Kafka, with one exception. A Produce
request with acks=all waits for the followers, and clients send the next ones meanwhile; if these
were not started, a connection could carry only one batch per replication round trip. So
pipelined requests (`RequestHandler.is_pipelined`) start while earlier ones of their kind wait, up
to a limit. They start in order, so what they append keeps its order, and their responses leave in
order. Every other request starts when all before it have been answered, and nothing starts
behind it before it has been; a request that waits for news without need is told that another one
came (`Pending.hurry`).

Back-pressure: the socket is not read while too many requests are queued, while those of all clients
take too much memory (`request_memory`), or while the client does not take its responses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from jbodlab.kafka_wire.framing import SMALL_FRAME_BYTES_MAX, FrameDecoder
from jbodlab.runtime import tcp
from jbodlab.runtime.prompt_future import PromptFuture
from jbodlab.runtime.supervised import give_up
from jbodlab.server.authentication import Authentication, SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener_counts import ListenerCounts
from jbodlab.server.request_handler import Buffers, Pending, RequestHandler
from jbodlab.server.session import Session
from jbodlab.vocabulary.errors import CloseConnectionError, DecodeError
from jbodlab.vocabulary.limits import (
    CONNECTION_BYTES,
    CONNECTION_CLOSE_S,
    HELD_BYTES_AT_LEAST,
    MAX_PIPELINED_BYTES,
    MAX_PIPELINED_REQUESTS,
    MAX_QUEUED_BYTES,
    MAX_QUEUED_REQUESTS,
    WRITE_HIGH_WATER_BYTES,
)

logger = logging.getLogger(__name__)

MIN_REQUEST_BYTES = 8
"""API key, version and correlation id."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_decoder",
        "_handler",
        "_has_ended",
        "_has_to_log_in",
        "_has_turn",
        "_held_bytes",
        "_in_progress",
        "_in_progress_bytes",
        "_is_serving",
        "_on_login",
        "_on_lost",
        "_on_made",
        "_out",
        "_queue",
        "_queued_bytes",
        "_reading_paused",
        "_session",
        "_transport",
        "_unmute",
        "_write_blocked",
        "ip",
        "tls_steps",
    )

    def __init__(
        self,
        handler: RequestHandler,
        bounds: Bounds,
        *,
        listener_name: str,
        on_made: Callable[[Connection], bool],
        on_lost: Callable[[Connection], None],
        sasl: SaslSettings | None = None,
        counts: ListenerCounts,
        on_login: Callable[[Connection], None] = lambda _: None,
        has_to_log_in: bool = False,
    ) -> None:
        self._handler = handler
        self._bounds = bounds
        self._on_made = on_made
        self._on_lost = on_lost
        self._decoder = FrameDecoder(
            max_frame_bytes=bounds.max_request_bytes,
            min_frame_bytes=MIN_REQUEST_BYTES,
            scratch=bounds.scratch,
            admit=self._admit,
        )
        self.ip = ""
        self.tls_steps = 0
        """How far a handshake of TLS has come: answered, or done."""
        self._session = Session(listener_name=listener_name)
        self._on_login = on_login
        self._has_to_log_in = has_to_log_in
        if sasl is not None:
            self._session.authentication = Authentication(sasl, self._logged_in, counts)
            self._decoder.bound(1, sasl.max_receive_bytes)
        self._transport: asyncio.Transport | None = None
        # Lists, as most are empty: a deque takes half a KiB from the beginning.
        self._queue: list[memoryview] = []
        self._queued_bytes = 0
        self._in_progress: list[Pending] = []
        """Requests that have started and whose responses have not left, in their order."""
        self._in_progress_bytes = 0
        self._held_bytes = 0
        """Bytes that count in the memory of all requests: received, and not answered yet."""
        self._out: list[bytes | bytearray | memoryview] = []
        self._write_blocked = False
        self._has_turn = False
        """Whether it is served: where there are too many connections, not from the beginning."""
        self._is_serving = True
        self._has_ended = False
        """Whether the client sends nothing more."""
        self._reading_paused = False
        self._unmute: asyncio.TimerHandle | None = None

    @property
    def listener_name(self) -> str:
        """Listener that accepted it."""
        return self._session.listener_name

    @property
    def session(self) -> Session:
        """The client that is connected."""
        return self._session

    @property
    def login_steps(self) -> int:
        """How many steps of its login a client has made."""
        login = self._session.authentication
        return self.tls_steps + (0 if login is None else login.steps)

    @property
    def waits_for_us(self) -> bool:
        """Whether it is not the client's turn to go on: it is not served yet, or not answered."""
        return not self._has_turn or self.is_busy

    @property
    def unfinished_bytes(self) -> int:
        """Memory of a request that has not arrived."""
        return self._decoder.unfinished_bytes

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or waits for that and not for the client to read."""
        return bool(self._in_progress or (self._queue and not self._write_blocked))

    @property
    def has_appends(self) -> bool:
        """Whether the client waits for the answer to a produce request."""
        return any(each.appends for each in self._in_progress)

    @property
    def is_receiving(self) -> bool:
        """Whether memory is set aside for a request that has not arrived."""
        return self._decoder.is_receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket up, or close it where there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.ip = peer[0]
            self._session.peer = f"{peer[0]}:{peer[1]}"
        if not self._on_made(self):
            self._transport.abort()
            return
        if not self._has_to_log_in:
            tcp.set_up(transport, keep_alive=True)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        # Nothing is read of one that is not served, or not yet.
        self._update_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what waits: nobody is there to read it."""
        self._transport = None
        self._drop_all()
        # They refer to each other: half a request would stay until somebody looks for such circles.
        self._decoder.close()
        self._bounds.memory_return.moved_bytes += CONNECTION_BYTES
        self._on_lost(self)

    def eof_received(self) -> bool:
        """Stay open until the produce requests are appended that came before the client's end.

        A producer with acks=0 waits for no response, and closes once it has sent its batches. Kafka
        processes them as well (`org.apache.kafka.common.network.Selector`, closing channels).
        """
        self._has_ended = True
        # A request that never becomes whole takes no memory.
        self._decoder.close()
        self._give_back(self._held_bytes - self._queued_bytes - self._in_progress_bytes)
        return self._appends_wait()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes belong."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Queue the requests that became whole, and start what may start."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._bounds.connections.active(self)
        try:
            frames = self._decoder.received(nbytes)
        except DecodeError as error:
            self._refuse(error)
            return
        self._take(frames)

    def pause_writing(self) -> None:
        """Read and start nothing more: the client does not take its responses."""
        self._write_blocked = True
        self._update_reading()

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self._write_blocked = False
        self._pump()

    def begin_serving(self) -> None:
        """Start requests from now on; a connection may have to wait for that."""
        self._has_turn = True
        self._room()

    def authenticated(self, user: str) -> None:
        """Serve a client whose certificate names the user."""
        self._session.user = user
        self._logged_in()

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
            if self._transport.get_write_buffer_size():
                # A client that does not read would keep the socket for ever.
                loop = asyncio.get_running_loop()
                loop.call_later(CONNECTION_CLOSE_S, self._transport.abort)

    def abort(self) -> None:
        """Close without sending anything more."""
        self._drop_all()
        if self._transport is not None:
            self._transport.abort()

    def _logged_in(self) -> None:
        self._decoder.bound(MIN_REQUEST_BYTES, self._bounds.max_request_bytes)
        if self._transport is not None and self._has_to_log_in:
            tcp.set_up(self._transport, keep_alive=True)
        self._on_login(self)

    def _take(self, frames: list[memoryview]) -> None:
        """Queue requests, and start what may start."""
        held = 0
        for frame in frames:
            size = len(frame)
            self._queue.append(frame)
            self._queued_bytes += size
            if size <= SMALL_FRAME_BYTES_MAX:
                held += size
        if held:
            self._held_bytes += held
            self._bounds.memory.take(held)
        self._pump()

    def _admit(self, start: memoryview, size_bytes: int) -> bool:
        """Let a large request in, later if there is no room now; raises DecodeError if never."""
        self._handler.admit(start, size_bytes)
        if self._bounds.memory.is_full or not self._has_turn:
            return False
        self._held_bytes += size_bytes
        self._bounds.memory.take(size_bytes)
        return True

    def _give_back(self, count: int) -> None:
        self._held_bytes -= count
        self._bounds.memory.give_back(count)

    def _room(self) -> None:
        """Go on: other clients' requests have been answered, or their connections have ended."""
        if self._is_open() and self._decoder.is_waiting and not self._has_ended:
            try:
                frames = self._decoder.retry()
            except DecodeError as error:
                self._refuse(error)
                return
            self._take(frames)
        else:
            self._pump()

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _pump(self) -> None:
        """Start what may start, and send what is answered in one write; much of it earlier."""
        counted = unsent_bytes = 0
        while self._queue and self._may_start(self._queue[0]):
            if not self._bounds.turns.may_start(self._pump):
                break
            frame = self._queue.pop(0)
            self._queued_bytes -= len(frame)
            try:
                self._start(frame)
            except (DecodeError, CloseConnectionError) as error:
                self._refuse(error)
            except Exception:
                # One client must not end the others; the traceback is all that is left of it.
                logger.exception("cannot process a request", extra={"peer": self._session.peer})
                self.abort()
            self._bounds.turns.has_started()
            if self._queue:
                unsent_bytes += sum(map(len, self._out[counted:]))
                counted = len(self._out)
                if unsent_bytes > WRITE_HIGH_WATER_BYTES:
                    # A client that reads nothing costs one large answer, not one for each request.
                    self._send()
                    counted = unsent_bytes = 0
        if self._out:
            self._send()
        is_done = self._session.closes and not self._in_progress
        if is_done or (self._has_ended and self._is_open() and not self._appends_wait()):
            self.close()
        if (
            self._queue
            or self._reading_paused
            or self._decoder.is_waiting
            or self._bounds.memory.is_full
        ):
            self._update_reading()
        if self._queue and self._in_progress:
            hurry = self._in_progress[0].hurry
            if hurry is not None:
                hurry()

    def _may_start(self, frame: memoryview) -> bool:
        transport, session = self._transport, self._session
        if transport is None or transport.is_closing() or session.closes:
            return False
        if self._write_blocked or not self._is_serving or not self._has_turn:
            return False
        if session.muted_until_s and self._is_muted():
            return False
        if not self._in_progress:
            return True
        return (
            len(self._in_progress) < MAX_PIPELINED_REQUESTS
            and self._in_progress_bytes + len(frame) <= MAX_PIPELINED_BYTES
            and self._in_progress[-1].is_pipelined
            and self._handler.is_pipelined(frame)
        )

    def _appends_wait(self) -> bool:
        """Whether a produce request has not been appended yet."""
        return any(each.appends and not each.overlaps for each in self._in_progress) or any(
            map(self._handler.is_pipelined, self._queue)
        )

    def _is_muted(self) -> bool:
        """Whether the client has used up its quotas; it then goes on when that is over."""
        loop = asyncio.get_running_loop()
        left_s = self._session.muted_until_s - loop.time()
        if left_s <= 0:
            return False
        if self._unmute is None:
            self._unmute = loop.call_later(left_s, self._unmuted)
        return True

    def _unmuted(self) -> None:
        self._unmute = None
        if self._is_open():
            self._pump()

    def _start(self, frame: memoryview) -> None:
        answer = self._handler.handle(frame, self._session)
        size_bytes = len(frame)
        if not isinstance(answer, Pending):
            if self._in_progress:
                self._wait_in_line(answer, size_bytes)
            else:
                self._give_back(size_bytes)
                self._out += answer
        elif self._in_progress or not answer.future.done():
            answer.size_bytes = size_bytes
            self._in_progress.append(answer)
            self._in_progress_bytes += size_bytes
            future = answer.future
            if isinstance(future, PromptFuture):
                future.listener = self._answered
            else:
                future.add_done_callback(self._answered)
        else:
            self._give_back(size_bytes)
            self._out += answer.buffers()

    def _wait_in_line(self, answer: Buffers, size_bytes: int) -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        # Requests start behind others only if they are pipelined.
        pending = Pending(done, lambda: answer, appends=True, size_bytes=size_bytes)
        self._in_progress.append(pending)
        self._in_progress_bytes += size_bytes

    def _answered(self, future: asyncio.Future[object]) -> None:
        """Send the responses that are next in line; called as each one comes.

        Nothing starts here: whoever has the answer may be in the middle of a change.
        """
        waiting = self._in_progress
        if not (waiting and waiting[0].future.done()):
            # It has left already, with one before it, or has to wait for that.
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            while waiting and waiting[0].future.done():
                first = waiting.pop(0)
                size_bytes = first.size_bytes
                self._in_progress_bytes -= size_bytes
                self._held_bytes -= size_bytes
                self._bounds.memory.give_back(size_bytes)
                self._out += first.buffers()
            self._send()
        except (DecodeError, CloseConnectionError) as error:
            self._refuse(error)
        except asyncio.CancelledError:
            # The handler that would have answered has been shut down.
            self.abort()
        except Exception:
            # As above: this connection ends, the broker goes on.
            logger.exception("cannot process a request", extra={"peer": self._session.peer})
            self.abort()
        if (
            self._queue
            or self._reading_paused
            or self._has_ended
            or self._session.closes
            or self._decoder.is_waiting
            or self._bounds.memory.is_full
        ):
            asyncio.get_running_loop().call_soon(self._pump)

    def _send(self) -> None:
        transport = self._transport
        if self._out and transport is not None and not transport.is_closing():
            out, self._out = self._out, []
            self._bounds.memory_return.moved_bytes += sum(map(len, out))
            transport.writelines(out)

    def _update_reading(self) -> None:
        transport = self._transport
        if self._has_ended or transport is None or transport.is_closing():
            return
        memory = self._bounds.memory
        is_stopped = self._decoder.is_waiting or (
            # A request that was let in comes in whole: others wait until it is answered.
            memory.is_full
            and self._held_bytes > HELD_BYTES_AT_LEAST
            and not self._decoder.is_receiving
        )
        if is_stopped and self._has_turn:
            memory.when_room(self._room)
        pause = (
            is_stopped
            or self._write_blocked
            or not self._is_serving
            or not self._has_turn
            or len(self._queue) >= MAX_QUEUED_REQUESTS
            or self._queued_bytes >= MAX_QUEUED_BYTES
        )
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _refuse(self, reason: Exception) -> None:
        logger.warning("closed a connection: %s", reason, extra={"peer": self._session.peer})
        self.close()

    def _drop_all(self) -> None:
        if self._unmute is not None:
            self._unmute.cancel()
        in_progress = [*self._in_progress]
        self._in_progress.clear()
        self._in_progress_bytes = 0
        self._queue.clear()
        self._queued_bytes = 0
        self._out = []
        self._bounds.memory.wait_no_longer(self._room)
        self._give_back(self._held_bytes)
        for request in in_progress:
            future = request.future
            if isinstance(future, PromptFuture):
                future.listener = None
            else:
                future.remove_done_callback(self._answered)
            give_up(future)
