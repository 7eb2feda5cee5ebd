"""A quorum of three controllers, of which the active one dies: the cluster goes on."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka import Producer

from jbodlab.controller_api import messages
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.kafka_admin.errors import RequestError
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary.error_code import ErrorCode
from lab import status
from lab.cluster.node import Node
from lab.machine.folders import make_folder, remove_folder
from lab.machine.waiting import wait_for
from tests.cluster.harness import Cluster, running

pytestmark = pytest.mark.cluster

ASK_S = 1.0


SHORT_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.log.segment.ms": "100",
    "metadata.max.retention.bytes": "0",
    "metadata.max.idle.interval.ms": "20",
}


@pytest.fixture(scope="module")
def quorum_of_three() -> Iterator[Cluster]:
    """One for all tests, each of which leaves it whole."""
    root = make_folder()
    with running(root / "cluster", brokers=2, dirs=1, controllers=3) as started:
        yield started
    remove_folder(root)


@pytest.fixture
def cluster(quorum_of_three: Cluster) -> Iterator[Cluster]:
    cluster = quorum_of_three
    yield cluster
    for node in cluster.nodes.values():
        node.thaw()
        if not node.is_running:
            node.start()
    cluster.wait_served()
    stand_by = dict.fromkeys((each.id for each in cluster.controllers), "standby")

    def is_whole() -> bool:
        found = roles(cluster)
        return any(found == stand_by | {each: "active"} for each in stand_by)

    wait_for("one active controller, and the others standing by", is_whole)
    cluster.wait_all_in_sync()
    cluster.delete_topics(*{key.topic for key in cluster.view().partitions})


def active(cluster: Cluster) -> Node:
    """Wait until one of the controllers that run is active."""

    def found() -> Node | None:
        return next((each for each in cluster.controllers if is_active(each)), None)

    return wait_for("an active controller", found)


def described(node: Node) -> Any:
    """The quorum as a controller describes it; None if it does not answer."""
    if not node.is_running:
        return None
    with grpc.insecure_channel(f"{node.state.host}:{node.state.grpc_port}") as channel:
        try:
            return ControllerStub(channel).DescribeQuorum(
                messages.DescribeQuorumRequest(), timeout=ASK_S
            )
        except grpc.RpcError:
            return None


def is_active(node: Node) -> bool:
    answer = described(node)
    return answer is not None and answer.error_code == ErrorCode.NONE


def end_offset(node: Node) -> int:
    return int(described(node).high_watermark)


def roles(cluster: Cluster) -> dict[int, str | None]:
    """The part of each controller, as `jbodlab status` tells it."""
    seen = status.look(cluster.state, cluster.root / "faults.jsonl")
    return {each["id"]: each["role"] for each in seen.to_json()["controllers"]}


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
    assert roles(cluster) == {each.id: "standby" for each in cluster.controllers} | {
        first.id: "active"
    }
    first.signal(signal.SIGTERM)
    first.wait_ended(10)

    second = active(cluster)
    assert second is not first
    cluster.create_topic("after", partitions=1, replicas=2)
    assert roles(cluster)[first.id] is None
    assert roles(cluster)[second.id] == "active"


def test_a_quorum_that_is_stopped_has_everything_at_its_next_start(cluster: Cluster) -> None:
    cluster.create_topic("kept", partitions=2, replicas=2)
    for broker in cluster.brokers:
        # A replica in the ISR whose folder is not there at the next start counts as lost.
        broker.log_dir_of("kept", 0)
        broker.log_dir_of("kept", 1)
    cluster.kill()

    cluster.start()

    assert "kept" in {key.topic for key in cluster.view().partitions}
    cluster.create_topic("more", partitions=1, replicas=2)


def known_controllers(node: Node) -> dict[int, int]:
    """Where brokers reach the controllers, as one of them says: ports by node id."""
    with grpc.insecure_channel(f"{node.state.host}:{node.state.grpc_port}") as channel:
        answer = ControllerStub(channel).FindController(
            messages.FindControllerRequest(), timeout=ASK_S
        )
    return {each.node_id: each.port for each in answer.controllers}


def test_each_controller_registers_itself_and_knows_where_the_others_serve_brokers(
    cluster: Cluster,
) -> None:
    ports = {each.id: each.state.grpc_port for each in cluster.controllers}
    for node in cluster.controllers:
        wait_for("registrations", lambda node=node: known_controllers(node) == ports)  # type: ignore[misc]


def log_start(node: Node) -> int:
    """The first offset of a controller's log."""
    return min(
        (int(path.stem) for path in (node.metadata_dir / METADATA_DIR_NAME).glob("*.log")),
        default=-1,
    )


