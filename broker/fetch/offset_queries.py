"""ListOffsets and OffsetForLeaderEpoch: where in a log something is.

Source: `kafka.cluster.Partition.fetchOffsetForTimestamp`, `lastOffsetForLeaderEpoch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.fetch.closest_replica import log_to_read
from broker.fetch.fetch_requests import (
    CONSUMER_ID,
    READ_COMMITTED,
    EpochAnswer,
    EpochQuery,
    OffsetAnswer,
    OffsetQuery,
)
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError, KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId


class Mark(IntEnum):
    """Marks that are asked for in place of a time; the last two are of tiered storage."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


TIERED = (Mark.LATEST_TIERED, Mark.EARLIEST_PENDING_UPLOAD)
NOT_FOUND = -1

logger = logging.getLogger(__name__)


class OffsetQueries:
    """Looks offsets up in the replicas of this broker."""

    def __init__(self, replicas: ReplicaRegistry) -> None:
        self._replicas = replicas

    async def list_offsets(
        self, queries: Sequence[OffsetQuery], replica_id: BrokerId, isolation: int
    ) -> list[OffsetAnswer]:
        """Answer ListOffsets.

        Followers see the log's end, consumers the high watermark, and those that want only
        committed records (isolation 1) the last stable offset.
        """
        reader = _Reader(replica_id, isolation == READ_COMMITTED)
        found = (_offset(self._replicas, query, reader) for query in queries)
        return list(await asyncio.gather(*found))

    def epoch_end_offset(self, query: EpochQuery) -> EpochAnswer:
        """Answer OffsetForLeaderEpoch for one partition."""
        partition = self._replicas.partition(query.topic_partition)
        if partition is None:
            code, _ = self._replicas.refusal(query.topic_partition)
            return EpochAnswer(topic_partition=query.topic_partition, error_code=code)
        try:
            partition.check_epoch(query.current_leader_epoch)
            _, log = partition.leader_log()
        except KafkaError as error:
            return EpochAnswer(topic_partition=query.topic_partition, error_code=error.code)
        epoch, end_offset = log.epochs.end_offset_for(query.leader_epoch, log.end_offset)
        return EpochAnswer(
            topic_partition=query.topic_partition, leader_epoch=epoch, end_offset=end_offset
        )


class _Reader(NamedTuple):
    replica_id: BrokerId
    read_committed: bool

    @property
    def is_consumer(self) -> bool:
        return self.replica_id == CONSUMER_ID

    def log(self, partition: Partition) -> PartitionLog:
        """Return the log to look into; only tools may ask a follower; raises KafkaError."""
        return log_to_read(partition, any_replica=self.replica_id < CONSUMER_ID)

    def end(self, partition: Partition, log: PartitionLog) -> int:
        """Return the first offset that it does not see."""
        if not self.is_consumer:
            return log.written_end
        high_watermark = partition.high_watermark
        return log.last_stable_offset(high_watermark) if self.read_committed else high_watermark


async def _offset(replicas: ReplicaRegistry, query: OffsetQuery, reader: _Reader) -> OffsetAnswer:
    partition = replicas.partition(query.topic_partition)
    if partition is None:
        code, _ = replicas.refusal(query.topic_partition)
        return OffsetAnswer(topic_partition=query.topic_partition, error_code=code)
    try:
        await partition.succession.wait()
        partition.check_epoch(query.current_leader_epoch)
        log, leader = reader.log(partition), partition.leader
        timestamp, offset = await _found(partition, log, query.timestamp, reader)
        early = leader and partition.high_watermark < leader.leader_epoch_start
        at_end = query.timestamp in (Mark.LATEST, Mark.MAX_TIMESTAMP)
        is_open = at_end or (offset < 0 and query.timestamp not in TIERED)
        if reader.is_consumer and early and is_open:
            # The high watermark has not reached this leader's own epoch yet: an earlier leader may
            # have shown more than this one knows to be replicated.
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    except KafkaError as error:
        return OffsetAnswer(topic_partition=query.topic_partition, error_code=error.code)
    except LogDirError:
        await partition.succession.wait()
        storage = ErrorCode.KAFKA_STORAGE_ERROR
        return OffsetAnswer(
            topic_partition=query.topic_partition,
            error_code=storage if partition.is_online else partition.refusal(),
        )
    except JbodlabError as error:
        logger.error("ListOffsets of %s failed: %s", query.topic_partition, error)
        return OffsetAnswer(
            topic_partition=query.topic_partition, error_code=ErrorCode.UNKNOWN_SERVER_ERROR
        )
    is_latest = leader is not None and query.timestamp == Mark.LATEST
    epoch = leader.leader_epoch if leader and is_latest else log.epochs.epoch_for(offset)
    return OffsetAnswer(
        topic_partition=query.topic_partition,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if offset >= 0 else -1,
    )


async def _found(
    partition: Partition, log: PartitionLog, wanted: int, reader: _Reader
) -> tuple[int, int]:
    """Return timestamp and offset of what is asked for by a time or a mark."""
    match wanted:
        case Mark.LATEST:
            return -1, reader.end(partition, log)
        case Mark.EARLIEST | Mark.EARLIEST_LOCAL:
            return -1, log.start_offset
        case Mark.MAX_TIMESTAMP:
            return await log.newest_record(reader.end(partition, log)) or (-1, NOT_FOUND)
        case _ if wanted in TIERED:
            return -1, NOT_FOUND
        case _ if wanted < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unsupported timestamp {wanted}")
        case _:
            return await _at_time(partition, log, wanted, reader)


async def _at_time(
    partition: Partition, log: PartitionLog, timestamp: int, reader: _Reader
) -> tuple[int, int]:
    found = await log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= reader.end(partition, log):
        return -1, NOT_FOUND
    return found
