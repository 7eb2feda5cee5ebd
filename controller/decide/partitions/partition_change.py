"""Computes the record that changes a partition to a wanted state.

`jbodlab.metadata.election` decides who leads, `jbodlab.metadata.eligible_replicas` who could. The
steps and their order are those of Kafka's `PartitionChangeBuilder`. In a cluster without eligible
leader replicas a change clears an ELR that is there, and an ISR is never written empty.

How to read it: `Wanted` contains the target ISR and replicas. `partition_change` completes a
reassignment if all target replicas are in sync, elects a leader, and writes only the fields that
differ from the current state. If nothing differs, there is no record.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-455, KIP-858, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from controller.decide.degraded import NOTHING_DEGRADED, Degraded
from controller.decide.state import LeaderTest, PartitionEntry
from jbodlab.metadata.election import Candidates, Election, Members, completed, elect
from jbodlab.metadata.eligible_replicas import (
    eligible_replicas,
    elr_after_election,
    last_known_leader,
)
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.metadata.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    RECOVERING,
    PartitionChangeRecord,
)
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.ids import BrokerId, DirectoryId

RECOVERY_STATE_LEVEL = 3
NO_BUMP_FOR_SHRINK_LEVEL = 12
"""From this metadata.version on an ISR that shrinks does not raise the leader epoch."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How a partition shall look; None keeps what is.

    Attributes:
        directories: Directories of single replicas that replace the current ones.
    """

    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[BrokerId, DirectoryId] = msgspec.field(default_factory=dict)


class _Target(msgspec.Struct, kw_only=True):
    """The wanted state with everything filled in."""

    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


KEEP = Wanted()
"""Nothing but an election."""


def partition_change(
    partition: PartitionEntry,
    wanted: Wanted,
    *,
    may_lead: LeaderTest,
    metadata_version: int,
    degraded: Degraded = NOTHING_DEGRADED,
    election: Election = Election.ONLINE,
    min_isr: int | None = None,
    lost: Collection[BrokerId] = (),
    new_directory: Callable[[BrokerId], DirectoryId] = lambda _: MIGRATING,
) -> PartitionChangeRecord | None:
    """Return the record that changes a partition as wanted; None if nothing changes.

    Args:
        partition: Its current state.
        wanted: How it shall look.
        may_lead: The test for acceptable leaders; it is asked about the directories that the
            partition will have.
        metadata_version: The finalized level.
        degraded: Directories that others should lead from.
        election: How a leader is chosen.
        min_isr: `min.insync.replicas` of the topic; None in a cluster without eligible leader
            replicas.
        lost: Replicas that may lack records that they had; they are not eligible.
        new_directory: Directory for a replica that is new.
    """
    current = partition.state
    target = _completed(_filled_in(wanted, current))
    directories = _directories(current, wanted, target.replicas, new_directory)
    if min_isr is not None:
        target.elr = eligible_replicas(current, target.isr, min_isr, lost)
        target.last_known_elr = _last_known(current, target, replaced=wanted.directories, lost=lost)
    leader, is_unclean = elect(
        _candidates(current, target, directories, may_lead, degraded), election
    )
    if leader != current.leader:
        target.elr, target.isr = elr_after_election(
            target.elr, target.isr, leader, is_unclean=is_unclean
        )
    if min_isr is not None:
        target.last_known_elr = last_known_leader(
            current, target.last_known_elr, target.isr, leader
        )
    elif not target.isr:
        target.isr = current.isr
    new_leader, new_isr = _leadership(current, target, leader, metadata_version)
    recovery_state = wanted.leader_recovery_state
    if leader != current.leader and is_unclean and metadata_version >= RECOVERY_STATE_LEVEL:
        recovery_state = RECOVERING
    if recovery_state is None or recovery_state == current.leader_recovery_state:
        recovery_state = NO_RECOVERY_STATE_CHANGE
    record = PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        isr=new_isr,
        leader=new_leader,
        replicas=_if_changed(target.replicas, current.replicas),
        removing_replicas=_if_changed(target.removing, current.removing_replicas),
        adding_replicas=_if_changed(target.adding, current.adding_replicas),
        leader_recovery_state=recovery_state,
        directories=(
            directories
            if metadata_version >= JBOD_LEVEL and directories != current.directories
            else None
        ),
        eligible_leader_replicas=_if_changed(target.elr, current.elr),
        last_known_elr=_if_changed(target.last_known_elr, current.last_known_elr),
    )
    if record == PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id):
        return None
    return record


def _leadership(
    current: PartitionRegistration,
    target: _Target,
    leader: BrokerId,
    metadata_version: int,
) -> tuple[BrokerId, tuple[BrokerId, ...] | None]:
    """Return leader and ISR as the record has them; what raises the epoch names the leader."""
    isr = _if_changed(target.isr, current.isr)
    if leader != current.leader:
        return leader, isr
    if any(replica not in target.replicas for replica in current.replicas):
        # A replica that leaves must learn that it has nothing more to do here.
        return current.leader, isr
    lost_one = isr is not None and any(member not in isr for member in current.isr)
    if lost_one and metadata_version < NO_BUMP_FOR_SHRINK_LEVEL:
        return current.leader, isr
    return NO_LEADER_CHANGE, isr


def _filled_in(wanted: Wanted, current: PartitionRegistration) -> _Target:
    return _Target(
        isr=current.isr if wanted.isr is None else wanted.isr,
        replicas=current.replicas if wanted.replicas is None else wanted.replicas,
        removing=current.removing_replicas if wanted.removing is None else wanted.removing,
        adding=current.adding_replicas if wanted.adding is None else wanted.adding,
    )


def _completed(target: _Target) -> _Target:
    """Complete a reassignment if every replica that shall stay is in the ISR."""
    if not target.removing and not target.adding:
        return target
    done = completed(Members(target.isr, target.replicas), target.removing)
    if done is None:
        return target
    return _Target(isr=done.isr, replicas=done.replicas, removing=(), adding=())


def _candidates(
    current: PartitionRegistration,
    target: _Target,
    directories: tuple[DirectoryId, ...],
    may_lead: LeaderTest,
    degraded: Degraded,
) -> Candidates:
    of = dict(zip(target.replicas, directories, strict=True))
    return Candidates(
        leader=current.leader,
        replicas=target.replicas,
        isr=target.isr,
        # The last known leader may be a replica no more.
        may_lead=lambda replica: replica in of and may_lead(replica, of[replica]),
        elr=target.elr,
        last_known_elr=target.last_known_elr,
        is_degraded=lambda replica: degraded.is_degraded(replica, of[replica]),
        should_leave=lambda replica: degraded.should_leave(replica, of[replica]),
    )


def _last_known(
    current: PartitionRegistration,
    target: _Target,
    *,
    replaced: Collection[BrokerId],
    lost: Collection[BrokerId],
) -> tuple[BrokerId, ...]:
    """Return the last known ELR before the election.

    A log that replaces a lost one is not that of the last leader: another replica may have more.
    Where there is no other replica nothing is better than it.
    """
    if len(target.replicas) == 1:
        return current.last_known_elr
    return tuple(
        each for each in current.last_known_elr if each not in replaced or each not in lost
    )


def _directories(
    current: PartitionRegistration,
    wanted: Wanted,
    replicas: tuple[BrokerId, ...],
    new_directory: Callable[[BrokerId], DirectoryId],
) -> tuple[DirectoryId, ...]:
    if not wanted.directories and replicas == current.replicas:
        return current.directories
    known = dict(zip(current.replicas, current.directories, strict=True))
    known.update(wanted.directories)
    return tuple(known[each] if each in known else new_directory(each) for each in replicas)


def _if_changed(
    target: tuple[BrokerId, ...], current: tuple[BrokerId, ...]
) -> tuple[BrokerId, ...] | None:
    return None if target == current else target


def election_for(unclean_enabled: bool) -> Election:
    """Return the election of an event that lets a topic's own setting decide."""
    return Election.UNCLEAN if unclean_enabled else Election.ONLINE
