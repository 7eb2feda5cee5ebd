"""Commits, the voters that count, and the voters that are heard."""

from __future__ import annotations

import pytest

from jbodlab.raft.progress import Progress
from jbodlab.raft.voters import VoterSet
from jbodlab.vocabulary.ids import Offset
from tests.jbodlab.raft.world import key_of, voter


def voters(*nodes: int) -> VoterSet:
    return VoterSet.of(map(voter, nodes))


def progress(offsets: dict[int, int], *, start: int = 0, me: int = 1) -> Progress:
    made = Progress(key_of(me), Offset(start), 0)
    for node, offset in offsets.items():
        made.fetched(key_of(node), Offset(offset), Offset(100), 0)
    return made


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (9, {}, None),
        (9, {2: 7}, 7),
        (9, {2: 7, 3: 8}, 8),
        # The leader's own disk is the slow one.
        (2, {2: 7, 3: 8}, 7),
        (0, {2: 7, 3: 8}, 7),
    ],
)
def test_what_two_of_three_have_on_disk_is_committed(
    own: int, others: dict[int, int], expected: int | None
) -> None:
    made = progress(others)

    made.advance(voters(1, 2, 3), Offset(own))

    assert made.high_watermark == expected


@pytest.mark.parametrize(
    ("nodes", "others", "expected"),
    [
        ((1,), {}, 9),
        ((1, 2), {2: 4}, 4),
        ((1, 2, 3, 4), {2: 4, 3: 3}, 3),
        ((1, 2, 3, 4, 5), {2: 4, 3: 3}, 3),
        ((1, 2, 3, 4, 5), {2: 4}, None),
    ],
)
def test_a_majority_depends_on_the_number_of_voters(
    nodes: tuple[int, ...], others: dict[int, int], expected: int | None
) -> None:
    made = progress(others)

    made.advance(voters(*nodes), Offset(9))

    assert made.high_watermark == expected


def test_records_of_former_epochs_are_committed_with_the_first_of_the_own() -> None:
    made = progress({2: 10}, start=10)

    assert not made.advance(voters(1, 2, 3), Offset(11))
    made.fetched(key_of(2), Offset(11), Offset(11), 0)
    assert made.advance(voters(1, 2, 3), Offset(11))
    assert made.high_watermark == 11


def test_the_high_watermark_never_falls_when_a_voter_is_added() -> None:
    made = progress({2: 9})
    made.advance(voters(1, 2), Offset(9))

    assert not made.advance(voters(1, 2, 3, 4), Offset(9))
    assert made.high_watermark == 9


def test_an_observer_does_not_count() -> None:
    made = progress({4: 9, 5: 9})

    assert not made.advance(voters(1, 2, 3), Offset(9))


def test_a_leader_that_is_no_voter_does_not_count_itself() -> None:
    made = progress({3: 5}, me=1)

    assert not made.advance(voters(2, 3, 4), Offset(9))
    made.fetched(key_of(4), Offset(4), Offset(9), 0)
    assert made.advance(voters(2, 3, 4), Offset(9))
    assert made.high_watermark == 4


def test_a_voter_that_lost_what_it_acknowledged_counts_when_it_has_it_again() -> None:
    made = progress({2: 8})
    assert made.fetched(key_of(2), Offset(5), Offset(100), 1)
    assert not made.advance(voters(1, 2, 3), Offset(9))

    assert not made.fetched(key_of(2), Offset(7), Offset(100), 2)
    assert not made.advance(voters(1, 2, 3), Offset(9))
    assert made.highest(key_of(2)) == 8
    made.fetched(key_of(2), Offset(8), Offset(100), 3)
    assert made.advance(voters(1, 2, 3), Offset(9))
    assert made.high_watermark == 8


def test_a_majority_is_heard_when_enough_voters_were() -> None:
    made = progress({})
    five = voters(1, 2, 3, 4, 5)

    made.heard(key_of(2), five, 10)
    made.heard(key_of(2), five, 20)
    assert made.majority_heard_ms == 0
    made.heard(key_of(3), five, 30)
    assert made.majority_heard_ms == 30
    made.heard(key_of(3), five, 40)
    assert made.majority_heard_ms == 30


def test_a_leader_that_is_no_voter_needs_one_more() -> None:
    made = progress({}, me=9)

    made.heard(key_of(2), voters(1, 2, 3), 10)
    assert made.majority_heard_ms == 0
    made.heard(key_of(3), voters(1, 2, 3), 20)
    assert made.majority_heard_ms == 20


def test_caught_up_is_who_has_what_the_leader_had_at_the_fetch_before() -> None:
    made = Progress(key_of(1), Offset(0), 0)
    made.fetched(key_of(2), Offset(5), Offset(10), 100)
    assert made.replicas[key_of(2)].last_caught_up_ms == -1

    made.fetched(key_of(2), Offset(10), Offset(20), 200)
    assert made.replicas[key_of(2)].last_caught_up_ms == 100
    made.fetched(key_of(2), Offset(20), Offset(20), 300)
    assert made.replicas[key_of(2)].last_caught_up_ms == 300


def test_silent_observers_are_forgotten_and_voters_never() -> None:
    made = progress({2: 1, 8: 1, 9: 1})
    made.fetched(key_of(9), Offset(1), Offset(1), 500)

    made.forget_observers(voters(1, 2, 3), 400)

    assert list(made.replicas) == [key_of(2), key_of(9)]
