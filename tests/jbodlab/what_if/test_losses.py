"""Replicas that losses take, checked against single failures, and by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from jbodlab.what_if.cluster import ANYWHERE, Cluster, Directory, TopicRules
from jbodlab.what_if.failure import effects, of_broker, of_directory
from jbodlab.what_if.kinds import effect
from jbodlab.what_if.losses import losses
from jbodlab.what_if.page import losses_page
from tests.jbodlab.what_if.clusters import a, b, cluster, partition, with_directories


def test_a_loss_counts_leaders_copies_and_bytes() -> None:
    found = losses(
        cluster(
            [
                partition(0, a(1), a(2), a(3)),
                partition(1, a(1), b(3)),
                partition(2, a(1)),
                partition(3, b(2), a(1)),
            ],
            rules=TopicRules(min_isr=2),
        )
    )

    loss = found.directories[a(1)]
    assert (loss.replicas, loss.leaders_moved, loss.moved_to) == (4, 2, Counter({2: 1, 3: 1}))
    assert (loss.leaderless, loss.last_copies, loss.below_min_isr) == (1, 1, 2)
    assert (loss.held_bytes, loss.copy_bytes) == (400, 300)
    assert next(iter(found.directories)) == a(1)
    assert found.brokers[1].counts == loss.counts


def test_a_last_copy_is_what_nobody_else_has_whole() -> None:
    behind = partition(0, a(1), a(2), isr=(1,))
    eligible = partition(1, a(1), a(2), isr=(1,), elr=(2,))
    stopped = partition(2, a(1), a(2), alive=(True, False))

    found = losses(cluster([behind, eligible, stopped], has_elr=True))

    assert found.directories[a(1)].last_copies == 2
    assert found.directories[a(2)].last_copies == 0


def test_an_unclean_election_is_told() -> None:
    rules = TopicRules(unclean_election=True)
    found = losses(cluster([partition(0, a(1), a(2), isr=(1,))], rules=rules))

    loss = found.directories[a(1)]
    assert (loss.unclean, loss.leaders_moved, loss.leaderless, loss.last_copies) == (1, 1, 0, 1)


def test_the_directory_with_the_metadata_log_takes_its_broker() -> None:
    model = cluster([partition(0, b(1), a(2)), partition(1, a(1), b(2))])
    directories = [*model.directories]
    directories[a(1)] = replace(directories[a(1)], stops_broker=True)
    model = with_directories(model, directories)

    found = losses(model)

    assert found.directories[a(1)].replicas == 2
    assert found.directories[a(1)].takes_broker
    assert found.directories[b(1)].replicas == 1
    assert found.pairs[a(1), a(2)].leaderless == 1
    assert of_directory(model, a(1)).directory is None


def test_the_last_online_directory_takes_its_broker() -> None:
    model = cluster([partition(0, a(1), a(2)), partition(1, ANYWHERE, a(2), replicas=(1, 2))])
    directories = [*model.directories]
    directories[b(1)] = replace(directories[b(1)], is_online=False)

    found = losses(with_directories(model, directories))

    assert found.directories[a(1)].takes_broker
    assert found.directories[a(1)].replicas == 2
    assert b(1) not in found.directories


def test_a_rack_takes_what_has_all_of_its_replicas_there() -> None:
    one_rack, both = partition(0, a(1), a(2)), partition(1, a(1), a(3))

    found = losses(cluster([one_rack, both], racks=("r", "r", "s")))

    assert found.racks["r"].last_copies == 1
    assert found.racks["r"].replicas == 3
    assert found.racks["s"].last_copies == 0
    assert found.pairs[a(1), a(2)].racks == ("r",)
    assert found.pairs[a(1), a(3)].racks == ("r", "s")


def test_the_worst_pair_may_share_no_partition() -> None:
    alone = [partition(n, a(1)) for n in range(3)] + [partition(n + 3, b(2)) for n in range(2)]
    found = losses(cluster([*alone, partition(9, a(2), a(3))]))

    assert next(iter(found.pairs)) == (a(1), b(2))
    assert found.pairs[a(1), b(2)].last_copies == 5


def random_cluster(seed: int) -> Cluster:
    chance = random.Random(seed)
    directories = [
        Directory(
            broker=broker,
            path=path,
            is_online=chance.random() < 0.9,
            stops_broker=path == "/a" and chance.random() < 0.3,
        )
        for broker in range(1, 6)
        for path in ("/a", "/b")
    ]
    partitions = []
    for index in range(120):
        brokers = chance.sample(range(1, 6), chance.randint(1, 4))
        places = [chance.choice((a(one), b(one))) for one in brokers]
        alive = tuple(directories[one].is_online for one in places)
        isr = [one for one, lives in zip(brokers, alive, strict=True) if lives]
        isr = [one for one in isr if chance.random() < 0.8] or brokers[-1:]
        led = [one for one, lives in zip(brokers, alive, strict=True) if lives and one in isr]
        partitions.append(
            partition(
                index, *places, alive=alive, isr=tuple(isr), leader=chance.choice(led or [-1])
            )
        )
    rules = TopicRules(min_isr=chance.randint(1, 3), unclean_election=chance.random() < 0.4)
    racks = ("r", "r", "s", "s", None)
    model = cluster(partitions, brokers=5, racks=racks, rules=rules, has_elr=bool(seed % 2))
    return with_directories(model, directories)


@pytest.mark.parametrize("seed", range(12))
def test_all_losses_are_those_of_each_failure_and_pairs_those_of_both(seed: int) -> None:
    model = random_cluster(seed)

    found = losses(model, pairs_max=1000)

    for number, loss in found.directories.items():
        alone, _ = effects(model, of_directory(model, number))
        assert (loss.counts, loss.replicas) == (alone.counts, alone.replicas)
        assert (loss.moved_to, loss.copy_bytes) == (alone.moved_to, alone.copy_bytes)
    for broker, loss in found.brokers.items():
        alone, _ = effects(model, of_broker(model, broker))
        assert (loss.counts, loss.held_bytes) == (alone.counts, alone.held_bytes)
    wanted = {}
    for pair in combinations(found.directories, 2):
        if model.directories[pair[0]].broker != model.directories[pair[1]].broker:
            counts = counted_alone(model, sorted(pair))
            if any(counts[:4]):
                wanted[min(pair), max(pair)] = counts
    assert {pair: loss.counts for pair, loss in found.pairs.items()} == wanted
    ranks = [loss.counts for loss in found.pairs.values()]
    assert ranks == sorted(ranks, reverse=True)
    worst = losses(model, pairs_max=3)
    assert [one.counts for one in worst.pairs.values()] == ranks[:3]


def counted_alone(model: Cluster, pair: list[int]) -> tuple[int, ...]:
    """Count what a pair takes, partition by partition."""
    sums = [0] * 5
    failures = [of_directory(model, number) for number in pair]
    for one in model.placed:
        lost = tuple(
            place
            for place, (broker, own) in enumerate(zip(one.replicas, one.directories, strict=True))
            if any(
                broker == failure.broker and failure.directory in (None, own)
                for failure in failures
            )
        )
        if lost:
            done = effect(model.kind(one), lost)
            counts = (
                done.last_copy,
                done.leaderless,
                done.below_min_isr,
                done.unclean,
                done.moves_leader,
            )
            sums = [total + value for total, value in zip(sums, counts, strict=True)]
    return tuple(sums)


def test_the_page_says_what_is_assumed_and_left_out() -> None:
    model = cluster([partition(0, a(1), a(2))], assumed="a setting", notes=["broker 9 is away"])

    page = losses_page(model, losses(model), 1e8)

    assert "Copies at 100 MB/s; assumed: a setting; broker 9 is away" in page
