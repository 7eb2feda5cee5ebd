"""Keys and certificates of one listener, and new ones in place of them.

A new context is made and tried before the next connection gets it; connections keep theirs. What is
wrong with new files changes nothing: a context that is in use is never touched.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial

from jbodlab.kafka_wire.framing import new_scratch
from jbodlab.runtime.client_quota import ANONYMOUS
from jbodlab.security import certificate, tls_files
from jbodlab.security.certificate import Certificate
from jbodlab.security.tls_layer import TlsError, TlsLayer
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.server.connection import Connection
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.tls_connection import TlsConnection
from jbodlab.vocabulary.errors import ConfigError, DecodeError

logger = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int, int] | None, ...]

SOON_S = 7 * 86_400.0
"""A certificate that expires within that is warned of."""


class ListenerTls:
    """TLS of one listener; lives on the event loop.

    Args:
        name: Of the listener.
        settings: Where its keys are.
        now: Clock of the certificates.

    Raises:
        ConfigError: the keys are of no use.
    """

    def __init__(
        self, name: str, settings: TlsSettings, now: Callable[[], datetime.datetime]
    ) -> None:
        self._name = name
        self._settings = settings
        self._now = now
        self._scratch = new_scratch()
        self._stamp = tls_files.stamp(settings)
        self._context, self.certificate = _load(settings, now())
        self._seen: Stamp = self._stamp
        """How the files looked last time: one that is still written changes until the next look."""
        self.failures: Counter[str] = Counter()
        """Failed handshakes, by their reasons."""
        self.reloads: Counter[str] = Counter()
        """New keys: how many were `taken`, and how many `failed`."""

    @property
    def name(self) -> str:
        """Name of the listener."""
        return self._name

    def seconds_left(self) -> float:
        """Return how long the certificate is valid; negative once it has expired."""
        return (self.certificate.not_after - self._now()).total_seconds()

    def around(self, connection: Connection, *, names_user: bool) -> TlsConnection:
        """Return the protocol of a new socket.

        Args:
            connection: What the client speaks to.
            names_user: Whether the client's certificate names its user, who does not log in.
        """
        return TlsConnection(
            connection,
            TlsLayer(self._context),
            self._scratch,
            on_open=partial(self._open, self._settings, names_user),
            on_failed=self._failed,
        )

    async def look(self, helper: HelperThread) -> None:
        """Use new files, once two looks in a row have seen the same."""
        seen = await helper.run(partial(tls_files.stamp, self._settings))
        is_settled, self._seen = seen == self._seen, seen
        if is_settled and seen != self._stamp and None not in seen:
            await self._replace(self._settings, seen, helper)

    async def use(self, settings: TlsSettings, helper: HelperThread) -> None:
        """Use other settings, or the files of the same ones anew where they have changed."""
        stamp = await helper.run(partial(tls_files.stamp, settings))
        if settings != self._settings or stamp != self._stamp:
            await self._replace(settings, stamp, helper)

    async def _replace(self, settings: TlsSettings, stamp: Stamp, helper: HelperThread) -> None:
        extra = {"listener": self._name}
        # Files that are wrong are read once, and again when they have changed.
        self._stamp = stamp
        try:
            context, leaf = await helper.run(partial(_load, settings, self._now()))
            _check_names(settings, self.certificate, leaf)
        except ConfigError as error:
            self.reloads["failed"] += 1
            logger.error("the new certificate of a listener is not used: %s", error, extra=extra)
            return
        self._settings, self._context, self.certificate = settings, context, leaf
        self.reloads["taken"] += 1
        logger.info("a listener has a new certificate", extra=extra)

    def _open(
        self, settings: TlsSettings, names_user: bool, connection: Connection, der: bytes | None
    ) -> None:
        if names_user:
            connection.authenticated(ANONYMOUS if der is None else _principal(settings, der))

    def _failed(self, connection: Connection, error: TlsError) -> None:
        self.failures[error.reason] += 1
        logger.info(
            "a TLS connection failed: %s",
            error,
            extra={"peer": connection.session.peer, "listener": self._name},
        )


async def watch(listeners: list[ListenerTls], helper: HelperThread, interval_s: float) -> None:
    """Look for new files until cancelled; warns of certificates that expire soon."""
    warned: set[tuple[str, datetime.datetime]] = set()
    while True:
        await asyncio.sleep(interval_s)
        for each in listeners:
            await each.look(helper)
            expiry = each.name, each.certificate.not_after
            if each.seconds_left() < SOON_S and expiry not in warned:
                warned.add(expiry)
                logger.warning(
                    "the certificate of a listener expires at %s",
                    expiry[1].isoformat(),
                    extra={"listener": each.name},
                )


def _load(settings: TlsSettings, now: datetime.datetime) -> tuple[ssl.SSLContext, Certificate]:
    pem = tls_files.read(settings, now)
    return tls_files.server_context(settings, pem), pem.leaf


def _check_names(settings: TlsSettings, old: Certificate, new: Certificate) -> None:
    """Raise ConfigError where a new certificate is of somebody else (KIP-978)."""
    assert settings.key_store is not None
    key = settings.key_store.key
    if new.subject != old.subject and not settings.allows_other_name:
        raise ConfigError(
            key, new.subject, f"the subject was {old.subject}; ssl.allow.dn.changes is false"
        )
    if old.alternative_names - new.alternative_names and not settings.allows_fewer_names:
        raise ConfigError(
            key, new.subject, "alternative names are missing; ssl.allow.san.changes is false"
        )


def _principal(settings: TlsSettings, der: bytes) -> str:
    try:
        subject = certificate.read(der).subject
    except DecodeError as error:
        raise TlsError("certificate", str(error)) from error
    name = settings.rules.name_of(subject) if subject else None
    if not name:
        raise TlsError("no_principal", f"no rule names a user for the certificate of {subject!r}")
    return name
