"""Applies an image change to this broker: first the replicas, then what clients are told.

Settings of the broker come even before the replicas, which are handled by them.

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
from broker.replication.replica_manager import ReplicaManager
from jbodlab.image.metadata_delta import MetadataDelta
from jbodlab.image.metadata_image import MetadataImage

logger = logging.getLogger(__name__)


class MetadataPublisher:
    """The listener of the metadata feed; see `MetadataListener`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        cache: MetadataCache,
        followers: Sequence[MetadataListener] = (),
        *,
        settings: Sequence[MetadataListener] = (),
    ) -> None:
        self._replicas = replicas
        self._cache = cache
        self._followers = followers
        self._settings = settings

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change; on the loop, without waiting."""
        self._tell(self._settings, delta, image)
        try:
            self._replicas.metadata_changed(delta, image)
        except Exception:
            # A broker that answers by an old image sends clients astray for ever.
            logger.exception("replicas could not follow the metadata to offset %d", image.offset)
        self._cache.publish(image)
        self._tell(self._followers, delta, image)

    @staticmethod
    def _tell(
        listeners: Sequence[MetadataListener], delta: MetadataDelta, image: MetadataImage
    ) -> None:
        for listener in listeners:
            try:
                listener.metadata_changed(delta, image)
            except Exception:
                logger.exception("a follower failed at offset %d", image.offset)
