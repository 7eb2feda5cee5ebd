"""Whether one log may be compacted now, and its running round.

A truncation or a move pauses compaction of its log: a running round is cancelled, and no round
begins until all pauses have ended. Pauses are counted.

Source: `kafka.log.LogCleanerManager`, its states of a partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jbodlab.vocabulary.threads import Flag


class LogCleaning:
    """See the module's text; lives on the event loop.

    Attributes:
        failures: How many rounds in succession have failed, for whatever is no damage of the log.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._is_damaged: Callable[[], bool] | None = None
        self._pauses = 0
        self._stop: Flag | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_uncleanable(self) -> bool:
        """Whether a round has met damage that is still there: the next one would meet it again."""
        if self._is_damaged is not None and not self._is_damaged():
            self._is_damaged = None
        return self._is_damaged is not None

    def mark_damaged(self, is_there: Callable[[], bool]) -> None:
        """Let no round begin as long as damage is there.

        Args:
            is_there: Asked whenever somebody wants to know; once it is not, it is forgotten.
        """
        self._is_damaged = is_there

    @property
    def is_running(self) -> bool:
        """Whether there is a round, also one that was called off and has not ended yet."""
        return self._stop is not None

    @property
    def is_free(self) -> bool:
        """Whether a round may begin."""
        return self._stop is None and not self._pauses and not self.is_uncleanable

    @property
    def is_paused(self) -> bool:
        """Whether somebody moves the log, or cuts it."""
        return self._pauses > 0

    @property
    def is_wanted(self) -> bool:
        """Whether the round under way was not called off."""
        return self._stop is not None and not self._stop.is_set()

    def begin(self, stop: Flag) -> None:
        """Begin a round, which ends when a flag is raised."""
        assert self.is_free
        self._stop = stop

    def end(self) -> None:
        """End the round."""
        self._stop = None
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def abort(self) -> None:
        """Call the round off, if there is one; it ends at its next look."""
        if self._stop is not None:
            self._stop.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Let there be no round as long as this lasts; one under way has ended when it begins."""
        self._pauses += 1
        try:
            self.abort()
            while self._stop is not None:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future
            yield
        finally:
            self._pauses -= 1
