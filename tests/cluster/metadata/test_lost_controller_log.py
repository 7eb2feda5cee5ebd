"""Controllers whose disks were wiped must not make brokers delete what they hold."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka.admin import NewTopic

from jbodlab.vocabulary.ids import DirectoryId
from lab.cluster import wait_for
from lab.testing.clusters import Cluster
from tests.cluster.harness import CONTROLLER_ID, on_disk
from tests.cluster.lab_cluster import admin_of, run_to_end
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0


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


def test_three_wiped_controllers_end_the_brokers_that_run_and_one_that_starts() -> None:
    with Cluster(brokers=2, disks=1, controllers=3) as cluster:
        inner = cluster.inner
        # The new log begins with a lower epoch than brokers know.
        cluster.active_controller.kill()
        asked = admin_of(inner).create_topics([NewTopic("kept", 1, replication_factor=2)])
        asked["kept"].result(DEADLINE_S)

        def held() -> list[dict[int, DirectoryId]]:
            return [on_disk(inner, broker, "kept") for broker in (1, 2)]

        wait_for("the replicas' folders", lambda: all(held()), DEADLINE_S)
        before = held()
        inner.broker(2).kill()
        for node in inner.controllers:
            node.kill()
            shutil.rmtree(node.metadata_dir)
            node.metadata_dir.mkdir()
            inner.own(node.metadata_dir)
        inner.format(inner.controllers)
        for node in inner.controllers:
            node.start()

        assert inner.broker(1).wait_ended() == 1
        code, last = run_to_end(inner.broker(2))
        assert code == 1
        for line in (inner.broker(1).log_lines(1)[0], last):
            assert "the controller has lost its metadata log" in line
        assert held() == before
