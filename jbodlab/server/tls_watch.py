"""New certificates without a restart: looks at the files of all listeners from time to time."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from jbodlab.runtime.metrics import Metric
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.security.tls_context import TlsContext
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.server.helper_thread import HelperThread
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.threads import Threads

logger = logging.getLogger(__name__)

SOON_S = 7 * 86_400.0
"""A certificate that expires within that is warned of."""


class TlsWatch:
    """Lives on the event loop.

    Args:
        contexts: Contexts made of the files.
        threads: For the thread that reads them.
        interval_s: Time between two looks.
    """

    def __init__(
        self, contexts: Sequence[TlsContext[Any]], threads: Threads, interval_s: float
    ) -> None:
        self.contexts = contexts
        self._helper = HelperThread(threads, "certificates")
        self._interval_s = interval_s
        self._wanted: dict[str, TlsSettings] = {}
        self._is_asked = asyncio.Event()
        self._warned: set[tuple[str, datetime.datetime]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, where there is something to look at."""
        if self.contexts:
            self._task = supervised(self._run, name="certificates")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
            self._helper.close()

    def use(self, name: str, settings: TlsSettings) -> None:
        """Use other settings of a listener, or the same ones if its files have changed."""
        self._wanted[name] = settings
        self._is_asked.set()

    def refuse(self, name: str, error: ConfigError) -> None:
        """Tell that the settings of a listener are wrong, which goes on as before."""
        logger.error("a new certificate is not used: %s", error, extra={"listener": name})

    async def _run(self) -> None:
        while True:
            self._is_asked.clear()
            wanted, self._wanted = self._wanted, {}
            for each in self.contexts:
                if each.name in wanted:
                    await each.use(wanted[each.name], self._helper.run)
                else:
                    await each.look(self._helper.run)
                self._warn(each)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._is_asked.wait()

    def _warn(self, context: TlsContext[Any]) -> None:
        if context.certificate is None or context.seconds_left() >= SOON_S:
            return
        expiry = context.name, context.certificate.not_after
        if expiry not in self._warned:
            self._warned.add(expiry)
            logger.warning(
                "a certificate expires at %s",
                expiry[1].isoformat(),
                extra={"listener": context.name},
            )


def certificate_metrics(contexts: Sequence[TlsContext[Any]]) -> Iterator[Metric]:
    """Yield how long certificates are valid, and what became of new ones."""
    yield Metric(
        "jbodlab_tls_certificate_expiry_seconds",
        [("", {"listener": each.name}, each.seconds_left()) for each in contexts],
    )
    yield Metric(
        "jbodlab_tls_reloads_total",
        [
            ("", {"listener": each.name, "result": result}, each.reloads[result])
            for each in contexts
            for result in ("taken", "failed")
        ],
    )
