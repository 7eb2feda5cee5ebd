"""How partitions change when a broker or a directory appears or disappears.

A change is computed from one state. Other changes of the same moment are either passed as an
argument or replayed before (`ControllerState.after`), so that no partition is changed twice.

Source: `ReplicationControlManager.generateLeaderAndIsrUpdates`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from controller.decide.partitions.partition_change import (
    KEEP,
    Wanted,
    election_for,
    partition_change,
)
from controller.decide.state import (
    ControllerState,
    LeaderTest,
    PartitionEntry,
    leader_test,
    partitions,
)
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId


def in_isr(state: ControllerState, broker_id: BrokerId) -> Iterator[PartitionEntry]:
    """Yield the partitions that have a broker in their ISR."""
    return (each for each in partitions(state.image) if broker_id in each.state.isr)


def in_isr_or_elr(state: ControllerState, broker_id: BrokerId) -> Iterator[PartitionEntry]:
    """Yield the partitions that have a broker in their ISR or ELR."""
    for each in partitions(state.image):
        if broker_id in each.state.isr or broker_id in each.state.elr:
            yield each


def in_directory(
    state: ControllerState, broker_id: BrokerId, directory: DirectoryId
) -> Iterator[PartitionEntry]:
    """Yield the partitions whose replica on a broker lies in one of its directories."""
    for each in partitions(state.image):
        for replica, held_in in zip(each.state.replicas, each.state.directories, strict=True):
            if replica == broker_id and held_in == directory:
                yield each


def leads_any(state: ControllerState, broker_id: BrokerId) -> bool:
    """Return whether a broker leads a partition."""
    return any(each.state.leader == broker_id for each in partitions(state.image))


def without_broker(
    state: ControllerState,
    broker_id: BrokerId,
    affected: Iterable[PartitionEntry],
    *,
    failed: Collection[DirectoryId] = (),
    is_unclean: bool = False,
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that take a broker out of ISR and leadership of some partitions.

    It becomes an eligible leader replica of those that have too few in sync without it. In a
    cluster without such replicas the last member of an ISR stays in it, without leading: nobody
    else has its records.

    Args:
        state: The state before.
        broker_id: The broker.
        affected: The partitions.
        failed: Directories of it that failed or are gone. A replica in one of them is not eligible.
        is_unclean: Whether it was not shut down in order: none of its replicas is eligible.
    """
    may_lead, degraded = leader_test(state.image.cluster, excluding=broker_id), state.degraded
    for each in affected:
        is_lost = is_unclean or lies_in(each, broker_id, failed)
        record = partition_change(
            each,
            Wanted(isr=tuple(member for member in each.state.isr if member != broker_id)),
            may_lead=may_lead,
            metadata_version=state.metadata_version,
            degraded=degraded,
            election=election_for(state.unclean_election_enabled(each.topic)),
            min_isr=state.min_isr(each.topic),
            lost=(broker_id,) if is_lost else (),
        )
        if record is not None:
            yield record


def with_broker(
    state: ControllerState,
    broker_id: BrokerId,
    newly_offline: Collection[DirectoryId] = (),
) -> Iterator[PartitionChangeRecord]:
    """Yield the elections that become possible because a broker is unfenced.

    Args:
        state: The state before.
        broker_id: The broker.
        newly_offline: Directories of it that fail in the same moment. Partitions in them are left
            out: the failure recomputes them, and would else do so from a state that is outdated.
    """
    registration = state.image.cluster.brokers[broker_id]
    may_lead = leader_test(state.image.cluster, unfencing=broker_id)
    if newly_offline:
        online = tuple(each for each in registration.directories if each not in newly_offline)
        may_lead = leader_test(
            state.image.cluster, unfencing=broker_id, unfencing_directories=online
        )
    passed_over = partial(lies_in, broker_id=broker_id, directories=newly_offline)
    yield from _elections(state, may_lead, passed_over if newly_offline else None)


def electable(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    """Yield the elections of leaderless partitions that somebody may lead."""
    yield from _elections(state, leader_test(state.image.cluster))


def _elections(
    state: ControllerState,
    may_lead: LeaderTest,
    is_passed_over: Callable[[PartitionEntry], bool] | None = None,
) -> Iterator[PartitionChangeRecord]:
    degraded = state.degraded
    for each in partitions(state.image):
        if each.state.leader != NO_LEADER:
            continue
        if is_passed_over is not None and is_passed_over(each):
            continue
        record = partition_change(
            each,
            KEEP,
            may_lead=may_lead,
            metadata_version=state.metadata_version,
            degraded=degraded,
            election=election_for(state.unclean_election_enabled(each.topic)),
            min_isr=state.min_isr(each.topic),
        )
        if record is not None:
            yield record


def lies_in(
    each: PartitionEntry, broker_id: BrokerId, directories: Collection[DirectoryId]
) -> bool:
    """Return whether the replica of a broker is in one of these directories."""
    return any(
        replica == broker_id and held_in in directories
        for replica, held_in in zip(each.state.replicas, each.state.directories, strict=True)
    )
