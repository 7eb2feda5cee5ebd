"""TLS of one listener: the protocol of each socket, and whose certificate a client has shown."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from weakref import WeakSet

from jbodlab.kafka_wire.framing import new_scratch
from jbodlab.runtime.metrics import Metric
from jbodlab.security import certificate, tls_files
from jbodlab.security.acl import ANONYMOUS
from jbodlab.security.certificate import Certificate
from jbodlab.security.mapping_rules import MappingRules
from jbodlab.security.tls_context import TlsContext
from jbodlab.security.tls_layer import TlsError
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.server.connection import Connection
from jbodlab.server.tls_connection import TlsConnection
from jbodlab.server.told_lately import ToldLately
from jbodlab.vocabulary.errors import DecodeError

logger = logging.getLogger(__name__)


class ListenerTls:
    """Lives on the event loop.

    Args:
        name: Of the listener.
        settings: Where its keys are.
        now: Clock of the certificates.
        follows_certificates: Whether a connection ends when the client's certificate expires, or
            the listener has another one; Kafka's stay.

    Raises:
        ConfigError: the keys are of no use.
    """

    def __init__(
        self,
        name: str,
        settings: TlsSettings,
        now: Callable[[], datetime.datetime],
        *,
        follows_certificates: bool = False,
    ) -> None:
        self.context: TlsContext[ssl.SSLContext] = TlsContext(
            name, settings, tls_files.server_context, now, self._end_former
        )
        """Context of the next connection."""
        self._now = now
        self._follows_certificates = follows_certificates
        self._open: WeakSet[Connection] = WeakSet()
        """Connections that end with a certificate."""
        self._scratch = new_scratch()
        self.failures: Counter[str] = Counter()
        """Failed handshakes, by their reasons."""
        self._told = ToldLately()
        self.handshakes = 0
        """Those that were brought to their end."""

    def around(self, connection: Connection, *, names_user: bool) -> TlsConnection:
        """Return the protocol of a new socket.

        Args:
            connection: The connection that the client speaks to.
            names_user: Whether the client's certificate names its user, who does not log in.
        """
        return TlsConnection(
            connection,
            self.context.current,
            self._scratch,
            on_open=partial(self._opened, self.context.settings.rules if names_user else None),
            on_failed=self._failed,
        )

    def _opened(
        self, rules: MappingRules | None, connection: Connection, der: bytes | None
    ) -> float | None:
        """Know the client by its certificate; without rules that names nobody, and a login does.

        Returns:
            After how many seconds the connection ends; None if it stays.
        """
        now = self._now()
        found = None if rules is None or der is None else _valid(der, now)
        if rules is not None:
            connection.authenticated(ANONYMOUS if found is None else _named(rules, found))
        self.handshakes += 1
        if not self._follows_certificates:
            return None
        self._open.add(connection)
        return None if found is None else found.seconds_left(now)

    def _end_former(self) -> None:
        for each in tuple(self._open):
            each.close()
        self._open.clear()

    def _failed(self, connection: Connection, error: TlsError) -> None:
        self.failures[error.reason] += 1
        if self._told.tell((connection.ip, error.reason), asyncio.get_running_loop().time()):
            logger.info(
                "a TLS connection failed: %s",
                error,
                extra={"peer": connection.session.peer, "listener": self.context.name},
            )


def _valid(der: bytes, now: datetime.datetime) -> Certificate:
    """Return the certificate of a client.

    Raises:
        TlsError: it has expired since the session began that the client has taken up again.
    """
    try:
        found = certificate.read(der)
    except DecodeError as error:
        raise TlsError("certificate", str(error)) from error
    if now > found.not_after:
        raise TlsError("certificate", "certificate has expired")
    return found


def _named(rules: MappingRules, found: Certificate) -> str:
    """Return the name that rules give to the owner of a certificate; raises TlsError for none."""
    subject = found.subject
    name = rules.name_of(subject) if subject else None
    if not name:
        raise TlsError("no_principal", f"no rule names a user for the certificate of {subject!r}")
    return name


def handshake_metrics(listeners: Sequence[ListenerTls]) -> Iterator[Metric]:
    """Yield how many handshakes ended well, and how many connections failed before, and why."""
    yield Metric(
        "jbodlab_tls_handshakes_total",
        [("", {"listener": each.context.name}, each.handshakes) for each in listeners],
    )
    yield Metric(
        "jbodlab_tls_handshake_failures_total",
        [
            ("", {"listener": each.context.name, "reason": reason}, count)
            for each in listeners
            for reason, count in sorted(each.failures.items())
        ],
    )
