"""A controller whose disk was wiped must not make brokers delete what they hold."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.harness import CONTROLLER_ID, on_disk, running
from tests.cluster.lab_cluster import run_to_end
from tests.cluster.scenes import Stage

pytestmark = pytest.mark.cluster


def test_wiped_controller_ends_the_brokers_and_their_replicas_stay(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(4)
        held = {broker: on_disk(cluster, broker, ledger.topic) for broker in cluster.broker_ids}
        # Before the controller, so that nobody could have heard of the new log.
        cluster.node(2).kill()
        cluster.node(CONTROLLER_ID).kill()
        lost = cluster.node(CONTROLLER_ID).metadata_dir
        kept = lost.with_name("kept")
        lost.rename(kept)
        lost.mkdir()
        cluster.own(lost)
        cluster.format([cluster.node(CONTROLLER_ID)])
        cluster.node(CONTROLLER_ID).start()

        assert [cluster.node(broker).wait_ended() for broker in (1, 3)] == [1, 1]
        code, last = run_to_end(cluster.node(2))
        assert code == 1
        for line in (last, *(cluster.node(broker).log_lines(1)[0] for broker in (1, 3))):
            assert "the controller has lost its metadata log" in line
        assert held == {
            broker: on_disk(cluster, broker, ledger.topic) for broker in cluster.broker_ids
        }

        # With its own log back, everything is as it was.
        cluster.node(CONTROLLER_ID).kill()
        shutil.rmtree(lost)
        kept.rename(lost)
        cluster.start()
        scene.check(ledger)


def test_broker_that_was_down_meanwhile_does_not_follow_a_log_that_has_outgrown_its_own(
    cluster_root: Path,
) -> None:
    with running(cluster_root, brokers=2, dirs=2) as cluster:
        cluster.create_topic("load", 4, 2)
        cluster.node(2).kill()
        held = on_disk(cluster, 2, "load")
        cluster.node(CONTROLLER_ID).kill()
        lost = cluster.node(CONTROLLER_ID).metadata_dir
        shutil.rmtree(lost)
        lost.mkdir()
        cluster.own(lost)
        cluster.format([cluster.node(CONTROLLER_ID)])
        cluster.node(CONTROLLER_ID).start()
        assert cluster.node(1).wait_ended(30) == 1
        # Somebody gives the topics up on broker 1, as its last line says, and forgets broker 2.
        shutil.rmtree(cluster.node(1).metadata_dir / "__cluster_metadata-0")
        cluster.node(1).start()
        cluster.wait_served(cluster.broker(1))
        cluster.create_topic("new", 200, 1)

        code, last = run_to_end(cluster.node(2))

        assert code == 1
        assert "the controller has lost its metadata log" in last
        assert on_disk(cluster, 2, "load") == held
