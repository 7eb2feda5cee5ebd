"""A listening address and the connections accepted on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jbodlab.runtime.accepting import Acceptor
from jbodlab.server.authentication import Authentication, SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.connection import Connection
from jbodlab.server.listener_counts import LIMIT, RATE, ListenerCounts
from jbodlab.server.listener_tls import ListenerTls
from jbodlab.server.request_handler import RequestHandler
from jbodlab.server.tls_connection import TlsConnection
from jbodlab.server.waiting_logins import WaitingLogins
from jbodlab.vocabulary.limits import ACCEPTED_MAX, LISTENER_CLOSE_S

logger = logging.getLogger(__name__)


class Listener:
    """Accepts connections on one address under one listener name.

    Where there is no room for more it stops to accept, and new ones wait in the system's queue.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        handler: RequestHandler,
        bounds: Bounds,
        sasl: SaslSettings | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        """Describe a listener; nothing is opened before `start`.

        Args:
            name: As in `listeners`; requests are answered with the addresses of this name.
            host: Address to bind; empty for all of them.
            port: 0 for a free one, see `port`.
            handler: Answers the requests of every connection.
            bounds: Of all listeners together.
            sasl: How clients log in; None where they need not.
            tls: How connections are encrypted; None where they are not.
        """
        self.name = name
        self.host = host
        self._port = port
        self._handler = handler
        self._bounds = bounds
        self._sasl = sasl
        self._tls = tls
        self.counts = ListenerCounts()
        self._logins = (
            None if sasl is None and tls is None else WaitingLogins(self.counts, self._others_wait)
        )
        self._acceptor = Acceptor(self._new_protocol, self._room)
        self._connections: dict[Connection, None] = {}
        """In the order in which they came."""
        self._held: set[Connection] = set()
        """Those that came too fast, and are closed soon."""
        self._idle = asyncio.Event()
        """Set while there is no connection."""
        self._idle.set()

    @property
    def port(self) -> int:
        """The bound port once started, the configured one before."""
        return self._port

    @property
    def protocol(self) -> str:
        """Its security protocol, by Kafka's name."""
        transport = "PLAINTEXT" if self._tls is None else "SSL"
        return transport if self._sasl is None else f"SASL_{transport}"

    @property
    def open_connections(self) -> int:
        """Connections whose clients are known, or need not be."""
        return len(self._connections) - len(self._held) - self.waiting_logins

    @property
    def waiting_logins(self) -> int:
        """Connections whose clients are not known yet."""
        return 0 if self._logins is None else len(self._logins)

    async def start(self) -> None:
        """Bind and accept.

        Raises:
            OSError: the address cannot be bound.
        """
        # All addresses of a host would each draw a free port of their own.
        host = self.host or ("0.0.0.0" if self._port == 0 else None)
        self._port = await self._acceptor.start(host, self._port)
        logger.info("listening", extra={"listener": self.name, "port": self._port})

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay."""
        self._acceptor.close()

    def _room(self) -> int:
        """Return how many connections may be accepted; of those that wait, one after the other."""
        if self._bounds.connections.has_waiting(self.name):
            return 0
        return ACCEPTED_MAX if self._logins is None else self._logins.room

    def _others_wait(self) -> bool:
        return self._room() <= 0

    def stop_serving(self) -> None:
        """Start no request any more; those in progress are answered as ever."""
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.stop_serving()

    @property
    def has_appends(self) -> bool:
        """Whether a client waits for the answer to a produce request."""
        return any(each.has_appends for each in self._connections)

    async def close(self) -> None:
        """Stop accepting and end every connection; waiting requests are dropped."""
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.close()
        try:
            async with asyncio.timeout(LISTENER_CLOSE_S):
                await self._idle.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                # The client does not take what is still to be sent.
                connection.abort()

    def _new_protocol(self) -> Connection | TlsConnection:
        connection = Connection(
            self._handler,
            self._bounds,
            listener_name=self.name,
            on_made=self._made,
            on_lost=self._lost,
            sasl=self._sasl,
            counts=self.counts,
            on_login=self._logged_in,
            has_to_log_in=self._logins is not None,
        )
        if self._tls is None:
            return connection
        return self._tls.around(connection, names_user=self._sasl is None)

    def _logged_in(self, connection: Connection) -> None:
        if self._logins is not None:
            self._logins.remove(connection)

    def _made(self, connection: Connection) -> bool:
        held_s = self._bounds.rate.made(connection.ip)
        if held_s:
            return self._hold(connection, held_s)
        if not self._bounds.connections.add(connection):
            self.counts.rejected[LIMIT] += 1
            logger.warning(
                "connection limit reached; closed a new connection", extra={"listener": self.name}
            )
            return False
        self._connections[connection] = None
        self._idle.clear()
        if self._logins is not None:
            self._logins.add(connection)
        return True

    def close_sessions(self, has_to_end: Callable[[Authentication], bool]) -> None:
        """Close the connections of logins that hold no longer."""
        for connection in tuple(self._connections):
            login = connection.session.authentication
            if login is not None and login.user and has_to_end(login):
                logger.info(
                    "the credential of a connected user has changed",
                    extra={"peer": connection.session.peer, "listener": self.name},
                )
                self.counts.ended_sessions += 1
                connection.close()

    def _hold(self, connection: Connection, held_s: float) -> bool:
        """Keep a connection that is not served from coming again at once, if there is room."""
        self.counts.rejected[RATE] += 1
        if len(self._held) >= self._bounds.held_max:
            return False
        logger.info(
            "an address opens connections too fast",
            extra={"listener": self.name, "ip": connection.ip},
        )
        self._held.add(connection)
        self._connections[connection] = None
        self._idle.clear()
        asyncio.get_running_loop().call_later(held_s, connection.abort)
        return True

    def _lost(self, connection: Connection) -> None:
        self._held.discard(connection)
        if self._logins is not None:
            self._logins.remove(connection)
        self._connections.pop(connection, None)
        self._bounds.connections.remove(connection)
        if not self._connections:
            self._idle.set()
