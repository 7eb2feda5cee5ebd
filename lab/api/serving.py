"""One server in a thread with a loop of its own; the main thread is left to signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lab.errors import LabError

HEAD_TIMEOUT_S = 5.0
HEAD_BYTES_MAX = 16 * 1024
CONNECTIONS_MAX = 128
KEEP_ALIVE_S = 30
END_TIMEOUT_S = 2


class _Connection(H11Protocol):
    """A connection that has to send the head of each request in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._arm()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound.

    Args:
        host: An address of this machine.
        port: 0 takes a free one.

    Raises:
        LabError: it cannot be bound.
    """
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise LabError(f"cannot listen at {host}:{port}: {error.strerror}") from error


@contextlib.contextmanager
def serving(
    make_app: Callable[[], ASGIApp],
    listening: socket.socket,
    beside: Callable[[], Any],
) -> Iterator[Future[None]]:
    """Serve in a thread until the end of the block.

    Args:
        make_app: Makes the application, on the loop.
        listening: The socket.
        beside: Returns what runs beside it on the same loop, and ends it where that fails.

    Yields:
        Ends when the server does.
    """
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        config = uvicorn.Config(
            make_app(),
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=END_TIMEOUT_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        server = uvicorn.Server(config)
        looking = asyncio.create_task(beside())
        served = asyncio.create_task(server.serve(sockets=[listening]))
        # Cancelled at the end of the block.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((looking, served), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        looking.cancel()
        await asyncio.wait((looking, served))
        for each in (served, looking):
            if not each.cancelled():
                each.result()

    with ThreadPoolExecutor(1, thread_name_prefix="api") as pool:
        ended: Future[None] = pool.submit(asyncio.run, serve())
        try:
            yield ended
        finally:
            loop, task = running.result()
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
            with contextlib.suppress(Exception):
                ended.result()
