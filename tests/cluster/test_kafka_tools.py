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
from jbodlab.metadata.records.features import SUPPORTED
from jbodlab.metadata.records.json_text import to_json
from jbodlab.vocabulary import kafka_uuid
from tests.cluster.harness import CONTROLLER_ID, Cluster, directory_id, wait_for
from tests.cluster.scenes import SETTINGS, Scene, Stages
from tests.kafka.tools import (
    CLUSTER,
    CONFIGS,
    DELETE_RECORDS,
    DUMP_LOG,
    FEATURES,
    LEADER_ELECTION,
    LOG_DIRS,
    OFFSETS,
    QUORUM,
    REASSIGN,
    TOPICS,
    TRANSACTIONS,
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
def cluster(scene: Scene) -> Cluster:
    return scene.cluster


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


def test_topics_and_log_dirs_are_described(scene: Scene, cluster: Cluster, tool: Tool) -> None:
    scene.create("described", 3, 3)
    assert "described" in tool(TOPICS, "--list")
    out = tool(LOG_DIRS, "--describe")
    described = json.loads(out[-1])
    assert [broker["broker"] for broker in described["brokers"]] == cluster.broker_ids
    for broker in described["brokers"]:
        assert {one["logDir"] for one in broker["logDirs"]} == {
            str(path) for path in cluster.broker(broker["broker"]).paths
        }
        held = [p["partition"] for one in broker["logDirs"] for p in one["partitions"]]
        assert {"described-0", "described-1", "described-2"} <= set(held)


def test_a_topic_is_described_by_its_id(scene: Scene, cluster: Cluster, tool: Tool) -> None:
    scene.create("by-id", 2, 3)
    topic_id = kafka_uuid.to_text(cluster.image().topics.by_name["by-id"].topic_id)
    by_name, by_id = (
        # Asked by id the tool has no ELR to print, whatever the broker says.
        [line.partition("\tElr:")[0] for line in tool(TOPICS, "--describe", *which)]
        for which in (("--topic", "by-id"), ("--topic-id", topic_id))
    )
    assert by_id == by_name


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


def test_features_are_described_and_only_possible_levels_are_set(
    cluster: Cluster, tool: Tool, kafka_tools: KafkaTools
) -> None:
    rows = {line.split()[1]: line.split()[3:8:2] for line in tool(FEATURES, "describe")}
    assert set(rows) == set(SUPPORTED)
    assert rows["metadata.version"] == ["3.3-IV3", "4.3-IV0", "4.3-IV0"]
    assert rows["group.version"] == ["0", "1", "1"]
    assert rows["share.version"] == ["0", "0", "0"]

    tool(FEATURES, "upgrade", "--feature", "metadata.version=30")
    for asked, reason in (
        (("upgrade", "--feature", "share.version=1"), "does not support this feature"),
        (("downgrade", "--metadata", "3.6-IV0"), "Refusing to perform the requested downgrade"),
    ):
        done = kafka_tools.run(FEATURES, "--bootstrap-server", cluster.bootstrap, *asked)
        assert done.code != 0
        assert reason in done.out + done.err


def test_the_quorum_is_described(cluster: Cluster, tool: Tool) -> None:
    status = dict(line.split(":", 1) for line in tool(QUORUM, "describe", "--status"))
    assert int(status["LeaderId"]) == CONTROLLER_ID
    assert int(status["HighWatermark"]) > 0

    head, *rows = (line.split() for line in tool(QUORUM, "describe", "--replication"))
    assert {row[0]: row[-1] for row in rows} == {
        str(CONTROLLER_ID): "Leader",
        **{str(broker): "Observer" for broker in cluster.broker_ids},
    }
    said = [dict(zip(head, row, strict=True)) for row in rows if row[-1] == "Observer"]
    assert {each["NodeId"]: each["DirectoryId"] for each in said} == {
        str(broker): str(kafka_uuid.to_text(directory_id(cluster.node(broker).metadata_dir)))
        for broker in cluster.broker_ids
    }
    assert all(int(each["LastCaughtUpTimestamp"]) > 0 for each in said)


def test_leaders_are_elected(scene: Scene, tool: Tool) -> None:
    first, *others = scene.cluster.broker_ids
    name = scene.topic_at([[first, *others]])
    scene.restart(first)
    scene.wait_all_in_sync()
    assert scene.cluster.leaders(name)[0] in others

    at = ("--topic", name, "--partition", "0")
    said = tool(LEADER_ELECTION, "--election-type", "preferred", *at)
    assert any("Successfully completed leader election" in line for line in said), said
    wait_for("the first replica leads", lambda: scene.cluster.leaders(name)[0] == first)
    said = tool(LEADER_ELECTION, "--election-type", "preferred", *at)
    assert any("Valid replica already elected" in line for line in said), said


def test_records_are_deleted_from_every_replica(
    scene: Scene, cluster: Cluster, tool: Tool, tmp_path: Path
) -> None:
    ledger = scene.topic(2, records=200)
    ends = sorted(tool(OFFSETS, "--topic", ledger.topic, "--time", "-1"))
    file = tmp_path / "deletions.json"

    def delete(*offsets: int) -> list[str]:
        wanted = [
            {"topic": ledger.topic, "partition": index, "offset": offset}
            for index, offset in enumerate(offsets)
        ]
        file.write_text(json.dumps({"partitions": wanted, "version": 1}))
        return tool(DELETE_RECORDS, "--offset-json-file", str(file))

    said = delete(10, -1)
    starts = sorted(tool(OFFSETS, "--topic", ledger.topic, "--time", "-2"))
    assert f"partition: {ledger.topic}-0\tlow_watermark: 10" in said
    assert starts == [f"{ledger.topic}:0:10", ends[1]]
    said = delete(10_000, -1)
    assert any("OffsetOutOfRangeException" in line for line in said), said
    # Whoever leads next begins there too.
    scene.restart(cluster.leaders(ledger.topic)[0])
    assert sorted(tool(OFFSETS, "--topic", ledger.topic, "--time", "-2")) == starts


def test_producers_are_described(scene: Scene, tool: Tool) -> None:
    ledger = scene.topic(1, records=20)
    at = ("--topic", ledger.topic, "--partition", "0")
    for which in ((), *(("--broker-id", str(each)) for each in scene.cluster.broker_ids)):
        head, *rows = (
            line.split() for line in tool(TRANSACTIONS, "describe-producers", *at, *which)
        )
        assert head[:2] == ["ProducerId", "ProducerEpoch"]
        assert [row[1:3] for row in rows] == [["0", "-1"]]


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
