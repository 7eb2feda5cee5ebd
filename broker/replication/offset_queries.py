"""ListOffsets and OffsetForLeaderEpoch: where in a log something is.

Source: `kafka.cluster.Partition.fetchOffsetForTimestamp`, `lastOffsetForLeaderEpoch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from broker.replication.exchange import EpochAnswer, EpochQuery, OffsetAnswer, OffsetQuery
from broker.replication.fetching import Replicas
from broker.replication.partition import Partition
from broker.replication.partition_log import PartitionLog
from jbodlab.error_code import ErrorCode
from jbodlab.errors import JbodlabError, KafkaError, LogDirError
from jbodlab.ids import BrokerId

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

NOT_FOUND = -1

logger = logging.getLogger(__name__)


async def list_offsets(
    replicas: Replicas, queries: Sequence[OffsetQuery], replica_id: BrokerId
) -> list[OffsetAnswer]:
    """Answer ListOffsets; followers see the log's end, consumers the high watermark."""
    return list(await asyncio.gather(*(_offset(replicas, query, replica_id) for query in queries)))


def epoch_end_offsets(replicas: Replicas, queries: Sequence[EpochQuery]) -> list[EpochAnswer]:
    """Answer OffsetForLeaderEpoch."""
    return [_epoch_end(replicas, query) for query in queries]


async def _offset(replicas: Replicas, query: OffsetQuery, replica_id: BrokerId) -> OffsetAnswer:
    partition = replicas.partition(query.topic_partition)
    if partition is None:
        code, _ = replicas.refusal(query.topic_partition)
        return OffsetAnswer(topic_partition=query.topic_partition, error_code=code)
    try:
        partition.check_epoch(query.current_leader_epoch)
        leader, log = partition.leader_log()
        if query.timestamp < 0:
            timestamp, offset = await _marked(partition, log, query.timestamp, replica_id)
            if query.timestamp == LATEST and replica_id < 0 and offset < leader.leader_epoch_start:
                # The high watermark has not reached this leader's own epoch yet: an earlier leader
                # may have shown more than this one knows to be replicated.
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        else:
            timestamp, offset = await _at_time(partition, log, query.timestamp, replica_id)
    except KafkaError as error:
        return OffsetAnswer(topic_partition=query.topic_partition, error_code=error.code)
    except LogDirError:
        return OffsetAnswer(
            topic_partition=query.topic_partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    except JbodlabError as error:
        logger.error("ListOffsets of %s failed: %s", query.topic_partition, error)
        return OffsetAnswer(
            topic_partition=query.topic_partition, error_code=ErrorCode.UNKNOWN_SERVER_ERROR
        )
    epoch = leader.leader_epoch if query.timestamp == LATEST else log.epochs.epoch_for(offset)
    return OffsetAnswer(
        topic_partition=query.topic_partition,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if offset >= 0 else -1,
    )


async def _marked(
    partition: Partition, log: PartitionLog, mark: int, replica_id: BrokerId
) -> tuple[int, int]:
    match mark:
        case -1:  # LATEST
            return -1, log.written_end if replica_id >= 0 else partition.high_watermark
        case -2 | -4:  # EARLIEST, EARLIEST_LOCAL
            return -1, log.start_offset
        case -3:  # MAX_TIMESTAMP
            found = await log.log_dir.run(log.log.offset_of_largest_timestamp)
            return found or (-1, NOT_FOUND)
        case -5:  # LATEST_TIERED
            return -1, NOT_FOUND
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {mark}")


async def _at_time(
    partition: Partition, log: PartitionLog, timestamp: int, replica_id: BrokerId
) -> tuple[int, int]:
    found = await log.log_dir.run(partial(log.log.offset_for_timestamp, timestamp))
    limit = log.written_end if replica_id >= 0 else partition.high_watermark
    if found is None or found[1] >= limit:
        return -1, NOT_FOUND
    return found


def _epoch_end(replicas: Replicas, query: EpochQuery) -> EpochAnswer:
    partition = replicas.partition(query.topic_partition)
    if partition is None:
        code, _ = replicas.refusal(query.topic_partition)
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
