"""The connections of a small HTTP server: each has a task that answers what came, and closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpConnections:
    """Those that are open; lives on the event loop.

    Args:
        name: Of their tasks.
        most: How many there may be at a time; another one is dropped.
        serve: Answers one. A client that is gone or too slow may make it raise OSError, EOFError
            or TimeoutError.
    """

    def __init__(self, name: str, most: int, serve: Serve) -> None:
        self._name = name
        self._most = most
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; what `asyncio.start_server` is given."""
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
            # Whoever asked has gone, or will ask again.
            writer.transport.abort()
        finally:
            writer.close()


async def finish(writer: asyncio.StreamWriter) -> None:
    """Wait until all that was written is sent, and close."""
    await writer.drain()
    writer.close()
    await writer.wait_closed()
