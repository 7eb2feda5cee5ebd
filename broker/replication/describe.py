"""DescribeLogDirs: what lies in each directory, and how full its disk is.

Source: KIP-113, KIP-827 (sizes of the disk).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.replication.exchange import LogDirDescription, ReplicaDescription
from broker.replication.partition import Partition
from broker.replication.partition_log import PartitionLog
from jbodlab.error_code import ErrorCode
from jbodlab.errors import JbodlabError

DEADLINE_S = 3.0
"""Longest wait for one directory; one that hangs longer is about to be taken offline."""

LONG_MAX = 2**63 - 1

Replicas = Sequence[tuple[Partition, PartitionLog]]


async def describe_log_dirs(
    log_dirs: LogDirs, replicas: Replicas, topics: Mapping[str, set[int]] | None
) -> list[LogDirDescription]:
    """Describe every configured directory.

    Args:
        log_dirs: The directories.
        replicas: All usable replicas of this broker.
        topics: The partitions wanted, by topic; None for all.
    """
    wanted = [
        (partition, log)
        for partition, log in replicas
        if topics is None
        or partition.topic_partition.partition in topics.get(partition.topic_partition.topic, ())
    ]
    return list(await asyncio.gather(*(_describe(log_dir, wanted) for log_dir in log_dirs.all)))


async def _describe(log_dir: LogDir, replicas: Replicas) -> LogDirDescription:
    here = [(partition, log) for partition, log in replicas if log.log_dir is log_dir]
    try:
        async with asyncio.timeout(DEADLINE_S):
            sizes, total, usable = await log_dir.run(
                partial(_measure, log_dir, [log for _, log in here])
            )
    except (JbodlabError, TimeoutError):
        return LogDirDescription(path=str(log_dir.path), error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return LogDirDescription(
        path=str(log_dir.path),
        replicas=tuple(
            ReplicaDescription(
                topic_partition=partition.topic_partition,
                size_bytes=size,
                offset_lag=max(partition.high_watermark - log.end_offset, 0),
            )
            for (partition, log), size in zip(here, sizes, strict=True)
        ),
        total_bytes=total,
        usable_bytes=usable,
    )


def _measure(log_dir: LogDir, logs: Sequence[PartitionLog]) -> tuple[list[int], int, int]:
    """Look at sizes, on the directory's thread."""
    sizes = [log.log.size_bytes for log in logs]
    try:
        total, usable = log_dir.fs.disk_usage(log_dir.path)
    except OSError:
        # As in Kafka, an unknown size of the disk is no reason to take the directory offline.
        return sizes, -1, -1
    return sizes, min(total, LONG_MAX), min(usable, LONG_MAX)
