"""AlterReplicaLogDirs: moves replicas between this broker's log directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.api.answer import InParts, RequestContext, Response
from broker.api.ports import Replicas
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    """NONE says that the move has begun, or that there is nothing to move."""

    partition_index: int
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponse(Response):
    """One result for each partition, whatever number of directories named it."""

    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


class AlterReplicaLogDirsApi:
    """Asks the replicas."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def answer(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> InParts:
        """Begin, redirect or cancel moves; nothing is waited for."""
        return InParts(
            (
                (topic_partition, self._replicas.alter_log_dir(topic_partition, path))
                for topic_partition, path in _wanted(request).items()
            ),
            _response,
        )

    def failure(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext, error: KafkaError
    ) -> AlterReplicaLogDirsResponse:
        """Return the error for every partition."""
        return _response(dict.fromkeys(_wanted(request), error.code).items())


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the directory for each partition; the last one that names it counts."""
    return {
        TopicPartition(topic.name, index): log_dir.path
        for log_dir in request.dirs
        for topic in log_dir.topics
        for index in topic.partitions
    }


def _response(codes: Iterable[tuple[TopicPartition, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, code in codes:
        topics.setdefault(topic_partition.topic, []).append(
            AlterReplicaLogDirPartitionResult(
                partition_index=topic_partition.partition, error_code=code
            )
        )
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
    )
