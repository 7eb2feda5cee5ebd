"""Fetch: what is there at once, what is waited for, what is read from files.

A fetch names partitions and offsets. If one of them has an error or there is enough to send, it is
answered now, else it waits in every partition that it names (`delayed`). A partition in an offline
directory or with a new leader so answers every fetch that names it at once.

What lies in memory is sent without touching a disk. The rest is read on the directories' threads,
all of them at the same time. A read that does not come back soon leaves its partition without data
in this answer: one hanging disk must not keep the partitions on the others from being followed.

Source: `kafka.server.ReplicaManager.fetchMessages`, KIP-74 (sizes), KIP-595 (diverging epochs).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from broker.following.quota import ByteQuota
from broker.replica.client_requests import (
    DivergingEpoch,
    FetchEntry,
    FetchParams,
    FetchResult,
    LeaderHint,
)
from broker.replica.partition import Partition
from broker.replica.partition_log import PartitionLog
from broker.replica.registry import ReplicaRegistry
from broker.replica.tail_cache import EMPTY_SLICE, Slice
from broker.replica.waiting import WaitingFetch, or_error
from broker.serving.closest_replica import ClosestReplica, log_to_read, may_serve
from broker.serving.diverging import diverging_epoch
from jbodlab.error_code import ErrorCode
from jbodlab.errors import CorruptRecordError, KafkaError, LogDirError
from jbodlab.protocol.record_batch import iterate_headers

ENTRIES_FEW = 500
ASKED_PER_ENTRY_S = 20e-6
"""A waiting fetch of many partitions is looked at so rarely that it takes little of the loop."""

READ_WAIT_MAX_S = 1.0
"""Longest time that an answer waits for one of its disks."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readable:
    """An entry of a fetch that may be read; `log` is None while the log is being created."""

    entry: FetchEntry
    partition: Partition
    log: PartitionLog | None
    to_written_end: bool
    """Whether the reader sees what is not committed yet."""
    quota: ByteQuota | None = None
    """Where the bytes count, if this replica is throttled."""
    is_in_sync: bool = True
    """Whether the reader is in the ISR and therefore never held back."""
    committed_only: bool = False
    """Whether the reader must not see records of transactions that are open."""

    @property
    def is_held_back(self) -> bool:
        """Whether nothing may be sent just now."""
        return self.quota is not None and not self.is_in_sync and self.quota.is_exceeded

    @property
    def max_offset(self) -> int:
        """First offset that the reader must not see."""
        if self.log is None:
            return 0
        if self.to_written_end:
            return self.log.written_end
        high_watermark = self.partition.high_watermark
        return (
            self.log.last_stable_offset(high_watermark) if self.committed_only else high_watermark
        )

    def available(self, enough: int) -> int:
        """Return how many bytes could be sent, counting no further than `enough`."""
        if self.log is None or self.is_held_back:
            return 0
        return self.log.available(self.entry.fetch_offset, self.max_offset, enough)


