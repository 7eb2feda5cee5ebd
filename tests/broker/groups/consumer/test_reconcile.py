from __future__ import annotations

from uuid import UUID

import pytest

from broker.groups.consumer.group import CurrentAssignment, MemberState
from broker.groups.consumer.reconcile import Goal, reconcile
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition

T, U = TopicId(UUID(int=1)), TopicId(UUID(int=2))
STATES = {"S": MemberState.STABLE, "R": MemberState.UNREVOKED, "W": MemberState.UNRELEASED}


def ids(text: str) -> frozenset[TopicIdPartition]:
    """Digits are partitions of topic T, letters those of U."""
    return frozenset(
        TopicIdPartition(T, int(each)) if each.isdigit() else TopicIdPartition(U, ord(each) - 97)
        for each in text
    )


def member(text: str) -> CurrentAssignment:
    """State, epoch, assigned, pending; all partitions of epoch 1 unless `:` says otherwise."""
    state, epoch, assigned, pending = text.split(",")
    return CurrentAssignment(
        state=STATES[state],
        epoch=int(epoch),
        assigned=dict.fromkeys(ids(assigned), 1),
        pending_revocation=dict.fromkeys(ids(pending), 1),
    )


def shown(current: CurrentAssignment) -> str:
    def text(partitions: object) -> str:
        return "".join(
            each
            for each in "0123456789abc"
            if ids(each) <= set(partitions)  # type: ignore[call-overload]
        )

    state = next(key for key, value in STATES.items() if value == current.state)
    return f"{state},{current.epoch},{text(current.assigned)},{text(current.pending_revocation)}"


@pytest.mark.parametrize(
    ("before", "target", "owned", "held", "after"),
    [
        # 1. At the target: nothing.
        ("S,5,01,", "01", None, "", "S,5,01,"),
        # 2. Has not confirmed: says nothing, or still owns it.
        ("R,4,0,1", "0", None, "", "R,4,0,1"),
        ("R,4,0,1", "0", "01", "", "R,4,0,1"),
        ("R,4,0,1", "0", "0", "", "S,5,0,"),
        ("R,4,0,1", "02", "0", "", "S,5,02,"),
        # ... and has to give up more by now.
        ("R,4,01,2", "0", "01", "", "R,4,0,1"),
        # 4. Told to give up, its epoch stays.
        ("S,4,01,", "0", None, "", "R,4,0,1"),
        ("S,4,01,", "0", "01", "", "R,4,0,1"),
        ("S,4,01,", "2", "01", "", "R,4,,01"),
        # ... unless it owns it no longer, as after a join.
        ("S,4,01,", "0", "", "", "S,5,0,"),
        # 5. Gets what is free, waits for the rest.
        ("S,4,0,", "012", None, "2", "W,5,01,"),
        ("S,4,,", "0", None, "0", "W,5,,"),
        ("W,5,0,", "01", None, "1", "W,5,0,"),
        ("W,5,0,", "01", None, "", "S,5,01,"),
        # A new target while it waits.
        ("W,4,0,", "2", "0", "1", "R,4,,0"),
        # Static member that comes back.
        ("S,-2,01,", "01", "", "", "S,5,01,"),
    ],
)
def test_member_makes_one_step(
    before: str, target: str, owned: str | None, held: str, after: str
) -> None:
    goal = Goal(
        epoch=5,
        partitions=ids(target),
        topics={T, U},
        owned=None if owned is None else ids(owned),
        is_free=lambda partition: partition not in ids(held),
    )

    result = reconcile(member(before), goal)

    assert shown(result) == after
    assert (result is not member(before)) or before == after


@pytest.mark.parametrize(
    ("before", "owned", "after"),
    [
        # Topics that are no longer subscribed go at once, also at the epoch of the target.
        ("S,5,0a,", None, "R,5,0,a"),
        ("S,5,0a,", "0", "S,5,0,"),
        ("W,5,0a,", None, "R,5,0,a"),
        ("R,4,0a,1", None, "R,4,0,1a"),
        ("R,4,0,1", None, "R,4,0,1"),
    ],
)
def test_unsubscribed_topics_are_given_up_at_once(
    before: str, owned: str | None, after: str
) -> None:
    goal = Goal(
        epoch=5,
        partitions=ids("0a"),
        topics={T},
        owned=None if owned is None else ids(owned),
        is_free=lambda _: True,
    )

    assert shown(reconcile(member(before), goal)) == after


def test_partitions_keep_the_epoch_in_which_they_were_assigned() -> None:
    goal = Goal(epoch=5, partitions=ids("01"), topics={T}, owned=None, is_free=lambda _: True)

    after = reconcile(member("S,4,0,"), goal)

    assert after.assigned == {TopicIdPartition(T, 0): 1, TopicIdPartition(T, 1): 5}
    assert (after.previous_epoch, after.epoch) == (4, 5)


def test_previous_epoch_stays_while_the_epoch_stays() -> None:
    goal = Goal(epoch=5, partitions=ids("01"), topics={T}, owned=None, is_free=lambda _: True)
    waiting = CurrentAssignment(epoch=5, previous_epoch=3, state=MemberState.UNRELEASED)

    assert reconcile(waiting, goal).previous_epoch == 3
