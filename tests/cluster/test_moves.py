"""Replicas move between the directories of their broker while clients write and read, whatever is
broken, stopped or killed meanwhile. Nothing that was acknowledged is lost or doubled, there is one
live copy of each replica, and the metadata name the directory that has it.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from jbodlab.error_code import ErrorCode
from jbodlab.log.names import DirKind
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    directory_id,
    read_all,
    running,
    wait_for,
)
from tests.cluster.moving import alter, described, is_moving, kinds

pytestmark = pytest.mark.cluster

TOPIC = "orders"
SETTINGS = {
    "log.segment.bytes": "300000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def settled(cluster: Cluster, broker: int, topic: str = TOPIC) -> bool:
    """Whether each replica of a broker is once there, current, and where the metadata say."""
    found = kinds(cluster, broker, topic)
    current = {
        partition: [disk for kind, disk in each if kind is DirKind.CURRENT]
        for partition, each in found.items()
    }
    if any(len(disks) != 1 for disks in current.values()):
        return False
    if any(kind is DirKind.FUTURE for each in found.values() for kind, _ in each):
        return False
    return cluster.assigned(broker, topic) == cluster.on_disk(broker, topic)


def wait_settled(cluster: Cluster, broker: int, deadline_s: float = 30.0) -> None:
    wait_for(f"broker {broker} settled", lambda: settled(cluster, broker), deadline_s=deadline_s)


def wait_in_sync(cluster: Cluster, topic: str = TOPIC) -> None:
    everybody = set(cluster.brokers)
    wait_for(
        "all in sync",
        lambda: all(isr == everybody for isr in cluster.isr(topic).values()),
        60,
    )


def other_dir(cluster: Cluster, broker: int, partition: int) -> Path:
    holder = cluster.directory_of(broker, TOPIC, partition)
    return next(path for path in cluster.log_dirs(broker) if path != holder)


def move_all(cluster: Cluster, broker: int, partitions: int) -> dict[int, Path]:
    targets = {p: other_dir(cluster, broker, p) for p in range(partitions)}
    codes = alter(cluster, broker, {(TOPIC, p): path for p, path in targets.items()})
    assert codes == {ErrorCode.NONE}
    return targets


@pytest.mark.parametrize("factor", [1, 3])
def test_leaders_and_followers_move_under_load(cluster_root: Path, factor: int) -> None:
    with running(cluster_root, brokers=factor, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 4, factor)
        with Load(cluster.bootstrap, TOPIC, rate=1500) as load:
            time.sleep(2)
            for _ in range(3):
                for broker in cluster.brokers:
                    targets = move_all(cluster, broker, 4)
                    wait_for(
                        "the moves",
                        lambda targets=targets: all(
                            (path / f"{TOPIC}-{partition}").is_dir()
                            for partition, path in targets.items()
                        ),
                    )
                    wait_settled(cluster, broker)
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 4))
        assert load.longest_gap_s() < 2
        wait_in_sync(cluster)
        for broker in cluster.brokers:
            wait_for(
                "the old copies removed",
                lambda broker=broker: all(
                    kind is DirKind.CURRENT
                    for each in kinds(cluster, broker, TOPIC).values()
                    for kind, _ in each
                ),
            )


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_of_a_move(cluster_root: Path, seed: int) -> None:
    chance = random.Random(seed)
    with running(cluster_root, brokers=1, dirs=2, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 2, 1)
        with Load(cluster.bootstrap, TOPIC, rate=1500) as load:
            time.sleep(2)
            for _ in range(6):
                move_all(cluster, 1, 2)
                time.sleep(chance.choice([0.0, 0.01, 0.03, 0.06, 0.1, 0.2]) * chance.random())
                cluster.kill(1)
                cluster.start_node(1)
                cluster.wait_ready()
                wait_settled(cluster, 1)
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 2))


def test_a_target_that_dies_leaves_the_replica_where_it_is(cluster_root: Path) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, TOPIC, rate=1500) as load:
            time.sleep(1)
            leader = cluster.leaders(TOPIC)[0]
            source = cluster.directory_of(leader, TOPIC, 0)
            cluster.signal(CONTROLLER_ID, signal.SIGSTOP)
            try:
                target = other_dir(cluster, leader, 0)
                assert alter(cluster, leader, {(TOPIC, 0): target}) == {ErrorCode.NONE}
                # Without the controller the move waits for its word.
                wait_for("the future replica", lambda: is_moving(cluster, leader, TOPIC))
                time.sleep(0.5)
                assert is_moving(cluster, leader, TOPIC)
                cluster.inject("chmod000", target)
                wait_for("no move", lambda: not is_moving(cluster, leader, TOPIC))
            finally:
                cluster.signal(CONTROLLER_ID, signal.SIGCONT)
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0))
            wait_for(
                "metadata and disk agreeing",
                lambda: cluster.assigned(leader, TOPIC)[0] == directory_id(source),
            )
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_source_that_dies_moves_leadership_and_its_return_ends_the_move(
    cluster_root: Path, is_accepted: bool
) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, TOPIC, rate=1500) as load:
            time.sleep(1)
            leader = cluster.leaders(TOPIC)[0]
            source, target = cluster.directory_of(leader, TOPIC, 0), other_dir(cluster, leader, 0)
            if not is_accepted:
                cluster.signal(CONTROLLER_ID, signal.SIGSTOP)
            assert alter(cluster, leader, {(TOPIC, 0): target}) == {ErrorCode.NONE}
            fault = cluster.inject("chmod000", source)
            cluster.signal(CONTROLLER_ID, signal.SIGCONT)
            if not is_accepted:
                wait_for("another leader", lambda: cluster.leaders(TOPIC)[0] not in (-1, leader))
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0), 60)
            cluster.heal(fault)
            assert cluster.stop_node(leader) is not None
            cluster.start_node(leader)
            cluster.wait_ready()
            wait_settled(cluster, leader)
            wait_in_sync(cluster)
            if not is_accepted:
                assert cluster.directory_of(leader, TOPIC, 0) == target
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


def test_a_move_is_shown_redirected_and_cancelled(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        with Load(cluster.bootstrap, TOPIC, rate=1500) as load:
            time.sleep(1)
            source = cluster.directory_of(1, TOPIC, 0)
            second, third = (path for path in cluster.log_dirs(1) if path != source)
            cluster.signal(CONTROLLER_ID, signal.SIGSTOP)
            try:
                assert alter(cluster, 1, {(TOPIC, 0): second}) == {ErrorCode.NONE}
                (future,) = wait_for(
                    "the future replica",
                    lambda: [each for each in described(cluster, 1, TOPIC, 0) if each.is_future],
                )
                assert future.path == second
                assert alter(cluster, 1, {(TOPIC, 0): third}) == {ErrorCode.NONE}
                wait_for(
                    "the redirected one",
                    lambda: (
                        [each.path for each in described(cluster, 1, TOPIC, 0) if each.is_future]
                        == [third]
                    ),
                )
                assert alter(cluster, 1, {(TOPIC, 0): source}) == {ErrorCode.NONE}
                wait_for("none", lambda: not is_moving(cluster, 1, TOPIC))
            finally:
                cluster.signal(CONTROLLER_ID, signal.SIGCONT)
            wait_settled(cluster, 1)
            assert cluster.directory_of(1, TOPIC, 0) == source
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))
