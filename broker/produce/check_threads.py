"""A few threads for checks of batches that would block the event loop.

They start with the first such batch. Most of the work is decompression, during which the library
lets other threads run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from broker.bounds.limits import CHECK_THREADS
from broker.produce.batch_checks import CheckedBatch
from jbodlab.vocabulary.threads import Threads

Check = Callable[[], CheckedBatch]
_Item = tuple[Check, asyncio.Future[CheckedBatch]]


class CheckThreads:
    """Runs checks, first in, first begun; lives on the event loop.

    Args:
        loop: The event loop.
        threads: Where the threads come from.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: Threads) -> None:
        self._loop = loop
        self._threads = threads
        self._items = threads.queue()
        self._is_started = False
        self._is_closed = False

    def run(self, check: Check) -> asyncio.Future[CheckedBatch]:
        """Return a future of what a check returns or raises; cancelled at the end."""
        future: asyncio.Future[CheckedBatch] = self._loop.create_future()
        if self._is_closed:
            future.cancel()
            return future
        if not self._is_started:
            self._is_started = True
            for number in range(CHECK_THREADS):
                self._threads.start(self._work, f"check batches {number}")
        self._items.put((check, future))
        return future

    def close(self) -> None:
        """Begin no check any more."""
        self._is_closed = True
        for _ in range(CHECK_THREADS):
            self._items.put(None)

    def _work(self) -> None:
        """Run checks until there are no more; on a thread."""
        while True:
            item: _Item | None = self._items.get()
            if item is None:
                return
            check, future = item
            result: CheckedBatch | None = None
            error: BaseException | None = None
            if not self._is_closed:
                try:
                    result = check()
                except BaseException as raised:  # noqa: BLE001 - whoever asked is told
                    error = raised
            # A loop that is closed has nobody who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(
    future: asyncio.Future[CheckedBatch], result: CheckedBatch | None, error: BaseException | None
) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif result is not None:
        future.set_result(result)
    else:
        future.cancel()
