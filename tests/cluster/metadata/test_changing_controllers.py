"""Controllers of a running cluster come and go, by the lab and by Apache Kafka's own tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.cli.lab_state import NodeState
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import DirectoryId
from lab.cluster import ClusterSpec, membership
from lab.cluster.kafka_servers import directory_of_voter
from lab.cluster.node import Node, OwnServers
from lab.machine.waiting import wait_for
from tests.cluster.harness import DEFAULTS, TREE, Cluster, directory_id, running, script
from tests.kafka.tools import FEATURES, QUORUM, KafkaTools, Printed

pytestmark = pytest.mark.cluster


@pytest.fixture
def quorum_of_three(cluster_root: Path) -> Iterator[Cluster]:
    with running(cluster_root, brokers=2, dirs=1, controllers=3) as started:
        yield started


def goes_on(cluster: Cluster, topic: str) -> None:
    """Create a topic, which needs the controller, and write to it."""
    cluster.create_topic(topic, partitions=1, replicas=2)
    producer = Producer({**cluster.client_config, "acks": "all"})
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def topics(cluster: Cluster) -> set[str]:
    return {key.topic for key in cluster.view().partitions}


def voter_ids(cluster: Cluster) -> set[int]:
    return set(wait_for("an active controller", cluster.quorum).end_offsets)


def test_a_cluster_of_one_controller_becomes_a_quorum_of_three_and_one_again(
    cluster_root: Path,
) -> None:
    with running(cluster_root, brokers=2, dirs=1) as cluster:
        goes_on(cluster, "one")
        processes = [broker.state.process for broker in cluster.brokers]

        second = membership.add(cluster)
        third = membership.add(cluster)
        assert voter_ids(cluster) == {100, second.id, third.id}
        goes_on(cluster, "three")
        epoch = membership.transfer(cluster, third)
        assert cluster.active_controller() is third
        assert membership.transfer(cluster, third) == epoch
        # The first one may die: the others have all.
        cluster.nodes[100].kill()
        goes_on(cluster, "two-of-three")
        assert topics(cluster) >= {"one", "three", "two-of-three"}
        cluster.nodes[100].start()
        wait_for("the first controller following", lambda: follows(cluster, 100))

        membership.remove(cluster, cluster.nodes[100])
        membership.remove(cluster, second)
        assert voter_ids(cluster) == {third.id}
        goes_on(cluster, "last")
        assert topics(cluster) >= {"one", "three", "two-of-three", "last"}
        # Brokers have found them without a restart.
        assert [broker.state.process for broker in cluster.brokers] == processes
        # From its own files, without anybody else.
        cluster.stop()
        cluster.start()
        assert topics(cluster) >= {"one", "three", "two-of-three", "last"}


class Formatted(OwnServers):
    """Servers whose controllers are formatted by the storage tool, as the first voters."""

    def __init__(self, voters: str) -> None:
        self.voters = voters

    def format(
        self,
        node: NodeState,
        cluster_id: str,
        directories: Sequence[Path],
        security: Sequence[Record] = (),
    ) -> None:
        if not directories:
            return
        flags = [] if node.role == "broker" else ["-N"]
        if node.role == "controller" and self.voters:
            flags = ["-I", self.voters]
        words = ("format", "-t", cluster_id, "-c", node.properties_file, *flags)
        subprocess.run(
            [*script("jbod-storage"), *words],
            check=True,
            cwd=TREE,
            timeout=60,
            capture_output=True,
        )


@pytest.fixture
def first_voters(cluster_root: Path) -> Iterator[tuple[Cluster, Formatted]]:
    """Three controllers that were formatted with the same list, and add themselves."""
    servers = Formatted("")
    spec = ClusterSpec(brokers=2, disks=1, controllers=3)
    cluster = Cluster.plan(cluster_root, spec, servers=servers)
    try:
        own = {each.id: directory_of_voter(cluster.id, each.id) for each in cluster.controllers}
        servers.voters = ",".join(
            f"{each.id}@{each.address}:{kafka_uuid.to_text(own[each.id])}"
            for each in cluster.controllers
        )
        addresses = ",".join(each.address for each in cluster.controllers)
        cluster.make(
            {
                **DEFAULTS,
                "controller.quorum.voters": "",
                "controller.quorum.bootstrap.servers": addresses,
                "controller.quorum.auto.join.enable": "true",
            }
        )
        cluster.start()
        yield cluster, servers
    finally:
        cluster.close()


def test_voters_named_at_the_formatting_begin_a_quorum_and_a_replaced_disk_joins_it(
    first_voters: tuple[Cluster, Formatted],
) -> None:
    cluster, servers = first_voters
    goes_on(cluster, "first")
    found = cluster.quorum()
    assert found is not None
    own = {each.id: directory_id(each.metadata_dir) for each in cluster.controllers}
    assert found.directory_ids == own

    lost = next(each for each in cluster.controllers if each is not cluster.active_controller())
    lost.kill()
    shutil.rmtree(lost.metadata_dir)
    lost.metadata_dir.mkdir()
    cluster.own(lost.metadata_dir)
    servers.voters = ""
    cluster.format([lost])
    lost.start()

    new = directory_id(lost.metadata_dir)
    assert new != found.directory_ids[lost.id]
    wait_for("the new directory being a voter's", lambda: joined(cluster, lost, new), 60)
    goes_on(cluster, "second")


def joined(cluster: Cluster, node: Node, own: DirectoryId) -> bool:
    found = cluster.quorum()
    return found is not None and found.directory_ids.get(node.id) == own


def follows(cluster: Cluster, node_id: int) -> bool:
    found = cluster.quorum()
    return found is not None and found.end_offsets.get(node_id, -1) >= found.high_watermark


@pytest.mark.kafka
def test_kafkas_tools_describe_raise_and_change_a_quorum(
    quorum_of_three: Cluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    cluster = quorum_of_three
    controllers = ",".join(each.address for each in cluster.controllers)
    ways = [("--bootstrap-controller", controllers), ("--bootstrap-server", cluster.bootstrap)]

    def run(main: str, way: tuple[str, ...], *arguments: object) -> Printed:
        done = kafka_tools.run(main, *way, *arguments)
        assert done.code == 0, done
        return done

    for way in ways:
        status = described(run(QUORUM, way, "describe", "--status"))
        leader = cluster.active_controller().id
        assert (status["ClusterId"], status["LeaderId"]) == (cluster.id, str(leader))
        rows = [line.split() for line in run(QUORUM, way, "describe", "--replication").lines]
        parts = {int(row[0]): row[-1] for row in rows[1:]}
        assert {parts[each.id] for each in cluster.controllers} == {"Leader", "Follower"}
        assert parts[1] == parts[2] == "Observer"

    # A fixed set is not changed; its level is raised while it runs.
    way = ways[0]
    features = run(FEATURES, way, "describe").out
    assert "kraft.version" in features

    # The leader has to know the directories first, which the others tell it in their own time.
    def is_raised() -> bool:
        raised = kafka_tools.run(FEATURES, *way, "upgrade", "--feature", "kraft.version=1")
        assert raised.code == 0 or "has not told the leader its directory id" in raised.out, raised
        return raised.code == 0

    wait_for("the level of kraft.version", is_raised, 60)

    def is_told(way: tuple[str, str]) -> bool:
        lines = [line for line in run(FEATURES, way, "describe").lines if "kraft.version" in line]
        return "FinalizedVersionLevel: 1" in lines[0]

    for each in ways:
        wait_for(f"the level by {each[0]}", partial(is_told, each))
    refused = kafka_tools.run(FEATURES, *way, "downgrade", "--feature", "kraft.version=0")
    assert refused.code == 1

    for way in ways:
        others = [each for each in cluster.controllers if each is not cluster.active_controller()]
        gone = others[0]
        key = ("--controller-id", gone.id, "--controller-directory-id", text(gone))
        removed = run(QUORUM, way, "remove-controller", *key)
        assert "Removed" in removed.out
        assert gone.id not in voter_ids(cluster)
        twice = kafka_tools.run(QUORUM, *way, "remove-controller", *key)
        assert twice.code == 1
        goes_on(cluster, f"without-{gone.id}-{len(way[0])}")
        # It follows as an observer meanwhile, and comes back.
        wait_for(
            "the removed controller observing",
            partial(observes, kafka_tools, ways[0], gone),
        )
        run(QUORUM, *[way], "--command-config", gone.properties_file, "add-controller")
        assert gone.id in voter_ids(cluster)
    goes_on(cluster, "after")
    # The active one, too: it resigns, and another one leads.
    first = cluster.active_controller()
    key = ("--controller-id", first.id, "--controller-directory-id", text(first))
    run(QUORUM, ways[1], "remove-controller", *key)
    assert first.id not in voter_ids(cluster)
    goes_on(cluster, "without-the-first")


def text(node: Node) -> str:
    return kafka_uuid.to_text(directory_id(node.metadata_dir))


def observes(tools: KafkaTools, way: tuple[str, str], node: Node) -> bool:
    done = tools.run(QUORUM, *way, "describe", "--replication")
    return any(
        line.split()[0] == str(node.id) and line.split()[-1] == "Observer"
        for line in done.lines[1:]
    )


def described(printed: Printed) -> dict[str, str]:
    """Fields of a description, such as `LeaderId:  100`."""
    parts = (line.partition(":") for line in printed.lines)
    return {name.strip(): value.strip() for name, _, value in parts}
