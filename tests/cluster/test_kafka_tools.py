"""Apache Kafka's own client and tools on this cluster, where Maven can fetch them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.kafka import fetch_jars
from jbodlab.metadata_log.batches import read_batches
from jbodlab.metadata_log.metadata_log import MetadataLog
from jbodlab.metadata_log.snapshots import latest_snapshot, read_snapshot
from jbodlab.records.schema import to_json
from tests.cluster.harness import CONTROLLER_ID, Cluster, running, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

# Snapshots are written all the time, and all history is kept.
SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
JARS = Path(tempfile.gettempdir()) / "jbodlab-kafka-4.3.1"


@pytest.fixture(scope="module")
def jars() -> Path:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    try:
        fetch_jars(JARS)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"Maven cannot fetch Apache Kafka's jars: {error}")
    return JARS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="jbodlab-test-"))
    root.chmod(0o755)
    with running(root / "cluster", settings=SETTINGS) as started:
        yield started
    shutil.rmtree(root, ignore_errors=True)


def tool(jars: Path, name: str, *arguments: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{jars}/*", f"org.apache.kafka.tools.{name}", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_java_producer_is_idempotent_here(cluster: Cluster, jars: Path) -> None:
    cluster.create_topic("verifiable", 3, 3)
    out = tool(
        jars,
        "VerifiableProducer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", "verifiable"),
        *("--max-messages", "2000", "--acks", "-1"),
    )
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    assert not [event for event in events if event["name"] == "producer_send_error"]


def test_topics_and_log_dirs_are_described(cluster: Cluster, jars: Path) -> None:
    cluster.create_topic("described", 3, 3)
    topics = tool(
        jars, "TopicCommand", "--bootstrap-server", cluster.bootstrap, "--list"
    ).splitlines()
    assert "described" in topics
    out = tool(jars, "LogDirsCommand", "--bootstrap-server", cluster.bootstrap, "--describe")
    described = json.loads(out.splitlines()[-1])
    assert [broker["broker"] for broker in described["brokers"]] == cluster.brokers
    for broker in described["brokers"]:
        assert {one["logDir"] for one in broker["logDirs"]} == {
            str(path) for path in cluster.log_dirs(broker["broker"])
        }
        held = [p["partition"] for one in broker["logDirs"] for p in one["partitions"]]
        assert {"described-0", "described-1", "described-2"} <= set(held)


def test_dump_tool_reads_the_metadata_log(cluster: Cluster, jars: Path, tmp_path: Path) -> None:
    cluster.create_topic("dumped", 3, 3)
    # A copy: the running controller appends a NoOp twice a second.
    copy = tmp_path / "__cluster_metadata-0"
    shutil.copytree(cluster.metadata_dir(CONTROLLER_ID) / "__cluster_metadata-0", copy)
    segment = copy / "00000000000000000000.log"

    out = tool(jars, "DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))

    assert "isvalid: false" not in out
    assert "Error at" not in out
    log = MetadataLog.open(tmp_path)
    count = sum(len(batch.records) for batch in read_batches(log.read(0, segment.stat().st_size)))
    log.close()
    assert sum(line.startswith("| offset:") for line in out.splitlines()) == count
    payloads = [
        json.loads(line.partition("payload: ")[2])
        for line in out.splitlines()
        if "payload: " in line
    ]
    kinds = {payload["type"] for payload in payloads}
    assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD"} <= kinds
    topics = [p["data"]["name"] for p in payloads if p["type"] == "TOPIC_RECORD"]
    assert "dumped" in topics


def test_dump_tool_reads_a_snapshot(cluster: Cluster, jars: Path, tmp_path: Path) -> None:
    cluster.create_topic("snapshotted", 3, 3)
    directory = cluster.metadata_dir(CONTROLLER_ID) / "__cluster_metadata-0"

    def newest_with_topic() -> Path | None:
        path = latest_snapshot(directory)
        return path if path is not None and b"snapshotted" in path.read_bytes() else None

    path = wait_for("a snapshot with the topic", newest_with_topic)
    copy = tmp_path / path.name
    shutil.copy(path, copy)

    out = tool(jars, "DumpLogSegments", "--cluster-metadata-decoder", "--files", str(copy))

    assert "isvalid: false" not in out
    assert "Error at" not in out
    snapshot = read_snapshot(copy)
    assert f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}" in out
    assert "SnapshotHeader" in out
    assert "SnapshotFooter" in out
    payloads = [
        json.loads(line.partition("payload: ")[2])
        for line in out.splitlines()
        if "payload: " in line
    ]
    assert payloads == [
        {"type": record.NAME, "version": version, "data": to_json(record, version)}
        for record, version in snapshot.records
    ]
