"""Runs an action again and again until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from jbodlab.runtime.supervised import end_tasks

logger = logging.getLogger(__name__)


class PeriodicTask:
    """Awaits `action`, pauses, and does so again; what it raises is logged and ends nothing.

    Args:
        name: For the log.
        interval_ms: Pause between the end of one run and the start of the next.
        action: The call that is repeated.
        initial_delay_ms: Pause before the first run; `interval_ms` if None.
    """

    def __init__(
        self,
        name: str,
        interval_ms: int,
        action: Callable[[], Awaitable[object]],
        *,
        initial_delay_ms: int | None = None,
    ) -> None:
        self._name = name
        self._interval_s = interval_ms / 1000
        self._initial_delay_s = (
            self._interval_s if initial_delay_ms is None else initial_delay_ms / 1000
        )
        self._action = action
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """End; a run under way is cancelled."""
        task, self._task = self._task, None
        await end_tasks([task])

    async def _run(self) -> None:
        await asyncio.sleep(self._initial_delay_s)
        while True:
            try:
                await self._action()
            except Exception:
                logger.exception("%s failed; it will be retried", self._name)
            # An interval of zero must not starve everything else.
            await asyncio.sleep(max(self._interval_s, 0.01))
