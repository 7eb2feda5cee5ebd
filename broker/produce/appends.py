"""Appends of clients: each batch goes to its replica, or waits until the replica can accept it.

Most batches are checked and appended at once. Batches whose check takes long, because they are
compressed or large, are checked on a thread. Later batches of the partition wait behind them, so
batches are appended in the order in which they arrive: producers send the next ones without waiting
for a response, and rely on this order.

The first batch of a transaction in a partition waits until its coordinator has agreed
(`transaction_admission`), and what comes behind it from the same producer waits as well.

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

from broker.bounds.limits import APPENDED_AT_ONCE
from broker.disk.calls import FullError, ShortageError
from broker.produce import leader_appends
from broker.produce.batch_checks import CheckedBatch, check_body, check_header, takes_long
from broker.produce.check_threads import CheckThreads
from broker.produce.leader_appends import append_of_client
from broker.produce.transaction_admission import (
    Admitted,
    Part,
    TransactionAdmission,
    admission,
    refusal,
    told_for,
)
from broker.replica.leading import Guard, LeaderState
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.waiting import (
    AppendEntry,
    AppendRequest,
    AppendResult,
    BatchTransaction,
    TimeLimits,
)
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.runtime.environment import Environment
from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

ACKS = (-1, 0, 1)

SENT_AGAIN = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS})
"""Errors of a first batch after which its producer sends it again."""


logger = logging.getLogger(__name__)


class _BeingChecked(NamedTuple):
    """An entry whose batch is checked on a thread."""

    request: AppendRequest
    position: int
    acks: int
    check: asyncio.Future[CheckedBatch]
    admitted: Admitted | None
    """Why a batch of a transaction may be appended."""


class AppendService:
    """Takes the appends of clients.

    Args:
        replicas: Where they go.
        loop: The event loop.
        environment: Wall clock and threads.

    Attributes:
        admission: Of batches that belong to transactions.
    """

    def __init__(
        self, replicas: ReplicaRegistry, loop: asyncio.AbstractEventLoop, environment: Environment
    ) -> None:
        self._replicas = replicas
        self._loop = loop
        self._wall_ms = environment.wall_ms
        self._checks = CheckThreads(loop, environment.threads)
        self._time_limits = TimeLimits(loop)
        self.admission = TransactionAdmission(loop)
        self._deferred: deque[tuple[AppendRequest, int, int]] = deque()
        """Requests, from which entry on they are left, and their acks; first what goes on first."""
        self._deferred_for: set[TopicPartition] = set()
        """For whom, and for whom others were since there was nothing to do."""
        self._lines: dict[TopicPartition, deque[_BeingChecked]] = {}
        """Batches in their checks, by partition and in the order of arrival; no line is empty."""

    def append(
        self,
        entries: Sequence[AppendEntry],
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None = None,
    ) -> asyncio.Future[list[AppendResult]]:
        """Append a client's batches, each behind all that came for its partition before.

        Offsets are given out before this returns, those of the first `APPENDED_AT_ONCE` batches at
        least; the others follow, so that a request with thousands lets others be answered.
        """
        request = AppendRequest(self._loop, entries, transaction)
        if len(entries) == 1 and not self._deferred and acks in ACKS:
            # As nearly all requests are.
            self._take(request, 0, acks)
        elif self._deferred and not self._deferred_for.isdisjoint(
            entry.topic_partition for entry in entries
        ):
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
            if request.results[index] is not None:
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

    def _take(
        self, request: AppendRequest, index: int, acks: int, before: Admitted | None = None
    ) -> None:
        """Check an entry and append it, or let it stand in line."""
        partition = self._replicas.partition(request.entries[index].topic_partition)
        if partition is None:
            self._refuse_unknown(request, index)
            return
        line = self._lines.get(partition.topic_partition)
        leading = partition.leads_and_takes()
        if leading is None and line is None and partition.must_wait:
            partition.waiters.when_ready(partial(self._take, request, index, acks, before))
            return
        admitted: Admitted | None = None
        records, limits = request.entries[index].records, partition.settings.limits
        try:
            leader, log = partition.leader_log() if leading is None else leading
            header = check_header(records, limits)
            leader_appends.check_append(partition, leader, acks, header)
            assert records is not None
            if request.results[index] is not None:
                _passed_over(leader, header)
                return
            if header.is_transactional:
                admitted = _admission(leader, log, header, request, before)
                if admitted is None:
                    self._ask(partition, leader, header, request, index, acks)
                    return
            if line is None and not takes_long(header):
                checked = check_body(records, header, limits, self._wall_ms())
                append_of_client(partition, leader, log, request, index, acks, checked)
                return
        except FullError:
            partition.waiters.when_ready(partial(self._take, request, index, acks, admitted))
            return
        except Exception as error:  # noqa: BLE001 - somebody waits for it; it is logged
            _refuse(request, index, partition, error)
            return
        check = partial(check_body, records, header, limits, self._wall_ms())
        being_checked = _BeingChecked(request, index, acks, self._checks.run(check), admitted)
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
        request, index, acks, check, admitted = entry
        if check.cancelled():
            request.refuse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        partition = self._found(request, index)
        if partition is None:
            return
        if partition.must_wait:
            partition.waiters.when_ready(partial(self._append_checked, entry))
            return
        try:
            batch = check.result()
            leader, log = partition.leader_log()
            leader_appends.check_append(partition, leader, acks, batch.header)
            if request.results[index] is not None:
                _passed_over(leader, batch.header)
                return
            header = batch.header
            if header.is_transactional and (
                _admission(leader, log, header, request, admitted) is None
            ):
                self._ask(partition, leader, header, request, index, acks)
                return
            append_of_client(partition, leader, log, request, index, acks, batch)
        except FullError:
            partition.waiters.when_ready(partial(self._append_checked, entry))
        except Exception as error:  # noqa: BLE001 - somebody waits for it; it is logged
            _refuse(request, index, partition, error)

    def _ask(
        self,
        partition: Partition,
        leader: LeaderState,
        header: BatchHeader,
        request: AppendRequest,
        index: int,
        acks: int,
    ) -> None:
        """Take an entry again when the coordinator of its transaction has answered."""
        assert request.transaction is not None
        self.admission.ask(
            leader,
            Part(
                partition.topic_partition,
                header.producer_id,
                header.producer_epoch,
                request.transaction,
            ),
            partial(self._answered, header, request, index, acks),
        )

    def _answered(
        self, header: BatchHeader, request: AppendRequest, index: int, acks: int, guard: Guard
    ) -> None:
        if guard.answer is ErrorCode.NONE:
            self._take(request, index, acks, guard)
            return
        partition = self._found(request, index)
        if partition is None:
            return
        assert guard.answer is not None
        assert request.transaction is not None
        error = refusal(guard.answer, request.transaction)
        leader = partition.leader
        if leader is not None and error.code in SENT_AGAIN:
            try:
                leader.refused.check(header)
            except KafkaError as first:
                error = first
            else:
                leader.refused.refused(header, error)
        _refuse(request, index, partition, error)

    def _found(self, request: AppendRequest, index: int) -> Partition | None:
        """Return the replica of an entry; there is None if it is refused."""
        topic_partition = request.entries[index].topic_partition
        partition = self._replicas.partition(topic_partition)
        if partition is None:
            self._refuse_unknown(request, index)
        return partition

    def _refuse_unknown(self, request: AppendRequest, index: int) -> None:
        code, hint = self._replicas.refusal(request.entries[index].topic_partition)
        request.refuse(index, code, hint=hint)


def _admission(
    leader: LeaderState,
    log: PartitionLog,
    header: BatchHeader,
    request: AppendRequest,
    before: Admitted | None,
) -> Admitted | None:
    """Return why a batch of a transaction may be appended; see `admission`."""
    transaction = request.transaction
    if transaction is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "the request has a batch of a transaction, but no transactional id",
        )
    try:
        return admission(leader, log, header, before)
    except KafkaError as error:
        raise KafkaError(told_for(error.code, transaction), error.message) from error


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
