"""The time between the failure of a leader's log and the metadata that name the next leader.

A client that is refused in it asks any broker who leads, hears of the failed one again, and some
clients then wait for seconds before they ask anew. So clients wait here instead, for a fraction of
a second, and are told the next leader. Nothing is waited for where no other replica can lead, and
no longer than `WAIT_MAX_S`, as the controller may be away.

Apache Kafka refuses at once; there the gap is the client's back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_MAX_S = 1.0
"""Much longer than an election takes, and shorter than any client's patience."""

HEAD_START_S = 0.03
"""Given to the next leader: it hears of its leadership when this broker does, more or less."""


class Succession:
    """Whether the clients of a failed leader wait for the next one.

    Args:
        on_over: Called when the wait is over; not called by `end`.
    """

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over = on_over
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    @property
    def is_awaited(self) -> bool:
        """Whether the next leader is about to be named."""
        return self._timer is not None

    def begin(self) -> None:
        """Wait, for a limited time."""
        assert self._timer is None
        self._over.clear()
        self._timer = asyncio.get_running_loop().call_later(WAIT_MAX_S, self.settle)

    async def wait(self) -> None:
        """Return when nothing is waited for."""
        if self.is_awaited:
            await self._over.wait()

    def named(self) -> bool:
        """The metadata have news: tell them soon; returns whether anybody waits for them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(HEAD_START_S, self.settle)
        return self.is_awaited

    def settle(self) -> None:
        """Wait no longer, whatever has come of it."""
        if self.end():
            self._on_over()

    def end(self) -> bool:
        """Forget the wait; returns whether there was one."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._over.set()
        return timer is not None
