"""The connections of a small HTTP server: a task per connection answers a request and closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpConnections:
    """The open connections; lives on the event loop.

    Args:
        name: Name of their tasks.
        most: How many connections may be open at a time; further ones are dropped.
        serve: Answers one connection. It may raise OSError, EOFError or TimeoutError if the client
            has disconnected or is too slow.
    """

    def __init__(self, name: str, most: int, serve: Serve) -> None:
        self._name = name
        self._most = most
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; the callback for `asyncio.start_server`."""
        if len(self._tasks) >= self._most:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._served(reader, writer), name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop all of them."""
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
