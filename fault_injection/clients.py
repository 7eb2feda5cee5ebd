"""The effect of a fault on the clients of a closed cluster, as it is counted from outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Fate of the clients of a closed cluster since a fault was injected.

    Attributes:
        stayed: Connections that were open then and are open still.
        closed: Connections that were open then and are not any more, whoever closed them.
        handshakes_failed: New connections that ended in their handshake.
        logins_failed: New connections whose login was refused.
        requests_refused: Resources that requests asked for and were denied.

    Refusals are None where brokers do not count them.
    """

    stayed: int
    closed: int
    handshakes_failed: int | None = None
    logins_failed: int | None = None
    requests_refused: int | None = None

    @property
    def refused(self) -> int:
        """All refusals."""
        return sum(
            each or 0
            for each in (self.handshakes_failed, self.logins_failed, self.requests_refused)
        )

    def __str__(self) -> str:
        """Return all counts, those of refusals where there were some."""
        found = [f"{self.stayed} connections stayed", f"{self.closed} closed"]
        refusals = (
            (self.handshakes_failed, "handshakes failed"),
            (self.logins_failed, "logins failed"),
            (self.requests_refused, "requests refused"),
        )
        return ", ".join([*found, *(f"{count} {what}" for count, what in refusals if count)])
