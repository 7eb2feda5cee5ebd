"""Asks brokers to move replicas between their directories, and looks at how far they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from tests.cluster.harness import Cluster


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
