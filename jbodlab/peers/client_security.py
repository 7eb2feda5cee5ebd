"""How a client reaches a listener: with TLS or without, after a login or without one."""

from __future__ import annotations

import datetime
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jbodlab.runtime.metrics import Metric
from jbodlab.security.secret import Secret

if TYPE_CHECKING:
    from jbodlab.config.listener_security import PeerSecurity

ENDED = (None, "UNEXPECTED_EOF_WHILE_READING", "APPLICATION_DATA_AFTER_CLOSE_NOTIFY")
"""Reasons by which OpenSSL tells that a connection is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user and how it logs in.

    Attributes:
        mechanism: PLAIN or one of SCRAM.
    """

    mechanism: str
    user: str
    password: Secret[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """Security of a connection, besides its address.

    Attributes:
        tls: Returns the context of a new connection; None where nothing is encrypted.
        login: The user's login; None where nobody has to log in.
        random_bytes: Draws nonces, as `os.urandom`.
        now: Clock by which a connection ends when the certificate of the other side expires; None
            where it stays, as Kafka's do.
        refusals: How often one side did not know the other, by the address of the other.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    login: Login | None = None
    random_bytes: Callable[[int], bytes]
    now: Callable[[], datetime.datetime] | None = None
    refusals: Counter[str] = field(default_factory=Counter)


def client_security(
    settings: PeerSecurity,
    tls: Callable[[], ssl.SSLContext] | None,
    random_bytes: Callable[[int], bytes],
) -> ClientSecurity | None:
    """Return what settings ask for; None where it is nothing.

    Args:
        settings: Protocol, user and password.
        tls: Returns the context that was made of them; None where nothing is encrypted.
        random_bytes: Draws nonces.
    """
    login = None
    if settings.mechanism:
        login = Login(mechanism=settings.mechanism, user=settings.user, password=settings.password)
    if tls is None and login is None:
        return None
    return ClientSecurity(tls=tls, login=login, random_bytes=random_bytes)


def is_refusal(error: ssl.SSLError) -> bool:
    """Return whether one side refuses the other, which is not mended by trying again at once."""
    lost = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return not isinstance(error, lost) and error.reason not in ENDED


def tls_problem(error: ssl.SSLError) -> str:
    """Return why the other side is not connected to, with the setting that decides it."""
    told = getattr(error, "verify_message", "")
    if "mismatch" in told:
        return f"{told} (ssl.endpoint.identification.algorithm asks for that)"
    if told:
        return f"its certificate is not accepted: {told} (see ssl.truststore.location)"
    reason = error.reason or type(error).__name__
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS there (see security.protocol)"
    if "ALERT" in reason:
        alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return f"it refuses the connection: {alert} (see ssl.keystore.location)"
    return reason.replace("_", " ").lower()


def refusal_metrics(peers: ClientSecurity | None) -> Iterator[Metric]:
    """Yield how often other brokers and this one did not know each other."""
    refusals = {} if peers is None else peers.refusals
    yield Metric(
        "jbodlab_peer_refusals_total",
        [("", {"peer": peer}, count) for peer, count in sorted(refusals.items())],
    )
