"""Asks brokers to move replicas between their directories, and looks at how far they are."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.storage.directory import names
from jbodlab.storage.directory.names import DirKind
from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster import configs
from tests.cluster.harness import Cluster, assigned, on_disk, wait_for

MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One replica in a directory."""

    path: Path
    size: int
    lag: int
    is_future: bool


def ask(cluster: Cluster, broker: int, key: ApiKey, version: int, request: Any) -> Any:
    """Send one request to a broker."""

    async def body() -> Any:
        connection = await KafkaConnection.open(
            "127.0.0.1", cluster.node(broker).port, client_id="moving", timeout_s=10
        )
        try:
            return await connection.call(key, version, request, timeout_s=20)
        finally:
            connection.close()

    return asyncio.run(body())


def alter(cluster: Cluster, broker: int, wanted: dict[tuple[str, int], Path]) -> set[ErrorCode]:
    """Have replicas moved; returns the codes of all."""
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=str(path),
                topics=(
                    AlterReplicaLogDirTopic(name=TopicName(topic), partitions=(i32(partition),)),
                ),
            )
            for (topic, partition), path in wanted.items()
        )
    )
    response = ask(cluster, broker, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)
    return {
        ErrorCode(int(partition.error_code))
        for topic in response.results
        for partition in topic.partitions
    }


def described(cluster: Cluster, broker: int, topic: str, partition: int) -> list[Described]:
    """Return all copies of a replica that a broker shows."""
    response = ask(
        cluster, broker, ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)
    )
    return [
        Described(
            path=Path(result.log_dir),
            size=found.partition_size,
            lag=found.offset_lag,
            is_future=found.is_future_key,
        )
        for result in response.results
        for named in result.topics
        if named.name == topic
        for found in named.partitions
        if found.partition_index == partition
    ]


def is_moving(cluster: Cluster, broker: int, topic: str) -> bool:
    """Return whether a broker has a future replica of a topic."""
    response = ask(
        cluster, broker, ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)
    )
    return any(
        found.is_future_key
        for result in response.results
        for named in result.topics
        if named.name == topic
        for found in named.partitions
    )


def kinds(cluster: Cluster, broker: int, topic: str) -> dict[int, list[tuple[DirKind, str]]]:
    """Return the folders of each partition: what they are and in which disk."""
    found: dict[int, list[tuple[DirKind, str]]] = {}
    for path in cluster.broker(broker).paths:
        for entry in path.iterdir():
            try:
                parsed = names.parse_partition_dir(entry.name)
            except ValueError:
                continue
            if parsed.topic_partition.topic == topic:
                found.setdefault(parsed.topic_partition.partition, []).append(
                    (parsed.kind, path.parent.name)
                )
    return found


def settled(cluster: Cluster, broker: int, topic: str) -> bool:
    """Whether each replica of a broker is once there, current, and where the metadata say."""
    found = kinds(cluster, broker, topic)
    current = {
        partition: [disk for kind, disk in each if kind is DirKind.CURRENT]
        for partition, each in found.items()
    }
    if any(len(disks) != 1 for disks in current.values()):
        return False
    if any(kind is DirKind.FUTURE for each in found.values() for kind, _ in each):
        return False
    return assigned(cluster, broker, topic) == on_disk(cluster, broker, topic)


def wait_settled(cluster: Cluster, broker: int, topic: str, deadline_s: float = 30.0) -> None:
    wait_for(
        f"broker {broker} settled",
        lambda: settled(cluster, broker, topic),
        deadline_s,
        last_seen=lambda: kinds(cluster, broker, topic),
    )


def only_current(cluster: Cluster, broker: int, topic: str) -> bool:
    """Whether no copy is left beside any replica, whatever its name."""
    return all(
        [kind for kind, _ in each] == [DirKind.CURRENT]
        for each in kinds(cluster, broker, topic).values()
    )


def other_dir(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> Path:
    """Return a directory in which a broker does not have a replica."""
    holder = cluster.broker(broker).log_dir_of(topic, partition).path
    return next(path for path in cluster.broker(broker).paths if path != holder)


def future_bytes(cluster: Cluster, broker: int, topic: str) -> int:
    """Return the size of the future replica of partition 0, 0 if there is none."""
    return sum(each.size for each in described(cluster, broker, topic, 0) if each.is_future)


def copied_bytes(directory: Path, topic: str, partition: int) -> int:
    """Return the size of the future replica in a directory, as the file system has it."""
    total = 0
    for folder in directory.glob(f"{topic}-{partition}.*-future"):
        for segment in folder.glob("*.log"):
            with contextlib.suppress(FileNotFoundError):
                total += segment.stat().st_size
    return total


def set_move_rate(cluster: Cluster, broker: int, bytes_per_second: int | None) -> None:
    """Change the pace of a broker's moves, and wait until it knows; None is without limit."""
    value = None if bytes_per_second is None else str(bytes_per_second)
    admin = configs.client(cluster)
    configs.alter(admin, configs.BROKER, str(broker), **{MOVE_RATE: value})

    def known() -> bool:
        # A setting without a default is told of only where it is set.
        told = configs.entries(admin, configs.BROKER, str(broker)).get(MOVE_RATE)
        return told is None if value is None else told is not None and told.value == value

    wait_for("the new rate", known)


def fill(cluster: Cluster, topic: str, mib: int, partitions: int = 1) -> None:
    """Write so much before a `Load` begins, which counts on from these records."""
    count = mib * 256
    errors = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "batch.size": 100_000,
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    for number in range(-count, 0):
        producer.produce(
            topic, f"{number:04000d}", partition=number % partitions, on_delivery=delivered
        )
        if number % 1000 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    assert not errors
