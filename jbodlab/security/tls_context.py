"""A context made of the keys and certificates of one place, and made anew when they change.

A new context is made and tried first, and only then taken: the one in use is never touched, and a
fault of new files changes nothing. Files of a store are replaced one after the other, and each bit
by bit; so they are read once two looks in a row have seen the same.
"""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from jbodlab.security import tls_files
from jbodlab.security.certificate import Certificate
from jbodlab.security.tls_files import Pem
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.errors import ConfigError

logger = logging.getLogger(__name__)

ContextT = TypeVar("ContextT")
Stamp = tuple[tuple[int, int, int] | None, ...]
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function on a thread that may wait for files."""


class TlsContext(Generic[ContextT]):
    """Lives on the event loop.

    Args:
        name: Of the listener, for logs.
        settings: Where the keys are.
        make: Makes what is wanted of them; raises ConfigError.
        now: Clock of the certificates.
        on_replaced: Called when there is a new context.

    Attributes:
        settings: Settings that `current` was made of.
        current: The context that was made last.
        certificate: Of this side; None for a client without any.
        reloads: How many new keys were `taken`, and how many `failed`.

    Raises:
        ConfigError: the keys are of no use.
    """

    def __init__(
        self,
        name: str,
        settings: TlsSettings,
        make: Callable[[TlsSettings, Pem], ContextT],
        now: Callable[[], datetime.datetime],
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.settings = settings
        self._make = make
        self._now = now
        self._on_replaced = on_replaced
        self._stamp = tls_files.stamp(settings)
        self._seen: Stamp = self._stamp
        """How the files looked last time."""
        self.current, self.certificate = self._load(settings, now())
        self.reloads: Counter[str] = Counter()

    def seconds_left(self) -> float:
        """Return how long the certificate is valid; negative once it has expired."""
        if self.certificate is None:
            return float("inf")
        return (self.certificate.not_after - self._now()).total_seconds()

    async def look(self, run: Run) -> None:
        """Use new files, once two looks in a row have seen the same."""
        seen: Stamp = await run(partial(tls_files.stamp, self.settings))
        is_settled, self._seen = seen == self._seen, seen
        if is_settled and seen != self._stamp and None not in seen:
            await self._replace(self.settings, seen, run)

    async def use(self, settings: TlsSettings, run: Run) -> None:
        """Use other settings, or the files of the same ones where they have changed."""
        stamp: Stamp = await run(partial(tls_files.stamp, settings))
        if settings != self.settings or stamp != self._stamp:
            await self._replace(settings, stamp, run)

    async def _replace(self, settings: TlsSettings, stamp: Stamp, run: Run) -> None:
        extra = {"listener": self.name}
        # Files that are wrong are read once, and again when they have changed.
        self._stamp = stamp
        try:
            current, leaf = await run(partial(self._load, settings, self._now()))
            _check_names(settings, self.certificate, leaf)
        except ConfigError as error:
            self.reloads["failed"] += 1
            logger.error("a new certificate is not used: %s", error, extra=extra)
            return
        self.settings, self.current, self.certificate = settings, current, leaf
        self.reloads["taken"] += 1
        logger.info("a new certificate is used", extra=extra)
        self._on_replaced()

    def _load(
        self, settings: TlsSettings, now: datetime.datetime
    ) -> tuple[ContextT, Certificate | None]:
        pem = tls_files.read(settings, now)
        return self._make(settings, pem), pem.leaf if settings.key_store is not None else None


def _check_names(settings: TlsSettings, old: Certificate | None, new: Certificate | None) -> None:
    """Raise ConfigError where a new certificate is of somebody else (KIP-978)."""
    if old is None or new is None:
        return
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
