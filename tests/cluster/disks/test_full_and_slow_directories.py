"""Directories that are online and yet not fit for everything: full ones and slow ones, on disks of
their own that really fill up and really answer late.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.cluster.configs import BROKER, alter, client
from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    partitions_in,
    read_all,
    wait_for,
)
from tests.cluster.scenes import SETTINGS, Scene, Stage, Stages
from tests.cluster.scraper import Scraper
from tests.cluster.small_disks import (
    DISK_BYTES,
    ThrottledDisk,
    fillable,
    require,
    scene_on_small_disks,
    throttled,
    why_no_throttle,
)

pytestmark = pytest.mark.cluster

PARTITIONS = 6
LEFT_BYTES = 400 << 10
"""Less than the reserve of a disk of 64 MiB, which is 655 KiB, and enough for small files."""


def is_said(scene: Scene, broker: int, directory: Path, text: str) -> bool:
    """Whether a broker has told something of a directory in this scene."""
    return any(
        f"log directory {directory} " in line and text in line
        for line in scene.said(broker).splitlines()
    )


def wait_for_event(scene: Scene, broker: int, directory: Path, text: str) -> None:
    wait_for(
        f"'{text}' of {directory} in the log of broker {broker}",
        lambda: is_said(scene, broker, directory, text),
    )


def condition(scene: Scene, broker: int, directory: Path) -> str:
    """A broker's last line about the condition of a directory; empty if none in this scene."""
    found = re.findall(rf"log directory {directory} \(\S+\) is (\w+), was", scene.said(broker))
    return found[-1] if found else ""


def wait_for_condition(scene: Scene, broker: int, directory: Path, wanted: str) -> None:
    """Wait until a directory is in a condition, however often it was before.

    A batch on its way to a disk counts as not written yet, so that a fast producer can fill it for
    a moment, and then for good.
    """
    wait_for(
        f"{directory} of broker {broker} is {wanted}",
        lambda: condition(scene, broker, directory) == wanted,
        last_seen=lambda: condition(scene, broker, directory),
    )


def metric(scene: Scene, broker: int, name: str, directory: Path) -> float:
    """One of the metrics of a directory."""
    found = Scraper(scene.cluster)(broker)
    return found[f'jbodlab_log_dir_{name}{{logDirectory="{directory}"}}']


def assert_none_failed(scene: Scene) -> None:
    for broker in scene.cluster.broker_ids:
        assert "went offline" not in scene.said(broker)


def wait_until_relieved(cluster: Cluster, broker: int, topic: str, partitions: set[int]) -> None:
    """Wait until a broker neither leads these partitions nor is in their ISR."""
    wait_for(
        f"broker {broker} out of leadership and ISR of {sorted(partitions)}",
        lambda: all(
            cluster.leaders(topic)[p] not in (broker, -1) and broker not in cluster.isr(topic)[p]
            for p in partitions
        ),
    )


def goes_on(load: Load) -> None:
    moment = time.monotonic()
    wait_for("acknowledgements go on", lambda: load.acknowledged_after(moment, 0))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_full_directory_is_left_and_comes_back_with_nothing_lost(
    side: str, stages: Stages
) -> None:
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        topic = scene.topic(PARTITIONS, records=0, min_insync_replicas="2").topic
        with Load(cluster.bootstrap, topic, partition=0) as load:
            leader = cluster.leaders(topic)[0]
            broker = leader if side == "leader" else 1 + leader % 3
            directory = cluster.broker(broker).log_dir_of(topic, 0).path
            there = partitions_in(directory, topic)
            changes = metric(scene, broker, "condition_changes_total", directory)

            fillable(cluster, directory).fill(LEFT_BYTES)

            wait_for_event(scene, broker, directory, "is FULL, was HEALTHY")
            assert metric(scene, broker, "full", directory) == 1
            assert metric(scene, broker, "reserved_bytes", directory) == DISK_BYTES // 100
            assert metric(scene, broker, "usable_bytes", directory) < DISK_BYTES // 100
            wait_until_relieved(cluster, broker, topic, there)
            goes_on(load)
            if side == "follower":
                assert cluster.leaders(topic)[0] == leader, "a leader with room stays"

            fillable(cluster, directory).empty()

            wait_for_event(scene, broker, directory, "is HEALTHY, was FULL")
            assert metric(scene, broker, "full", directory) == 0
            assert metric(scene, broker, "condition_changes_total", directory) == changes + 2
            cluster.wait_isr(topic)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, PARTITIONS))
        assert_none_failed(scene)


def produce(bootstrap: str, topic: str, count: int, size: int) -> list[str | None]:
    """Send records of a size one behind the other; what came of each, None for success."""
    results: list[str | None] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "delivery.timeout.ms": 5_000,
            "message.max.bytes": 2_000_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )

    def delivered(error: KafkaError | None, _message: object) -> None:
        results.append(None if error is None else error.name())

    for _ in range(count):
        producer.produce(topic, bytes(size), partition=0, on_delivery=delivered)
        producer.poll(0)
    producer.flush(30)
    return results


