"""Settings of topics and brokers: changed while everything runs, in force at once, and kept."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.cluster.harness import CONTROLLER_ID, Cluster, running, wait_for

pytestmark = pytest.mark.cluster

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
MSG_SIZE_TOO_LARGE = 10
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "replica.fetch.wait.max.ms": "300",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="jbodlab-test-"))
    root.chmod(0o755)
    with running(root / "cluster", brokers=2, dirs=2, settings=SETTINGS) as started:
        yield started
    shutil.rmtree(root, ignore_errors=True)


def alter(admin: AdminClient, kind: ResourceType, name: str, **changes: str | None) -> None:
    """Set configs, written with _ for a dot; None deletes one.

    Raises:
        KafkaException: refused.
    """
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def all_brokers(cluster: Cluster, **changes: str | None) -> None:
    """Set configs of all brokers; librdkafka cannot name these."""
    from kafka.protocol.admin import (  # type: ignore[import-untyped]
        IncrementalAlterConfigsRequest,
    )

    from admin_tool.options import Parsed
    from admin_tool.requests.connection import connected

    options = Parsed(values={"bootstrap-server": (cluster.bootstrap,)})
    entries = [
        (key.replace("_", "."), 1 if value is None else 0, value) for key, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(resources=[(4, "", entries)], validate_only=False)
    with connected(options) as connection:
        assert [each.error_code for each in connection.call(request).responses] == [0]


def described(admin: AdminClient, kind: ResourceType, name: str, key: str) -> tuple[str, int]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    entry = future.result(30)[key]
    return entry.value, entry.source


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
    directory = cluster.directory_of(broker, topic, 0) / f"{topic}-0"
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_a_topics_limit_counts_at_once_and_ends_at_once(cluster: Cluster) -> None:
    cluster.create_topic("limited", 1, 2)
    admin = cluster.admin()
    assert send(cluster, "limited", size=5_000) == []
    alter(admin, TOPIC, "limited", max_message_bytes="1000")
    wait_for(
        "the limit",
        lambda: [e.code() for e in send(cluster, "limited", size=5_000)] == [MSG_SIZE_TOO_LARGE],
    )
    alter(admin, TOPIC, "limited", max_message_bytes=None)
    wait_for("its end", lambda: send(cluster, "limited", size=5_000) == [])


def test_segments_and_retention_change_under_open_logs(cluster: Cluster) -> None:
    cluster.create_topic("kept", 1, 2)
    admin = cluster.admin()
    assert send(cluster, "kept", size=20_000, count=20) == []
    assert segments(cluster, 1, "kept") == [0]
    alter(admin, TOPIC, "kept", segment_bytes="50000")
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
    assert described(admin, BROKER, "2", "log.retention.bytes") == ("-1", 5)


def test_every_broker_tells_what_is_in_force_and_from_where(cluster: Cluster) -> None:
    cluster.create_topic("told", 1, 2, retention_ms="7000000")
    for broker in cluster.brokers:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.ports[broker]}"})
        assert described(admin, TOPIC, "told", "retention.ms") == ("7000000", 1)
        assert described(admin, TOPIC, "told", "file.delete.delay.ms") == ("100", 4)
        assert described(admin, TOPIC, "told", "segment.bytes") == ("1073741824", 5)
        for named in cluster.brokers:
            assert described(admin, BROKER, str(named), "node.id") == (str(named), 4)


def test_settings_outlive_every_process(cluster: Cluster) -> None:
    cluster.create_topic("lasting", 1, 2)
    admin = cluster.admin()
    alter(admin, TOPIC, "lasting", max_message_bytes="2000")
    alter(admin, BROKER, "1", log_retention_bytes="123456789")
    for node in (1, CONTROLLER_ID):
        cluster.kill(node)
        cluster.start_node(node)
    cluster.wait_ready()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    assert described(admin, TOPIC, "lasting", "max.message.bytes") == ("2000", 1)
    assert described(admin, BROKER, "1", "log.retention.bytes") == ("123456789", 2)
    wait_for(
        "the limit",
        lambda: [e.code() for e in send(cluster, "lasting", size=5_000)] == [MSG_SIZE_TOO_LARGE],
    )
    alter(admin, BROKER, "1", log_retention_bytes=None)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_follower_catches_up_at_the_rate(cluster: Cluster, side: str) -> None:
    topic, rate, size = f"slow-{side}", 1_000_000, 6_000_000
    cluster.create_topic(topic, 1, 2)
    admin = cluster.admin()
    others = {f"{side}_replication_throttled_rate": str(rate)}
    alter(admin, TOPIC, topic, **{f"{side}_replication_throttled_replicas": "*"})
    for broker in cluster.brokers:
        alter(admin, BROKER, str(broker), **others)
    # In sync nobody is throttled.
    assert send(cluster, topic, size=500_000, count=size // 500_000) == []
    follower = ({1, 2} - {cluster.leaders(topic)[0]}).pop()
    assert cluster.stop_node(follower) == 0
    assert send(cluster, topic, size=100_000, count=size // 100_000) == []
    cluster.start_node(follower)
    path = cluster.directory_of(follower, topic, 0) / f"{topic}-0"

    def held() -> int:
        return sum(each.stat().st_size for each in path.glob("*.log"))

    before = held()
    wait_for("the first bytes", lambda: held() > before + rate // 4, 60)
    begin, at_begin = time.monotonic(), held()
    wait_for("nearly all", lambda: held() > before + size - rate // 4, 60)
    elapsed_s, copied = time.monotonic() - begin, held() - at_begin
    # It may be slower on a machine that is busy, but never faster.
    assert copied < 1.15 * rate * elapsed_s + 200_000
    # A client of its own, as librdkafka does not find a restarted broker again by an admin call.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for broker in cluster.brokers:
        alter(admin, BROKER, str(broker), **dict.fromkeys(others))
    wait_for("the ISR", lambda: cluster.isr(topic)[0] == {1, 2}, 60)


def test_one_bad_config_of_several_changes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("whole", 1, 2)
    with pytest.raises(KafkaException, match=r"segment\.bytes"):
        alter(cluster.admin(), TOPIC, "whole", retention_ms="5", segment_bytes="x")
    assert described(cluster.admin(), TOPIC, "whole", "retention.ms")[1] == 5
