"""A target is what it is in the moment in which it is hit."""

from __future__ import annotations

import random

import pytest

from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab.plan.targets import parse, resolve
from tests.lab.pictures import pictured

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
PICTURE = pictured(
    {P0: (1, 2), P1: (2,), P2: (3, 1)},
    {
        Place(1, 1): {P0: 100},
        Place(1, 2): {P2: 900},
        Place(2, 1): {P0: 100, P1: 50},
        Place(3, 1): {},
    },
    leaderless=[P2],
    coordinators={"writers": P1},
)


def resolved(text: str, *, directories: bool = True, seed: int = 0) -> list[str]:
    found = resolve(parse(text), PICTURE, random.Random(seed), directories=directories)
    return list(map(str, found))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("broker-2/dir-1", ["broker-2/dir-1"]),
        ("leader-of orders/0", ["broker-1/dir-1"]),
        ("follower-of orders/0", ["broker-2/dir-1"]),
        ("coordinator-of writers", ["broker-2/dir-1"]),
        # By partitions led first, then by bytes.
        ("busiest directory of any broker", ["broker-2/dir-1"]),
        ("busiest directory of broker-1", ["broker-1/dir-1"]),
        ("emptiest directory of broker-1", ["broker-1/dir-2"]),
        ("emptiest directory of any broker", ["broker-3/dir-1"]),
        ("all directories of broker-1", ["broker-1/dir-1", "broker-1/dir-2"]),
    ],
)
def test_a_directory_is_found(text: str, places: list[str]) -> None:
    assert resolved(text) == places


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("broker-3", ["broker-3"]),
        ("controller", ["controller"]),
        ("cluster", ["cluster"]),
        ("leader-of orders/1", ["broker-2"]),
        ("follower-of orders/0", ["broker-2"]),
    ],
)
def test_a_node_is_found(text: str, places: list[str]) -> None:
    assert resolved(text, directories=False) == places


def test_a_random_directory_is_the_same_for_the_same_seed() -> None:
    draws = [resolved("random directory of any broker", seed=seed) for seed in range(20)]

    assert draws == [resolved("random directory of any broker", seed=seed) for seed in range(20)]
    assert len({draw[0] for draw in draws}) > 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("leader-of orders/2", "orders-2 has no leader now"),
        ("follower-of orders/1", "orders-1 has no follower"),
        ("busiest directory of broker-4", "no directory is online there"),
        ("all directories of broker-4", "broker-4 has no directory that is online"),
    ],
)
def test_what_is_not_there_now_is_said(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        resolved(text)
