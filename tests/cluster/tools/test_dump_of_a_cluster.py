"""Every file that a cluster leaves behind, printed by `storage dump` and by Kafka's own tool."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.metadata.log.snapshots import latest_snapshot
from tests.cluster.harness import CONTROLLER_ID, Cluster, running, wait_for
from tests.kafka.tools import DUMP_LOG, KafkaTools
from tests.storage_tool.dumping import dump

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "log.index.interval.bytes": "100",
    "log.cleaner.backoff.ms": "200",
}
SUFFIXES = (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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


def compacted(cluster: Cluster, topic: str) -> None:
    """Write batches with each codec that lose some of their records, and wait until they have."""
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec in ("none", "zstd"),
                "linger.ms": 100,
                "batch.size": 8_000,
                "log_level": 0,
            }
        )
        for number in range(200):
            value = None if number % 40 == 7 else f"{codec} {number} ".encode() * 8
            producer.produce(topic, value, key=f"{codec} {number % 70}", headers={"h": b"1"})
        assert producer.flush(30) == 0

    def is_cleaned() -> bool:
        folders = [
            cluster.broker(broker).log_dir_of(topic, 0).path / f"{topic}-0"
            for broker in cluster.broker_ids
        ]
        return all((folder / ("0" * 20 + ".log.deleted")).exists() for folder in folders)

    wait_for("all replicas are compacted", is_cleaned)


def test_every_file_of_a_cluster_is_printed_as_by_kafkas_tool(
    cluster_root: Path, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic("plain", 2, 3, internal_segment_bytes="16384")
        cluster.create_topic("stamped", 2, 3, message_timestamp_type="LogAppendTime")
        cluster.create_topic(
            "compacted",
            1,
            3,
            cleanup_policy="compact",
            internal_segment_bytes="16384",
            min_cleanable_dirty_ratio="0.01",
        )
        for topic in ("plain", "stamped"):
            produce(cluster, topic)
        compacted(cluster, "compacted")
        metadata = cluster.node(CONTROLLER_ID).metadata_dir / "__cluster_metadata-0"
        wait_for("a snapshot", lambda: latest_snapshot(metadata))
        for node in [*cluster.broker_ids, CONTROLLER_ID]:
            assert cluster.node(node).stop() == 0
        shutil.copytree(cluster_root, tmp_path / "copy")
    found = sorted(path for path in (tmp_path / "copy").rglob("*") if path.name.endswith(SUFFIXES))
    kinds = {path.suffix for path in found if path.stat().st_size}
    assert kinds >= {".log", ".checkpoint", ".index", ".timeindex", ".snapshot"}

    for files, options in (
        ([p for p in found if "__cluster_metadata-0" in p.parts], ["--cluster-metadata-decoder"]),
        ([p for p in found if p.name == "bootstrap.checkpoint"], ["--cluster-metadata-decoder"]),
        (
            [p for p in found if p.parent.name.startswith(("plain", "stamped", "compacted"))],
            ["--print-data-log"],
        ),
    ):
        assert files
        expected = kafka_tools.run(DUMP_LOG, *options, "--files", ",".join(map(str, files)))
        assert expected.code == 0, expected.err
        dumped = dump(*options, *files)
        assert dumped.lines == expected.out.split("\n")[:-1]
        assert (dumped.code, dumped.err) == (0, "")
        objects = dump("--output=json", *options, *files).objects
        assert sum(one["kind"] == "record" for one in objects) == sum(
            line.startswith("| offset: ") for line in dumped.lines
        )
