"""Applies an image change to this broker: first the replicas, then what clients are told.

Settings of the broker come even before the replicas, which are handled by them; the order of the
listeners is that of `broker.server`.

In this order a client that hears of a new leader here finds it leading, and one that is told of a
deleted topic cannot still write to it. Others that follow come last: what they say to the
controller depends on where the replicas are now.

One that raises may have followed a part of the change. It is then told again, after a pause, of the
whole way from the image up to which it has followed everything; the others go on meanwhile.

Source: `kafka.server.metadata.BrokerMetadataPublisher`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from broker.controller_link.metadata_feed import MetadataListener
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage

logger = logging.getLogger(__name__)

RETRY_S = 0.1
RETRY_S_MAX = 30.0
"""Pauses before a listener that raised is told again; doubled while it goes on raising."""


class MetadataPublisher:
    """The listener of the metadata feed; see `MetadataListener`."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._internal_listeners: Sequence[_Follower] = ()
        self._listeners_after_clients: Sequence[_Follower] = ()

    @property
    def failure_count(self) -> int:
        """How often a listener has raised."""
        return sum(
            each.failure_count
            for each in (*self._internal_listeners, *self._listeners_after_clients)
        )

    def publish_to(
        self,
        internal_listeners: Sequence[MetadataListener],
        listeners_after_clients: Sequence[MetadataListener],
    ) -> None:
        """Name the listeners that follow a change before and after clients see it, in order."""
        self._internal_listeners = [_Follower(listener) for listener in internal_listeners]
        self._listeners_after_clients = [
            _Follower(listener) for listener in listeners_after_clients
        ]

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change; on the loop, without waiting."""
        for follower in self._internal_listeners:
            follower.metadata_changed(delta, image)
        # Whatever happened: a broker that answers by an old image sends clients astray for ever.
        self._cache.publish(image)
        for follower in self._listeners_after_clients:
            follower.metadata_changed(delta, image)

    def stop(self) -> None:
        """Tell nobody again."""
        for follower in (*self._internal_listeners, *self._listeners_after_clients):
            follower.stop()


class _Follower:
    """One listener, and up to which image it has followed."""

    def __init__(self, listener: MetadataListener) -> None:
        self._listener = listener
        self._applied = EMPTY
        self._newest = EMPTY
        self._retry_s = RETRY_S
        self._retry: asyncio.TimerHandle | None = None
        self.failure_count = 0

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Pass a change on; what comes while the listener is behind, it hears of later."""
        self._newest = image
        if self._retry is None:
            self._tell(delta)

    def stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()

    def _tell(self, delta: MetadataDelta) -> None:
        image = self._newest
        try:
            self._listener.metadata_changed(delta, image)
        except Exception:
            self.failure_count += 1
            logger.exception(
                "%s failed to apply metadata from offset %d to %d; retrying in %.1f s",
                type(self._listener).__name__,
                self._applied.offset,
                image.offset,
                self._retry_s,
            )
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(self._retry_s, self._tell_again)
            self._retry_s = min(2 * self._retry_s, RETRY_S_MAX)
        else:
            self._applied = image
            self._retry_s = RETRY_S

    def _tell_again(self) -> None:
        self._retry = None
        self._tell(MetadataDelta.between(self._applied, self._newest))
