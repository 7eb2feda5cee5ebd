"""The next step of one member towards its target.

A partition changes hands in three steps: its holder is told to give it up (UNREVOKED, its epoch
stays), confirms by no longer naming it among what it owns, and only then it is free for another,
which waits in UNRELEASED. So a member never gets what another may still be working on.

Source: KIP-848, "Reconciliation"; `CurrentAssignmentBuilder` of Apache Kafka; KIP-1251 for the
epochs of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import msgspec

from broker.groups.consumer.group import CurrentAssignment, Epochs, MemberState, Target
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """Where a member is to go.

    Attributes:
        epoch: Epoch of the target assignment.
        partitions: Partitions that the target gives the member.
        topics: Topics that the member is subscribed to; it shall have no others.
        owned: Partitions that the member says it owns; None if it did not say.
        is_free: Whether a partition has no holder but the member itself.
    """

    epoch: int
    partitions: Target
    topics: Set[TopicId]
    owned: Set[TopicIdPartition] | None
    is_free: Callable[[TopicIdPartition], bool]


def reconcile(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """Return what the member has after this step; the same value when nothing changes."""
    if current.state == MemberState.UNREVOKED and _owns(goal.owned, current.pending_revocation):
        return _without_unsubscribed(current, goal)
    target = frozenset(each for each in goal.partitions if each.topic_id in goal.topics)
    keep = {each: epoch for each, epoch in current.assigned.items() if each in target}
    revoke = {each: epoch for each, epoch in current.assigned.items() if each not in target}
    if revoke and _owns(goal.owned, revoke):
        after = CurrentAssignment(
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=MemberState.UNREVOKED,
            assigned=keep,
            pending_revocation=revoke,
        )
    else:
        after = _advanced(current, goal, target, keep)
    return current if after == current else after


def _advanced(
    current: CurrentAssignment, goal: Goal, target: Target, keep: Epochs
) -> CurrentAssignment:
    """Return the member in the epoch of the target, with what of it is free."""
    free = [each for each in sorted(target.difference(keep)) if goal.is_free(each)]
    assigned = {**keep, **dict.fromkeys(free, goal.epoch)}
    moved = current.epoch != goal.epoch
    return CurrentAssignment(
        epoch=goal.epoch,
        previous_epoch=current.epoch if moved else current.previous_epoch,
        state=MemberState.STABLE if len(assigned) == len(target) else MemberState.UNRELEASED,
        assigned=assigned,
    )


def _without_unsubscribed(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """Return a member that waits for its confirmation, and gives up what it unsubscribed from."""
    gone = {p: epoch for p, epoch in current.assigned.items() if p.topic_id not in goal.topics}
    if not gone:
        return current
    return CurrentAssignment(
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=MemberState.UNREVOKED,
        assigned={each: epoch for each, epoch in current.assigned.items() if each not in gone},
        pending_revocation={**current.pending_revocation, **gone},
    )


def _owns(owned: Set[TopicIdPartition] | None, partitions: Epochs) -> bool:
    """Whether the member may still work on any of these; one that says nothing does."""
    return owned is None or not owned.isdisjoint(partitions)
