"""Appends to a replica that leads, by clients and by this broker itself.

All checks come before any change: a refused append leaves no trace. Nothing here waits; the log
assigns the offsets at once and writes later.

Source: `kafka.cluster.Partition.appendRecordsToLeader`.
"""

from __future__ import annotations

import logging

from broker.produce.batch_checks import CheckedBatch
from broker.produce.transaction_admission import known_from
from broker.replica.leading import LeaderState
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition, check_isr
from broker.replica.waiting import AppendRequest, AppendResult, WaitingAppend
from jbodlab.record_batch.record_batch import BatchHeader, read_header
from jbodlab.storage.log.producer_state import NO_OFFSET
from jbodlab.storage.log.transactions import ABORT, Marker, build_marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer

logger = logging.getLogger(__name__)

ALL_REPLICAS = -1
"""acks=all"""


def check_append(partition: Partition, leader: LeaderState, acks: int, header: BatchHeader) -> None:
    """Raise KafkaError if a leader may not append this batch now."""
    if leader.refused.first:
        leader.refused.check(header)
    if acks == ALL_REPLICAS and len(leader.isr) < partition.settings.min_insync_replicas:
        try:
            check_isr(leader.isr, partition.min_isr, partition.topic_partition)
        except KafkaError as error:
            leader.refused.refused(header, error)
            raise


def append_of_client(
    partition: Partition,
    leader: LeaderState,
    log: PartitionLog,
    request: AppendRequest,
    index: int,
    acks: int,
    batch: CheckedBatch,
) -> None:
    """Append a client's batch, and let the request wait for as much as `acks` asks.

    Args:
        partition: Where it belongs.
        leader: Which `check_append` was asked about, in the same step.
        log: Its log.
        request: The client's.
        index: Which of its batches.
        acks: As the client has it.
        batch: The batch to append.

    Raises:
        FullError: nothing was appended, as the directory has no room for it now.
        KafkaError: nothing was appended.
    """
    header, duplicate = batch.header, None
    if header.producer_id >= 0:
        transaction = request.transaction
        duplicate = log.producers.check(
            header, begins_at_zero=transaction is not None and transaction.adds_partitions
        )
    if duplicate is not None:
        # It needs no room, and tells the producer what it could not know.
        base_offset, required = duplicate.base_offset, duplicate.last_offset + 1
    else:
        log.writer.log_dir.check_room(header.size)
        if header.is_transactional:
            _end_former_transaction(partition, leader, log, header)
        is_last = index == len(request.entries) - 1
        stored = log.append_as_leader(batch.data, header, leader.leader_epoch, is_last=is_last)
        base_offset, required = stored.base_offset, stored.next_offset
    success = AppendResult(
        topic_partition=partition.topic_partition,
        base_offset=base_offset,
        log_append_time_ms=batch.append_time_ms,
        log_start_offset=log.start_offset,
    )
    reached = partition.high_watermark if acks == ALL_REPLICAS else log.written_end
    if reached >= required:
        request.settle(index, success)
        return
    waiters = partition.waiters
    queue = waiters.replicated_appends if acks == ALL_REPLICAS else waiters.written_appends
    queue.add(WaitingAppend(required, request, index, success))


def append_own(partition: Partition, data: bytes) -> BatchHeader:
    """Append a batch that this broker has made; it is committed when the high watermark passes it.

    The caller learns from a `LeadershipListener` that this broker leads, and when that ends.
    A batch of a transaction is taken if the transaction is open here, or its coordinator has said
    that it has this partition (`transaction_admission`).

    Returns:
        Its header with the offsets that it got.

    Raises:
        KafkaError: nothing was appended: the replica does not lead, too few are in sync, the batch
            is too large for the topic or the directory, or belongs to no transaction that has the
            partition (INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE).
    """
    assert not partition.is_held
    header, limits = read_header(data), partition.settings.limits
    leader, log = partition.leader_log()
    check_append(partition, leader, ALL_REPLICAS, header)
    if header.is_transactional and (
        known_from(leader, log, header.producer_id, header.producer_epoch) is None
    ):
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"{partition.topic_partition} is not in the transaction of producer "
            f"{header.producer_id}",
        )
    if header.size > limits.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"expected a batch of at most {limits.max_message_bytes} bytes (max.message.bytes) for "
            f"{partition.topic_partition}, got {header.size}",
        )
    if header.size > limits.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"expected a batch of at most {limits.segment_bytes} bytes (segment.bytes) for "
            f"{partition.topic_partition}, got {header.size}",
        )
    log.log_dir.check_room(header.size)
    if header.is_transactional:
        _end_former_transaction(partition, leader, log, header)
    return log.append_as_leader(data, header, leader.leader_epoch)


def _end_former_transaction(
    partition: Partition, leader: LeaderState, log: PartitionLog, header: BatchHeader
) -> None:
    """Abort what is open in an earlier epoch of a producer whose next transaction begins.

    The coordinator has said that the next transaction has this partition, so the former one is
    decided, and its marker was appended here once: an unclean election has lost it. How it was
    decided nobody knows any more. Left open, it would become a part of the next transaction.
    """
    entry = log.producers.entry(header.producer_id)
    if (
        entry is None
        or entry.transaction_start == NO_OFFSET
        or entry.epoch >= header.producer_epoch
    ):
        return
    logger.warning(
        "aborting the transaction of producer %d in %s that is open from offset %d in epoch %d: "
        "its marker was lost, and the next transaction begins in epoch %d",
        header.producer_id,
        partition.topic_partition,
        entry.transaction_start,
        entry.epoch,
        header.producer_epoch,
    )
    # The marker is not newer than what the coordinator sends next, and ends no guard: those are of
    # the next transaction.
    marker = Marker(ABORT, max(entry.coordinator_epoch, 0))
    data = build_marker(
        header.producer_id, entry.epoch, marker, timestamp_ms=max(header.max_timestamp, 0)
    )
    log.append_as_leader(data, read_header(data), leader.leader_epoch)


def append_marker(
    partition: Partition,
    producer: Producer,
    marker: Marker,
    *,
    bumps_epoch: bool,
    now_ms: int,
) -> tuple[int, bool]:
    """Append the marker that ends the transaction of a producer in a partition.

    Args:
        partition: Where it belongs.
        producer: Whose transaction ends, with its epoch from then on.
        marker: The coordinator's decision.
        bumps_epoch: Whether each end of a transaction bumps the epoch (transaction version 2).
        now_ms: Wall clock, ms since 1970.

    Returns:
        The offset that the high watermark must reach, and whether the marker was appended: one that
        bumps the epoch may be in the log already, though perhaps not on all replicas.

    Raises:
        KafkaError: nothing was appended: the replica does not lead, too few are in sync, or
            TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH.
    """
    assert not partition.is_held
    leader, log = partition.leader_log()
    if not log.producers.needs_marker(*producer, marker.coordinator_epoch, bumps_epoch=bumps_epoch):
        return log.end_offset, False
    data = build_marker(*producer, marker, timestamp_ms=now_ms)
    header = read_header(data)
    check_isr(leader.isr, partition.min_isr, partition.topic_partition)
    log.log_dir.check_room(header.size)
    stored = log.append_as_leader(data, header, leader.leader_epoch)
    leader.guards.marker_appended(producer.producer_id)
    return stored.next_offset, True
