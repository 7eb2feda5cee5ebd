"""The clock of the event loop in whole milliseconds, and timers by it.

Times are rounded, not truncated: a timer that fires at millisecond 1,000 may read 0.9999999 s, and
with uvloop it always reads a whole millisecond that a float does not hold exactly. A truncated time
would be a millisecond early; the callback would find no work due, and set the same timer again and
again until the next millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_ms(loop: asyncio.AbstractEventLoop | None = None) -> int:
    """Return the time of a loop, the running one if None; it never goes back."""
    return round((loop or asyncio.get_running_loop()).time() * 1000)


def call_at_ms(
    time_ms: int, callback: Callable[..., object], *arguments: object
) -> asyncio.TimerHandle:
    """Call back on the running loop when `loop_ms` has reached a time."""
    return asyncio.get_running_loop().call_at(time_ms / 1000, callback, *arguments)
