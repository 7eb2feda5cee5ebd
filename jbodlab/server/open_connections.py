"""All open connections of a broker: their limits, and which of them are idle.

`max.connections` counts the connections of all listeners; with the prefix of a listener, those of
that one. Connections beyond it are not rejected: those that their listener has accepted before it
stops to accept are served after others have ended. If there is a separate
listener between brokers, it is always served: there the connection that has been idle longest is
closed. `max.connections.per.ip` closes connections beyond it at once.

Source: `kafka.network.ConnectionQuotas`; idle ones: `org.apache.kafka.common.network.Selector`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from jbodlab.vocabulary.limits import STALLED_MS, WAITING_CONNECTIONS_MAX

NO_LIMIT = 2**31 - 1


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one broker; times in ms.

    Attributes:
        per_listener: Limits of single listeners, by their names in lower case.
        per_ip_overrides: Limits of single addresses in place of `per_ip`.
        max_idle_ms: Silence after which a connection is closed; negative for never.
        waiting: Connections that wait to be served; more are closed.
        protected_listener: Is served above `total`; None where it is the only listener.
    """

    total: int = NO_LIMIT
    per_listener: Mapping[str, int] = msgspec.field(default_factory=dict)
    per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = msgspec.field(default_factory=dict)
    max_idle_ms: int = 600_000
    waiting: int = WAITING_CONNECTIONS_MAX
    protected_listener: str | None = None

    def of_ip(self, ip: str) -> int:
        """Return how many connections an address may have."""
        return self.per_ip_overrides.get(ip, self.per_ip)

    def of_listener(self, name: str) -> int:
        """Return how many connections a listener may serve."""
        return self.per_listener.get(name.lower(), NO_LIMIT)


class Limited(Protocol):
    """A connection, as it is seen here."""

    @property
    def listener_name(self) -> str:
        """Listener that accepted it."""

    @property
    def ip(self) -> str:
        """Address of the client."""

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is being answered."""

    @property
    def is_receiving(self) -> bool:
        """Whether memory is set aside for a request that has not arrived."""

    def begin_serving(self) -> None:
        """Start requests from now on."""

    def close(self) -> None:
        """Send what is answered, and close."""


class OpenConnections:
    """The connections of all listeners, the longest silent one first.

    Args:
        limits: How many there may be.
        now_s: Clock that never goes back.
    """

    def __init__(self, limits: ConnectionLimits, now_s: Callable[[], float]) -> None:
        self._limits = limits
        self._now_s = now_s
        self._last_active_s: dict[Limited, float] = {}
        self._waiting: dict[Limited, None] = {}
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        """Of those that are served."""

    def __len__(self) -> int:
        return len(self._last_active_s) + len(self._waiting)

    def has_waiting(self, listener_name: str) -> bool:
        """Return whether connections of a listener wait to be served."""
        return any(each.listener_name == listener_name for each in self._waiting)

    def use_limits(self, limits: ConnectionLimits) -> None:
        """Change the limits; those above a lower limit stay until they end."""
        self._limits = limits
        self._serve_waiting()

    def add(self, connection: Limited) -> bool:
        """Serve a connection, now or when its turn comes; returns whether it may stay."""
        limits = self._limits
        is_served = self._has_room(connection)
        has_room = len(self._last_active_s) < limits.total
        may_wait = len(self._waiting) < limits.waiting
        if self._by_ip[connection.ip] >= limits.of_ip(connection.ip) or not (is_served or may_wait):
            return False
        self._by_ip[connection.ip] += 1
        if is_served:
            self._serve(connection)
        else:
            self._waiting[connection] = None
        if is_served and not has_room:
            self._close_for_another()
        return True

    def remove(self, connection: Limited) -> None:
        """Forget a connection that has ended; another one may take its place."""
        if connection in self._waiting:
            del self._waiting[connection]
        elif self._last_active_s.pop(connection, None) is None:
            return
        else:
            self._by_listener[connection.listener_name] -= 1
        self._by_ip[connection.ip] -= 1
        if not self._by_ip[connection.ip]:
            del self._by_ip[connection.ip]
        self._serve_waiting()

    def active(self, connection: Limited) -> None:
        """Take notice that a client has sent something, or still waits for its answer."""
        if self._last_active_s.pop(connection, None) is not None:
            self._last_active_s[connection] = self._now_s()

    def close_idle(self) -> list[Limited]:
        """Close and return those that have been silent too long."""
        now_s, idle_ms = self._now_s(), self._limits.max_idle_ms
        closed = []
        for connection, last_s in list(self._last_active_s.items()):
            silent_ms = round((now_s - last_s) * 1_000)
            is_idle = 0 <= idle_ms <= silent_ms
            if not is_idle and silent_ms < STALLED_MS:
                break
            if connection.is_busy:
                # It waits for this broker, not this broker for it.
                self.active(connection)
            elif is_idle or connection.is_receiving:
                connection.close()
                closed.append(connection)
        return closed

    def _has_room(self, connection: Limited) -> bool:
        limits, name = self._limits, connection.listener_name
        return self._by_listener[name] < limits.of_listener(name) and (
            len(self._last_active_s) < limits.total or name == limits.protected_listener
        )

    def _serve_waiting(self) -> None:
        """Serve who waited for longest, as far as there is room."""
        for connection in [each for each in self._waiting if self._has_room(each)]:
            if self._has_room(connection):
                del self._waiting[connection]
                self._serve(connection)

    def _serve(self, connection: Limited) -> None:
        self._by_listener[connection.listener_name] += 1
        self._last_active_s[connection] = self._now_s()
        connection.begin_serving()

    def _close_for_another(self) -> None:
        for connection in self._last_active_s:
            if connection.listener_name != self._limits.protected_listener:
                connection.close()
                break