class FetchService:
    """Answers fetches from the partitions of this broker."""

    def __init__(
        self,
        replicas: ReplicaRegistry,
        loop: asyncio.AbstractEventLoop,
        quota: ByteQuota | None = None,
        closest: ClosestReplica | None = None,
    ) -> None:
        self.replicas = replicas
        self._loop = loop
        self._quota = quota
        self._closest = closest

    @property
    def sends_consumers_away(self) -> bool:
        """Whether consumers are sent to followers, which then must soon know what is committed."""
        return self._closest is not None

    def fetch(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[list[FetchResult]]:
        """Start to answer; the future is cancelled by a client that is gone."""
        answer: asyncio.Future[list[FetchResult]] = self._loop.create_future()
        found = [self.find(params, entry, news=True) for entry in entries]
        if params.max_wait_ms <= 0 or not found or not must_wait(found, params.min_bytes):
            FetchAnswer(params, found, answer, self._loop).start()
            return answer
        readable = [item for item in found if isinstance(item, Readable)]
        waiting = WaitingFetch(
            self._loop,
            params.max_wait_ms,
            is_enough=lambda: _has_enough(readable, params.min_bytes),
            finish=lambda: self._answer_anew(params, entries, answer),
            rest_s=len(entries) * ASKED_PER_ENTRY_S if len(entries) > ENTRIES_FEW else 0.0,
        )
        for item in readable:
            partition = item.partition
            waiting.stand_in(
                partition.waiters.consumer_fetches
                if params.is_consumer
                else partition.waiters.follower_fetches
            )
        answer.add_done_callback(lambda _: None if waiting.done else waiting.cancel())
        return answer

    def _answer_anew(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        answer: asyncio.Future[list[FetchResult]],
    ) -> None:
        with or_error(answer):
            found = [self.find(params, entry, news=False) for entry in entries]
            FetchAnswer(params, found, answer, self._loop).start()

    def find(self, params: FetchParams, entry: FetchEntry, *, news: bool) -> Readable | FetchResult:
        """Return what can be read of one entry, or the result that says why nothing can."""
        partition = self.replicas.partition(entry.topic_partition)
        if partition is None:
            code, hint = self.replicas.refusal(entry.topic_partition)
            return _refused(entry, code, hint)
        try:
            return self._check(params, entry, partition, news=news)
        except KafkaError as error:
            return _refused(entry, error.code, partition.hint)

    def _check(
        self, params: FetchParams, entry: FetchEntry, partition: Partition, *, news: bool
    ) -> Readable | FetchResult:
        """Check one entry, and take notice of a follower's progress where it is `news`."""
        if entry.topic_id is not None and entry.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if partition.succession.is_awaited and not params.is_follower:
            # A follower is told at once: what it has of other partitions must not wait.
            return Readable(entry, partition, None, False)
        partition.check_epoch(entry.current_leader_epoch)
        if partition.is_awaited:
            return Readable(entry, partition, None, not params.is_consumer)
        away = self.sends_consumers_away
        any_replica = may_serve(params, partition, sends_consumers_away=away)
        log = log_to_read(partition, any_replica=any_replica)
        if params.is_follower:
            self._check_broker_epoch(params)
        diverging = diverging_epoch(entry, log)
        if diverging is not None:
            return _result(entry, partition, log, EMPTY_SLICE, diverging)
        if not log.start_offset <= entry.fetch_offset <= log.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if news and params.is_follower:
            partition.high_watermark_known(entry.high_watermark)
            if params.takes_records:
                partition.in_sync.follower_fetched(
                    params.replica_id,
                    entry.fetch_offset,
                    params.replica_epoch,
                    entry.log_start_offset,
                )
        if params.rack is not None and self._closest is not None:
            closest = self._closest.of(partition, entry, params.rack)
            if closest is not None:
                told = _result(entry, partition, log, EMPTY_SLICE, None)
                return replace(told, preferred_read_replica=closest)
        return self.readable(params, entry, partition, log)

    def readable(
        self, params: FetchParams, entry: FetchEntry, partition: Partition, log: PartitionLog
    ) -> Readable:
        """Return an entry that may be read, with the quota where its reader is throttled."""
        quota, leader = self._quota, partition.leader
        if quota is None or not quota.is_limited or not params.is_follower or leader is None:
            return Readable(
                entry, partition, log, not params.is_consumer, committed_only=params.read_committed
            )
        throttled = partition.settings.leader_throttled.covers(
            partition.topic_partition.partition, partition.broker_id
        )
        return Readable(
            entry,
            partition,
            log,
            True,
            quota if throttled else None,
            params.replica_id in leader.isr,
        )

    def _check_broker_epoch(self, params: FetchParams) -> None:
        registered = self.replicas.registered_epoch(params.replica_id)
        if registered is not None and -1 < params.replica_epoch < registered:
            # An earlier process of that broker says nothing about the log of the present one.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class FetchAnswer:
    """Collects what an answer consists of, and sets it once everything is there."""

    def __init__(
        self,
        params: FetchParams,
        found: Sequence[Readable | FetchResult],
        answer: asyncio.Future[list[FetchResult]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._params = params
        self._found = found
        self._answer = answer
        self._loop = loop
        self._slices: list[Slice | KafkaError] = [EMPTY_SLICE] * len(found)
        self._epochs: list[int] = []
        self._open: set[asyncio.Future[bytes]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._aborted: dict[int, Sequence[tuple[int, int]]] = {}
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read what is in memory, and start to read what is not."""
        if self._answer.done():
            return
        left = self._params.max_bytes
        nothing_yet = True
        for index, item in enumerate(self._found):
            if not isinstance(item, Readable) or item.log is None:
                self._epochs.append(-1)
                continue
            self._epochs.append(item.partition.registration.leader_epoch)
            if (left <= 0 and not nothing_yet) or item.is_held_back:
                continue
            if not self._params.takes_records:
                continue
            size = min(item.entry.partition_max_bytes, max(left, 0))
            at_least_one = nothing_yet
            if item.quota is not None and not item.is_in_sync:
                # Beside others that always have something its batches might never fit.
                size, at_least_one = min(size, item.quota.room_bytes), True
            got = item.log.read(
                item.entry.fetch_offset, size, item.max_offset, at_least_one=at_least_one
            )
            if item.quota is not None:
                item.quota.record(got.size if isinstance(got, Slice) else size)
                if not isinstance(got, Slice):
                    got.add_done_callback(partial(_correct, item.quota, size))
            if isinstance(got, Slice):
                self._slices[index] = got
                left -= got.size
                nothing_yet = nothing_yet and not got.size
            else:
                self._await(index, got)
                left -= size
                nothing_yet = False
        if self._open:
            self._timer = self._loop.call_later(READ_WAIT_MAX_S, self._finish)
        else:
            self._finish()

    def _await(self, index: int, future: asyncio.Future[bytes]) -> None:
        self._open.add(future)
        future.add_done_callback(lambda done: self._read(index, done))

    def _read(self, index: int, future: asyncio.Future[bytes]) -> None:
        self._open.discard(future)
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            data = future.result()
            self._slices[index] = Slice((data,), len(data)) if data else EMPTY_SLICE
        else:
            self._slices[index] = _translated(error)
        if not self._open:
            self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._answer.done() or self._looking is not None:
            return
        if self._params.read_committed and any(map(self._may_have_aborted, self._found)):
            self._looking = self._loop.create_task(self._look_up_aborted(), name="aborted")
            self._looking.add_done_callback(lambda _: self._complete())
        else:
            self._complete()

    @staticmethod
    def _may_have_aborted(item: Readable | FetchResult) -> bool:
        if isinstance(item, FetchResult) or item.log is None:
            return False
        return item.log.state.segments.has_aborted

    async def _look_up_aborted(self) -> None:
        """Find the aborted transactions of what was read; a disk that takes long gives nothing."""
        for index, item in enumerate(self._found):
            got = self._slices[index]
            if isinstance(item, FetchResult) or not isinstance(got, Slice) or not got.size:
                continue
            log, offset = item.log, item.entry.fetch_offset
            assert log is not None
            self._slices[index] = EMPTY_SLICE
            try:
                async with asyncio.timeout(READ_WAIT_MAX_S):
                    self._aborted[index] = await log.aborted_between(offset, _end_of(got))
            except TimeoutError:
                continue
            except Exception as error:  # noqa: BLE001 - others must not go out with theirs unknown
                self._slices[index] = _translated(error)
            else:
                self._slices[index] = got

    def _complete(self) -> None:
        if not self._answer.done():
            with or_error(self._answer):
                self._answer.set_result([self._result(index) for index in range(len(self._found))])

    def _result(self, index: int) -> FetchResult:
        item, got = self._found[index], self._slices[index]
        if isinstance(item, FetchResult):
            return item
        partition = item.partition
        awaits_leader = partition.succession.is_awaited and not item.to_written_end
        if item.log is None or awaits_leader:
            return _empty(item)
        if partition.log is not item.log or (
            self._epochs[index] != partition.registration.leader_epoch
        ):
            # Role or epoch changed while the file was read: this is no longer the leader's word.
            return _refused(item.entry, partition.refusal(), partition.hint)
        if isinstance(got, KafkaError):
            return _refused(item.entry, got.code, None)
        aborted = self._aborted.get(index, ()) if self._params.read_committed else None
        return _result(item.entry, partition, item.log, got, None, aborted)


def _end_of(data: Slice) -> int:
    """Return the offset behind the last whole batch."""
    whole = data.buffers[0] if len(data.buffers) == 1 else b"".join(data.buffers)
    end_offset = -1
    for _, header in iterate_headers(whole):
        end_offset = header.next_offset
    return end_offset


def _correct(quota: ByteQuota, counted: int, future: asyncio.Future[bytes]) -> None:
    """Count what a file really gave in place of what was expected."""
    failed = future.cancelled() or future.exception() is not None
    quota.record((0 if failed else len(future.result())) - counted)


def must_wait(found: Sequence[Readable | FetchResult], min_bytes: int) -> bool:
    """Return whether there is neither an error nor enough to send."""
    if not all(isinstance(item, Readable) for item in found):
        return False
    return not _has_enough([item for item in found if isinstance(item, Readable)], min_bytes)


def _has_enough(readable: Sequence[Readable], min_bytes: int) -> bool:
    missing = min_bytes
    for item in readable:
        if missing <= 0:
            return True
        missing -= item.available(missing)
    return missing <= 0


def _result(
    entry: FetchEntry,
    partition: Partition,
    log: PartitionLog,
    data: Slice,
    diverging: DivergingEpoch | None,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> FetchResult:
    return FetchResult(
        topic_partition=entry.topic_partition,
        topic_id=entry.topic_id,
        high_watermark=partition.high_watermark,
        last_stable_offset=log.last_stable_offset(partition.high_watermark),
        aborted_transactions=aborted,
        log_start_offset=log.start_offset,
        records=data.buffers,
        records_size=data.size,
        diverging_epoch=diverging,
    )


def _empty(item: Readable) -> FetchResult:
    """Return the answer of one that is waited for: nothing new, nothing wrong."""
    partition = item.partition
    return FetchResult(
        topic_partition=item.entry.topic_partition,
        topic_id=item.entry.topic_id,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,
        log_start_offset=0 if partition.is_awaited else -1,
    )


def _refused(entry: FetchEntry, code: ErrorCode, hint: LeaderHint | None) -> FetchResult:
    return FetchResult(
        topic_partition=entry.topic_partition,
        topic_id=entry.topic_id,
        error_code=code,
        leader_hint=hint,
    )


def _translated(error: BaseException) -> KafkaError:
    match error:
        case LogDirError():
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        case KafkaError():
            return error
        case CorruptRecordError():
            logger.error("%s", error)
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
        case _:
            logger.error("reading a log failed", exc_info=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
