"""The connections of a listener whose clients have not logged in yet.

Whoever is not known may cost little: such connections have a deadline that no byte extends, and
where there are too many of them the oldest one is closed.
"""

from __future__ import annotations

import asyncio
import logging

from jbodlab.server.connection import Connection
from jbodlab.server.listener_counts import NOT_IN_TIME, TOO_MANY_LOGINS, ListenerCounts
from jbodlab.vocabulary.limits import LOGIN_S_MAX, LOGINS_MAX, LOGINS_PER_ADDRESS_MAX

logger = logging.getLogger(__name__)


class WaitingLogins:
    """Lives on the event loop.

    Args:
        counts: Of the listener.
    """

    def __init__(self, counts: ListenerCounts) -> None:
        self._counts = counts
        self._deadlines: dict[Connection, asyncio.TimerHandle] = {}
        """In the order in which the connections came."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: Connection) -> None:
        """Give a new connection its deadline; closes the oldest one where there are too many."""
        of_address = [each for each in self._deadlines if each.ip == connection.ip]
        if len(of_address) >= LOGINS_PER_ADDRESS_MAX:
            self._end(
                of_address[0],
                "too many connections of one address have not logged in",
                TOO_MANY_LOGINS,
            )
        elif len(self._deadlines) >= LOGINS_MAX:
            oldest = next(iter(self._deadlines))
            self._end(oldest, "too many connections have not logged in", TOO_MANY_LOGINS)
        loop = asyncio.get_running_loop()
        self._deadlines[connection] = loop.call_later(
            LOGIN_S_MAX, self._end, connection, f"no login within {LOGIN_S_MAX:g} s", NOT_IN_TIME
        )

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has logged in, or ended."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is not None:
            deadline.cancel()

    def _end(self, connection: Connection, reason: str, counted: str) -> None:
        self._counts.rejected[counted] += 1
        logger.info("closed a connection: %s", reason, extra={"peer": connection.session.peer})
        self.remove(connection)
        connection.abort()
