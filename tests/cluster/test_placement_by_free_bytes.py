"""`log.dir.placement=bytes`: new replicas go where there is room, and not all to the emptiest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import wait_for
from tests.cluster.small_disks import DiskCluster, require, why_no_mounts

pytestmark = pytest.mark.cluster

MIB = 1 << 20


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[DiskCluster]:
    require(why_no_mounts())
    cluster = DiskCluster(
        cluster_root,
        brokers=1,
        dirs=3,
        settings={"log.dir.placement": "bytes", "log.segment.bytes": "1048576"},
    )
    for path in cluster.log_dirs(1)[:2]:
        cluster.fillable(path).fill(20 * MIB)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def placed(cluster: DiskCluster, topic: str, count: int) -> list[int]:
    """Number of replicas in each directory, when all are there."""

    def counts() -> list[int]:
        return [len(cluster.partitions_in(path, topic)) for path in cluster.log_dirs(1)]

    wait_for("all replicas", lambda: sum(counts()) == count)
    return counts()


def test_the_emptiest_directory_comes_first(cluster: DiskCluster) -> None:
    cluster.create_topic("first", 1, 1)
    assert placed(cluster, "first", 1) == [0, 0, 1]


def test_thirty_at_once_are_spread_by_what_is_free(cluster: DiskCluster) -> None:
    cluster.create_topic("many", 30, 1)
    first, second, emptiest = placed(cluster, "many", 30)
    # About 20, 20 and 64 MiB are free.
    assert 15 <= emptiest <= 24
    assert min(first, second) >= 3
    assert abs(first - second) <= 1


def test_what_is_full_or_cordoned_gets_nothing(cluster: DiskCluster) -> None:
    first, second, emptiest = cluster.log_dirs(1)
    cluster.fillable(first).fill(100 << 10)
    done = cluster._tool(
        "jbod-log-dirs",
        *("cordon", "--bootstrap-server", cluster.bootstrap),
        *("--broker", "1", "--dir", str(emptiest)),
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def shown() -> Counter[str]:
        told = cluster._tool(
            "jbod-log-dirs", "--bootstrap-server", cluster.bootstrap, "--describe", "--table"
        ).stdout
        return Counter(word for word in ("FULL", "CORDONED") for _ in range(told.count(word)))

    wait_for("both states", lambda: shown() == Counter(("FULL", "CORDONED")))
    cluster.create_topic("spread", 6, 1)
    assert placed(cluster, "spread", 6) == [0, 6, 0]
    assert cluster.partitions_in(second, "spread") == set(range(6))
