"""Waits: they end, and those longer than a second say what they wait for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from jbodlab.cli.output import PROGRESS_AFTER_S

Rest = TypeVar("Rest", bound=Sized)


async def wait_until_empty(
    look: Callable[[], Awaitable[Rest]], timeout_s: float, pause_s: float
) -> Rest:
    """Call `look` every `pause_s` until its result is empty; return the last result."""
    end_s = time.monotonic() + timeout_s
    while (rest := await look()) and time.monotonic() < end_s:
        await pause(pause_s)
    return rest


async def pause(pause_s: float) -> None:
    """Wait; asyncio is imported only where a command waits."""
    import asyncio

    await asyncio.sleep(pause_s)


@contextmanager
def note_wait(text: str) -> Iterator[None]:
    """Print a line on stderr once the body has taken a second."""
    timer = threading.Timer(PROGRESS_AFTER_S, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
