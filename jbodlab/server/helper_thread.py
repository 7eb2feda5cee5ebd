"""A thread beside the event loop, for work that takes long and needs nothing but its arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from jbodlab.vocabulary.threads import Threads

T = TypeVar("T")


class HelperThread:
    """Runs functions one after the other; the thread begins with the first of them.

    Args:
        threads: Where the thread comes from.
        name: Of the thread.
    """

    def __init__(self, threads: Threads, name: str) -> None:
        self._threads = threads
        self._name = name
        self._calls = threads.queue()
        self._is_started = False

    async def run(self, function: Callable[[], T]) -> T:
        """Return what a function returns, or raise what it raises."""
        if not self._is_started:
            self._is_started = True
            self._threads.start(self._work, self._name)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put((function, future, loop))
        return await future

    def close(self) -> None:
        """End the thread after what it was given; who waits is still told."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, future, loop = call
            try:
                tell = partial(_succeed, future, function())
            except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
                tell = partial(_fail, future, error)
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:
                # The loop has ended, and nobody waits any more.
                return


def _succeed(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
