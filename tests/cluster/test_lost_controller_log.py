"""A controller whose disk was wiped must not make brokers delete what they hold."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.harness import CONTROLLER_ID, Load, assert_nothing_lost, read_all, running

pytestmark = pytest.mark.cluster


def test_wiped_controller_ends_the_brokers_and_their_replicas_stay(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=2) as cluster:
        cluster.create_topic("load", 4, 2)
        with Load(cluster.bootstrap, "load") as load:
            pass
        held = {broker: cluster.on_disk(broker, "load") for broker in cluster.brokers}
        # Before the controller, so that nobody could have heard of the new log.
        cluster.kill(2)
        cluster.kill(CONTROLLER_ID)
        lost = cluster.metadata_dir(CONTROLLER_ID)
        kept = lost.with_name("kept")
        lost.rename(kept)
        lost.mkdir()
        cluster.own(lost)
        cluster.format(CONTROLLER_ID)
        cluster.start_node(CONTROLLER_ID)

        assert cluster.processes.pop(1).wait(30) == 1
        code, last = cluster.run_to_end(2)
        assert code == 1
        for line in (last, cluster.output(1).splitlines()[-1]):
            assert "the controller has lost its metadata log" in line
        assert {broker: cluster.on_disk(broker, "load") for broker in cluster.brokers} == held

        # With its own log back, everything is as it was.
        cluster.kill(CONTROLLER_ID)
        shutil.rmtree(lost)
        kept.rename(lost)
        cluster.start()
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", 4))
