"""One partition's state, and the merge in which its epochs rise.

Source: `org.apache.kafka.metadata.PartitionRegistration`, KIP-858 for the directories, KIP-966 for
eligible leader replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jbodlab.metadata.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """The metadata of one partition; directory `directories[i]` holds replica `replicas[i]`."""

    replicas: tuple[BrokerId, ...]
    directories: tuple[DirectoryId, ...]
    isr: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    leader: BrokerId
    leader_recovery_state: int = 0
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()

    def directory(self, broker_id: BrokerId) -> DirectoryId:
        """Return the directory of the replica on a broker.

        Raises:
            ValueError: the broker has no replica.
        """
        return self.directories[self.replicas.index(broker_id)]

    def others_may_have_more(self, *, is_empty: bool = False) -> bool:
        """Return whether other replicas may have records that one has lost.

        Args:
            is_empty: Whether it has none left. A replica that is only being added has hardly more
                than one that has some.
        """
        others = len(self.replicas) - 1
        return others > 0 if is_empty else others > len(self.adding_replicas)

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        """Return the state that a record establishes.

        Raises:
            ReplayError: there are neither none nor as many directories as replicas.
        """
        return cls(
            replicas=record.replicas,
            directories=_checked_directories(record.directories, record.replicas),
            isr=record.isr,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            leader=record.leader,
            leader_recovery_state=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def to_record(self, topic_id: TopicId, partition_id: int) -> PartitionRecord:
        """Return the record that establishes this state; empty ELRs are left out as null."""
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=self.directories,
            eligible_leader_replicas=self.elr or None,
            last_known_elr=self.last_known_elr or None,
        )

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """Return the state after a change.

        The partition epoch rises with every change, the leader epoch whenever the change names a
        leader, be it the same one.

        Raises:
            ReplayError: afterwards there are neither none nor as many directories as replicas.
        """
        replicas = self.replicas if change.replicas is None else change.replicas
        directories = self.directories
        if change.replicas is not None or change.directories is not None:
            if change.directories is not None:
                directories = change.directories
            directories = _checked_directories(directories, replicas)
        leader, leader_epoch = self.leader, self.leader_epoch
        if change.leader != NO_LEADER_CHANGE:
            leader, leader_epoch = change.leader, LeaderEpoch(leader_epoch + 1)
        recovery_state = change.leader_recovery_state
        if recovery_state == NO_RECOVERY_STATE_CHANGE:
            recovery_state = self.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=_changed(self.isr, change.isr),
            removing_replicas=_changed(self.removing_replicas, change.removing_replicas),
            adding_replicas=_changed(self.adding_replicas, change.adding_replicas),
            leader=leader,
            leader_recovery_state=recovery_state,
            leader_epoch=leader_epoch,
            partition_epoch=PartitionEpoch(self.partition_epoch + 1),
            elr=_changed(self.elr, change.eligible_leader_replicas),
            last_known_elr=_changed(self.last_known_elr, change.last_known_elr),
        )

    def without_elr(self) -> PartitionRegistration:
        """Return the state after ClearElr; a partition that has no ELR stays as it is."""
        if not self.elr and not self.last_known_elr:
            return self
        return replace(
            self,
            elr=(),
            last_known_elr=(),
            partition_epoch=PartitionEpoch(self.partition_epoch + 1),
        )


def _changed(old: tuple[BrokerId, ...], new: tuple[BrokerId, ...] | None) -> tuple[BrokerId, ...]:
    return old if new is None else new


def _checked_directories(
    directories: tuple[DirectoryId, ...], replicas: tuple[BrokerId, ...]
) -> tuple[DirectoryId, ...]:
    """Return one directory per replica; an empty list, or only MIGRATING, fits any number."""
    if len(directories) == len(replicas):
        return directories
    if all(directory == directory_ids.MIGRATING for directory in directories):
        return (directory_ids.MIGRATING,) * len(replicas)
    raise ReplayError(
        f"expected {len(replicas)} directories for replicas {replicas}, got {len(directories)}"
    )
