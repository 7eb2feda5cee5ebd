"""Settings of topics and brokers: changed while everything runs, in force at once, and kept."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cluster.configs import BROKER, TOPIC, all_brokers, alter, client, described
from tests.cluster.harness import Cluster, wait_for
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

MSG_SIZE_TOO_LARGE = 10


def send(cluster: Cluster, topic: str, *, size: int, count: int = 1) -> list[Any]:
    """Produce records of a size; returns the errors."""
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "message.max.bytes": 10_000_000,
            "linger.ms": 0,
            "batch.num.messages": 1,
        }
    )
    for _ in range(count):
        producer.produce(
            topic, bytes(size), partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return [error for error in errors if error is not None]


def segments(cluster: Cluster, broker: int, topic: str) -> list[int]:
    directory = cluster.broker(broker).log_dir_of(topic, 0).path / f"{topic}-0"
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_a_topics_limit_counts_at_once_and_ends_at_once(scene: Scene) -> None:
    cluster = scene.cluster
    scene.create("limited", 1, 2)
    admin = client(cluster)
    assert send(cluster, "limited", size=5_000) == []
    alter(admin, TOPIC, "limited", max_message_bytes="1000")
    wait_for(
        "the limit",
        lambda: [e.code() for e in send(cluster, "limited", size=5_000)] == [MSG_SIZE_TOO_LARGE],
    )
    alter(admin, TOPIC, "limited", max_message_bytes=None)
    wait_for("its end", lambda: send(cluster, "limited", size=5_000) == [])


def test_segments_and_retention_change_under_open_logs(scene: Scene) -> None:
    cluster = scene.cluster
    scene.create("kept", 1)
    admin = client(cluster)
    assert send(cluster, "kept", size=20_000, count=20) == []
    assert segments(cluster, 1, "kept") == [0]
    alter(admin, TOPIC, "kept", internal_segment_bytes="50000")
    assert send(cluster, "kept", size=20_000, count=20) == []
    wait_for("segments", lambda: all(len(segments(cluster, b, "kept")) > 5 for b in (1, 2)))
    # For all brokers, and one of them does otherwise.
    alter(admin, BROKER, "2", log_retention_bytes="10000000")
    all_brokers(cluster, log_retention_bytes="100000")
    wait_for("retention", lambda: segments(cluster, 1, "kept")[0] > 0)
    assert described(admin, BROKER, "1", "log.retention.bytes") == ("100000", 3)
    assert described(admin, BROKER, "2", "log.retention.bytes") == ("10000000", 2)
    alter(admin, BROKER, "2", log_retention_bytes=None)
    assert described(admin, BROKER, "2", "log.retention.bytes") == ("100000", 3)
    wait_for("retention", lambda: segments(cluster, 2, "kept")[0] > 0)
    all_brokers(cluster, log_retention_bytes=None)
    wait_for(
        "the default", lambda: described(admin, BROKER, "2", "log.retention.bytes") == ("-1", 5)
    )


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_follower_catches_up_at_the_rate(scene: Scene, side: str) -> None:
    cluster = scene.cluster
    topic, rate, size = f"slow-{side}", 1_000_000, 3_000_000
    scene.create(topic, 1, 2)
    admin = client(cluster)
    others = {f"{side}_replication_throttled_rate": str(rate)}
    alter(admin, TOPIC, topic, **{f"{side}_replication_throttled_replicas": "*"})
    for broker in cluster.broker_ids:
        alter(admin, BROKER, str(broker), **others)
    # In sync nobody is throttled.
    assert send(cluster, topic, size=500_000, count=size // 500_000) == []
    follower = cluster.followers(topic, 0)[0].id
    assert cluster.node(follower).stop() == 0
    assert send(cluster, topic, size=100_000, count=size // 100_000) == []
    cluster.node(follower).start()
    path = cluster.broker(follower).log_dir_of(topic, 0).path / f"{topic}-0"

    def held() -> int:
        return sum(each.stat().st_size for each in path.glob("*.log"))

    before = held()
    wait_for("the first bytes", lambda: held() > before + rate // 4, 60)
    # Each time before and behind what was held then: nobody is blamed for a pause of ours.
    begin, at_begin = time.monotonic(), held()
    wait_for("nearly all", lambda: held() > before + size - rate // 4, 60)
    copied, elapsed_s = held() - at_begin, time.monotonic() - begin
    # It may be slower on a machine that is busy, but never faster.
    assert copied < 1.15 * rate * elapsed_s + 200_000
    admin = client(cluster)
    for broker in cluster.broker_ids:
        alter(admin, BROKER, str(broker), **dict.fromkeys(others))
    cluster.wait_isr(topic, 60)
