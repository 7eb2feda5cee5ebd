"""Markers: a coordinator ends a transaction in the partitions that this broker leads.

A marker is written as a batch with acks=all is: it waits for a replica whose log is not there yet,
and the answer comes when the high watermark passes it. Those for partitions of
`__consumer_offsets` go through the coordinators of groups, whose pending offsets they decide.

Source: `kafka.server.KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from broker.bounds.limits import MARKERS_TIMEOUT_MS
from broker.produce.leader_appends import append_marker
from broker.replica.registry import ReplicaRegistry
from broker.replica.waiting import (
    AppendEntry,
    AppendRequest,
    AppendResult,
    TimeLimits,
    WaitingAppend,
)
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.log.transactions import ABORT, COMMIT, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TopicPartition
from jbodlab.vocabulary.producer import Producer

logger = logging.getLogger(__name__)

BUMPS_FROM = 2
"""The transaction version from which each end of a transaction bumps the producer's epoch."""


class TransactionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one transaction, in some of its partitions.

    Attributes:
        producer_epoch: Epoch of the producer from the marker on.
        coordinator_epoch: Leader epoch of the coordinator's partition.
        transaction_version: Of the transaction; 0 where it is not known.
    """

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int
    transaction_version: int = 0
    partitions: tuple[TopicPartition, ...]


class GroupTransactions(Protocol):
    """The coordinators of groups on this broker."""

    def end_transaction(
        self, partition: int, producer: Producer, marker: Marker, *, bumps_epoch: bool = False
    ) -> asyncio.Future[None]:
        """Append a marker to a partition of `__consumer_offsets`; raises KafkaError, also later."""


class MarkerAppends:
    """Takes the markers of coordinators, those of this broker included; on the event loop.

    Args:
        replicas: Where they go.
        groups: The coordinators of groups.
        loop: The event loop.
        wall_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        replicas: ReplicaRegistry,
        groups: GroupTransactions,
        loop: asyncio.AbstractEventLoop,
        wall_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._loop = loop
        self._wall_ms = wall_ms
        self._time_limits = TimeLimits(loop)

    def write_markers(
        self, markers: Sequence[TransactionMarker]
    ) -> asyncio.Future[list[AppendResult]]:
        """Append markers.

        Returns:
            A future of one result for each partition of each marker, in their order.
        """
        places = [(each, partition) for each in markers for partition in each.partitions]
        request = AppendRequest(
            self._loop, [AppendEntry(partition, None) for _, partition in places]
        )
        for index, (marker, topic_partition) in enumerate(places):
            if topic_partition.topic == GROUP_METADATA_TOPIC:
                self._end_in_group(request, index, marker, topic_partition.partition)
            else:
                self._take(request, index, marker)
        self._time_limits.time_out_after(request, MARKERS_TIMEOUT_MS)
        return request.future

    def _take(self, request: AppendRequest, index: int, marker: TransactionMarker) -> None:
        """Append a marker, or let it wait until its replica can take it."""
        topic_partition = request.entries[index].topic_partition
        partition = self._replicas.partition(topic_partition)
        if partition is None:
            request.refuse(index, self._replicas.refusal(topic_partition)[0])
            return
        if request.results[index] is not None:
            # Its coordinator was told that nobody knows, and writes it again.
            return
        if partition.must_wait:
            partition.waiters.when_ready(partial(self._take, request, index, marker))
            return
        try:
            required, _ = append_marker(
                partition,
                Producer(marker.producer_id, marker.producer_epoch),
                contents(marker),
                bumps_epoch=marker.transaction_version >= BUMPS_FROM,
                now_ms=self._wall_ms(),
            )
        except KafkaError as error:
            request.refuse(index, error.code, message=error.message or None)
            return
        except Exception as error:
            if not disk_errors.is_shortage(error):
                logger.exception("cannot append a marker to %s", topic_partition)
            request.refuse(index, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        success = AppendResult(topic_partition=topic_partition)
        if partition.high_watermark >= required:
            request.settle(index, success)
        else:
            waiting = WaitingAppend(required, request, index, success)
            partition.waiters.replicated_appends.add(waiting)

    def _end_in_group(
        self, request: AppendRequest, index: int, marker: TransactionMarker, partition: int
    ) -> None:
        try:
            future = self._groups.end_transaction(
                partition,
                Producer(marker.producer_id, marker.producer_epoch),
                contents(marker),
                bumps_epoch=marker.transaction_version >= BUMPS_FROM,
            )
        except KafkaError as error:
            request.refuse(index, of_partition(error.code))
            return
        future.add_done_callback(partial(_group_answered, request, index))


def _group_answered(request: AppendRequest, index: int, future: asyncio.Future[None]) -> None:
    error = None if future.cancelled() else future.exception()
    if future.cancelled():
        request.refuse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif error is None:
        topic_partition = request.entries[index].topic_partition
        request.settle(index, AppendResult(topic_partition=topic_partition))
    elif isinstance(error, KafkaError):
        request.refuse(index, of_partition(error.code), message=error.message or None)
    else:
        logger.error("cannot end a transaction of a group", exc_info=error)
        request.refuse(index, ErrorCode.UNKNOWN_SERVER_ERROR)


def contents(marker: TransactionMarker) -> Marker:
    """Return what the record of a marker says."""
    return Marker(COMMIT if marker.is_committed else ABORT, marker.coordinator_epoch)


def of_partition(code: ErrorCode) -> ErrorCode:
    """Return the error of a partition that stands for an error of a group coordinator."""
    if code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code
