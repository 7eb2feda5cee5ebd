"""AlterReplicaLogDirs: moves replicas between this broker's log directories."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import InParts, RequestContext
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest

ALTER_REPLICA_LOG_DIRS = ResponseStructs(ApiKey.ALTER_REPLICA_LOG_DIRS, 2)

logger = logging.getLogger(__name__)


_Result = tuple[str, Any]
"""The name of a topic, and the result for one of its partitions."""


@serves(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), on_cluster(AclOperation.ALTER))
class AlterReplicaLogDirsApi(ApiHandler):
    """Has replicas moved."""

    def answer(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> InParts:
        """Begin, redirect or cancel moves; nothing is waited for."""
        return InParts(self._altered(request), _told)

    def _altered(self, request: AlterReplicaLogDirsRequest) -> Iterator[_Result | None]:
        """Yield the results; a None has nothing but taken some time."""
        wanted: dict[TopicPartition, str] = {}
        for topic_partition, path in _named(request):
            wanted[topic_partition] = path
            yield None
        for topic_partition, path in wanted.items():
            yield _result(topic_partition, self._parts.move_requests.alter(topic_partition, path))

    def failure(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every partition."""
        named = dict.fromkeys(topic_partition for topic_partition, _ in _named(request))
        return _response(_result(topic_partition, error.code) for topic_partition in named)


def _named(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[TopicPartition, str]]:
    """Yield the directory for each partition; the last one that names it counts."""
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            for index in topic.partitions:
                yield TopicPartition(topic.name, index), log_dir.path


def _result(topic_partition: TopicPartition, code: ErrorCode) -> _Result:
    return topic_partition.topic, ALTER_REPLICA_LOG_DIRS.AlterReplicaLogDirPartitionResult(
        partition_index=topic_partition.partition, error_code=code
    )


def _told(parts: Sequence[_Result | None]) -> Response:
    """Return the response, and note what was refused: one line for each reason."""
    results = [part for part in parts if part is not None]
    refused: dict[ErrorCode, list[_Result]] = {}
    for topic, result in results:
        if result.error_code != ErrorCode.NONE:
            refused.setdefault(result.error_code, []).append((topic, result))
    for code, those in refused.items():
        topic, first = those[0]
        logger.info(
            "cannot move %s-%d and %d others: %s",
            *(topic, first.partition_index, len(those) - 1, code.name),
        )
    return _response(results)


def _response(results: Iterable[_Result]) -> Response:
    topics: dict[str, list[Any]] = {}
    for topic, result in results:
        topics.setdefault(topic, []).append(result)
    return ALTER_REPLICA_LOG_DIRS.response(
        results=tuple(
            ALTER_REPLICA_LOG_DIRS.AlterReplicaLogDirTopicResult(
                topic_name=name, partitions=tuple(partitions)
            )
            for name, partitions in topics.items()
        )
    )
