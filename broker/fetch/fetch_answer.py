"""The answer to one fetch: what lies in memory at once, what lies in files when it has been read.

A read that does not come back soon leaves its partition without data in this answer: one hanging
disk must not keep the partitions on the others from being followed.

Source: `kafka.server.ReplicaManager.readFromLog`, KIP-74 (sizes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from broker.bounds.limits import PART_ENTRIES, READ_WAIT_MAX_S
from broker.disk.calls import ShortageError
from broker.fetch.fetch_requests import DivergingEpoch, FetchEntry, FetchParams, FetchResult
from broker.following.quota import ByteQuota
from broker.replica.log import EMPTY_SLICE, PartitionLog, Slice
from broker.replica.partition import Partition
from broker.replica.waiting import LeaderHint
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.server.turns import Turns, slices
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError, LogDirError

logger = logging.getLogger(__name__)


class Readable(msgspec.Struct, frozen=True):
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
        if self.log is None or (self.quota is not None and self.is_held_back):
            return 0
        return self.log.available(self.entry.fetch_offset, self.max_offset, enough)


AnswerPart = Callable[[FetchParams, Sequence[FetchEntry], bool], asyncio.Future[list[FetchResult]]]
"""Begins to answer some of the entries; the last argument says whether there are records before."""


async def in_parts(
    answer_part: AnswerPart,
    turns: Turns,
    params: FetchParams,
    entries: Sequence[FetchEntry],
) -> list[FetchResult]:
    """Answer a fetch that names very many partitions, part by part.

    Args:
        answer_part: Begins to answer some of them.
        turns: Of large requests.
        params: Of the whole.
        entries: All of them.

    Returns:
        The results, in order.
    """
    results: list[FetchResult] = []
    left, has_records = params.max_bytes, False
    for some in slices(entries, PART_ENTRIES):
        await turns.next()
        part = await answer_part(replace(params, max_bytes=max(left, 0)), some, has_records)
        size = sum(result.records_size for result in part)
        left -= size
        has_records = has_records or size > 0
        results += part
    return results


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

    def start(self, *, has_records: bool = False) -> None:
        """Read what is in memory, and start to read what is not.

        Args:
            has_records: Whether the response has some already; the first are sent whatever their
                size is.
        """
        if self._answer.done():
            return
        left = self._params.max_bytes
        nothing_yet = not has_records
        for index, item in enumerate(self._found):
            if not isinstance(item, Readable) or item.log is None:
                self._epochs.append(-1)
                continue
            self._epochs.append(item.partition.registration.leader_epoch)
            if (left <= 0 and not nothing_yet) or (item.quota is not None and item.is_held_back):
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
        return item.log.state.has_aborted

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
            try:
                self._answer.set_result([self._result(index) for index in range(len(self._found))])
            except Exception as error:  # noqa: BLE001 - it is logged where the answer is sent
                self._answer.set_exception(error)

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
            return refused(item.entry, partition.refusal(), partition.hint)
        if isinstance(got, KafkaError):
            return refused(item.entry, got.code, None)
        aborted = self._aborted.get(index, ()) if self._params.read_committed else None
        return result_of(item.entry, partition, item.log, got, None, aborted)


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


def result_of(
    entry: FetchEntry,
    partition: Partition,
    log: PartitionLog,
    data: Slice,
    diverging: DivergingEpoch | None,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> FetchResult:
    """Return the result of a partition that is there, with what was read of it."""
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


def refused(entry: FetchEntry, code: ErrorCode, hint: LeaderHint | None) -> FetchResult:
    """Return the result of one that gives nothing but an error."""
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
            logger.error("a log is damaged: %s", error)
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
        case MemoryError():
            return ShortageError(str(error))
        case _:
            logger.error("cannot read a log", exc_info=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
