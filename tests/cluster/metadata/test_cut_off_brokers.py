"""Real brokers that are cut off: fenced, replaced, and back once they are reached again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fault_injection.errors import FaultError
from fault_injection.kinds import spec
from lab.cluster import ClusterSpec, questions
from lab.watch.detecting import Detecting
from tests.cluster.harness import Cluster, wait_for

pytestmark = pytest.mark.cluster

SETTINGS = {"broker.session.timeout.ms": "2500", "broker.heartbeat.interval.ms": "250"}


def test_a_broker_that_is_cut_off_is_fenced_and_comes_back(cluster_root: Path) -> None:
    cluster = Cluster.plan(cluster_root, ClusterSpec(brokers=3, disks=2))
    try:
        cluster.make(SETTINGS)
        for broker in cluster.brokers:
            broker.preload()
        cluster.start()
        cluster.create_topic("orders", partitions=6, replicas=3)
        cluster.wait_isr("orders")
        leader = cluster.leader("orders", 0)

        with (
            Detecting(cluster, leader.target()) as detecting,
            leader.fails("cut", from_="controller,brokers") as fault,
        ):
            seen = detecting.wait(spec("cut"), fault.injected_ns)
            assert seen is not None
            assert seen.what == "the controller has fenced the broker"
            other = next(one for one in cluster.brokers if one is not leader)
            wait_for(
                "another leader of every partition",
                lambda: leader.id not in leaders_by(cluster, other.id, "orders"),
            )
            assert fault.broken.what == "connections"
            assert fault.broken.count > 0
            assert leader.is_running

        cluster.wait_served()
        cluster.wait_isr("orders", 60)
    finally:
        cluster.close()


def test_brokers_that_follow_no_rules_are_not_cut_off(cluster_root: Path) -> None:
    message = "broker-1 runs without the library for faults in single calls"

    with (
        Cluster.running(cluster_root, ClusterSpec(brokers=1, disks=1)) as cluster,
        pytest.raises(FaultError, match=message),
    ):
        cluster.broker(1).fails("cut")


def leaders_by(cluster: Cluster, broker_id: int, topic: str) -> set[int]:
    """The leaders as one broker tells them: the one that is cut off tells what once was."""
    view = asyncio.run(questions.ask_cluster_view(cluster.broker(broker_id).state, 2.0))
    if view is None:
        return {-1} | set(cluster.broker_ids)
    return {found.leader for key, found in view.partitions.items() if key.topic == topic}
