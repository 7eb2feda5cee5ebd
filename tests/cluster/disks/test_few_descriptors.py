"""A broker with fewer file descriptors than segments: no disk is to blame, no replica is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, made, read_all

pytestmark = pytest.mark.cluster

TOPIC = "crowded"
PARTITIONS = 12
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
