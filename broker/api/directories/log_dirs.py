"""DescribeLogDirs: this broker's directories, what they hold, and which are offline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiParts, serves
from broker.fetch.fetch_requests import LogDirDescription, ReplicaDescription
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

DESCRIBE_LOG_DIRS = ResponseStructs(ApiKey.DESCRIBE_LOG_DIRS, 5)


@serves(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), on_cluster(AclOperation.DESCRIBE))
class DescribeLogDirsApi:
    """Asks the directories and the replicas, see `BrokerParts.describe_log_dirs`."""

    def __init__(self, parts: ApiParts) -> None:
        self._describe = parts.describe_log_dirs

    def answer(self, request: DescribeLogDirsRequest, context: RequestContext) -> Later:
        """Describe every directory, with the replicas asked for."""
        topics: dict[str, set[int]] | None = None
        if request.topics is not None:
            topics = {}
            for topic in request.topics:
                topics.setdefault(topic.topic, set()).update(topic.partitions)
        return Later(asyncio.ensure_future(self._describe(topics)), _response)

    def failure(
        self, request: DescribeLogDirsRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error; versions before 3 have no place for it and list nothing."""
        return DESCRIBE_LOG_DIRS.response(error_code=error.code)


def _response(log_dirs: list[LogDirDescription]) -> Response:
    return DESCRIBE_LOG_DIRS.response(results=tuple(map(_result, log_dirs)))


def _result(log_dir: LogDirDescription) -> Any:
    return DESCRIBE_LOG_DIRS.DescribeLogDirsResult(
        error_code=log_dir.error_code,
        log_dir=log_dir.path,
        topics=_by_topic(log_dir.replicas),
        total_bytes=log_dir.total_bytes,
        usable_bytes=log_dir.usable_bytes,
        is_cordoned=log_dir.is_cordoned,
    )


def _by_topic(replicas: Iterable[ReplicaDescription]) -> tuple[Any, ...]:
    topics: dict[str, list[Any]] = {}
    for replica in replicas:
        topics.setdefault(replica.topic_partition.topic, []).append(
            DESCRIBE_LOG_DIRS.DescribeLogDirsPartition(
                partition_index=replica.topic_partition.partition,
                partition_size=replica.size_bytes,
                offset_lag=replica.offset_lag,
                is_future_key=replica.is_future,
            )
        )
    return tuple(
        DESCRIBE_LOG_DIRS.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )
