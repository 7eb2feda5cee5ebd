"""Requests start only for a short time in each turn of the event loop; later ones wait in line.

Hundreds of connections may have small requests in the same turn. If all of them started at once,
every other response, which needs a few turns, would wait for all of them in each turn. So a
connection that finds the time used up, or others waiting, waits in line. When it is first it starts
one request and goes to the end.

The loop does not say when a turn ends, and to be called in the next one costs a turn. So the time
is added up over turns, and the next turn is waited for only when half of it has been used: a single
client's request comes and goes without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jbodlab.vocabulary.limits import TURN_SHARE_S


class FairTurns:
    """Shared by the connections of a broker.

    Args:
        loop: The event loop.
        monotonic_s: Clock that goes on while a callback runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_s: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._begun_s = 0.0
        self._used_s = 0.0
        """Time for which requests have started since a turn was known to begin."""
        self._is_awaited = False
        """Whether the loop will call at the next turn; so while a request waits in line."""
        self._line: dict[Callable[[], None], None] = {}
        self._is_first = False
        """Whether the one that is called just now was first in line."""

    def may_start(self, resume: Callable[[], None]) -> bool:
        """Return whether a request may start now; `resume` is called when it may if it may not.

        One that may is followed by `has_started`.
        """
        if self._is_first:
            self._is_first = False
        elif self._line or self._used_s >= TURN_SHARE_S:
            self._line[resume] = None
            return False
        self._begun_s = self._monotonic_s()
        return True

    def has_started(self) -> None:
        """Count the time since `may_start`."""
        self._used_s += self._monotonic_s() - self._begun_s
        if self._used_s >= TURN_SHARE_S / 2 and not self._is_awaited:
            self._await_next()

    def _await_next(self) -> None:
        self._is_awaited = True
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_awaited = False
        self._used_s = 0.0
        if not self._line:
            return
        self._await_next()
        while self._line:
            resume = next(iter(self._line))
            del self._line[resume]
            self._is_first = True
            try:
                resume()
            finally:
                self._is_first = False
            if self._used_s >= TURN_SHARE_S:
                break