def flood(scene: Scene, topic: str, broker: int, directory: Path) -> list[str | None]:
    """Send as fast as possible until a directory is full and refuses; what came of each record."""
    results: list[str | None] = []
    wait_for(
        f"{directory} full",
        lambda: (
            results.extend(produce(scene.cluster.bootstrap, topic, 40, 900_000))
            or (results[-1] and condition(scene, broker, directory) == "FULL")
        ),
        90,
    )
    return results


def test_a_fast_producer_fills_its_disk_up_to_the_reserve_and_no_further(stages: Stages) -> None:
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        # Everything into one directory.
        directory, *others = cluster.broker(1).paths
        closed = ",".join(map(str, others))
        alter(client(cluster), BROKER, "1", cordoned_log_dirs=closed)
        ballast, topic = scene.topic_at([[1]]), scene.topic_at([[1]])
        alter(client(cluster), BROKER, "1", cordoned_log_dirs=None)
        assert produce(cluster.bootstrap, ballast, 20, 1_000_000) == [None] * 20

        written = flood(scene, topic, 1, directory).count(None)

        assert written < 53, "more than there was room for"
        assert fillable(cluster, directory).free_bytes() > 600_000, "the reserve was written to"
        assert len(read_all(cluster.bootstrap, topic, 1)[0]) >= written, "reads go on"
        assert cluster.leaders(topic) == {0: 1}, "nobody else could lead"
        assert set(produce(cluster.bootstrap, topic, 1, 100)) == {"_MSG_TIMED_OUT"}

        scene.delete(ballast)

        wait_for_condition(scene, 1, directory, "HEALTHY")
        assert produce(cluster.bootstrap, topic, 1, 100) == [None]
        assert_none_failed(scene)


@pytest.mark.parametrize("policy", ["move", "report"])
def test_leaders_leave_a_slow_directory_where_the_policy_says_so(policy: str) -> None:
    settings = {
        **SETTINGS,
        "log.dir.slow.policy": policy,
        "log.dir.slow.window.ms": "4000",
        "log.dir.slow.min.ms": "50",
        "jbodlab.log.dir.probe.deadline.ms": "10000",
        "jbodlab.log.dir.probe.interval.ms": "250",
    }
    with scene_on_slow_disks(settings) as scene:
        cluster = scene.cluster
        topic = scene.topic(PARTITIONS, 2, records=0).topic
        with Load(cluster.bootstrap, topic, rate=50) as load:
            broker, directory = scene.leader(load)
            there = partitions_in(directory, topic)

            throttled(cluster, directory).throttle(10)

            wait_for_event(scene, broker, directory, "is SLOW, was HEALTHY")
            assert metric(scene, broker, "slow", directory) == 1
            if policy == "move":
                wait_for(
                    "the leaders elsewhere",
                    lambda: all(cluster.leaders(topic)[p] not in (broker, -1) for p in there),
                )
            else:
                scene.let_work(broker)
                assert cluster.leaders(topic)[0] == broker, "the leader stays"
            assert all(isr == {1, 2} for isr in cluster.isr(topic).values()), "slow is in sync"

            throttled(cluster, directory).throttle(0)

            wait_for_event(scene, broker, directory, "is HEALTHY, was SLOW")
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, PARTITIONS))
        assert_none_failed(scene)


def test_a_disk_that_answers_no_more_is_hung_and_offline() -> None:
    with scene_on_slow_disks(SETTINGS) as scene:
        cluster = scene.cluster
        topic = scene.topic(PARTITIONS, 2, records=0).topic
        with Load(cluster.bootstrap, topic, rate=50) as load:
            broker, directory = scene.leader(load)
            there = partitions_in(directory, topic)

            # A sync takes several writes, and so longer than a call may take.
            throttled(cluster, directory).throttle(1)

            wait_for_event(scene, broker, directory, "went offline: HUNG: no answer within 2000")
            assert metric(scene, broker, "hung", directory) == 1
            assert metric(scene, broker, "slow", directory) == 0
            wait_until_relieved(cluster, broker, topic, there)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, PARTITIONS))


@contextmanager
def scene_on_slow_disks(settings: Mapping[str, str]) -> Iterator[Scene]:
    """A scene on disks that can be slowed down; each needs settings, or an end, of its own."""
    require(why_no_throttle())
    stage = Stage(brokers=2, dirs=2, disk=ThrottledDisk, settings=settings)
    try:
        with stage.scene() as scene:
            yield scene
            for disk in scene.cluster.disks.values():
                assert isinstance(disk, ThrottledDisk)
                disk.throttle(0)
    finally:
        stage.close()
