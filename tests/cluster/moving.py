"""Asks brokers to move replicas between their directories, and looks at how far they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from jbodlab.client import KafkaConnection
from jbodlab.error_code import ErrorCode
from jbodlab.log import names
from jbodlab.log.names import DirKind
from jbodlab.protocol.api_table import ApiKey
from tests.cluster.harness import Cluster, wait_for

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
            "127.0.0.1", cluster.ports[broker], client_id="moving", timeout_s=10
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
    for path in cluster.log_dirs(broker):
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


def set_move_rate(cluster: Cluster, broker: int, bytes_per_second: int | None) -> None:
    """Change the pace of a broker's moves, and wait until it knows; None is without limit."""
    value = None if bytes_per_second is None else str(bytes_per_second)
    entry = ConfigEntry(
        MOVE_RATE,
        value,
        incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
    )
    kind = ConfigResource.Type.BROKER
    changed = ConfigResource(kind, str(broker), incremental_configs=[entry])
    for future in cluster.admin().incremental_alter_configs([changed]).values():
        future.result(20)

    def known() -> bool:
        asked = cluster.admin().describe_configs([ConfigResource(kind, str(broker))])
        ((_, answer),) = asked.items()
        told = answer.result(20)[MOVE_RATE]
        return bool(told.is_default if value is None else told.value == value)

    wait_for("the new rate", known)


def fill(cluster: Cluster, topic: str, mib: int, partition: int = 0) -> None:
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
        producer.produce(topic, f"{number:04000d}", partition=partition, on_delivery=delivered)
        if number % 1000 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    assert not errors
