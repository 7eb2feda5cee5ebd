"""A broker that may open few files, and has many more segments than that."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.harness import made, read_all

pytestmark = pytest.mark.cluster

LIMIT = 256
PARTITIONS = 12
RECORDS, VALUE_BYTES = 26, 530_000
"""Each fills a segment, since two of them are more than 1 MiB."""


def test_many_segments_under_a_low_limit_take_no_replica_offline(cluster_root: Path) -> None:
    cluster = made(cluster_root, brokers=1, dirs=3)
    try:
        broker = cluster.broker(1)
        broker.launcher = ["/bin/sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
        cluster.start()
        cluster.create_topic("few", PARTITIONS, 1, segment_bytes=str(1 << 20))
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        failed: list[object] = []
        sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        for number in range(RECORDS):
            for partition, values in sent.items():
                value = b"%d-%d-" % (partition, number) + b"v" * VALUE_BYTES
                values.append(value)
                producer.produce(
                    "few",
                    value,
                    partition=partition,
                    on_delivery=lambda error, _message: failed.append(error) if error else None,
                )
            assert producer.flush(60) == 0

        assert not failed
        for _ in range(2):
            found = read_all(cluster.bootstrap, "few", PARTITIONS)
            assert {p: [value for _, value in each] for p, each in found.items()} == sent
        segments = sum(len(list(path.glob("few-*/*.log"))) for path in broker.paths)
        assert segments > LIMIT
        output = Path(broker.state.log_file).read_text()
        assert "offline" not in output
    finally:
        cluster.close()
