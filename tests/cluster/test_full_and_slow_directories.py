"""Directories that are online and yet not fit for everything: full ones and slow ones, on disks of
their own that really fill up and really answer late.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    read_all,
    wait_for,
)
from tests.cluster.small_disks import (
    DiskCluster,
    ThrottledDisk,
    require,
    why_no_mounts,
    why_no_throttle,
)
from tests.cluster.test_metrics import Scraper

pytestmark = pytest.mark.cluster

PARTITIONS = 6
LEFT_BYTES = 400 << 10
"""Less than the reserve of a disk of 64 MiB, which is 655 KiB, and enough for small files."""

QUICK = {
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}


@contextmanager
def disks(root: Path, **options: Any) -> Iterator[DiskCluster]:
    """A started cluster on disks of its own that is gone afterwards."""
    require(why_no_mounts())
    cluster = DiskCluster(root, **options)
    try:
        cluster.scrape = Scraper(cluster)
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def wait_for_event(cluster: Cluster, broker: int, directory: Path, text: str) -> None:
    wait_for(
        f"'{text}' of {directory} in the log of broker {broker}",
        lambda: any(
            f"log directory {directory} " in line and text in line
            for line in cluster.output(broker).splitlines()
        ),
        deadline_s=15,
    )


def metric(cluster: DiskCluster, broker: int, name: str, directory: Path) -> float:
    """One of the metrics of a directory."""
    return cluster.scrape(broker)[f'jbodlab_log_dir_{name}{{logDirectory="{directory}"}}']


def assert_none_failed(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        assert "went offline" not in cluster.output(broker)
        assert "Traceback" not in cluster.output(broker)


def wait_until_relieved(cluster: Cluster, broker: int, topic: str, partitions: set[int]) -> None:
    """Wait until a broker neither leads these partitions nor is in their ISR."""
    wait_for(
        f"broker {broker} out of leadership and ISR of {sorted(partitions)}",
        lambda: all(
            cluster.leaders(topic)[p] not in (broker, -1) and broker not in cluster.isr(topic)[p]
            for p in partitions
        ),
        deadline_s=10,
    )


def wait_until_in_sync(cluster: Cluster, topic: str) -> None:
    wait_for(
        "every replica back in the ISR",
        lambda: all(isr == set(cluster.brokers) for isr in cluster.isr(topic).values()),
        deadline_s=20,
    )


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_full_directory_is_left_and_comes_back_with_nothing_lost(
    side: str, cluster_root: Path
) -> None:
    with disks(cluster_root) as cluster:
        cluster.create_topic("load", PARTITIONS, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load", partition=0) as load:
            leader = cluster.leaders("load")[0]
            broker = leader if side == "leader" else 1 + leader % 3
            directory = cluster.directory_of(broker, "load", 0)
            there = cluster.partitions_in(directory, "load")

            cluster.fillable(directory).fill(LEFT_BYTES)

            wait_for_event(cluster, broker, directory, "is FULL, was HEALTHY")
            assert metric(cluster, broker, "full", directory) == 1
            assert metric(cluster, broker, "reserved_bytes", directory) == (64 << 20) // 100
            assert metric(cluster, broker, "usable_bytes", directory) < (64 << 20) // 100
            wait_until_relieved(cluster, broker, "load", there)
            relieved = time.monotonic()
            wait_for(
                "acknowledgements go on", lambda: load.acknowledged_after(relieved + 0.5, 0), 10
            )
            if side == "follower":
                assert cluster.leaders("load")[0] == leader, "a leader with room stays"

            cluster.fillable(directory).empty()

            wait_for_event(cluster, broker, directory, "is HEALTHY, was FULL")
            assert metric(cluster, broker, "full", directory) == 0
            assert metric(cluster, broker, "condition_changes_total", directory) == 2
            wait_until_in_sync(cluster, "load")
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", PARTITIONS))
        assert load.longest_gap_s() < 5, "somebody waited for the full directory"
        assert_none_failed(cluster)


def produce(bootstrap: str, topic: str, count: int, size: int) -> list[str | None]:
    """Send records of a size one behind the other; what came of each, None for success."""
    results: list[str | None] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "delivery.timeout.ms": 3_000,
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


def test_a_fast_producer_fills_its_disk_up_to_the_reserve_and_no_further(
    cluster_root: Path,
) -> None:
    with disks(cluster_root, brokers=1, dirs=1, settings=QUICK) as cluster:
        cluster.create_topic("ballast", 1, 1)
        cluster.create_topic("load", 1, 1)
        assert produce(cluster.bootstrap, "ballast", 20, 1_000_000) == [None] * 20

        # Twice as much as there is room for, as fast as it can be sent.
        results = produce(cluster.bootstrap, "load", 80, 900_000)

        written = results.count(None)
        assert 45 < written < 53
        (directory,) = cluster.log_dirs(1)
        wait_for_event(cluster, 1, directory, "is FULL, was HEALTHY")
        assert cluster.fillable(directory).free_bytes() > 600_000, "the reserve was written to"
        assert len(read_all(cluster.bootstrap, "load", 1)[0]) == written, "reads go on"
        assert cluster.leaders("load") == {0: 1}, "nobody else could lead"
        assert set(produce(cluster.bootstrap, "load", 1, 100)) == {"_MSG_TIMED_OUT"}

        for future in cluster.admin().delete_topics(["ballast"]).values():
            future.result(30)

        wait_for_event(cluster, 1, directory, "is HEALTHY, was FULL")
        assert produce(cluster.bootstrap, "load", 1, 100) == [None]
        assert_none_failed(cluster)


def test_retention_goes_on_in_a_full_directory_and_makes_room_in_it(cluster_root: Path) -> None:
    with disks(cluster_root, brokers=1, dirs=1, settings=QUICK) as cluster:
        cluster.create_topic("load", 1, 1, segment_bytes="5000000", retention_ms="6000")
        results = produce(cluster.bootstrap, "load", 80, 900_000)
        assert None in results
        (directory,) = cluster.log_dirs(1)
        wait_for_event(cluster, 1, directory, "is FULL, was HEALTHY")

        wait_for_event(cluster, 1, directory, "is HEALTHY, was FULL")

        assert produce(cluster.bootstrap, "load", 1, 100) == [None]
        assert_none_failed(cluster)


def test_a_directory_that_is_full_at_the_start_gets_no_new_replicas(cluster_root: Path) -> None:
    with disks(cluster_root, brokers=1, dirs=2) as cluster:
        cluster.create_topic("old", 2, 1)
        first, second = cluster.log_dirs(1)
        (there,) = wait_for("its files", lambda: cluster.partitions_in(first, "old"))
        cluster.stop_node(1)
        cluster.fillable(first).fill(LEFT_BYTES)

        cluster.start_node(1)
        cluster.wait_ready()

        wait_for_event(cluster, 1, first, "is FULL, was HEALTHY")
        cluster.create_topic("new", 4, 1)
        wait_for("four replicas", lambda: len(cluster.partitions_in(second, "new")) == 4)
        assert cluster.partitions_in(first, "new") == set()
        # The old replica there leads, but takes nothing.
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "delivery.timeout.ms": 2_000, "log_level": 0}
        )
        errors: list[Any] = []
        producer.produce(
            "old", b"x", partition=there, on_delivery=lambda error, _: errors.append(error)
        )
        producer.flush(20)
        assert errors[0] is not None
        assert_none_failed(cluster)


def test_a_full_directory_that_fails_is_offline_like_any_other(cluster_root: Path) -> None:
    with disks(cluster_root) as cluster:
        cluster.create_topic("load", PARTITIONS, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load", partition=0) as load:
            broker = cluster.leaders("load")[0]
            directory = cluster.directory_of(broker, "load", 0)
            there = cluster.partitions_in(directory, "load")
            cluster.fillable(directory).fill(LEFT_BYTES)
            wait_until_relieved(cluster, broker, "load", there)

            cluster.inject("chmod000", directory)

            wait_for("the failure", lambda: "went offline" in cluster.output(broker), 10)
            moment = time.monotonic()
            wait_for("acknowledgements go on", lambda: load.acknowledged_after(moment, 0), 10)
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", PARTITIONS))


@pytest.mark.parametrize("policy", ["move", "report"])
def test_leaders_leave_a_slow_directory_where_the_policy_says_so(
    policy: str, cluster_root: Path
) -> None:
    require(why_no_throttle())
    settings = {
        "log.dir.slow.policy": policy,
        "log.dir.slow.window.ms": "4000",
        "log.dir.slow.min.ms": "50",
        "jbodlab.log.dir.probe.deadline.ms": "10000",
        "jbodlab.log.dir.probe.interval.ms": "250",
    }
    with disks(cluster_root, disk=ThrottledDisk, brokers=2, settings=settings) as cluster:
        cluster.create_topic("load", PARTITIONS, 2, min_insync_replicas="1")
        with Load(cluster.bootstrap, "load", rate=50) as load:
            broker = cluster.leaders("load")[0]
            directory = cluster.directory_of(broker, "load", 0)
            there = cluster.partitions_in(directory, "load")

            cluster.throttled(directory).throttle(10)

            wait_for_event(cluster, broker, directory, "is SLOW, was HEALTHY")
            assert metric(cluster, broker, "slow", directory) == 1
            if policy == "move":
                wait_for(
                    "the leaders elsewhere",
                    lambda: all(cluster.leaders("load")[p] not in (broker, -1) for p in there),
                    deadline_s=10,
                )
            else:
                time.sleep(1)
                assert cluster.leaders("load")[0] == broker
            assert all(isr == {1, 2} for isr in cluster.isr("load").values()), "slow is in sync"

            cluster.throttled(directory).throttle(0)

            wait_for_event(cluster, broker, directory, "is HEALTHY, was SLOW")
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", PARTITIONS))
        assert_none_failed(cluster)


def test_a_disk_that_answers_no_more_is_hung_and_offline(cluster_root: Path) -> None:
    require(why_no_throttle())
    with disks(cluster_root, disk=ThrottledDisk, brokers=2) as cluster:
        cluster.create_topic("load", PARTITIONS, 2, min_insync_replicas="1")
        with Load(cluster.bootstrap, "load", rate=50) as load:
            broker = cluster.leaders("load")[0]
            directory = cluster.directory_of(broker, "load", 0)
            there = cluster.partitions_in(directory, "load")

            # A sync takes several writes, and so longer than a call may take.
            cluster.throttled(directory).throttle(1)

            wait_for_event(cluster, broker, directory, "went offline: HUNG: no answer within 2000")
            assert metric(cluster, broker, "hung", directory) == 1
            assert metric(cluster, broker, "slow", directory) == 0
            wait_until_relieved(cluster, broker, "load", there)
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", PARTITIONS))
