"""Reassignments to full directories, and drains and balancing on disks that have an end."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition

from tests.cluster.commands import call, called, dir_states
from tests.cluster.harness import Cluster, Load, partitions_in, wait_for
from tests.cluster.invariants import check
from tests.cluster.scenes import Stages
from tests.cluster.scraper import Scraper
from tests.cluster.small_disks import fillable, scene_on_small_disks

pytestmark = pytest.mark.cluster


def reassign(cluster: Cluster, topic: str, replicas: list[int] | None) -> None:
    wanted = TopicPartition(topic, 0)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        assert client.alter_partition_reassignments({wanted: replicas}) == {wanted: None}
    finally:
        client.close()


def is_full(cluster: Cluster, path: Path) -> bool:
    return "FULL" in dir_states(cluster)[str(path)]


def usable_bytes(cluster: Cluster, path: Path) -> float:
    """What broker 2 believes that it may write to a directory."""
    return Scraper(cluster)(2)[f'jbodlab_log_dir_usable_bytes{{logDirectory="{path}"}}']


def write(cluster: Cluster, topic: str, partition: int, mib: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(mib * 16):
        producer.produce(topic, bytes(1 << 16), partition=partition)
        if number % 50 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def test_a_full_target_is_waited_for(stages: Stages) -> None:
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        topic = scene.topic(1, 1, records=0).topic
        source = cluster.leaders(topic)[0]
        target = 1 + source % 3
        for path in cluster.broker(target).paths:
            fillable(cluster, path).fill(200 << 10)
            wait_for("a full directory", lambda path=path: is_full(cluster, path))
        with Load(cluster.bootstrap, topic) as load:
            reassign(cluster, topic, [target])
            written = len(load.acknowledged)
            wait_for("writes go on", lambda: len(load.acknowledged) > written + 1000)
            state = cluster.image().topics.by_name[topic].partitions[0]
            assert (state.adding_replicas, state.leader) == ((target,), source)

            for path in cluster.broker(target).paths:
                fillable(cluster, path).empty()

            wait_for("the end", lambda: cluster.leaders(topic)[0] == target)
            state = cluster.image().topics.by_name[topic].partitions[0]
            assert state.replicas == (target,)
        assert load.errors == []
        check(cluster, load)


def test_a_drain_fits_or_is_refused_before_anything_moves(stages: Stages) -> None:
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        topic = scene.topic(2, 3, records=0).topic
        for partition in (0, 1):
            write(cluster, topic, partition, 20)
        source = cluster.broker(1).log_dir_of(topic, 0).path
        others = [path for path in cluster.broker(1).paths if path != source]
        drain = ["dirs", "drain", f"broker-1:{source}", "--yes", "--wait"]
        # One has room for less than the replica, the other one for nothing.
        fillable(cluster, others[0]).fill(10 << 20)
        fillable(cluster, others[1]).fill(200 << 10)
        wait_for("a full directory", lambda: is_full(cluster, others[1]))

        done = call(cluster, *drain)

        assert (done.code, done.out) == (1, "")
        assert f"{source} does not fit into the other log directories: " in done.err
        assert f"{others[1]} takes nothing" in done.err
        assert "bytes are missing" in done.err
        assert 0 in partitions_in(source, topic)
        assert not list(others[0].glob("*-future"))

        fillable(cluster, others[0]).empty()
        wait_for("room", lambda: fillable(cluster, others[0]).free_bytes() > 30 << 20)
        wait_for("room noticed", lambda: call(cluster, *drain).code == 0)
        assert partitions_in(source, topic) == set()
        assert 0 in partitions_in(others[0], topic)
        fillable(cluster, others[1]).empty()
        check(cluster)


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
        # What the drain left there is removed later, and would give back room that counts as taken.
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
