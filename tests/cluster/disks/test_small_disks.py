"""Balancing, and new replicas, on disks that have an end."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.commands import called, dir_states
from tests.cluster.configs import BROKER, alter, client
from tests.cluster.harness import Cluster, on_disk, partitions_in, wait_for
from tests.cluster.invariants import check
from tests.cluster.scenes import Stages
from tests.cluster.scraper import Scraper
from tests.cluster.small_disks import fillable, scene_on_small_disks

pytestmark = pytest.mark.cluster


def is_full(cluster: Cluster, path: Path) -> bool:
    return "FULL" in dir_states(cluster)[str(path)]


def usable_bytes(cluster: Cluster, path: Path) -> float:
    """The bytes that broker 2 believes that it may write to a directory."""
    return Scraper(cluster)(2)[f'jbodlab_log_dir_usable_bytes{{logDirectory="{path}"}}']


def write(cluster: Cluster, topic: str, partition: int, mib: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(mib * 16):
        producer.produce(topic, bytes(1 << 16), partition=partition)
        if number % 50 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def test_balancing_leaves_no_disk_full_and_evens_out_what_it_can(stages: Stages) -> None:
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        topic = scene.topic(6, 3, records=0).topic
        for partition in range(6):
            write(cluster, topic, partition, 3)
        for path in cluster.broker(2).paths[1:]:
            called(cluster, "dirs", "drain", f"broker-2:{path}", "--yes", "--wait")
        held = {path: len(partitions_in(path, topic)) for path in cluster.broker(2).paths}
        small = min(held, key=lambda path: held[path])
        # Files that the drain left there are removed later, and would give back room that counts as
        # taken.
        wait_for(
            "the old copies gone",
            lambda: not any(each.name.endswith(("-delete", "-stray")) for each in small.iterdir()),
        )
        fillable(cluster, small).fill(5 << 20)
        wait_for("that noticed", lambda: usable_bytes(cluster, small) < 6 << 20)

        called(cluster, "dirs", "balance", "--yes", "--wait", "--brokers", "2")

        after = {path: len(partitions_in(path, topic)) for path in cluster.broker(2).paths}
        assert sum(after.values()) == 6
        assert after[small] <= held[small] + 1
        assert max(after.values()) - min(after.values()) < max(held.values()) - min(held.values())
        assert not any(is_full(cluster, path) for path in cluster.broker(2).paths)
        fillable(cluster, small).empty()
        check(cluster)


def test_thirty_replicas_at_once_are_spread_by_what_is_free(stages: Stages) -> None:
    """`log.dir.placement=bytes`."""
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        paths = cluster.broker(2).paths
        settings = {"log_dir_placement": "bytes", "log_segment_bytes": str(1 << 20)}
        alter(client(cluster), BROKER, "2", **settings)
        for path in paths[:2]:
            fillable(cluster, path).fill(20 << 20)
            wait_for("that noticed", lambda path=path: usable_bytes(cluster, path) < 24 << 20)

        topic = scene.topic_at([[2]] * 30)

        wait_for("all replicas", lambda: len(on_disk(cluster, 2, topic)) == 30)
        first, second, emptiest = (len(partitions_in(path, topic)) for path in paths)
        # About 20, 20 and 64 MiB are free.
        assert 15 <= emptiest <= 24
        assert min(first, second) >= 3
        assert abs(first - second) <= 1
        alter(client(cluster), BROKER, "2", **dict.fromkeys(settings))
