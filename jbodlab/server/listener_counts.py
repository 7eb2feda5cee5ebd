"""Counts of a listener's connections: logins, and connections that were turned away.

No label is a text that clients choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from jbodlab.runtime.metrics import Metric
from jbodlab.server.told_lately import ToldLately

SUCCESS, FAILURE = "success", "failure"

NO_MECHANISM = "none"
"""In place of the mechanism of a login that chose none of those that are enabled."""

LIMIT, RATE, NOT_IN_TIME, TOO_MANY_LOGINS = "limit", "rate", "login_timeout", "too_many_logins"
"""Why a connection is turned away."""


class LoginKind(NamedTuple):
    """Kind of a login that is counted.

    Attributes:
        result: `SUCCESS` or `FAILURE`.
        is_renewal: Whether the connection had logged in before.
    """

    mechanism: str
    result: str
    is_renewal: bool


class ListenerCounts:
    """Counts of one listener, since the start.

    Attributes:
        logins: How many of each kind.
        rejected: Connections that were turned away, by the reason.
        told: Failed logins that the log has told of.
        ended_sessions: Connections that were closed since the credential of their user changed.
    """

    def __init__(self) -> None:
        self.logins: Counter[LoginKind] = Counter()
        self.rejected: Counter[str] = Counter()
        self.told = ToldLately()
        self.ended_sessions = 0


class Counted(Protocol):
    """A listener, as it is seen here."""

    name: str
    counts: ListenerCounts

    @property
    def protocol(self) -> str:
        """Its security protocol."""

    @property
    def open_connections(self) -> int:
        """Connections whose clients are known, or need not be."""

    @property
    def waiting_logins(self) -> int:
        """Connections whose clients are not known yet."""


def listener_metrics(listeners: Sequence[Counted]) -> Iterator[Metric]:
    """Yield what is counted of all listeners."""
    yield Metric(
        "jbodlab_listener_connections",
        [
            ("", {"listener": each.name, "protocol": each.protocol, "state": state}, count)
            for each in listeners
            for state, count in (
                ("open", each.open_connections),
                ("unauthenticated", each.waiting_logins),
            )
        ],
    )
    for name, is_renewal in (("authentications", False), ("reauthentications", True)):
        yield Metric(
            f"jbodlab_{name}_total",
            [
                (
                    "",
                    {"listener": each.name, "mechanism": kind.mechanism, "result": kind.result},
                    count,
                )
                for each in listeners
                for kind, count in sorted(each.counts.logins.items())
                if kind.is_renewal == is_renewal
            ],
        )
    yield Metric(
        "jbodlab_connections_rejected_total",
        [
            ("", {"listener": each.name, "reason": reason}, each.counts.rejected[reason])
            for each in listeners
            for reason in (LIMIT, RATE, NOT_IN_TIME, TOO_MANY_LOGINS)
        ],
    )
    yield Metric(
        "jbodlab_ended_sessions_total",
        [("", {"listener": each.name}, each.counts.ended_sessions) for each in listeners],
    )
