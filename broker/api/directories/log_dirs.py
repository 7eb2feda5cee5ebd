"""DescribeLogDirs: this broker's directories, what they hold, and which are offline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.replica.client_requests import LogDirDescription, ReplicaDescription
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest


class DescribeLogDirsPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One replica; `is_future_key` marks the copy that a move between directories builds."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class DescribeLogDirsTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of one topic in one directory."""

    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


class DescribeLogDirsResult(msgspec.Struct, frozen=True, kw_only=True):
    """One directory; an offline one has an error and nothing else."""

    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class DescribeLogDirsResponse(Response, frozen=True, kw_only=True):
    """One result for each configured directory."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[DescribeLogDirsResult, ...] = ()


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
    ) -> DescribeLogDirsResponse:
        """Return the error; versions before 3 have no place for it and list nothing."""
        return DescribeLogDirsResponse(error_code=error.code)


def _response(log_dirs: list[LogDirDescription]) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(results=tuple(map(_result, log_dirs)))


def _result(log_dir: LogDirDescription) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        error_code=log_dir.error_code,
        log_dir=log_dir.path,
        topics=_by_topic(log_dir.replicas),
        total_bytes=log_dir.total_bytes,
        usable_bytes=log_dir.usable_bytes,
        is_cordoned=log_dir.is_cordoned,
    )


def _by_topic(replicas: Iterable[ReplicaDescription]) -> tuple[DescribeLogDirsTopic, ...]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in replicas:
        topics.setdefault(replica.topic_partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=replica.topic_partition.partition,
                partition_size=replica.size_bytes,
                offset_lag=replica.offset_lag,
                is_future_key=replica.is_future,
            )
        )
    return tuple(
        DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_LOG_DIRS,
        versions=(1, 5),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=DescribeLogDirsApi,
    ),
)
