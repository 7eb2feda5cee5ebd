"""Every file that a cluster leaves behind, printed by jbod-dump-log and by Kafka's own tool."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.kafka import fetch_jars
from jbodlab.metadata_log.snapshots import latest_snapshot
from tests.cluster.harness import BIN, CONTROLLER_ID, Cluster, running, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

JARS = Path(tempfile.gettempdir()) / "jbodlab-kafka-4.3.1"
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "log.index.interval.bytes": "100",
}
SUFFIXES = (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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


def produce(cluster: Cluster, topic: str) -> None:
    """Write some batches with each codec, by idempotent producers and by others."""
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec in ("none", "zstd"),
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for number in range(300):
            producer.produce(
                topic, f"{codec} {number} ".encode() * 8, key=str(number), headers={"h": b"1"}
            )
            if number % 50 == 49:
                assert producer.flush(30) == 0


def test_every_file_of_a_cluster_is_printed_as_by_kafkas_tool(
    cluster_root: Path, jars: Path, tmp_path: Path
) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic("plain", 2, 3, segment_bytes="16384")
        cluster.create_topic("stamped", 2, 3, message_timestamp_type="LogAppendTime")
        for topic in ("plain", "stamped"):
            produce(cluster, topic)
        metadata = cluster.metadata_dir(CONTROLLER_ID) / "__cluster_metadata-0"
        wait_for("a snapshot", lambda: latest_snapshot(metadata))
        for node in [*cluster.brokers, CONTROLLER_ID]:
            assert cluster.stop_node(node) == 0
        shutil.copytree(cluster_root, tmp_path / "copy")
    found = sorted(path for path in (tmp_path / "copy").rglob("*") if path.name.endswith(SUFFIXES))
    kinds = {path.suffix for path in found if path.stat().st_size}
    assert kinds >= {".log", ".checkpoint", ".index", ".timeindex", ".snapshot"}

    for files, options in (
        ([p for p in found if "__cluster_metadata-0" in p.parts], ["--cluster-metadata-decoder"]),
        ([p for p in found if p.name == "bootstrap.checkpoint"], ["--cluster-metadata-decoder"]),
        (
            [p for p in found if p.parent.name.startswith(("plain", "stamped"))],
            ["--print-data-log"],
        ),
    ):
        assert files
        arguments = [*options, "--files", ",".join(map(str, files))]
        expected = subprocess.run(
            [
                *("java", "-Xmx256m", "-Dstdout.encoding=UTF-8", "-cp", f"{jars}/*"),
                *("org.apache.kafka.tools.DumpLogSegments", *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        dumped = subprocess.run(
            [BIN / "jbod-dump-log", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert dumped.stdout.splitlines() == expected.stdout.splitlines()
        assert dumped.stderr == ""
        as_json = subprocess.run(
            [BIN / "jbod-dump-log", "--json", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        objects = [json.loads(line) for line in as_json.stdout.splitlines()]
        assert sum(one["kind"] == "record" for one in objects) == sum(
            line.startswith("| offset: ") for line in dumped.stdout.splitlines()
        )
