"""Apache Kafka's own client and tools on this cluster, where Maven can fetch them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.snapshots import latest_snapshot, read_snapshot
from jbodlab.metadata.records.json_text import to_json
from tests.cluster.harness import CONTROLLER_ID, Cluster, wait_for
from tests.cluster.scenes import SETTINGS, Scene, Stages
from tests.kafka.tools import (
    CLUSTER,
    CONFIGS,
    DUMP_LOG,
    LOG_DIRS,
    REASSIGN,
    TOPICS,
    VERIFIABLE_PRODUCER,
    KafkaTools,
    Printed,
)

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

# Snapshots are written all the time, and all history is kept.
OFTEN = {**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": "2000"}


@pytest.fixture
def scene(stages: Stages) -> Iterator[Scene]:
    with stages.of(settings=OFTEN).scene() as scene:
        yield scene


@pytest.fixture
def tool(cluster: Cluster, kafka_tools: KafkaTools) -> Callable[..., list[str]]:
    """Runs a tool that has to succeed; returns the lines that it printed."""

    def run(name: str, *arguments: str) -> list[str]:
        options = () if name == DUMP_LOG else ("--bootstrap-server", cluster.bootstrap)
        done = kafka_tools.run(name, *options, *arguments)
        assert done.code == 0, done.out + done.err
        return done.lines

    return run


Tool = Callable[..., list[str]]


def test_java_producer_is_idempotent_here(scene: Scene, kafka_tools: KafkaTools) -> None:
    scene.create("verifiable", 3, 3)
    done = kafka_tools.run_alone(
        VERIFIABLE_PRODUCER,
        *("--bootstrap-server", scene.cluster.bootstrap, "--topic", "verifiable"),
        *("--max-messages", "2000", "--acks", "-1"),
    )
    assert done.code == 0, done
    events = [json.loads(line) for line in done.lines if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    assert not [event for event in events if event["name"] == "producer_send_error"]


def test_each_tool_prints_the_same_in_a_process_of_its_own(
    scene: Scene, kafka_tools: KafkaTools
) -> None:
    scene.create("alone", 1, 3)
    for name, arguments in (
        (TOPICS, ["--describe", "--topic", "alone"]),
        (LOG_DIRS, ["--describe", "--topic-list", "alone", "--broker-list", "1"]),
        (CONFIGS, ["--describe", "--entity-type", "topics"]),
        (REASSIGN, ["--verify"]),
    ):
        options = ["--bootstrap-server", scene.cluster.bootstrap, *arguments]
        here = kafka_tools.run(name, *options)
        assert here == kafka_tools.run_alone(name, *options), (name, arguments)


def test_dump_tool_reads_the_metadata_log(
    scene: Scene, cluster: Cluster, tool: Tool, tmp_path: Path
) -> None:
    scene.create("dumped", 3, 3)
    # A copy: the running controller appends a NoOp twice a second.
    copy = tmp_path / "__cluster_metadata-0"
    shutil.copytree(cluster.node(CONTROLLER_ID).metadata_dir / "__cluster_metadata-0", copy)
    segment = copy / "00000000000000000000.log"

    out = tool(DUMP_LOG, "--cluster-metadata-decoder", "--files", str(segment))

    assert not [line for line in out if "isvalid: false" in line or "Error at" in line]
    log = MetadataLog.open(tmp_path)
    count = sum(len(batch.records) for batch in read_batches(log.read(0, segment.stat().st_size)))
    log.close()
    assert sum(line.startswith("| offset:") for line in out) == count
    payloads = [json.loads(line.partition("payload: ")[2]) for line in out if "payload: " in line]
    kinds = {payload["type"] for payload in payloads}
    assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD"} <= kinds
    topics = [p["data"]["name"] for p in payloads if p["type"] == "TOPIC_RECORD"]
    assert "dumped" in topics


def test_dump_tool_reads_a_snapshot(
    scene: Scene, cluster: Cluster, tool: Tool, tmp_path: Path
) -> None:
    scene.create("snapshotted", 3, 3)
    directory = cluster.node(CONTROLLER_ID).metadata_dir / "__cluster_metadata-0"

    def newest_with_topic() -> Path | None:
        path = latest_snapshot(directory)
        return path if path is not None and b"snapshotted" in path.read_bytes() else None

    path = wait_for("a snapshot with the topic", newest_with_topic)
    copy = tmp_path / path.name
    shutil.copy(path, copy)

    out = tool(DUMP_LOG, "--cluster-metadata-decoder", "--files", str(copy))

    assert not [line for line in out if "isvalid: false" in line or "Error at" in line]
    snapshot = read_snapshot(copy)
    assert f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}" in out
    assert any("SnapshotHeader" in line for line in out)
    assert any("SnapshotFooter" in line for line in out)
    payloads = [json.loads(line.partition("payload: ")[2]) for line in out if "payload: " in line]
    assert payloads == [
        {"type": record.NAME, "version": version, "data": to_json(record, version)}
        for record, version in snapshot.records
    ]


def test_brokers_are_unregistered(scene: Scene, kafka_tools: KafkaTools) -> None:
    gone = scene.cluster.broker_ids[-1]
    scene.cluster.broker(gone).stop()

    def unregister(broker: int) -> Printed:
        at = ("--bootstrap-server", scene.cluster.bootstrap)
        return kafka_tools.run_alone(CLUSTER, "unregister", *at, "--id", broker)

    done = unregister(gone)
    assert f"Broker {gone} is no longer registered." in done.out, done
    assert gone not in scene.cluster.image().cluster.brokers
    refused = unregister(77)
    assert refused.code != 0
    assert "77" in refused.out + refused.err
    scene.start(gone)
    assert scene.registered(gone)
