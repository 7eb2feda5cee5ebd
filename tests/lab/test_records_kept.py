"""What would be lost with a cluster is counted, and what is nobody's is not."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from lab import up_and_down
from lab.cluster import Cluster


def test_partitions_count_once_and_bytes_of_all_replicas(tmp_path: Path) -> None:
    cluster = Cluster.plan(tmp_path / "cluster", brokers=2, log_dirs=1)
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
