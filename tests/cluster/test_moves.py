"""Replicas move between the directories of their broker while clients write and read, whatever is
broken, stopped or killed meanwhile. Nothing that was acknowledged is lost or doubled, there is one
live copy of each replica, and the metadata name the directory that has it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    assigned,
    directory_id,
    read_all,
    wait_for,
)
from tests.cluster.moving import (
    alter,
    copied_bytes,
    described,
    fill,
    has_caught_up,
    is_moving,
    only_current,
    other_dir,
    set_move_rate,
    wait_settled,
)
from tests.cluster.scenes import Stage, some

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


def test_leaders_and_followers_move_under_load(stage: Stage) -> None:
    with stage.scene() as scene:
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
                        (path / f"{topic}-{partition}").is_dir()
                        for partition, path in targets.items()
                    ),
                )
                wait_settled(cluster, broker, topic)
                goes_on(load, 4)
        cluster.wait_isr(topic)
        for broker in cluster.broker_ids:
            wait_for("the old copies removed", lambda b=broker: only_current(cluster, b, topic))


@pytest.mark.parametrize("seed", some(("0", "1", "2"), "0"))
def test_killed_at_any_moment_of_a_move(seed: str, stage: Stage) -> None:
    """Each broker at another moment, from the request to the removal of what was the replica."""
    chance = random.Random(seed)
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


def test_a_target_that_dies_leaves_the_replica_where_it_is(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, records=0, min_insync_replicas="2", **SMALL_SEGMENTS).topic
        with load_on(cluster, topic) as load:
            leader = cluster.leaders(topic)[0]
            source = cluster.broker(leader).log_dir_of(topic, 0).path
            cluster.node(CONTROLLER_ID).signal(signal.SIGSTOP)
            try:
                target = other_dir(cluster, leader, topic)
                assert alter(cluster, leader, {(topic, 0): target}) == {ErrorCode.NONE}
                # Without the controller the move waits for its word, and writes go on.
                wait_for("all of the copy", lambda: has_caught_up(cluster, leader, topic))
                goes_on(load)
                assert is_moving(cluster, leader, topic)
                scene.faults.make("chmod000", target)
                wait_for("no move", lambda: not is_moving(cluster, leader, topic))
            finally:
                cluster.node(CONTROLLER_ID).signal(signal.SIGCONT)
            goes_on(load)
            wait_for(
                "metadata and disk agreeing",
                lambda: assigned(cluster, leader, topic)[0] == directory_id(source),
            )


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_source_that_dies_moves_leadership_and_its_return_ends_the_move(
    is_accepted: bool, stage: Stage
) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, records=0, min_insync_replicas="2", **SMALL_SEGMENTS).topic
        with load_on(cluster, topic) as load:
            leader = cluster.leaders(topic)[0]
            source = cluster.broker(leader).log_dir_of(topic, 0).path
            target = other_dir(cluster, leader, topic)
            if not is_accepted:
                cluster.node(CONTROLLER_ID).signal(signal.SIGSTOP)
            assert alter(cluster, leader, {(topic, 0): target}) == {ErrorCode.NONE}
            scene.faults.make("chmod000", source)
            cluster.node(CONTROLLER_ID).signal(signal.SIGCONT)
            if not is_accepted:
                wait_for("another leader", lambda: cluster.leaders(topic)[0] not in (-1, leader))
            goes_on(load)
            scene.faults.heal(source)
            scene.restart(leader)
            wait_settled(cluster, leader, topic)
            cluster.wait_isr(topic, 60)
            if not is_accepted:
                assert cluster.broker(leader).log_dir_of(topic, 0).path == target


def test_a_move_that_waits_for_the_controller_is_shown_redirected_and_cancelled(
    stage: Stage,
) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, 1, records=0, **SMALL_SEGMENTS).topic
        with load_on(cluster, topic):
            (broker,) = cluster.leaders(topic).values()
            source = cluster.broker(broker).log_dir_of(topic, 0).path
            second, third, *_ = (path for path in cluster.broker(broker).paths if path != source)
            cluster.node(CONTROLLER_ID).signal(signal.SIGSTOP)
            try:
                for target in (second, third):
                    assert alter(cluster, broker, {(topic, 0): target}) == {ErrorCode.NONE}
                    wait_for(
                        f"one future replica, in {target}",
                        lambda target=target: (
                            [f.path for f in described(cluster, broker, topic, 0) if f.is_future]
                            == [target]
                        ),
                    )
                assert alter(cluster, broker, {(topic, 0): source}) == {ErrorCode.NONE}
                wait_for("none", lambda: not is_moving(cluster, broker, topic))
            finally:
                cluster.node(CONTROLLER_ID).signal(signal.SIGCONT)
            wait_settled(cluster, broker, topic)
            assert cluster.broker(broker).log_dir_of(topic, 0).path == source
