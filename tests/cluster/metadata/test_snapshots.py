"""Metadata snapshots in a cluster: on the controller, on the brokers, and between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.snapshots import parse_name, snapshot_paths
from tests.cluster import scenes
from tests.cluster.harness import CONTROLLER_ID, Cluster, Load, wait_for
from tests.cluster.scenes import Stage, Stages

pytestmark = pytest.mark.cluster

BETWEEN = 4_000
SETTINGS = {
    **scenes.SETTINGS,
    "metadata.log.max.record.bytes.between.snapshots": str(BETWEEN),
    "metadata.log.segment.ms": "200",
    "metadata.max.retention.bytes": "0",
    "metadata.max.idle.interval.ms": "50",
}


@pytest.fixture
def short_log(stages: Stages) -> Stage:
    """A stage whose nodes keep little of the metadata log before their snapshots."""
    return stages.of(settings=SETTINGS)


def copy_of(cluster: Cluster, node: int) -> Path:
    return cluster.node(node).metadata_dir / "__cluster_metadata-0"


def newest_end(cluster: Cluster, node: int) -> int:
    paths = snapshot_paths(copy_of(cluster, node))
    return parse_name(paths[0].name)[0] if paths else -1


def start_offset(cluster: Cluster, node: int) -> int:
    return min(int(path.stem) for path in copy_of(cluster, node).glob("*.log"))


def end_offset(cluster: Cluster, node: int) -> int:
    """The end of a stopped node's log."""
    log = MetadataLog.open(cluster.node(node).metadata_dir)
    end = log.end_offset
    log.close()
    cluster.own(cluster.node(node).metadata_dir)
    return end


def test_a_broker_from_before_all_history_catches_up_and_leads_again(short_log: Stage) -> None:
    with short_log.scene() as scene:
        cluster, kept = scene.cluster, scene.topic(6, records=0, min_insync_replicas="2").topic
        with Load(cluster.bootstrap, kept) as load:
            cluster.node(3).kill()
            absent = end_offset(cluster, 3)
            for _ in range(4):
                scene.topic(6, 2, records=0)
            wait_for(
                "everything that broker 3 knows is gone",
                lambda: all(start_offset(cluster, node) > absent for node in (CONTROLLER_ID, 1, 2)),
            )
            assert all(newest_end(cluster, node) > absent for node in (CONTROLLER_ID, 1, 2))

            # A controller remembers the last batches; a new one has only what is on its disk.
            cluster.node(CONTROLLER_ID).kill()
            cluster.node(CONTROLLER_ID).start()
            scene.start(3)

            assert "received a metadata snapshot" in scene.said(3)
            scene.wait_all_in_sync()
        assert not load.errors
        scene.check(load)
