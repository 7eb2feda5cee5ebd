"""A broker with fewer file descriptors than segments: no disk is to blame, no replica is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from lab.cluster.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, as_servers, made, read_all, wait_for
from tests.cluster.moving import fill

pytestmark = pytest.mark.cluster

TOPIC = "crowded"
PARTITIONS = 12
MIB = 24
LEFT = 12
"""Descriptors that the broker gets beyond those that it has open."""
FROM_THE_START = 256
"""Descriptors of a broker that never had more."""
RECORDS, VALUE_BYTES = 26, 530_000
"""Each fills a segment, since two of them are more than 1 MiB."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    root = make_folder()
    cluster = made(root / "cluster", brokers=1, dirs=3)
    try:
        yield cluster
    finally:
        cluster.close()
        remove_folder(root)


def limit(cluster: Cluster, pid: int, files: int) -> None:
    """Let a process of the servers have so many files open; its own user may say that."""
    done = as_servers(cluster, ["prlimit", f"--nofile={files}:", "--pid", str(pid)])
    assert done.returncode == 0, done.stderr


def test_a_lack_of_descriptors_costs_no_replica_and_no_record(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    cluster.start()
    open_now = len(os.listdir(f"/proc/{broker.pid}/fd"))  # noqa: PTH208
    limit(cluster, broker.pid, open_now + LEFT)
    # Two hundred segments, of which each wants to be open, and replicas that are to be created.
    cluster.create_topic(TOPIC, PARTITIONS, 1, internal_segment_bytes="100000")
    fill(cluster, TOPIC, MIB, PARTITIONS)
    found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    segments = [file for path in broker.paths for file in path.glob(f"{TOPIC}-*/*.log")]
    assert len(segments) > 100
    limit(cluster, broker.pid, 4_096)

    assert sum(map(len, found.values())) == MIB * 256
    for offsets in ([offset for offset, _ in records] for records in found.values()):
        assert offsets == list(range(len(offsets)))
    output = broker.output()
    assert "went offline" not in output
    assert "the replica is offline" not in output
    wait_for(
        "every partition has its leader",
        lambda: all(state.leader == 1 for state in cluster.partitions(TOPIC).values()),
    )


def test_many_segments_under_a_low_limit_take_no_replica_offline(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    broker.launcher = ["/bin/sh", "-c", f'ulimit -n {FROM_THE_START}; exec "$@"', "sh"]
    cluster.start()
    cluster.create_topic(TOPIC, PARTITIONS, 1, segment_bytes=str(1 << 20))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    failed: list[object] = []
    sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    for number in range(RECORDS):
        for partition, values in sent.items():
            value = b"%d-%d-" % (partition, number) + b"v" * VALUE_BYTES
            values.append(value)
            producer.produce(
                TOPIC,
                value,
                partition=partition,
                on_delivery=lambda error, _message: failed.append(error) if error else None,
            )
        assert producer.flush(60) == 0

    assert not failed
    for _ in range(2):
        found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
        assert {p: [value for _, value in each] for p, each in found.items()} == sent
    segments = sum(len(list(path.glob(f"{TOPIC}-*/*.log"))) for path in broker.paths)
    assert segments > FROM_THE_START
    assert "offline" not in broker.output()
