"""Makes a follower's log equal to its leader's: appends fetched batches, truncates differences.

Source: KIP-101, KIP-279, KIP-595 (truncation on fetch), `AbstractFetcherThread`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.record_batch.record_batch import BatchHeader, crc_is_valid, iterate_headers
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.transactions import Marker, read_marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError

logger = logging.getLogger(__name__)


async def begin_with(
    partition: Partition,
    log: PartitionLog,
    records: bytes | memoryview | None,
    is_wanted: Callable[[], bool],
) -> bool:
    """Let a log without records begin where the first fetched batch does.

    Where records were deleted up to the middle of a batch, the leader's log begins there. A
    follower that begins at the same offset gets the batch as a whole.

    Source: `Partition.appendRecordsToFollowerOrFutureReplica`, UnexpectedAppendOffsetException.

    Args:
        partition: The replica.
        log: Its log, without records.
        records: The records that were fetched.
        is_wanted: Whether the replica still follows that leader.

    Returns:
        Whether the batches may be appended.
    """
    if not records:
        return True
    try:
        _, header = next(iterate_headers(records))
    except (DecodeError, StopIteration):
        return True  # whoever appends them says what is wrong
    if not header.base_offset < log.end_offset < header.next_offset:
        return True
    committed = partition.high_watermark
    if await log.restart_at(header.base_offset, committed=committed, is_wanted=is_wanted):
        partition.truncated()
    return is_wanted() and log.end_offset == header.base_offset


def append_fetched(
    log: PartitionLog, records: bytes | memoryview | None, *, is_last: bool = False
) -> None:
    """Send fetched batches to the disk as they are; `is_last`: see `DirectoryWriter.submit`.

    Raises:
        KafkaError: CORRUPT_MESSAGE, they are damaged or do not continue the log; nothing is
            appended then.
    """
    if not records:
        return
    headers: list[BatchHeader] = []
    markers: dict[int, Marker] = {}
    end = 0
    expected = log.end_offset
    try:
        for position, header in iterate_headers(records):
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"expected a batch at offset {expected}, got {header.base_offset}",
                )
            if not crc_is_valid(records, position, header):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"fetched batch at offset {header.base_offset} has a wrong CRC",
                )
            headers.append(header)
            if header.is_control:
                marker = read_marker(records, position, header)
                if marker is not None:
                    markers[header.base_offset] = marker
            end = position + header.size
            expected = header.next_offset
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if headers:
        whole = records if end == len(records) else memoryview(records)[:end]
        log.append_as_follower(whole, headers, markers, is_last=is_last)


def truncation_offset(
    epochs: LeaderEpochs, log_end: int, leader_epoch: int, leader_end: int
) -> int:
    """Return where a follower cuts its log, given an epoch of the leader and where it ends there.

    If the follower does not have that epoch, it cuts to the end of the largest smaller one that it
    has, and the next fetch asks again from there.
    """
    epoch, own_end = epochs.end_offset_for(leader_epoch, log_end)
    if own_end < 0:
        return min(leader_end, log_end)
    if epoch == leader_epoch:
        return min(own_end, leader_end, log_end)
    return min(own_end, log_end)


async def drop_incomplete(
    partition: Partition, log: PartitionLog, is_wanted: Callable[[], bool]
) -> None:
    """Empty a follower's log of which the first segments are lost, to copy all of it.

    Its leader would take it for complete, and so would those that follow it as the next leader.
    """
    lost = log.lost_range
    if lost is None:
        return
    logger.error(
        "the disk of %s lost offsets %d to %d; copying them from the leader",
        partition.topic_partition,
        *lost,
        extra=partition.topic_partition._asdict(),
    )
    committed = partition.high_watermark
    if await log.restart_at(lost[0], committed=committed, is_wanted=is_wanted):
        partition.truncated()


async def truncate_to_leader(
    partition: Partition,
    log: PartitionLog,
    leader_epoch: int,
    leader_end: int,
    is_wanted: Callable[[], bool],
) -> None:
    """Cut a follower's log to what it may have in common with its leader.

    Args:
        partition: The replica.
        log: Its log.
        leader_epoch: An epoch of the leader.
        leader_end: Where that ends there.
        is_wanted: Whether the replica still follows that leader.

    Raises:
        KafkaError: there is nothing to cut, so that the next fetch would meet the same answer.
    """
    offset = truncation_offset(log.epochs, log.end_offset, leader_epoch, leader_end)
    # A replica that led and wrote nothing has an epoch without records at its end. Truncating takes
    # the epoch away, although no record goes.
    if offset >= log.end_offset and log.epochs.latest_epoch <= leader_epoch:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"leader epoch {leader_epoch} ends at offset {leader_end}, the log at {log.end_offset}",
        )
    level = logging.WARNING if offset < partition.high_watermark else logging.INFO
    logger.log(
        level,
        "truncating %s from offset %d to %d, high watermark %d",
        partition.topic_partition,
        log.end_offset,
        offset,
        partition.high_watermark,
        extra={
            "topic": partition.topic_partition.topic,
            "partition": partition.topic_partition.partition,
        },
    )
    if await log.truncate(offset, committed=partition.high_watermark, is_wanted=is_wanted):
        partition.truncated()


def follows(partition: Partition, log: PartitionLog, leader_epoch: int) -> bool:
    """Return whether a replica still follows the leader of an epoch, with the same log."""
    return (
        partition.log is log
        and partition.leader is None
        and partition.registration.leader_epoch == leader_epoch
    )
