"""Runs actions again and again until they are stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from jbodlab.runtime.supervised import end_tasks

logger = logging.getLogger(__name__)

Action = tuple[str, int, int, Callable[[], Awaitable[object]]]
"""Name for the log, pause before the first run, pause between two runs in ms, and the call."""


class PeriodicTasks:
    """Awaits each action, pauses, and does so again; what it raises is logged and ends nothing.

    Args:
        actions: The actions; they do not wait for each other.
    """

    def __init__(self, *actions: Action) -> None:
        self._actions = actions
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the running loop."""
        assert not self._tasks
        self._tasks = [asyncio.create_task(_run(each), name=each[0]) for each in self._actions]

    async def stop(self) -> None:
        """End; runs under way are cancelled."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)


async def _run(action: Action) -> None:
    name, initial_delay_ms, interval_ms, call = action
    await asyncio.sleep(initial_delay_ms / 1000)
    while True:
        try:
            await call()
        except Exception:
            logger.exception("%s failed; it will be retried", name)
        # An interval of zero must not starve everything else.
        await asyncio.sleep(max(interval_ms / 1000, 0.01))
