from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_tool.reassignment.proposal import propose
from jbodlab.kafka_admin.errors import AdminError

NO_RACKS: dict[int, str | None] = dict.fromkeys(range(5))
RACKS: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


def test_leaders_go_round_and_followers_shift_at_each_round() -> None:
    found = propose(range(10), 3, NO_RACKS, start=0, shift=0)
    assert [found[index][0] for index in range(10)] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert found[0] == (0, 1, 2)
    assert found[5] == (0, 2, 3)


@given(
    start=st.integers(0, 1 << 16),
    shift=st.integers(0, 1 << 16),
    count=st.integers(1, 40),
    factor=st.integers(1, 5),
)
def test_replicas_are_distinct_and_leaders_even(
    start: int, shift: int, count: int, factor: int
) -> None:
    found = propose(range(count), factor, NO_RACKS, start=start, shift=shift)
    assert sorted(found) == list(range(count))
    assert all(len(set(brokers)) == factor for brokers in found.values())
    leaders = Counter(brokers[0] for brokers in found.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in NO_RACKS) <= 1


@given(start=st.integers(0, 99), shift=st.integers(0, 99), factor=st.integers(1, 6))
def test_a_rack_gets_a_second_replica_last(start: int, shift: int, factor: int) -> None:
    for brokers in propose(range(12), factor, RACKS, start=start, shift=shift).values():
        used = Counter(RACKS[broker] for broker in brokers)
        assert max(used.values()) - min(used[rack] for rack in "abc") <= 1
        assert len(set(brokers)) == factor


def test_too_few_brokers_or_half_the_racks_are_refused() -> None:
    with pytest.raises(AdminError, match="replication factor 2 needs as many brokers, got 1"):
        propose([0], 2, {1: None}, start=0, shift=0)
    with pytest.raises(AdminError, match="only some brokers have a rack"):
        propose([0], 1, {1: "a", 2: None}, start=0, shift=0)
    assert propose([7], 1, {4: None}, start=3, shift=9) == {7: (4,)}