def test_a_controller_that_was_away_while_the_log_was_cleaned_gets_a_snapshot(
    cluster_root: Path,
) -> None:
    with running(cluster_root, brokers=1, dirs=1, controllers=3, settings=SHORT_LOG) as cluster:
        leader = active(cluster)
        away, other = (each for each in cluster.controllers if each is not leader)
        away.kill()
        end = end_offset(leader)
        for number in range(3):
            cluster.create_topic(f"topic-{number}", partitions=5, replicas=1)
        wait_for("a log that begins later", lambda: log_start(leader) > end)

        away.start()

        wait_for(
            "a log that begins with a snapshot",
            lambda: "begins anew at a snapshot of the leader" in away.output(),
        )
        # Together with the one that was away there is a majority, which has all topics.
        leader.kill()
        other.kill()
        leader.start()
        active(cluster)
        cluster.create_topic("more", partitions=1, replicas=1)
        assert "topic-2" in {key.topic for key in cluster.view().partitions}


def test_a_controller_that_comes_back_empty_elects_nobody_who_lacks_what_is_acknowledged(
    cluster: Cluster,
) -> None:
    leader = active(cluster)
    emptied, other = (each for each in cluster.controllers if each is not leader)
    other.kill()
    cluster.create_topic("kept", partitions=1, replicas=2)
    emptied.kill()
    leader.kill()
    shutil.rmtree(emptied.metadata_dir / METADATA_DIR_NAME)

    before = len(emptied.output())
    emptied.start()
    other.start()

    def says(text: str) -> bool:
        return text in emptied.output()[before:]

    wait_for("a vote that is withheld", lambda: says("a vote is withheld"))
    assert not is_active(emptied)
    assert not is_active(other)
    leader.start()
    assert active(cluster) is leader
    assert "kept" in {key.topic for key in cluster.view().partitions}
    wait_for("a voter that has caught up", lambda: says("gives votes and counts"))
    other.kill()
    cluster.create_topic("more", partitions=1, replicas=2)
    leader.kill()
    other.start()
    active(cluster)
    assert {"kept", "more"} <= {key.topic for key in cluster.view().partitions}


@pytest.mark.parametrize("fault", ["removed", "replaced"])
def test_a_quorum_outlives_the_directory_of_its_active_controller(
    cluster: Cluster, fault: str
) -> None:
    cluster.create_topic("before", partitions=1, replicas=2)
    first = active(cluster)
    gone = first.metadata_dir.rename(first.metadata_dir.with_name("gone"))
    if fault == "replaced":
        first.metadata_dir.mkdir()

    second = wait_for(
        "another active controller",
        lambda: next((n for n in cluster.controllers if n is not first and is_active(n)), None),
    )

    assert second is not first
    first.wait_ended(10)
    cluster.create_topic("after", partitions=1, replicas=2)
    shutil.rmtree(first.metadata_dir, ignore_errors=True)
    gone.rename(first.metadata_dir)


def test_a_controller_that_was_frozen_stands_by_when_it_goes_on(cluster: Cluster) -> None:
    cluster.create_topic("before", partitions=2, replicas=2)
    first = active(cluster)
    first.freeze()

    second = wait_for(
        "another active controller",
        lambda: next((n for n in cluster.controllers if n is not first and is_active(n)), None),
    )
    # The brokers leave the frozen one, whose connections stay, when a call takes too long. A
    # creation on its way to it is not repeated, as the topic would then seem to exist already.
    with contextlib.suppress(RequestError):
        cluster.create_topic("on-its-way", partitions=2, replicas=2)
    cluster.create_topic("after", partitions=2, replicas=2)
    first.thaw()

    wait_for("the thawed one standing by", lambda: roles(cluster)[first.id] == "standby")
    assert roles(cluster)[second.id] == "active"
    seen = status.look(cluster.state, cluster.root / "faults.jsonl")
    assert seen.is_healthy
    cluster.wait_all_in_sync()
