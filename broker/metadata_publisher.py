"""Applies an image change to this broker: first the replicas, then what clients are told.

Settings of the broker come even before the replicas, which are handled by them; the order of the
listeners is that of `broker.server`.

In this order a client that hears of a new leader here finds it leading, and one that is told of a
deleted topic cannot still write to it. Others that follow come last: what they say to the
controller depends on where the replicas are now.

Source: `kafka.server.metadata.BrokerMetadataPublisher`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.controller_link.metadata_feed import MetadataListener
from broker.metadata_cache import MetadataCache
from jbodlab.image.metadata_delta import MetadataDelta
from jbodlab.image.metadata_image import MetadataImage

logger = logging.getLogger(__name__)


class MetadataPublisher:
    """The listener of the metadata feed; see `MetadataListener`."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._before: Sequence[MetadataListener] = ()
        self._after: Sequence[MetadataListener] = ()

    def publish_to(
        self, before: Sequence[MetadataListener], after: Sequence[MetadataListener]
    ) -> None:
        """Name who follows a change, before and after clients are told of it, in order."""
        self._before, self._after = before, after

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change; on the loop, without waiting."""
        _tell(self._before, delta, image)
        # Whatever happened: a broker that answers by an old image sends clients astray for ever.
        self._cache.publish(image)
        _tell(self._after, delta, image)


def _tell(
    listeners: Sequence[MetadataListener], delta: MetadataDelta, image: MetadataImage
) -> None:
    for listener in listeners:
        try:
            listener.metadata_changed(delta, image)
        except Exception:
            logger.exception(
                "%s could not follow the metadata to offset %d",
                type(listener).__name__,
                image.offset,
            )
