"""Eligible leader replicas (ELR): who left the ISR and still has every acknowledged record.

With the level on, the high watermark stands while the ISR is smaller than `min.insync.replicas`.
A replica that leaves a smaller ISR has therefore all that was acknowledged, and may lead later
when the ISR is empty. It stops being eligible when it may have lost records: its broker was not
shut down in order, or its log directory failed or was replaced.

The last known leader is kept when ISR and ELR may both become empty. It is the best replica to
elect then, though the election counts as unclean.

Beyond Kafka, a replica in a failed or replaced directory is never eligible.

Source: `org.apache.kafka.controller.PartitionChangeBuilder`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Collection

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId


def eligible_replicas(
    before: PartitionRegistration,
    isr: tuple[BrokerId, ...],
    min_isr: int | None,
    lost: Collection[BrokerId] = (),
) -> tuple[BrokerId, ...]:
    """Return the ELR of a partition before its leader is elected.

    Args:
        before: The partition before the change.
        isr: The ISR after it.
        min_isr: `min.insync.replicas` of the topic; it counts up to the number of replicas. None in
            a cluster without ELR.
        lost: Replicas that may lack records that they had.
    """
    if min_isr is None or len(isr) >= min(min_isr, len(before.replicas)):
        return ()
    known = {*before.elr, *before.isr}
    return tuple(sorted(known.difference(isr).difference(lost)))


def elr_after_election(
    elr: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], winner: BrokerId, *, is_unclean: bool
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """Return ELR and ISR after an election.

    A winner from outside of the ISR is all that is in sync. Of an unclean winner whatever the
    others have may differ from what it has, so that nobody is eligible beside it.
    """
    if is_unclean:
        return (), (winner,)
    if winner in elr:
        return tuple(member for member in elr if member != winner), (winner,)
    return elr, isr


def last_known_leader(
    before: PartitionRegistration,
    known: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    leader: BrokerId,
) -> tuple[BrokerId, ...]:
    """Return the last known ELR of a partition: its last leader while it has none.

    Args:
        before: The partition before the change.
        known: The last known ELR before the election.
        isr: The ISR after the election.
        leader: The leader after it.
    """
    if leader != NO_LEADER:
        return ()
    if isr or not before.isr:
        return known
    if before.leader != NO_LEADER:
        return (before.leader,)
    # A partition that lost its leader while the cluster had no ELR kept that one in the ISR.
    return before.isr if len(before.isr) == 1 else known
