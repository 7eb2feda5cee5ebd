"""DescribeLogDirs: what lies in each directory, and how full its disk is.

Source: KIP-113, KIP-827 (sizes of the disk).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from broker.disk.log_dir import LogDir
from broker.disk.log_dirs import LogDirs
from broker.moves.move import Move
from broker.replica.client_requests import LogDirDescription, ReplicaDescription
from broker.replica.partition import Partition
from broker.replica.partition_log import PartitionLog
from jbodlab.error_code import ErrorCode
from jbodlab.errors import JbodlabError
from jbodlab.ids import TopicPartition

DEADLINE_S = 3.0
"""Longest wait for one directory; one that hangs longer is about to be taken offline."""

LONG_MAX = 2**63 - 1

Replicas = Sequence[tuple[Partition, PartitionLog]]


async def describe_log_dirs(
    log_dirs: LogDirs,
    replicas: Replicas,
    moves: Sequence[Move],
    topics: Mapping[str, set[int]] | None,
) -> list[LogDirDescription]:
    """Describe every configured directory.

    Args:
        log_dirs: The directories.
        replicas: All usable replicas of this broker.
        moves: The moves between its directories, each with a future replica.
        topics: The partitions wanted, by topic; None for all.
    """

    def is_wanted(topic_partition: TopicPartition) -> bool:
        return topics is None or (
            topic_partition.partition in topics.get(topic_partition.topic, ())
        )

    wanted = [each for each in replicas if is_wanted(each[0].topic_partition)]
    moving = [each for each in moves if is_wanted(each.topic_partition)]
    described = (_describe(log_dir, wanted, moving) for log_dir in log_dirs.all)
    return list(await asyncio.gather(*described))


async def _describe(
    log_dir: LogDir, replicas: Replicas, moves: Sequence[Move]
) -> LogDirDescription:
    here = [(partition, log) for partition, log in replicas if log.log_dir is log_dir]
    try:
        async with asyncio.timeout(DEADLINE_S):
            total, usable = await log_dir.run(partial(_measure, log_dir))
    except (JbodlabError, TimeoutError):
        return LogDirDescription(
            path=str(log_dir.path),
            error_code=ErrorCode.KAFKA_STORAGE_ERROR,
            is_cordoned=log_dir.is_cordoned,
        )
    return LogDirDescription(
        path=str(log_dir.path),
        replicas=(
            *(
                ReplicaDescription(
                    topic_partition=partition.topic_partition,
                    size_bytes=log.state.segments.size_bytes,
                    offset_lag=max(partition.high_watermark - log.end_offset, 0),
                )
                for partition, log in here
                # It may have moved away while the disk was looked at.
                if log.log_dir is log_dir
            ),
            *(
                ReplicaDescription(
                    topic_partition=move.topic_partition,
                    size_bytes=move.size_bytes,
                    offset_lag=move.lag,
                    is_future=True,
                )
                for move in moves
                if move.target is log_dir and move.future is not None and not move.state.is_over
            ),
        ),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=log_dir.is_cordoned,
    )


def _measure(log_dir: LogDir) -> tuple[int, int]:
    """Look at the size of the disk, on the directory's thread."""
    try:
        total, usable = log_dir.fs.disk_usage(log_dir.path)
    except OSError:
        # As in Kafka, an unknown size of the disk is no reason to take the directory offline.
        return -1, -1
    return min(total, LONG_MAX), min(usable, LONG_MAX)
