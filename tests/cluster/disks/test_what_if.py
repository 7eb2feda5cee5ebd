"""The state that is foretold of a lost directory comes true: leaders, ISRs, the minimum of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cluster import ClusterSpec
from lab.cluster.engine import Engine
from lab.cluster.kafka_servers import KafkaServers
from lab.machine.folders import make_folder, remove_folder
from lab.machine.kafka_jars import NoKafkaError
from tests.cluster import predictions
from tests.cluster.commands import call, value
from tests.cluster.lab_cluster import Cluster
from tests.kafka.tools import REASSIGN, KafkaTools

LOSSES = 5


@pytest.mark.cluster
def test_losses_do_what_was_foretold(tmp_path: Path) -> None:
    root = make_folder()
    settings = predictions.SETTINGS
    with Cluster.running(
        root / "cluster", ClusterSpec(brokers=4, disks=3, config=settings)
    ) as cluster:
        predictions.make_topics(cluster)
        whole = value(cluster, "what-if")
        assert len(whole["directories"]) == 12
        assert call(cluster, "what-if", "--fail-on", "last_copies > 0").code == 2
        assert call(cluster, "what-if", "--ok-to-remove", "broker-9").code == 1
        file = tmp_path / "moves.json"
        assert call(cluster, "what-if", "--moves", file).code == 0
        assert json.loads(file.read_text())["partitions"]

        played = predictions.play(cluster, 7, LOSSES, "permission")

    assert all(one.changed for one in played)
    remove_folder(root)


@pytest.mark.cluster
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("a cluster of Apache Kafka")
@pytest.mark.parametrize("release", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.soak)])
def test_losses_on_kafkas_brokers_do_what_was_foretold(release: str) -> None:
    engine = Engine.parse(f"kafka:{release}")
    try:
        assert KafkaServers(engine).jars
    except NoKafkaError as error:
        pytest.skip(str(error))
    root = make_folder()
    settings = predictions.SETTINGS
    with Cluster.running(
        root / "cluster", ClusterSpec(brokers=4, disks=3, config=settings, engine=engine)
    ) as cluster:
        predictions.make_topics(cluster)
        played = predictions.play(cluster, 7, LOSSES, "permission")

    assert all(one.changed for one in played)
    remove_folder(root)


@pytest.mark.cluster
@pytest.mark.kafka
@pytest.mark.xdist_group("a cluster of Apache Kafka")
def test_kafkas_tool_accepts_the_moves(
    kafkas_cluster: Cluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    kafkas_cluster.create_topic("single", partitions=3, replicas=1)
    file = tmp_path / "moves.json"
    assert call(kafkas_cluster, "what-if", "--moves", file).code == 0
    assert json.loads(file.read_text())["partitions"]

    options = ("--bootstrap-server", kafkas_cluster.bootstrap)
    done = kafka_tools.run(REASSIGN, *options, "--reassignment-json-file", str(file), "--execute")

    assert done.code == 0, done
    assert "Successfully started" in done.out
