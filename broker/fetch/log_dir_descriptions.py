"""DescribeLogDirs: the contents of each directory, and the space on its disk.

Source: KIP-113, KIP-827 (sizes of the disk).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from broker.bounds.limits import DESCRIBE_DEADLINE_S
from broker.disk.directory import LogDir, LogDirs
from broker.fetch.fetch_requests import LogDirDescription, ReplicaDescription
from broker.moves.move import Move
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition

LONG_MAX = 2**63 - 1

Replicas = Iterable[tuple[Partition, PartitionLog]]


async def describe_log_dirs(
    log_dirs: LogDirs,
    replicas: Callable[[], Replicas],
    moves: Callable[[], Iterable[Move]],
    topics: Mapping[str, set[int]] | None,
) -> list[LogDirDescription]:
    """Describe every configured directory.

    All of them as they are at one moment, after the last disk was looked at: a replica that moves
    meanwhile is in one directory, neither in both nor in none.

    Args:
        log_dirs: The directories.
        replicas: Returns all usable replicas of this broker.
        moves: Returns the moves between its directories.
        topics: The partitions wanted, by topic; None for all.
    """
    sizes = await asyncio.gather(*map(_size, log_dirs.all))

    def is_wanted(topic_partition: TopicPartition) -> bool:
        return topics is None or (
            topic_partition.partition in topics.get(topic_partition.topic, ())
        )

    found: dict[LogDir, list[ReplicaDescription]] = {log_dir: [] for log_dir in log_dirs.all}
    for partition, log in replicas():
        if is_wanted(partition.topic_partition):
            found[log.log_dir].append(_current(partition, log))
    for move in moves():
        if is_wanted(move.topic_partition) and move.future is not None and not move.state.is_over:
            found[move.target].append(_future(move))
    return [
        _description(log_dir, size, replicas_here)
        for (log_dir, replicas_here), size in zip(found.items(), sizes, strict=True)
    ]


def _description(
    log_dir: LogDir, size: tuple[int, int] | None, replicas: Sequence[ReplicaDescription]
) -> LogDirDescription:
    if size is None:
        return LogDirDescription(
            path=str(log_dir.path),
            error_code=ErrorCode.KAFKA_STORAGE_ERROR,
            is_cordoned=log_dir.is_cordoned,
        )
    return LogDirDescription(
        path=str(log_dir.path),
        replicas=tuple(replicas),
        total_bytes=size[0],
        usable_bytes=size[1],
        is_cordoned=log_dir.is_cordoned,
    )


def _current(partition: Partition, log: PartitionLog) -> ReplicaDescription:
    return ReplicaDescription(
        topic_partition=partition.topic_partition,
        size_bytes=log.state.size_bytes,
        offset_lag=max(partition.high_watermark - log.end_offset, 0),
    )


def _future(move: Move) -> ReplicaDescription:
    return ReplicaDescription(
        topic_partition=move.topic_partition,
        size_bytes=move.size_bytes,
        offset_lag=move.lag,
        is_future=True,
    )


async def _size(log_dir: LogDir) -> tuple[int, int] | None:
    """Total and usable bytes of a disk, -1 where unknown; None of a directory that is offline."""
    try:
        async with asyncio.timeout(DESCRIBE_DEADLINE_S):
            return await log_dir.run(partial(_measure, log_dir))
    except (JbodlabError, TimeoutError):
        return None


def _measure(log_dir: LogDir) -> tuple[int, int]:
    """Look at the size of the disk, on the directory's thread."""
    try:
        total, usable = log_dir.fs.disk_usage(log_dir.path)
    except OSError:
        # As in Kafka, an unknown size of the disk is no reason to take the directory offline.
        return -1, -1
    return min(total, LONG_MAX), min(usable, LONG_MAX)
