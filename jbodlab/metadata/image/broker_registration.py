"""One broker's registration.

A registration is *active* when it is neither fenced nor in controlled shutdown. Fencing does not
end a controlled shutdown; only a new registration does.

Source: `org.apache.kafka.metadata.BrokerRegistration`, KIP-858 for the directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from jbodlab.metadata.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    NO_CHANGE,
    UNFENCE,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """The registration of one broker, as the metadata records have left it."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation_id: UUID
    endpoints: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    """Sorted by name."""
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[DirectoryId, ...] = ()
    """Online log directories in the order of ids; empty if the broker named none."""
    cordoned_directories: tuple[DirectoryId, ...] | None = None
    record_offset: Offset = field(default=Offset(-1), compare=False)
    """Offset of its RegisterBrokerRecord; snapshots forget it, so equality ignores it."""

    @property
    def active(self) -> bool:
        """Whether the broker may lead and join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def directory_is_online(self, directory: DirectoryId) -> bool:
        """Return whether a replica of this broker in that directory counts as online."""
        return directory_ids.is_online(directory, self.directories)

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord, offset: int) -> BrokerRegistration:
        """Return the registration that a record establishes."""
        cordoned = record.cordoned_log_dirs
        return cls(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.end_points,
            features=by_name(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=in_order(record.log_dirs),
            cordoned_directories=None if cordoned is None else in_order(cordoned),
            record_offset=Offset(offset),
        )

    def to_record(self) -> RegisterBrokerRecord:
        """Return the record with which a snapshot describes this registration."""
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=self.endpoints,
            features=self.features,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.directories,
            cordoned_log_dirs=self.cordoned_directories,
        )

    def merge(self, change: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """Return the registration after a change.

        Raises:
            ReplayError: the change is for another epoch, or has an unknown code.
        """
        self.check_epoch(change.broker_epoch)
        if change.fenced not in (FENCE, UNFENCE, NO_CHANGE):
            raise ReplayError(f"broker {self.broker_id}: unknown fencing code {change.fenced}")
        if change.in_controlled_shutdown not in (ENTER_CONTROLLED_SHUTDOWN, NO_CHANGE):
            raise ReplayError(
                f"broker {self.broker_id}: unknown controlled shutdown code "
                f"{change.in_controlled_shutdown}"
            )
        cordoned = change.cordoned_log_dirs
        return replace(
            self,
            fenced=self.fenced if change.fenced == NO_CHANGE else change.fenced == FENCE,
            in_controlled_shutdown=self.in_controlled_shutdown
            or change.in_controlled_shutdown == ENTER_CONTROLLED_SHUTDOWN,
            # A record has the same bytes for an empty and an absent list; both mean no change.
            directories=in_order(change.log_dirs) if change.log_dirs else self.directories,
            cordoned_directories=(
                self.cordoned_directories if cordoned is None else in_order(cordoned)
            ),
        )

    def with_fenced(self, fenced: bool, epoch: BrokerEpoch) -> BrokerRegistration:
        """Return the registration after a Fence or Unfence record.

        Raises:
            ReplayError: the record is for another epoch.
        """
        self.check_epoch(epoch)
        return replace(self, fenced=fenced)

    def check_epoch(self, epoch: BrokerEpoch) -> None:
        """Raise ReplayError unless a record's epoch is the one of this registration."""
        if epoch != self.epoch:
            raise ReplayError(
                f"record for epoch {epoch} of broker {self.broker_id}, "
                f"whose registration has epoch {self.epoch}"
            )


def by_name(features: Iterable[BrokerFeature]) -> tuple[BrokerFeature, ...]:
    """Return features sorted by name; in records their order has no meaning and varies."""
    return tuple(sorted(features, key=lambda feature: feature.name))


def in_order(directories: Iterable[DirectoryId]) -> tuple[DirectoryId, ...]:
    """Return directory ids in the order that Kafka keeps them in."""
    return tuple(sorted(directories, key=kafka_uuid.order_key))
