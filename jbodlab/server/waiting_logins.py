"""The connections of a listener whose clients have not logged in yet.

Whoever is not known may cost little: such connections have a deadline that no byte extends, and
where there are too many of them one is closed, the oldest of those that have come least far.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from jbodlab.server.connection import Connection
from jbodlab.server.listener_counts import NOT_IN_TIME, TOO_MANY_LOGINS, ListenerCounts
from jbodlab.server.told_lately import ToldLately
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
        self._of_address: dict[str, dict[Connection, None]] = {}
        """The same ones by address."""
        self._told = ToldLately()

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: Connection) -> None:
        """Give a new connection its deadline; closes another one where there are too many."""
        of_address = self._of_address.setdefault(connection.ip, {})
        if len(of_address) >= LOGINS_PER_ADDRESS_MAX:
            self._make_room(of_address, "too many connections of one address have not logged in")
        elif len(self._deadlines) >= LOGINS_MAX:
            self._make_room(self._deadlines, "too many connections have not logged in")
        loop = asyncio.get_running_loop()
        self._deadlines[connection] = loop.call_later(
            LOGIN_S_MAX, self._end, connection, f"no login within {LOGIN_S_MAX:g} s", NOT_IN_TIME
        )
        self._of_address.setdefault(connection.ip, {})[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has logged in, or ended."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is None:
            return
        deadline.cancel()
        of_address = self._of_address[connection.ip]
        del of_address[connection]
        if not of_address:
            del self._of_address[connection.ip]

    def _make_room(self, some: Iterable[Connection], reason: str) -> None:
        """Close the oldest of those that have come least far.

        So a client that means to log in is not pushed out by many that never do.
        """
        self._end(min(some, key=lambda each: each.login_steps), reason, TOO_MANY_LOGINS)

    def _end(self, connection: Connection, reason: str, counted: str) -> None:
        self._counts.rejected[counted] += 1
        if self._told.tell((connection.ip, counted), asyncio.get_running_loop().time()):
            peer = connection.session.peer
            logger.info("closed a connection: %s", reason, extra={"peer": peer})
        self.remove(connection)
        connection.abort()
