"""A controller whose disk was wiped must not make brokers delete what they hold."""

from __future__ import annotations

import shutil

import pytest

from tests.cluster.harness import CONTROLLER_ID, on_disk
from tests.cluster.lab_cluster import run_to_end
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster


def test_wiped_controller_ends_the_brokers_and_their_replicas_stay(scene: Scene) -> None:
    cluster, ledger = scene.cluster, scene.topic(4)
    held = {broker: on_disk(cluster, broker, ledger.topic) for broker in cluster.broker_ids}
    # Its new log begins with a lower epoch than this one has, as that of a former leader might.
    cluster.node(CONTROLLER_ID).kill()
    cluster.node(CONTROLLER_ID).start()
    scene.topic(1)
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
    assert held == {broker: on_disk(cluster, broker, ledger.topic) for broker in cluster.broker_ids}

    # With its own log back, everything is as it was.
    cluster.node(CONTROLLER_ID).kill()
    shutil.rmtree(lost)
    kept.rename(lost)
    cluster.start()
    scene.check(ledger)
