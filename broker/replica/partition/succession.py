"""The time between the failure of a leader's log and the metadata that name the next leader.

A client that is refused in this time asks a broker for the leader and gets the failed one again.
Some clients then wait for seconds before they ask again, or have no retries left. So their requests
wait here for a fraction of a second, and then get the next leader. They do not wait if no other
replica can lead. If the controller is away, produce requests and fetches wait until their own
timeout, and requests without a timeout wait for `SUCCESSION_WAIT_MAX_S`.

Apache Kafka refuses at once; there the gap is the client's back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from broker.bounds.limits import HEAD_START_S, SUCCESSION_WAIT_MAX_S


class Succession:
    """Whether the clients of a failed leader wait for the next one.

    Args:
        on_over: Called when the wait is over; not called by `cancel`.
    """

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over = on_over
        self.is_awaited = False
        """Whether the next leader is about to be named."""
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    def begin(self) -> None:
        """Wait until the metadata have news."""
        assert not self.is_awaited
        self.is_awaited = True
        self._over.clear()

    async def wait(self) -> None:
        """Return when nothing is waited for, or after `SUCCESSION_WAIT_MAX_S`."""
        if self.is_awaited:
            with suppress(TimeoutError):
                async with asyncio.timeout(SUCCESSION_WAIT_MAX_S):
                    await self._over.wait()

    def leader_known(self) -> bool:
        """Answer the waiting clients soon, for the metadata name the next leader.

        Returns:
            Whether a client waits.
        """
        if self.is_awaited and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_START_S, self.give_up)
        return self.is_awaited

    def give_up(self) -> None:
        """End the wait without a leader, and call `on_over`."""
        if self.cancel():
            self._on_over()

    def cancel(self) -> bool:
        """End the wait silently; returns whether there was one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        was_awaited, self.is_awaited = self.is_awaited, False
        self._over.set()
        return was_awaited
