"""The keys of an issuer of tokens, from a file or an https URL, read again from time to time.

Source: `org.apache.kafka.common.security.oauthbearer.internals.secured.RefreshingHttpsJwks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import urllib.request as http
from pathlib import Path
from typing import TYPE_CHECKING

from jbodlab.runtime.environment import Environment
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.security.oauthbearer import OAuthBearerServer, TokenSettings, key_set
from jbodlab.server.helper_thread import HelperThread
from jbodlab.vocabulary.errors import ConfigError

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

logger = logging.getLogger(__name__)

READ_TIMEOUT_S = 10.0
KEY_SET_BYTES_MAX = 1 << 20
READS_S_MIN = 10.0
"""Shortest time between two reads: who has not logged in may name keys that do not exist."""


class TokenKeys:
    """Lives on the event loop; files and URLs are read in a thread beside it.

    Args:
        key: The setting that says where the keys are, for errors.
        settings: Which tokens are good.
        environment: Clock and threads.
    """

    def __init__(self, key: str, settings: TokenSettings, environment: Environment) -> None:
        self._key = key
        self._settings = settings
        self._keys: KeySet
        self._wall_ms = environment.wall_ms
        self._helper = HelperThread(environment.threads, "keys of tokens")
        self._is_asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the keys, and begin to read them again.

        Raises:
            ConfigError: they cannot be read, or the library `joserfc` is missing.
        """
        try:
            self._keys = await self._helper.run(self._read)
        except ImportError:
            why = "takes the library joserfc: pip install 'jbodlab[oauth]'"
            raise ConfigError(self._key, self._settings.url, why) from None
        except (OSError, ValueError) as error:
            raise ConfigError(self._key, self._settings.url, str(error)) from None
        self._task = supervised(self._run, name="keys of tokens")

    async def stop(self) -> None:
        """Read no more."""
        task, self._task = self._task, None
        await end_tasks([task])
        self._helper.close()

    def login(self) -> OAuthBearerServer:
        """Return a new login; a token that names an unknown key has the keys read soon."""
        return OAuthBearerServer(
            self._settings, self._keys, self._is_asked.set, lambda: self._wall_ms() / 1000
        )

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.refresh_s):
                    await self._is_asked.wait()
            self._is_asked.clear()
            try:
                self._keys = await self._helper.run(self._read)
            except (OSError, ValueError) as error:
                logger.error("keys of %s stay as they are: %s", self._settings.url, error)
                self._is_asked.set()
            await asyncio.sleep(READS_S_MIN)

    def _read(self) -> KeySet:
        if self._settings.url.startswith("file:"):
            with Path(http.url2pathname(self._settings.url[5:])).open("rb") as file:
                return key_set(file.read(KEY_SET_BYTES_MAX))
        # No handler of http: nobody is followed who sends elsewhere in plain text.
        opener = http.OpenerDirector()
        opener.add_handler(http.HTTPSHandler(context=ssl.create_default_context()))
        opener.add_handler(http.HTTPRedirectHandler())
        opener.add_handler(http.HTTPDefaultErrorHandler())
        opener.add_handler(http.HTTPErrorProcessor())
        opener.add_handler(http.UnknownHandler())
        with opener.open(self._settings.url, timeout=READ_TIMEOUT_S) as answer:
            return key_set(answer.read(KEY_SET_BYTES_MAX))
