"""Compares this broker's registration with the metadata version.

Below 3.7-IV2 a registration has no directories. If the version is raised while the broker runs, the
broker registers again, so that its directories become known without a restart. It also registers
again if the registration loses an online directory: a heartbeat from before a revival may reach the
controller after the registration that followed.

Source: `kafka.server.metadata.BrokerMetadataPublisher`, `kafka.server.BrokerRegistrationTracker`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records import metadata_version
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId

logger = logging.getLogger(__name__)


class RegistrationCheck:
    """Follows the metadata; see `MetadataListener`.

    Args:
        broker_id: Ours.
        broker_epoch: Of the current registration.
        directory_count: How many log directories are configured.
        online_directories: Ids of those that are online.
        register_again: Has this process registered once more.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        directory_count: int,
        online_directories: Callable[[], Collection[DirectoryId]],
        register_again: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_count = directory_count
        self._online_directories = online_directories
        self._register_again = register_again
        self._warned_of = -1
        self._amended = -1

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Look at the metadata version and at our own registration."""
        level = image.features.metadata_version
        if level < JBOD_LEVEL:
            if self._directory_count > 1 and self._warned_of != level:
                self._warned_of = level
                logger.error(
                    "Multiple log directories (aka JBOD) are not supported in the current "
                    "MetadataVersion %s. Need 3.7-IV2 or higher",
                    metadata_version.name_of(level),
                )
            return
        found = image.cluster.brokers.get(self._broker_id)
        if found is None or found.epoch != self._broker_epoch():
            return
        if found.directories:
            lost = set(self._online_directories()) - set(found.directories)
            if lost and self._broker_id in delta.changed_brokers:
                logger.info("registering again with %d more log directories", len(lost))
                self._register_again()
        elif found.record_offset != self._amended:
            # Once for each registration; a second one at once would say nothing new.
            self._amended = found.record_offset
            logger.info("registering again with log directories")
            self._register_again()
