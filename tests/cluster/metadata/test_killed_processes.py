"""kill -9 of a broker and of the controller under load, clean stops, and starts after both."""

from __future__ import annotations

import time

import pytest

from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.harness import CONTROLLER_ID, Load, wait_for
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster


def test_killed_broker_loses_no_acknowledged_record(scene: Scene) -> None:
    cluster, topic = scene.cluster, scene.topic(6, records=0, min_insync_replicas="2").topic
    with Load(cluster.bootstrap, topic) as load:
        victim = cluster.leaders(topic)[0]
        cluster.node(victim).kill()
        wait_for(
            "new leaders after the session timeout",
            lambda: not {victim, -1} & leaders(scene, topic),
        )
        moved = time.monotonic()
        wait_for("acknowledgements again", lambda: load.acknowledged_after(moved, 0))
        scene.start(victim)
        scene.wait_all_in_sync()
    assert not load.errors
    scene.check(load)


def leaders(scene: Scene, topic: str) -> set[int]:
    """The leaders of a topic, as the controller has decided."""
    states = scene.cluster.image().topics.by_name[topic].partitions.values()
    return {state.leader for state in states}


def test_clean_stop_hands_leadership_over_and_leaves_its_marker(scene: Scene) -> None:
    cluster, topic = scene.cluster, scene.topic(6, records=0, min_insync_replicas="2").topic
    with Load(cluster.bootstrap, topic) as load:
        stopped = cluster.leaders(topic)[0]
        assert cluster.node(stopped).stop() == 0
        # Decided before the process ended, so nobody waited for its session to run out.
        assert not {stopped, -1} & leaders(scene, topic)
        assert cluster.image().cluster.brokers[BrokerId(stopped)].fenced
        for path in cluster.broker(stopped).paths:
            assert (path / ".kafka_cleanshutdown").exists()
        scene.start(stopped)
        scene.wait_all_in_sync()
        assert cluster.node(CONTROLLER_ID).stop() == 0
    assert not load.errors
