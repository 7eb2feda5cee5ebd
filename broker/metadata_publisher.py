"""Applies an image change to this broker: first the replicas, then what clients are told.

In this order a client that hears of a new leader here finds it leading, and one that is told of a
deleted topic cannot still write to it. Last come the reports of directories: what they say depends
on where the replicas are now.

Source: `kafka.server.metadata.BrokerMetadataPublisher`.
"""

from __future__ import annotations

import logging

from broker.metadata_cache import MetadataCache
from broker.replication.directory_reports import DirectoryReports
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
        reports: DirectoryReports | None = None,
    ) -> None:
        self._replicas = replicas
        self._cache = cache
        self._reports = reports

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change; on the loop, without waiting."""
        try:
            self._replicas.metadata_changed(delta, image)
        except Exception:
            # A broker that answers by an old image sends clients astray for ever.
            logger.exception("replicas could not follow the metadata to offset %d", image.offset)
        self._cache.publish(image)
        if self._reports is not None:
            try:
                self._reports.metadata_changed(delta)
            except Exception:
                # They are looked at again soon.
                logger.exception("directories could not be reported at offset %d", image.offset)
