"""Appends of clients: each batch goes to its replica, or waits until the replica can accept it.

Most batches are checked and appended at once. Batches whose check takes long, because they are
compressed or large, are checked on a thread. Later batches of the partition wait behind them, so
batches are appended in the order in which they arrive: producers send the next ones without waiting
for a response, and rely on this order.

A batch for a full directory waits for space until the timeout of its request. When there is space
it is appended; when the controller names another leader, the client is redirected. Apache Kafka has
no full directories: there the disk fails.

Source: `kafka.server.ReplicaManager.appendRecords`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from broker.disk.directory.no_space import FullError
from broker.disk.directory.shortage import ShortageError
from broker.limits import APPENDED_AT_ONCE
from broker.produce import leader_appends
from broker.produce.batch_checks import CheckedBatch, check_body, check_header, takes_long
from broker.produce.check_threads import CheckThreads
from broker.produce.leader_appends import append_of_client
from broker.replica.client_requests import AppendEntry, AppendResult
from broker.replica.leader_state import LeaderState
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.replica_state import Leading
from broker.replica.waiting import AppendRequest, TimeLimits
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.runtime.environment import Environment
from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

ACKS = (-1, 0, 1)


logger = logging.getLogger(__name__)


class _BeingChecked(NamedTuple):
    """An entry whose batch is checked on a thread."""

    request: AppendRequest
    position: int
    acks: int
    check: asyncio.Future[CheckedBatch]


class AppendService:
    """Takes the appends of clients.

    Args:
        replicas: Where they go.
        loop: The event loop.
        environment: Wall clock and threads.
    """

    def __init__(
        self, replicas: ReplicaRegistry, loop: asyncio.AbstractEventLoop, environment: Environment
    ) -> None:
        self._replicas = replicas
        self._loop = loop
        self._wall_ms = environment.wall_ms
        self._checks = CheckThreads(loop, environment.threads)
        self._time_limits = TimeLimits(loop)
        self._deferred: deque[tuple[AppendRequest, int, int]] = deque()
        """Requests, from which entry on they are left, and their acks; first what goes on first."""
        self._deferred_for: set[TopicPartition] = set()
        """For whom, and for whom others were since there was nothing to do."""
        self._lines: dict[TopicPartition, deque[_BeingChecked]] = {}
        """What is being checked, by partition and in the order of arrival; no line is empty."""

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append a client's batches, each behind all that came for its partition before.

        Offsets are given out before this returns, those of the first `APPENDED_AT_ONCE` batches at
        least; the others follow, so that a request with thousands lets others be answered.
        """
        request = AppendRequest(self._loop, entries)
        if self._deferred and not self._deferred_for.isdisjoint(e.topic_partition for e in entries):
            self._deferred.append((request, 0, acks))
            self._deferred_for.update(entry.topic_partition for entry in entries)
        else:
            self._append_from(request, 0, acks)
        self._time_limits.time_out_after(request, timeout_ms)
        return request.future

    def _append_from(self, request: AppendRequest, start: int, acks: int) -> None:
        """Append a slice of a request; what is left of it comes before all that is deferred."""
        end = min(start + APPENDED_AT_ONCE, len(request.entries))
        for index in range(start, end):
            if request.is_settled(index):
                # Its time was over before its turn came.
                continue
            if acks in ACKS:
                self._take(request, index, acks)
            else:
                request.refuse(index, ErrorCode.INVALID_REQUIRED_ACKS)
        if end < len(request.entries):
            if not self._deferred:
                self._loop.call_soon(self._go_on)
            self._deferred.appendleft((request, end, acks))
            self._deferred_for.update(entry.topic_partition for entry in request.entries[end:])

    def _go_on(self) -> None:
        """Append the next slice of what is deferred."""
        request, start, acks = self._deferred.popleft()
        is_last = not self._deferred
        self._append_from(request, start, acks)
        if not self._deferred:
            self._deferred_for.clear()
        elif not is_last:
            self._loop.call_soon(self._go_on)

    def close(self) -> None:
        """Check nothing any more; who waits for it is refused."""
        self._checks.close()

    def _take(self, request: AppendRequest, index: int, acks: int) -> None:
        """Check an entry and append it, or let it stand in line."""
        partition = self._found(request, index)
        if partition is None:
            return
        line = self._lines.get(partition.topic_partition)
        if line is None and _must_wait(partition):
            partition.waiters.when_ready(partial(self._take, request, index, acks))
            return
        records, limits = request.entries[index].records, partition.settings.limits
        try:
            leader, log = partition.leader_log()
            header = check_header(records, limits)
            leader_appends.check_append(partition, leader, acks, header)
            assert records is not None
            if request.is_settled(index):
                _passed_over(leader, header)
                return
            if line is None and not takes_long(header):
                checked = check_body(records, header, limits, self._wall_ms())
                append_of_client(partition, leader, log, request, index, acks, checked)
                if index == len(request.entries) - 1:
                    log.writer.flush()
                return
        except FullError:
            partition.waiters.when_ready(partial(self._take, request, index, acks))
            return
        except Exception as error:  # noqa: BLE001 - somebody waits for it; it is logged
            _refuse(request, index, partition, error)
            return
        check = partial(check_body, records, header, limits, self._wall_ms())
        being_checked = _BeingChecked(request, index, acks, self._checks.run(check))
        self._lines.setdefault(partition.topic_partition, deque()).append(being_checked)
        being_checked.check.add_done_callback(lambda _: self._advance(partition.topic_partition))

    def _advance(self, topic_partition: TopicPartition) -> None:
        """Append what has been checked, up to the first that has not."""
        line = self._lines.get(topic_partition)
        while line and line[0].check.done():
            self._append_checked(line.popleft())
        if line is not None and not line:
            del self._lines[topic_partition]

    def _append_checked(self, entry: _BeingChecked) -> None:
        request, index, acks, check = entry
        if check.cancelled():
            request.refuse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        partition = self._found(request, index)
        if partition is None:
            return
        if _must_wait(partition):
            partition.waiters.when_ready(partial(self._append_checked, entry))
            return
        try:
            batch = check.result()
            leader, log = partition.leader_log()
            leader_appends.check_append(partition, leader, acks, batch.header)
            if request.is_settled(index):
                _passed_over(leader, batch.header)
                return
            append_of_client(partition, leader, log, request, index, acks, batch)
        except FullError:
            partition.waiters.when_ready(partial(self._append_checked, entry))
        except Exception as error:  # noqa: BLE001 - somebody waits for it; it is logged
            _refuse(request, index, partition, error)

    def _found(self, request: AppendRequest, index: int) -> Partition | None:
        """Return the replica of an entry; there is None if it is refused."""
        topic_partition = request.entries[index].topic_partition
        partition = self._replicas.partition(topic_partition)
        if partition is None:
            code, hint = self._replicas.refusal(topic_partition)
            request.refuse(index, code, hint=hint)
        return partition


def _must_wait(partition: Partition) -> bool:
    """Return whether nothing can be appended now."""
    if isinstance(partition.state, Leading):
        return partition.is_held or partition.waiters.has_waiting_appends
    return partition.is_held or partition.is_awaited or partition.succession.is_awaited


def _passed_over(leader: LeaderState, header: BatchHeader) -> None:
    """Let a batch be whose time was over while it waited; what is behind must not overtake it."""
    leader.refused.refused(header, KafkaError(ErrorCode.REQUEST_TIMED_OUT))


def _refuse(request: AppendRequest, index: int, partition: Partition, error: Exception) -> None:
    if disk_errors.is_shortage(error):
        error = ShortageError(str(error))
    if not isinstance(error, KafkaError):
        logger.error("append to %s failed", partition.topic_partition, exc_info=error)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    request.refuse(index, error.code, message=error.message or None, hint=partition.hint)
