"""Metadata snapshots in a cluster: on the controller, on the brokers, and between them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jbodlab.metadata_log.metadata_log import MetadataLog
from jbodlab.metadata_log.snapshots import parse_name, snapshot_paths
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    read_all,
    running,
    wait_for,
)

pytestmark = pytest.mark.cluster

FIRST_SEGMENT = f"{0:020d}.log"
BETWEEN = 4_000
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": str(BETWEEN),
    "metadata.log.segment.ms": "200",
    "metadata.max.retention.bytes": "0",
    "metadata.max.idle.interval.ms": "50",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def copy_of(cluster: Cluster, node: int) -> Path:
    return cluster.metadata_dir(node) / "__cluster_metadata-0"


def history_is_gone(cluster: Cluster, node: int) -> bool:
    return not (copy_of(cluster, node) / FIRST_SEGMENT).exists()


def newest_end(cluster: Cluster, node: int) -> int:
    paths = snapshot_paths(copy_of(cluster, node))
    return parse_name(paths[0].name)[0] if paths else -1


def start_offset(cluster: Cluster, node: int) -> int:
    return min(int(path.stem) for path in copy_of(cluster, node).glob("*.log"))


def end_offset(cluster: Cluster, node: int) -> int:
    """The end of a stopped node's log."""
    log = MetadataLog.open(cluster.metadata_dir(node))
    end = log.end_offset
    log.close()
    cluster.own(cluster.metadata_dir(node))
    return end


def replayed_bytes(cluster: Cluster, broker: int) -> int:
    pattern = r"metadata replayed up to offset .*replayed_bytes=(\d+)"
    return int(re.findall(pattern, cluster.output(broker))[-1])


def test_a_broker_from_before_all_history_catches_up_and_leads_again(cluster_root: Path) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic("kept", 6, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "kept") as load:
            cluster.kill(3)
            absent = end_offset(cluster, 3)
            for number in range(4):
                cluster.create_topic(f"new-{number}", 6, 2)
            wait_for(
                "everything that broker 3 knows is gone",
                lambda: all(start_offset(cluster, node) > absent for node in (CONTROLLER_ID, 1, 2)),
            )
            assert all(newest_end(cluster, node) > absent for node in (CONTROLLER_ID, 1, 2))

            # A controller remembers the last batches; a new one has only what is on its disk.
            cluster.kill(CONTROLLER_ID)
            cluster.start_node(CONTROLLER_ID)
            cluster.start_node(3)
            cluster.wait_ready()

            assert "metadata snapshot received" in cluster.output(3)
            wait_for(
                "broker 3 in every ISR",
                lambda: all(3 in isr for isr in cluster.isr("kept").values()),
            )
        assert_nothing_lost(load, read_all(cluster.bootstrap, "kept", 6))


def test_a_killed_cluster_comes_back_from_its_snapshots(cluster_root: Path) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic("kept", 6, 3)
        nodes = [CONTROLLER_ID, *cluster.brokers]
        wait_for("no history", lambda: all(history_is_gone(cluster, node) for node in nodes))
        for node in nodes:
            cluster.kill(node)
            left = copy_of(cluster, node) / f"{1:020d}-{1:010d}.checkpoint.part"
            left.write_bytes(b"x")
            cluster.own(left)

        cluster.start()

        assert set(cluster.leaders("kept").values()) <= set(cluster.brokers)
        for broker in cluster.brokers:
            # A batch more than the limit, and what came while the snapshot was written.
            assert replayed_bytes(cluster, broker) < 2 * BETWEEN
        for node in nodes:
            files = [path.name for path in copy_of(cluster, node).iterdir()]
            assert f"{1:020d}-{1:010d}.checkpoint.part" not in files
            assert not [name for name in files if name.endswith(".damaged")]
