"""Requests start only for a short time in each turn of the event loop; later ones wait in line.

Hundreds of connections may have small requests in the same turn. If all of them started at once,
every other response, which needs a few turns, would wait for all of them in each turn. So a
connection that finds the time used up, or others waiting, waits in line. When it is first it starts
one request and goes to the end.
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
        self._end_s: float | None = None
        """When the time of this turn is used up; None before anything has started in it."""
        self._line: dict[Callable[[], None], None] = {}
        self._is_first = False
        """Whether the one that is called just now was first in line."""

    def may_start(self, resume: Callable[[], None]) -> bool:
        """Return whether a request may start now; `resume` is called when it may if it may not."""
        if self._is_first:
            self._is_first = False
            return True
        if self._end_s is None:
            self._end_s = self._monotonic_s() + TURN_SHARE_S
            self._loop.call_soon(self._next_turn)
            return True
        if not self._line and not self._has_ended():
            return True
        self._line[resume] = None
        return False

    def _has_ended(self) -> bool:
        return self._end_s is not None and self._monotonic_s() >= self._end_s

    def _next_turn(self) -> None:
        self._end_s = None
        if not self._line:
            return
        self._end_s = self._monotonic_s() + TURN_SHARE_S
        self._loop.call_soon(self._next_turn)
        while self._line:
            resume = next(iter(self._line))
            del self._line[resume]
            self._is_first = True
            try:
                resume()
            finally:
                self._is_first = False
            if self._has_ended():
                break
