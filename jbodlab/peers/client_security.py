"""How a client reaches a listener: with TLS or without, after a login or without one."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from jbodlab.config.listener_security import PeerSecurity
from jbodlab.security.secret import Secret


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
    """What a connection needs besides its address.

    Attributes:
        tls: Returns the context of a new connection; None where nothing is encrypted.
        login: Who logs in; None where nobody has to.
        random_bytes: Draws nonces, as `os.urandom`.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    login: Login | None = None
    random_bytes: Callable[[int], bytes]


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
