"""Samples that a scraper sees of a cluster while a directory dies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.harness import CONTROLLER_ID, Cluster, partitions_in, wait_for
from tests.cluster.scenes import Scene
from tests.cluster.scraper import Scraper

pytestmark = pytest.mark.cluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_is_documented(scene: Scene) -> None:
    scrape = Scraper(scene.cluster)

    names = {name for node in scrape.nodes for name in scrape.names(node)}

    documented = set(re.findall(r"^\| `(\w+)[`{]", DOCUMENT.read_text(), re.MULTILINE))
    assert names == documented


def test_traffic_is_counted_for_all_and_for_each_topic(scene: Scene) -> None:
    scrape = Scraper(scene.cluster)

    def sent(name: str, topic: str = "") -> float:
        label = f'{{topic="{topic}"}}' if topic else ""
        metric = f"kafka_server_BrokerTopicMetrics_{name}_total{label}"
        return sum(scrape(each).get(metric, 0) for each in scene.cluster.broker_ids)

    before = sent("MessagesIn")
    ledger = scene.topic(2, 3, records=100)
    scene.check(ledger)

    assert sent("MessagesIn", ledger.topic) == sent("MessagesIn") - before == 100
    assert sent("BytesIn", ledger.topic) > 0
    replicated = 2 * sent("BytesIn", ledger.topic)
    assert sent("ReplicationBytesIn", ledger.topic) == replicated
    assert sent("ReplicationBytesOut", ledger.topic) >= replicated
    assert sent("BytesOut", ledger.topic) >= sent("BytesIn", ledger.topic)
    produces = scrape(scene.cluster.leaders(ledger.topic)[0])
    assert produces['kafka_network_RequestMetrics_Requests_total{request="Produce"}'] > 0
    assert produces['kafka_network_RequestMetrics_TotalTimeMs_count{request="Produce"}'] > 0


def replicas_in(cluster: Cluster, directory: Path) -> int:
    return len(partitions_in(directory, "load"))


def test_a_dead_directory_is_seen_on_its_broker_and_on_the_controller(scene: Scene) -> None:
    cluster = scene.cluster
    scrape = Scraper(cluster)
    scene.create("load", 12, 3, min_insync_replicas="3")
    healthy = scrape(1)
    dead, *others = cluster.broker(1).paths
    assert healthy["kafka_log_LogManager_OfflineLogDirectoryCount"] == 0
    assert healthy["kafka_server_ReplicaManager_PartitionCount"] == 12
    assert healthy["kafka_server_ReplicaManager_OfflineReplicaCount"] == 0
    assert healthy["kafka_server_ReplicaManager_UnderReplicatedPartitions"] == 0
    assert healthy["kafka_server_ReplicaManager_UnderMinIsrPartitionCount"] == 0
    assert healthy["kafka_server_KafkaServer_BrokerState"] == 3
    dirs = cluster.broker(1).paths
    wait_for("all logs", lambda: sum(replicas_in(cluster, path) for path in dirs) == 12)
    for path in (dead, *others):
        count = healthy[f'jbodlab_log_dir_replicas{{logDirectory="{path}"}}']
        assert count == replicas_in(cluster, path)
    calls = f'jbodlab_log_dir_call_seconds_count{{logDirectory="{dead}",call="serving"}}'
    assert healthy[calls] > 0
    controller = scrape(CONTROLLER_ID)
    prefix = "kafka_controller_KafkaController"
    assert controller[f"{prefix}_ActiveControllerCount"] == 1
    assert controller[f"{prefix}_ActiveBrokerCount"] == 3
    assert controller[f"{prefix}_FencedBrokerCount"] == 0
    assert controller[f"{prefix}_GlobalTopicCount"] == 1
    assert controller[f"{prefix}_GlobalPartitionCount"] == 12
    assert controller[f"{prefix}_OfflinePartitionsCount"] == 0
    assert controller[f"{prefix}_PreferredReplicaImbalanceCount"] == 0

    lost = replicas_in(cluster, dead)
    assert lost
    scene.faults.make("chmod000", dead)
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
    assert broken[f'kafka_log_LogManager_LogDirectoryOffline{{logDirectory="{others[0]}"}}'] == 0
    assert (broken[state], healthy[state]) == (1, 0)
    assert broken["kafka_server_ReplicaManager_PartitionCount"] == 12

    def under(name: str) -> float:
        return sum(scrape(b)[f"kafka_server_ReplicaManager_{name}"] for b in cluster.broker_ids)

    wait_for("partitions under-replicated", lambda: under("UnderReplicatedPartitions") == lost)
    assert under("UnderMinIsrPartitionCount") == lost
    assert under("LeaderCount") == 12
    assert scrape(CONTROLLER_ID)[f"{prefix}_OfflinePartitionsCount"] == 0

    # A directory that is dead from the start holds the same replicas, though nobody saw them.
    cluster.node(1).kill()
    cluster.node(1).start()
    cluster.wait_served()
    wait_for(
        "replicas offline after the restart",
        lambda: scrape(1)["kafka_server_ReplicaManager_OfflineReplicaCount"] == lost,
    )
    scene.faults.heal(dead)
    cluster.node(1).kill()
    cluster.node(1).start()
    cluster.wait_served()
    wait_for("all in sync", lambda: under("UnderReplicatedPartitions") == 0)
    assert under("IsrExpands_total") > 0
    cluster.node(2).kill()
    wait_for(
        "broker 2 fenced",
        lambda: scrape(CONTROLLER_ID)[f"{prefix}_FencedBrokerCount"] == 1,
    )
