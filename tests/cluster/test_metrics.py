"""What a scraper sees of a cluster while a directory dies."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.harness import CONTROLLER_ID, Cluster, free_ports, running, wait_for

pytestmark = pytest.mark.cluster

SHORT_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

Values = dict[str, float]


class Scraper:
    """Gives every node a port for its metrics, and asks there."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = [CONTROLLER_ID, *cluster.brokers]
        self.ports = dict(zip(self.nodes, free_ports(len(self.nodes)), strict=True))
        for node, port in self.ports.items():
            with cluster.properties(node).open("a") as file:
                file.write(f"jbodlab.metrics.port={port}\n")

    def __call__(self, node: int) -> Values:
        samples = [line.rpartition(" ") for line in self.lines(node) if not line.startswith("#")]
        return {name: float(value) for name, _, value in samples}

    def names(self, node: int) -> set[str]:
        """Names of all metrics, those included that have no sample at the moment."""
        return {line.split()[2] for line in self.lines(node) if line.startswith("# TYPE ")}

    def lines(self, node: int) -> list[str]:
        url = f"http://127.0.0.1:{self.ports[node]}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.read().decode().splitlines()


def test_every_metric_is_documented(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    scrape = Scraper(cluster)
    try:
        cluster.start()
        names = {name for node in scrape.nodes for name in scrape.names(node)}
    finally:
        cluster.stop()

    documented = set(re.findall(r"^\| `(\w+)[`{]", DOCUMENT.read_text(), re.MULTILINE))
    assert names == documented


def replicas_in(cluster: Cluster, directory: Path) -> int:
    return len(cluster.partitions_in(directory, "load"))


def test_a_dead_directory_is_seen_on_its_broker_and_on_the_controller(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, settings=SHORT_SESSION)
    scrape = Scraper(cluster)
    try:
        cluster.start()
        cluster.create_topic("load", 6, 3, min_insync_replicas="3")
        healthy = scrape(1)
        dead, *others = cluster.log_dirs(1)
        assert healthy["kafka_log_LogManager_OfflineLogDirectoryCount"] == 0
        assert healthy["kafka_server_ReplicaManager_PartitionCount"] == 6
        assert healthy["kafka_server_ReplicaManager_OfflineReplicaCount"] == 0
        assert healthy["kafka_server_ReplicaManager_UnderReplicatedPartitions"] == 0
        assert healthy["kafka_server_ReplicaManager_UnderMinIsrPartitionCount"] == 0
        assert healthy["kafka_server_KafkaServer_BrokerState"] == 3
        dirs = cluster.log_dirs(1)
        wait_for("all logs", lambda: sum(replicas_in(cluster, path) for path in dirs) == 6)
        for path in (dead, *others):
            count = healthy[f'jbodlab_log_dir_replicas{{logDirectory="{path}"}}']
            assert count == replicas_in(cluster, path)
        calls = f'jbodlab_log_dir_call_seconds_count{{logDirectory="{dead}",call="short"}}'
        assert healthy[calls] > 0
        controller = scrape(CONTROLLER_ID)
        prefix = "kafka_controller_KafkaController"
        assert controller[f"{prefix}_ActiveControllerCount"] == 1
        assert controller[f"{prefix}_ActiveBrokerCount"] == 3
        assert controller[f"{prefix}_FencedBrokerCount"] == 0
        assert controller[f"{prefix}_GlobalTopicCount"] == 1
        assert controller[f"{prefix}_GlobalPartitionCount"] == 6
        assert controller[f"{prefix}_OfflinePartitionsCount"] == 0
        assert controller[f"{prefix}_PreferredReplicaImbalanceCount"] == 0

        lost = replicas_in(cluster, dead)
        assert lost
        fault = cluster.inject("chmod000", dead)
        wait_for(
            "the directory offline",
            lambda: scrape(1)["kafka_log_LogManager_OfflineLogDirectoryCount"] == 1,
        )
        broken = wait_for(
            "replicas offline",
            lambda: (
                (values := scrape(1))["kafka_server_ReplicaManager_OfflineReplicaCount"] == lost
                and values
            ),
        )
        state = f'jbodlab_log_dir_state{{logDirectory="{dead}",state="OFFLINE"}}'
        assert broken[f'kafka_log_LogManager_LogDirectoryOffline{{logDirectory="{dead}"}}'] == 1
        assert (
            broken[f'kafka_log_LogManager_LogDirectoryOffline{{logDirectory="{others[0]}"}}'] == 0
        )
        assert (broken[state], healthy[state]) == (1, 0)
        assert broken["kafka_server_ReplicaManager_PartitionCount"] == 6

        def under(name: str) -> float:
            return sum(scrape(b)[f"kafka_server_ReplicaManager_{name}"] for b in cluster.brokers)

        wait_for("partitions under-replicated", lambda: under("UnderReplicatedPartitions") == lost)
        assert under("UnderMinIsrPartitionCount") == lost
        assert under("LeaderCount") == 6
        assert scrape(CONTROLLER_ID)[f"{prefix}_OfflinePartitionsCount"] == 0

        # A directory that is dead from the start holds the same replicas, though nobody saw them.
        cluster.kill(1)
        cluster.start_node(1)
        cluster.wait_ready()
        wait_for(
            "replicas offline after the restart",
            lambda: scrape(1)["kafka_server_ReplicaManager_OfflineReplicaCount"] == lost,
        )
        cluster.heal(fault)
        cluster.kill(1)
        cluster.start_node(1)
        cluster.wait_ready()
        wait_for("all in sync", lambda: under("UnderReplicatedPartitions") == 0)
        assert under("IsrExpands_total") > 0
        cluster.kill(2)
        wait_for(
            "broker 2 fenced",
            lambda: scrape(CONTROLLER_ID)[f"{prefix}_FencedBrokerCount"] == 1,
        )
    finally:
        cluster.stop()


def test_nothing_listens_where_no_port_is_set(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1) as cluster:
        for node in (CONTROLLER_ID, 1):
            assert "serves metrics" not in cluster.output(node)


def test_other_pages_are_not_found(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    scrape = Scraper(cluster)
    try:
        cluster.start()
        for node in scrape.nodes:
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{scrape.ports[node]}/", timeout=5)
    finally:
        cluster.stop()
