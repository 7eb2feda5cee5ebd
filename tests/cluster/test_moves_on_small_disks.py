"""Reassignments to full directories, and drains and balancing on disks that have an end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition

from tests.cluster.harness import BIN, Load, wait_for
from tests.cluster.invariants import check, metadata
from tests.cluster.small_disks import DiskCluster, require, why_no_mounts

pytestmark = pytest.mark.cluster

DISK_BYTES = 64 << 20
TOPIC = "load"


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[DiskCluster]:
    require(why_no_mounts())
    settings = {"file.delete.delay.ms": "500", "log.segment.delete.delay.ms": "500"}
    cluster = DiskCluster(cluster_root, brokers=3, dirs=3, settings=settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def reassign(cluster: DiskCluster, replicas: list[int] | None) -> None:
    wanted = TopicPartition(TOPIC, 0)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        assert client.alter_partition_reassignments({wanted: replicas}) == {wanted: None}
    finally:
        client.close()


def log_dirs(cluster: DiskCluster, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(BIN / "jbod-log-dirs"), "--bootstrap-server", cluster.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def is_full(cluster: DiskCluster, path: Path) -> bool:
    return any(
        str(path) in line and "FULL" in line
        for line in log_dirs(cluster, "--describe", "--table")[1].splitlines()
    )


def write(cluster: DiskCluster, partition: int, mib: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(mib * 16):
        producer.produce(TOPIC, bytes(1 << 16), partition=partition)
        if number % 50 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def test_a_full_target_is_waited_for(cluster: DiskCluster) -> None:
    cluster.create_topic(TOPIC, 1, 1)
    source = cluster.leaders(TOPIC)[0]
    target = 1 + source % 3
    for path in cluster.log_dirs(target):
        cluster.fillable(path).fill(200 << 10)
        wait_for("a full directory", lambda path=path: is_full(cluster, path))
    with Load(cluster.bootstrap, TOPIC) as load:
        reassign(cluster, [target])
        begun = time.monotonic()
        wait_for("writes go on", lambda: load.acknowledged_after(begun + 2, 0))
        state = metadata(cluster).topics.by_name[TOPIC].partitions[0]
        assert (state.adding_replicas, state.leader) == ((target,), source)

        for path in cluster.log_dirs(target):
            cluster.fillable(path).empty()

        wait_for("the end", lambda: cluster.leaders(TOPIC)[0] == target)
        state = metadata(cluster).topics.by_name[TOPIC].partitions[0]
        assert state.replicas == (target,)
    assert load.errors == []
    check(cluster, load)


def test_a_drain_fits_or_is_refused_before_anything_moves(cluster: DiskCluster) -> None:
    cluster.create_topic(TOPIC, 2, 3)
    for partition in (0, 1):
        write(cluster, partition, 20)
    source = cluster.directory_of(1, TOPIC, 0)
    others = [path for path in cluster.log_dirs(1) if path != source]
    drain = ["drain", "--broker", "1", "--dir", str(source), "--execute", "--wait"]
    # One has room for less than the replica, the other one for nothing.
    cluster.fillable(others[0]).fill(10 << 20)
    cluster.fillable(others[1]).fill(200 << 10)
    wait_for("a full directory", lambda: is_full(cluster, others[1]))

    code, said = log_dirs(cluster, *drain)

    assert code == 1
    assert f"{source} does not fit into the other log directories: " in said
    assert f"  {others[1]}: takes nothing" in said
    assert "bytes are missing" in said
    assert 0 in cluster.partitions_in(source, TOPIC)
    assert not list(others[0].glob("*-future"))

    cluster.fillable(others[0]).empty()
    wait_for("room", lambda: cluster.fillable(others[0]).free_bytes() > 30 << 20)
    code, said = wait_for(
        "room noticed", lambda: (done := log_dirs(cluster, *drain)) and done[0] == 0 and done
    )
    assert cluster.partitions_in(source, TOPIC) == set(), said
    assert 0 in cluster.partitions_in(others[0], TOPIC)
    cluster.fillable(others[1]).empty()
    check(cluster)


def test_balancing_leaves_no_disk_full_and_evens_out_what_it_can(cluster: DiskCluster) -> None:
    cluster.create_topic(TOPIC, 6, 3)
    for partition in range(6):
        write(cluster, partition, 3)
    for path in cluster.log_dirs(2)[1:]:
        code, said = log_dirs(
            cluster, "drain", "--broker", "2", "--dir", str(path), "--execute", "--wait"
        )
        assert code == 0, said
    held = {path: len(cluster.partitions_in(path, TOPIC)) for path in cluster.log_dirs(2)}
    small = min(held, key=lambda path: held[path])
    # What the drain left there is removed later, and would give back room that counts as taken.
    wait_for(
        "the old copies gone",
        lambda: not any(each.name.endswith(("-delete", "-stray")) for each in small.iterdir()),
    )
    cluster.fillable(small).fill(5 << 20)
    time.sleep(2)

    code, said = log_dirs(cluster, "balance", "--execute", "--wait", "--broker", "2")

    assert code == 0, said
    after = {path: len(cluster.partitions_in(path, TOPIC)) for path in cluster.log_dirs(2)}
    assert sum(after.values()) == 6
    assert after[small] <= held[small] + 1
    assert max(after.values()) - min(after.values()) < max(held.values()) - min(held.values())
    assert not any(is_full(cluster, path) for path in cluster.log_dirs(2))
    cluster.fillable(small).empty()
    check(cluster)
