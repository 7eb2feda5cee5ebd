"""Settings of a property file for the administration client."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbodlab.security.secret import HIDDEN
from jbodlab.vocabulary.errors import ConfigError

if TYPE_CHECKING:
    from jbodlab.peers.client_security import ClientSecurity

DEFAULT_REQUEST_TIMEOUT_MS = 30_000
CLIENT_ID, REQUEST_TIMEOUT = "client.id", "request.timeout.ms"

_OF_OTHER_CLIENTS = frozenset(
    {
        *("bootstrap.servers", "connections.max.idle.ms", "metadata.max.age.ms"),
        *("reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.ms"),
        *("sasl.kerberos.service.name", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"),
    }
)
"""Properties that this client ignores without a note: they change no answer."""


@dataclass(frozen=True, kw_only=True)
class AdminProperties:
    """How the client works.

    Attributes:
        security: How to encrypt and to log in; None for neither.
        client_id: Client id, as the client names itself.
        request_timeout_ms: Longest wait for one answer.
        patience_s: How long it tries again where a connection is lost, or a coordinator moves.
        unknown: Properties that mean nothing to it.
    """

    security: ClientSecurity | None = None
    client_id: str = "jbodlab-admin"
    request_timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS
    patience_s: float = 10.0
    unknown: tuple[str, ...] = ()

    @property
    def request_timeout(self) -> datetime.timedelta:
        """Longest wait for one answer."""
        return datetime.timedelta(milliseconds=self.request_timeout_ms)


def admin_properties(properties: Mapping[str, str]) -> AdminProperties:
    """Read the properties of a file.

    Raises:
        ConfigError: a value is wrong, the login is one of Kerberos, or what protects something
            would have no effect.
    """
    # Most clusters are open, and are asked without a file.
    from jbodlab.peers.client_properties import KERBEROS, MECHANISM, client_properties

    client = client_properties(properties)
    if client.mechanism == KERBEROS:
        reason = "administration commands do not log in by Kerberos: use PLAIN or SCRAM"
        raise ConfigError(MECHANISM, KERBEROS, reason)
    others = client.others
    known = {CLIENT_ID, REQUEST_TIMEOUT, *_OF_OTHER_CLIENTS}
    timeout = others.get(REQUEST_TIMEOUT, str(DEFAULT_REQUEST_TIMEOUT_MS))
    if not (timeout.isascii() and timeout.isdecimal()):
        raise ConfigError(REQUEST_TIMEOUT, timeout, "not a number")
    unknown = tuple(key for key in others if key not in known)
    for key in unknown:
        if key.startswith(("sasl.", "security.", "ssl.")):
            raise ConfigError(key, HIDDEN, "it has no effect here: encrypt and log in without it")
    return AdminProperties(
        security=client.security,
        client_id=others.get(CLIENT_ID, AdminProperties.client_id),
        request_timeout_ms=int(timeout),
        unknown=unknown,
    )
