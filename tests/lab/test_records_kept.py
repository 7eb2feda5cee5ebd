"""Records that would be lost with a cluster are counted, and what is nobody's is not."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from jbodlab.storage.directory import names
from jbodlab.storage.directory.partition_metadata import write_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import TopicPartition
from lab import up_and_down
from lab.cluster import Cluster, ClusterSpec


def test_partitions_count_once_and_bytes_of_all_replicas(tmp_path: Path) -> None:
    cluster = Cluster.plan(tmp_path / "cluster", ClusterSpec(brokers=2, disks=1))
    cluster.make_folders()
    for broker in cluster.brokers:
        for name, size in {
            "orders-0": 100,
            "orders-1": 0,
            "orders-2.0123456789abcdef0123456789abcdef-delete": 1_000,
            "__consumer_offsets-3": 1_000,
            "no partition": 1_000,
        }.items():
            folder = broker.log_dir(1).path / name
            folder.mkdir(parents=True)
            (folder / "00000000000000000000.log").write_bytes(bytes(size))

    found = up_and_down.records_kept(cluster.state)
    cluster.close()

    assert found == (1, 200)
    assert up_and_down.records_kept(replace(cluster.state, nodes=())) == (0, 0)


def test_cut_names_of_folders_count_for_the_topics_of_their_ids(tmp_path: Path) -> None:
    cluster = Cluster.plan(tmp_path / "cluster", ClusterSpec(brokers=1, disks=2))
    cluster.make_folders()
    first, second = (cluster.brokers[0].log_dir(number).path for number in (1, 2))
    long, other = TopicPartition("t" * 212, 0), TopicPartition("t" * 211 + "u", 0)
    for path, name, number in (
        (first, names.partition_dir(long), 1),
        (second, names.moved_dir(long, "0" * 32), 1),
        (second, names.moved_dir(other, "1" * 32), 2),
    ):
        (path / name).mkdir(parents=True)
        (path / name / "00000000000000000000.log").write_bytes(bytes(100))
        write_topic_id(
            PosixFileSystem(), path / name / names.PARTITION_METADATA_FILE, UUID(int=number)
        )

    found = up_and_down.records_kept(cluster.state)
    cluster.close()

    assert found == (2, 300)
