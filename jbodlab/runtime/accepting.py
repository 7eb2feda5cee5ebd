"""Connections are accepted while there is room for them; until then the system keeps them.

A server of the event loop cannot pause: it would accept whatever comes, and a program without room
could only close it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from jbodlab.vocabulary.limits import ACCEPT_AGAIN_S, ACCEPTED_MAX

logger = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that the system keeps until they are accepted. One that it drops comes again after a
second only."""


class Acceptor:
    """Listens at one address; lives on the event loop.

    Args:
        new_protocol: Makes the protocol of a connection.
        room: Returns how many connections may be accepted now.
    """

    def __init__(
        self, new_protocol: Callable[[], asyncio.BaseProtocol], room: Callable[[], int]
    ) -> None:
        self._new_protocol = new_protocol
        self._room = room
        self._server: asyncio.Server | None = None
        """Is bound only."""
        self._sockets: list[socket.socket] = []
        self._beginning: set[asyncio.Task[None]] = set()
        """Connections that have been accepted just now."""
        self._has_failed = False
        """Whether the system refused the last one, for want of descriptors or memory."""
        self._look_again: asyncio.TimerHandle | None = None
        """Set while nothing is accepted, as there is no room."""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is accepted, as there is no room."""
        return self._look_again is not None

    async def start(self, host: str | None, port: int) -> int:
        """Bind and accept.

        Args:
            host: None for all addresses of this machine.
            port: 0 for a free one.

        Returns:
            The bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        assert self._server is None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._new_protocol, host, port, reuse_address=True, start_serving=False
        )
        for each in self._server.sockets:
            own = socket.fromfd(each.fileno(), each.family, each.type)
            own.setblocking(False)
            own.listen(BACKLOG)
            self._sockets.append(own)
            port = port or own.getsockname()[1]
        self._resume()
        return port

    def close(self) -> None:
        """Accept nothing more; the address is free again."""
        self._pause()
        for each in self._sockets:
            each.close()
        self._sockets.clear()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _resume(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each, self._accept, each)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None

    def _accept(self, own: socket.socket) -> None:
        if self._beginning:
            # Those count only when they have begun.
            return
        room = self._room()
        if room <= 0:
            self._wait_for_room()
            return
        loop = asyncio.get_running_loop()
        for _ in range(min(room, ACCEPTED_MAX)):
            try:
                accepted, _ = own.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if not self._has_failed:
                    logger.warning("cannot accept connections: %s", error)
                self._has_failed = True
                self._wait_for_room()
                return
            self._has_failed = False
            accepted.setblocking(False)
            task = loop.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._new_protocol, accepted)
        except OSError as error:
            logger.info("lost a new connection: %s", error)
            accepted.close()

    def _wait_for_room(self) -> None:
        self._pause()
        loop = asyncio.get_running_loop()
        self._look_again = loop.call_later(ACCEPT_AGAIN_S, self._look_for_room)

    def _look_for_room(self) -> None:
        self._look_again = None
        if self._room() > 0:
            self._resume()
        else:
            self._wait_for_room()
