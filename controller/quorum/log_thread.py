"""A thread for blocking calls: one touches the metadata log, another one writes snapshots."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from jbodlab.vocabulary.threads import CallQueue, Threads

T = TypeVar("T")

_STOP = object()


class LogThread:
    """Runs functions one after the other, first come, first served.

    It is a daemon: a call that hangs on a dead disk does not keep the process from ending.
    """

    def __init__(self, threads: Threads, name: str = "metadata-log") -> None:
        self._queue: CallQueue = threads.queue()
        threads.start(self._work, name)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function on the thread; its result or exception arrives in the future."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.call(function, partial(_settle, future))
        return future

    def call(
        self, function: Callable[[], T], done: Callable[[T | None, BaseException | None], object]
    ) -> None:
        """Run a function on the thread, and hand its result or exception to another one.

        Args:
            function: On the thread.
            done: On the event loop, a turn earlier than what waits for the future of `run`.
        """
        self._queue.put((asyncio.get_running_loop(), done, function))

    def stop(self) -> None:
        """End the thread when everything before is done; does not wait."""
        self._queue.put(_STOP)

    def _work(self) -> None:
        while (item := self._queue.get()) is not _STOP:
            loop, done, function = item
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits
                error = raised
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done, result, error)
            del item, done, function, result, error


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
