"""A quorum of three controllers, of which the active one dies: the cluster goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.controller_api import messages
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster.node import Node
from lab.machine.waiting import wait_for
from tests.cluster.harness import Cluster, running

pytestmark = pytest.mark.cluster

ASK_S = 1.0


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    with running(cluster_root, brokers=2, dirs=1, controllers=3) as started:
        yield started


def active(cluster: Cluster) -> Node:
    """Wait until one of the controllers that run is active."""

    def found() -> Node | None:
        return next((each for each in cluster.controllers if is_active(each)), None)

    return wait_for("an active controller", found)


def is_active(node: Node) -> bool:
    import grpc

    if not node.is_running:
        return False
    with grpc.insecure_channel(f"{node.state.host}:{node.state.grpc_port}") as channel:
        try:
            answer = ControllerStub(channel).DescribeQuorum(
                messages.DescribeQuorumRequest(), timeout=ASK_S
            )
        except grpc.RpcError:
            return False
    return bool(answer.error_code == ErrorCode.NONE)


def produce(producer: Producer, topic: str) -> None:
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def test_a_quorum_outlives_the_kill_of_its_active_controller(cluster: Cluster) -> None:
    cluster.create_topic("before", partitions=2, replicas=2)
    producer = Producer({**cluster.client_config, "acks": "all"})
    produce(producer, "before")
    for _ in range(2):
        first = active(cluster)
        first.kill()

        produce(producer, "before")
        second = active(cluster)
        assert second is not first
        assert "before" in {key.topic for key in cluster.view().partitions}
        cluster.create_topic(f"after-{second.id}", partitions=2, replicas=2)
        produce(producer, f"after-{second.id}")
        first.start()
        cluster.wait_all_in_sync()
    # The new controller sees that a broker is gone, and elects leaders.
    cluster.broker(1).kill()
    cluster.wait_leaders("before")


def test_a_controller_that_is_stopped_hands_its_leadership_over(cluster: Cluster) -> None:
    first = active(cluster)
    first.signal(signal.SIGTERM)
    first.wait_ended(10)

    second = active(cluster)
    assert second is not first
    cluster.create_topic("after", partitions=1, replicas=2)


def test_a_quorum_that_is_stopped_has_everything_at_its_next_start(cluster: Cluster) -> None:
    cluster.create_topic("kept", partitions=2, replicas=2)
    cluster.kill()

    cluster.start()

    assert "kept" in {key.topic for key in cluster.view().partitions}
    cluster.create_topic("more", partitions=1, replicas=2)
