"""A directory dies under load, on the leader's or on a follower's side, in every way that the fault
tool knows; nothing that was acknowledged is lost, and nobody waits for the dead disk.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    read_all,
    running,
    wait_for,
)

pytestmark = pytest.mark.cluster

KINDS = ["chmod000", "readonly", "file", "delete"]
PARTITIONS = 6


def break_under_load(cluster: Cluster, kind: str, broker: int, topic: str, partition: int) -> Path:
    """Break the broker's directory that holds the partition; returns it once leaders moved."""
    directory = cluster.directory_of(broker, topic, partition)
    touched = cluster.partitions_in(directory, topic)
    cluster.inject(kind, directory)
    wait_for(
        f"every replica of broker {broker} in {directory} out of leadership and ISR",
        lambda: all(
            broker not in isr and leader not in (broker, -1)
            for p in touched
            for isr, leader in [(cluster.isr(topic)[p], cluster.leaders(topic)[p])]
        ),
        deadline_s=10,
    )
    return directory


@pytest.mark.parametrize("kind", KINDS)
def test_dead_directory_of_a_leader_is_left_at_once(kind: str, cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("load", PARTITIONS, 3, min_insync_replicas="2")
        # One partition only: with its leader gone nothing else can hide the silence.
        with Load(cluster.bootstrap, "load", partition=0) as load:
            leader = cluster.leaders("load")[0]
            break_under_load(cluster, kind, leader, "load", 0)
            broken = time.monotonic()
            wait_for(
                "an acknowledgement after the leader's directory died",
                lambda: load.acknowledged_after(broken, 0),
                deadline_s=10,
            )
        found = read_all(cluster.bootstrap, "load", PARTITIONS)
        assert_nothing_lost(load, found)
        assert load.longest_gap_s() < 10, "a request waited for the dead disk"


@pytest.mark.parametrize("kind", KINDS)
def test_dead_directory_of_a_follower_holds_nothing_back(kind: str, cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("load", PARTITIONS, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load", partition=0) as load:
            leader = cluster.leaders("load")[0]
            follower = next(b for b in cluster.brokers if b != leader)
            break_under_load(cluster, kind, follower, "load", 0)
            broken = time.monotonic()
            wait_for(
                "an acknowledgement after the follower's directory died",
                lambda: load.acknowledged_after(broken, 0),
                deadline_s=10,
            )
            assert cluster.leaders("load")[0] == leader, "the healthy leader stays"
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", PARTITIONS))
        # Kafka's own leader waits replica.lag.time.max.ms, 30 s, for a follower's dead disk.
        assert load.longest_gap_s() < 10, "the high watermark waited for the dead follower"


@pytest.mark.parametrize("kind", KINDS)
def test_dead_directory_is_found_although_nobody_writes(kind: str, cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("idle", PARTITIONS, 3)
        leader = cluster.leaders("idle")[0]
        directory = break_under_load(cluster, kind, leader, "idle", 0)
        others = [path for path in cluster.log_dirs(leader) if path != directory]

        assert f"{directory}" in cluster.output(leader)
        for path in others:
            assert f"{path} went offline" not in cluster.output(leader)
        healthy = [p for path in others for p in cluster.partitions_in(path, "idle")]
        isr = cluster.isr("idle")
        assert all(leader in isr[p] for p in healthy), "other directories are untouched"


def test_an_empty_directory_that_dies_is_found(cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        empty = cluster.log_dirs(1)[1]
        cluster.inject("chmod000", empty)
        wait_for(
            "the failure in the broker's output",
            lambda: f"{empty}" in cluster.output(1) and "went offline" in cluster.output(1),
        )


def test_last_directory_of_a_broker_ends_it(cluster_root: Path) -> None:
    with running(cluster_root, dirs=2) as cluster:
        for path in cluster.log_dirs(2):
            cluster.inject("chmod000", path)
        assert cluster.processes[2].wait(30) == 1
        last = [line for line in cluster.output(2).splitlines() if line.strip()][-1]
        assert "all log directories" in last or "log dirs" in last


def test_metadata_directory_of_a_broker_ends_it(cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.inject("delete", cluster.metadata_dir(3))
        assert cluster.processes[3].wait(30) == 1
