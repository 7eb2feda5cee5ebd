"""Tasks that cannot end unnoticed, callbacks that all run, and futures that are given up.

If a task ends with an unexpected exception, all code that relies on the task waits, and asyncio
logs the exception only when the task is collected, if ever. This module logs the exception with its
traceback at once. Then the task is restarted, or a callback ends the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

RESTART_S = 0.1
RESTART_S_MAX = 5.0
"""Pauses before work is restarted; doubled as long as the work fails again at once."""

logger = logging.getLogger(__name__)


def supervised(
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    name: str,
    on_end: Callable[[str], None] | None = None,
) -> asyncio.Task[None]:
    """Run work as a task of the running loop, until it returns or is cancelled.

    Args:
        work: Begins the work; called again after an exception, unless there is `on_end`.
        name: Name of the task, for the log.
        on_end: Called with one line instead of a restart when the work has raised an exception; for
            work that cannot be restarted. It may end the process, for example.

    Returns:
        The task; it ends with the work, and never raises an exception.
    """
    return asyncio.get_running_loop().create_task(_supervise(work, name, on_end), name=name)


async def end_tasks(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel the tasks that are there, and wait until they have ended, however they do."""
    ending = [task for task in tasks if task is not None]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def call_each(callbacks: Iterable[Callable[[], object]], what: str) -> None:
    """Call all callbacks; an exception of one is logged and does not stop the others."""
    for callback in callbacks:
        try:
            callback()
        except Exception:
            logger.exception("a callback for %s failed", what)


def give_up(future: asyncio.Future[Any]) -> None:
    """Cancel a future whose result nobody will read.

    The future of `asyncio.gather` does not become a cancelled future: it gets the CancelledError as
    an exception, which asyncio logs as an error if nobody has read it.
    """
    future.cancel()
    future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def _supervise(
    work: Callable[[], Coroutine[Any, Any, None]], name: str, on_end: Callable[[str], None] | None
) -> None:
    loop = asyncio.get_running_loop()
    pause_s = RESTART_S
    while True:
        begun_s = loop.time()
        try:
            await work()
        except Exception as error:
            if on_end is not None:
                logger.exception("%s ended unexpectedly", name)
                on_end(f"{name} ended unexpectedly: {error!r}")
                return
            logger.exception("%s ended unexpectedly; restarting it", name)
        else:
            return
        if loop.time() - begun_s > RESTART_S_MAX:
            pause_s = RESTART_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RESTART_S_MAX)
