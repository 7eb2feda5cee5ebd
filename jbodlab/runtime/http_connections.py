"""The connections of a small HTTP server: a task per connection answers a request and closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jbodlab.runtime.accepting import Acceptor
from jbodlab.vocabulary.limits import HTTP_HEAD_BYTES_MAX

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpConnections:
    """The connections of one address; lives on the event loop.

    Args:
        name: Name of their tasks.
        most: How many connections may be open at a time; further ones wait until they are accepted.
        serve: Answers one connection. It may raise OSError, EOFError or TimeoutError if the client
            has disconnected or is too slow.
    """

    def __init__(self, name: str, most: int, serve: Serve) -> None:
        self._name = name
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(self._new_protocol, lambda: most - len(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)

    async def start(self, host: str, port: int) -> int:
        """Begin to serve; returns the bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        return await self._acceptor.start(host, port)

    def _new_protocol(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=HTTP_HEAD_BYTES_MAX)
        return asyncio.StreamReaderProtocol(reader, self._connected)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._served(reader, writer), name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Accept no more, and drop those that are open."""
        self._acceptor.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError):
            # The client has disconnected, or will retry.
            writer.transport.abort()
        finally:
            writer.close()


async def finish(writer: asyncio.StreamWriter) -> None:
    """Wait until all that was written is sent, and close."""
    await writer.drain()
    writer.close()
    await writer.wait_closed()
