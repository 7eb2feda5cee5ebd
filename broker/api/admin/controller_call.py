"""Changes that the controller makes: how long to wait for it, and for the change to arrive here."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jbodlab.server.answer import milliseconds
from jbodlab.vocabulary.errors import ControllerUnavailableError

R = TypeVar("R")
T = TypeVar("T")

IMMEDIATE_TIMEOUT_S = 5.0
"""Deadline of a call whose client does not want to wait for the effect (timeout 0)."""

MAX_TIMEOUT_S = 300.0
POLL_S = 0.005
RETRY_S = 0.1
"""Between two attempts to reach the controller; it is back within a second of a restart."""


class Deadline:
    """How long one request may take."""

    def __init__(self, timeout: datetime.timedelta) -> None:
        """Start the clock.

        Args:
            timeout: As the client sent it; zero or less means to answer as soon as the controller
                has, without waiting for the change to reach this broker.
        """
        timeout_s = milliseconds(timeout) / 1000
        self._waits = timeout_s > 0
        self._loop = asyncio.get_running_loop()
        allowed_s = min(timeout_s, MAX_TIMEOUT_S) if self._waits else IMMEDIATE_TIMEOUT_S
        self._end = self._loop.time() + allowed_s

    @property
    def left_s(self) -> float:
        """Seconds left for the call to the controller; never negative."""
        return max(self._end - self._loop.time(), 0.0)

    async def call(self, method: Callable[[R, float], Awaitable[T]], request: R) -> T:
        """Ask the controller, again and again while it cannot be reached and time is left.

        Like every retry over a network this may repeat what has been done already: the answer then
        says that the topic exists, or that there is none.

        Raises:
            ControllerUnavailableError: the time is over.
        """
        while True:
            try:
                return await method(request, self.left_s)
            except ControllerUnavailableError:
                if self.left_s <= RETRY_S:
                    raise
                await asyncio.sleep(RETRY_S)

    async def wait_for(self, arrived: Callable[[], bool]) -> None:
        """Wait until a change shows in this broker's metadata, or the time is over.

        It is committed in either case, so a client that is answered too early only has to look
        again.
        """
        # Polling needs no hook in the path on which metadata changes reach the replicas.
        while self._waits and self.left_s > 0 and not arrived():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
