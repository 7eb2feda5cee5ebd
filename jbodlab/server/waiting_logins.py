"""The connections of a listener whose clients have not logged in yet.

A client that is not known may cost little. Each step of its login has a deadline that no byte
extends, and there are only so many steps. While connections wait for room, those logins are closed
that make no step: a young connection is not silent, and however many come at once, none of them
makes room for another.

Time is counted in looks, between which the loop reads every socket: a client is not silent while it
is this process that has no time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from jbodlab.server.connection import Connection
from jbodlab.server.listener_counts import NOT_IN_TIME, TOO_MANY_LOGINS, ListenerCounts
from jbodlab.server.told_lately import ToldLately
from jbodlab.vocabulary.limits import (
    LOGIN_BYTES_MAX,
    LOGIN_LOOK_S,
    LOGIN_S_MAX,
    LOGINS_MAX,
    SILENT_LOGIN_S,
)

logger = logging.getLogger(__name__)


class _Seen(msgspec.Struct, frozen=True):
    """How far a login had come, and how many looks ago it came so far."""

    steps: int = 0
    looks: int = 0


class WaitingLogins:
    """Lives on the event loop.

    Args:
        counts: Of the listener.
        others_wait: Returns whether connections wait for room at this listener.
    """

    def __init__(self, counts: ListenerCounts, others_wait: Callable[[], bool]) -> None:
        self._counts = counts
        self._others_wait = others_wait
        self._seen: dict[Connection, _Seen] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told = ToldLately()

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def room(self) -> int:
        """How many further connections may be accepted."""
        return LOGINS_MAX - len(self._seen)

    def add(self, connection: Connection) -> None:
        """Look after a new connection."""
        self._seen[connection] = _Seen()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOGIN_LOOK_S, self._look)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has logged in, or ended."""
        self._seen.pop(connection, None)
        if not self._seen and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOGIN_LOOK_S, self._look)
        makes_room = self._others_wait() or self._held_bytes() > LOGIN_BYTES_MAX
        for connection, seen in tuple(self._seen.items()):
            steps = connection.login_steps
            if steps != seen.steps or connection.waits_for_us:
                self._seen[connection] = _Seen(steps)
                continue
            # The first look may come right behind a step.
            silent_s = seen.looks * LOGIN_LOOK_S
            if silent_s >= LOGIN_S_MAX:
                reason = f"no step of a login within {LOGIN_S_MAX:g} s"
                self._end(connection, reason, NOT_IN_TIME)
            elif makes_room and silent_s >= SILENT_LOGIN_S:
                reason = "it is silent before its login, and others wait"
                self._end(connection, reason, TOO_MANY_LOGINS)
            else:
                self._seen[connection] = _Seen(steps, seen.looks + 1)

    def _held_bytes(self) -> int:
        return sum(each.unfinished_bytes for each in self._seen)

    def _end(self, connection: Connection, reason: str, counted: str) -> None:
        self._counts.rejected[counted] += 1
        if self._told.tell((connection.ip, counted), asyncio.get_running_loop().time()):
            peer = connection.session.peer
            logger.info("closed a connection: %s", reason, extra={"peer": peer})
        self.remove(connection)
        connection.abort()
