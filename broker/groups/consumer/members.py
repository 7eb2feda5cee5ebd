"""Members that go: they left, or were silent or slow for too long."""

from __future__ import annotations

from collections.abc import Iterable

from broker.groups.consumer.draft import Draft
from broker.groups.consumer.group import MemberState


def remove_members(draft: Draft, member_ids: Iterable[str]) -> None:
    """Remove members; the others get their partitions at their next heartbeats."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    draft.forget_unused_regexes()
    draft.write_epoch(draft.group.epoch + 1)


def session_is_over(draft: Draft, member_id: str) -> None:
    """Remove a member that was silent for its whole session; it hears of that if it comes back."""
    if member_id in draft.group.members:
        remove_members(draft, (member_id,))


def rebalance_time_is_over(draft: Draft, member_id: str) -> None:
    """Remove a member that does not give up what others wait for.

    The timer begins anew as each order to give something up is committed and ends with the
    confirmation, so that it finds the member in the state in which it was set.
    """
    if draft.group.current_of(member_id).state == MemberState.UNREVOKED:
        session_is_over(draft, member_id)
