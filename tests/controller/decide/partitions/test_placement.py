from __future__ import annotations

import random
from collections.abc import MutableSequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decide.partitions.placement import UsableBroker, place
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId

T = TypeVar("T")


class Fixed:
    """Begins where it is told, and turns round instead of shuffling."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def randrange(self, stop: int, /) -> int:
        return self.start % stop

    def shuffle(self, items: MutableSequence[T], /) -> None:
        items.reverse()


def usable(*numbers: int, rack: str | None = None, fenced: bool = False) -> list[UsableBroker]:
    return [UsableBroker(broker_id=BrokerId(n), rack=rack, fenced=fenced) for n in numbers]


def test_stripes_without_racks() -> None:
    placed = place(usable(3, 0, 2, 1), 5, 3, Fixed(2))

    assert placed[:4] == [(2, 3, 0), (3, 0, 1), (0, 1, 2), (1, 2, 3)]
    # Then the circle 0 1 2 3 is turned round and goes on where it was.
    assert placed[4] == (1, 0, 3)


def test_the_leader_is_unfenced_and_fenced_brokers_come_last() -> None:
    brokers = [*usable(1, 2), *usable(3, fenced=True)]

    assert place(brokers, 2, 3, Fixed(0)) == [(1, 2, 3), (2, 1, 3)]


def test_one_unfenced_broker_leads_everything() -> None:
    brokers = [*usable(1), *usable(2, 3, fenced=True)]

    assert place(brokers, 3, 2, Fixed(0)) == [(1, 2), (1, 3), (1, 2)]


def test_racks_are_used_evenly_before_brokers() -> None:
    brokers = [*usable(1, 2, rack="a"), *usable(3, 4, rack="b"), *usable(5, rack="c")]

    assert place(brokers, 3, 3, Fixed(0)) == [(1, 3, 5), (4, 5, 2), (5, 1, 3)]
    assert place(brokers, 1, 5, Fixed(0)) == [(1, 3, 5, 2, 4)]


def test_a_rack_without_unfenced_brokers_does_not_lead() -> None:
    brokers = [*usable(1, rack="a", fenced=True), *usable(2, rack="b")]

    assert place(brokers, 2, 2, Fixed(0)) == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("brokers", "factor", "text"),
    [
        (
            usable(1),
            0,
            "Invalid replication factor 0: the replication factor must be positive.",
        ),
        ([], 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            usable(1, fenced=True),
            1,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
        (
            usable(1, 2),
            3,
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are "
            "registered or some brokers have all their log directories cordoned.",
        ),
    ],
)
def test_impossible_placements(brokers: list[UsableBroker], factor: int, text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, factor, Fixed())

    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == text


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9
    ),
    st.integers(1, 30),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_guarantees(
    brokers: list[tuple[str | None, bool]], count: int, factor: int, seed: int
) -> None:
    known = [
        UsableBroker(broker_id=BrokerId(n), rack=rack, fenced=fenced)
        for n, (rack, fenced) in enumerate(brokers)
    ]
    if factor > len(known) or all(broker.fenced for broker in known):
        return

    placed = place(known, count, factor, random.Random(seed))

    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not known[replicas[0]].fenced
        used = {known[replica].rack for replica in replicas}
        assert len(used) == min(factor, len({broker.rack for broker in known}))


def test_leaders_are_spread_evenly() -> None:
    placed = place(usable(1, 2, 3), 6, 3, random.Random(5))

    leaders = [replicas[0] for replicas in placed]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
