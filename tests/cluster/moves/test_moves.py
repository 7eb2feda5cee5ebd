"""Replicas move between the directories of their broker while clients write and read, whatever is
broken, stopped or killed meanwhile. Nothing that was acknowledged is lost or doubled, there is one
live copy of each replica, and the metadata name the directory that has it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import Cluster, Load, assert_nothing_lost, read_all, wait_for
from tests.cluster.moving import (
    alter,
    copied_bytes,
    fill,
    future_bytes,
    only_current,
    other_dir,
    set_move_rate,
    wait_settled,
)
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster

MIB = 1 << 20
SMALL_SEGMENTS = {"internal_segment_bytes": "300000"}


@contextmanager
def load_on(cluster: Cluster, topic: str, partitions: int = 1) -> Iterator[Load]:
    """A writer that has written something to move; afterwards nothing of it is missing."""
    with Load(cluster.bootstrap, topic, rate=1500) as load:
        wait_for("records to move", lambda: len(load.acknowledged) > 500 * partitions)
        yield load
        goes_on(load, partitions)
    assert_nothing_lost(load, read_all(cluster.bootstrap, topic, partitions))


def goes_on(load: Load, partitions: int = 1) -> None:
    moment = time.monotonic()
    wait_for(
        "acknowledgements",
        lambda: all(load.acknowledged_after(moment, each) for each in range(partitions)),
        60,
    )


def test_leaders_and_followers_move_under_load(scene: Scene) -> None:
    cluster = scene.cluster
    topic = scene.topic(4, records=0, **SMALL_SEGMENTS).topic
    with load_on(cluster, topic, 4) as load:
        for broker in [*cluster.broker_ids, *cluster.broker_ids]:
            targets = {p: other_dir(cluster, broker, topic, p) for p in range(4)}
            wanted = {(topic, p): path for p, path in targets.items()}
            assert alter(cluster, broker, wanted) == {ErrorCode.NONE}
            wait_for(
                "the moves",
                lambda targets=targets: all(
                    (path / f"{topic}-{partition}").is_dir() for partition, path in targets.items()
                ),
            )
            wait_settled(cluster, broker, topic)
            goes_on(load, 4)
    cluster.wait_isr(topic)
    for broker in cluster.broker_ids:
        wait_for("the old copies removed", lambda b=broker: only_current(cluster, b, topic))


def test_killed_at_any_moment_of_a_move(stage: Stage) -> None:
    """Each broker at another moment, from the request to the removal of what was the replica."""
    chance = random.Random(0)
    # Shares of the copy that are there; the last moment is that after the swap.
    moments = [0.0, *(chance.random() for _ in range(3)), 1.0, 2.0]
    chance.shuffle(moments)
    with stage.scene() as scene:
        cluster = scene.cluster
        # Partition 0 is at broker 1 alone, and so on.
        topic = scene.topic_at([[broker] for broker in cluster.broker_ids], **SMALL_SEGMENTS)
        fill(cluster, topic, 3, 3)
        for broker in cluster.broker_ids:
            set_move_rate(cluster, broker, MIB)
        with load_on(cluster, topic, 3):
            for round_ in (moments[:3], moments[3:]):
                for moment, broker in sorted(zip(round_, cluster.broker_ids, strict=True)):
                    move_and_kill(cluster, broker, topic, moment)
                for broker in cluster.broker_ids:
                    cluster.node(broker).start()
                cluster.wait_served()
                for broker in cluster.broker_ids:
                    wait_settled(cluster, broker, topic)
        for broker in cluster.broker_ids:
            set_move_rate(cluster, broker, None)


def move_and_kill(cluster: Cluster, broker: int, topic: str, moment: float) -> None:
    """Kill a broker when so much of its replica is copied; after the swap, if it is above 1."""
    partition = broker - 1
    target = other_dir(cluster, broker, topic, partition)
    assert alter(cluster, broker, {(topic, partition): target}) == {ErrorCode.NONE}
    if moment > 1:
        wait_for("the swap", lambda: (target / f"{topic}-{partition}").is_dir())
    elif moment > 0:
        wait_for(
            f"{moment:.0%} of the copy",
            lambda: (
                copied_bytes(target, topic, partition) >= moment * MIB
                or (target / f"{topic}-{partition}").is_dir()
            ),
        )
    cluster.node(broker).kill()


def test_the_rate_holds_and_replication_does_not_count(stage: Stage) -> None:
    rate, mib = MIB, 3
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, records=0, internal_segment_bytes="300000").topic
        fill(cluster, topic, mib)
        cluster.wait_isr(topic)
        follower = cluster.followers(topic, 0)[0].id
        target = other_dir(cluster, follower, topic)
        set_move_rate(cluster, follower, rate)
        begun_s = time.monotonic()
        assert alter(cluster, follower, {(topic, 0): target}) == {ErrorCode.NONE}
        with Load(cluster.bootstrap, topic, rate=1000) as load:
            wait_for("half of it", lambda: future_bytes(cluster, follower, topic) > mib * MIB // 2)
            # It may be slower on a machine that is busy, but never faster.
            assert time.monotonic() - begun_s > 0.8 * (mib / 2) * MIB / rate
            cluster.wait_isr(topic)
            wait_for("the move", lambda: (target / f"{topic}-0").is_dir(), 60)
            assert time.monotonic() - begun_s > 0.8 * mib * MIB / rate
        set_move_rate(cluster, follower, None)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, 1))
