"""Turns of the event loop: where many connections want something at once, each has a little of it.

A loop hands out everything that is ready before it looks again: what a thousand clients have sent,
the ends of ten thousand connections. Whoever asks meanwhile would wait for all of it. So
connections ask whether this turn has lasted long enough; if so they say that something is left, and
go on in a later turn, one after the other and one request at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

TURN_S = 0.005


class Deferred(Protocol):
    """A connection with something left to do."""

    def go_on(self) -> None:
        """Do some of it, and say `later` if there is more."""


class Turns:
    """Shared by all connections; lives on the event loop.

    No loop tells when it has looked at its sockets. A turn therefore lasts from the first question
    to the next round of those who wait; a pause as long as a turn begins another one.

    Args:
        monotonic_s: Clock that goes on while a callback runs.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._loop = asyncio.get_running_loop()
        self._began_s = self._asked_s = monotonic_s()
        self._waiting: OrderedDict[Deferred, None] = OrderedDict()
        self._handle: asyncio.Handle | None = None

    def is_over(self) -> bool:
        """Whether others are to be looked after before anything else is begun."""
        now_s = self._monotonic_s()
        if now_s - self._asked_s >= TURN_S:
            self._began_s = now_s
        self._asked_s = now_s
        return now_s - self._began_s >= TURN_S

    @property
    def is_crowded(self) -> bool:
        """Whether somebody waits, so that nobody may begin two things in a row."""
        return bool(self._waiting)

    def later(self, connection: Deferred) -> None:
        """Let a connection go on in another turn; it keeps its place if it has one."""
        self._waiting[connection] = None
        if self._handle is None:
            self._handle = self._loop.call_soon(self._go_on)

    def forget(self, connection: Deferred) -> None:
        """Take notice that a connection has nothing left to do."""
        self._waiting.pop(connection, None)

    def _go_on(self) -> None:
        self._handle = None
        self._began_s = self._asked_s = self._monotonic_s()
        while self._waiting and not self.is_over():
            connection, _ = self._waiting.popitem(last=False)
            connection.go_on()
        if self._waiting and self._handle is None:
            self._handle = self._loop.call_soon(self._go_on)
