"""Committed records of brokers of Apache Kafka."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from tests.cluster.harness import wait_for
from tests.cluster.lab_cluster import Cluster

TOPIC, GROUP = "t", "g"


def read(cluster: Cluster, last: str) -> list[str]:
    """The committed records of both partitions, up to a last one that was committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reads",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(2)])
    found: list[str] = []

    def all_read() -> bool:
        found.extend((each.value() or b"").decode() for each in consumer.consume(100, timeout=0.2))
        return found.count(last) == 2

    wait_for("all committed records", all_read, 60, last_seen=lambda: found)
    consumer.close()
    return sorted(found)
