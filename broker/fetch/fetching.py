"""Fetch: what is available at once, what a fetch waits for, and what is read from files.

A fetch names partitions and offsets. If one of them has an error, or if there is enough to send,
the fetch is answered at once. Otherwise it waits in every partition that it names
(`replica/waiting.py`). So an offline directory or a new leader answers every fetch that names the
partition at once.

Records in memory are sent without disk access. The rest is read on the directories' threads, all of
them at the same time: `fetch_answer`.

Source: `kafka.server.ReplicaManager.fetchMessages`, KIP-74 (sizes), KIP-595 (diverging epochs).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from broker.bounds.limits import ASKED_PER_ENTRY_S, ENTRIES_FEW, PART_ENTRIES
from broker.fetch.closest_replica import ClosestReplica, log_to_read, may_serve
from broker.fetch.fetch_answer import FetchAnswer, Readable, in_parts, refused, result_of
from broker.fetch.fetch_requests import DivergingEpoch, FetchEntry, FetchParams, FetchResult
from broker.following.quota import ByteQuota
from broker.replica.log import EMPTY_SLICE, PartitionLog
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.waiting import FetchQueue, WaitingFetch, fail_on_exception
from jbodlab.server.turns import Turns, slices
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


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
        self.sends_consumers_away = closest is not None
        """Whether consumers are sent to followers, which then must soon know what is committed."""
        self._turns = Turns()

    def fetch(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[list[FetchResult]]:
        """Start to answer; the future is cancelled by a client that is gone."""
        answer: asyncio.Future[list[FetchResult]] = self._loop.create_future()
        if len(entries) > PART_ENTRIES:
            looking = self._loop.create_task(
                self._look_in_parts(params, entries, answer), name="look at a fetch in parts"
            )
            answer.add_done_callback(lambda _: looking.cancel())
            return answer
        found = [self.find(params, entry, news=True) for entry in entries]
        if params.max_wait_ms <= 0 or not found or not must_wait(found, params.min_bytes):
            self._answer(params, entries, found, answer)
            return answer
        readable = [item for item in found if isinstance(item, Readable)]
        waiting = self._waiting(params, entries, readable, answer)
        for item in readable:
            waiting.stand_in(_queue_of(params, item.partition))
        return answer

    async def _look_in_parts(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        answer: asyncio.Future[list[FetchResult]],
    ) -> None:
        """Do what `fetch` does with all entries at once, and let others in between."""
        readable: list[Readable] = []
        waiting = (
            self._waiting(params, entries, readable, answer) if params.max_wait_ms > 0 else None
        )
        missing = params.min_bytes
        with fail_on_exception(answer):
            for some in slices(entries, PART_ENTRIES):
                await self._turns.next()
                for entry in some:
                    item = self.find(params, entry, news=True)
                    if not isinstance(item, Readable):
                        missing = 0
                    elif waiting is not None and not waiting.done:
                        readable.append(item)
                        # In the turn in which it was looked at: what comes now is noticed.
                        waiting.stand_in(_queue_of(params, item.partition))
                        missing -= item.available(missing) if missing > 0 else 0
            if waiting is None:
                self._answer(params, entries, (), answer)
            elif missing <= 0:
                waiting.wake(True)

    def _waiting(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        readable: Sequence[Readable],
        answer: asyncio.Future[list[FetchResult]],
    ) -> WaitingFetch:
        """Return a fetch that waits, and stands nowhere yet."""
        waiting = WaitingFetch(
            self._loop,
            params.max_wait_ms,
            is_enough=lambda: _has_enough(readable, params.min_bytes),
            finish=lambda: self._answer_anew(params, entries, answer),
            rest_s=len(entries) * ASKED_PER_ENTRY_S if len(entries) > ENTRIES_FEW else 0.0,
        )
        answer.add_done_callback(lambda _: None if waiting.done else waiting.cancel())
        return waiting

    def _answer_anew(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        answer: asyncio.Future[list[FetchResult]],
    ) -> None:
        with fail_on_exception(answer):
            found = () if len(entries) > PART_ENTRIES else self._found(params, entries)
            self._answer(params, entries, found, answer)

    def _answer(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        found: Sequence[Readable | FetchResult],
        answer: asyncio.Future[list[FetchResult]],
    ) -> None:
        if len(entries) <= PART_ENTRIES:
            FetchAnswer(params, found, answer, self._loop).start()
            return
        work = in_parts(self._answer_part, self._turns, params, entries)
        task = self._loop.create_task(work, name="fetch in parts")
        task.add_done_callback(lambda done: _hand_on(done, answer))
        answer.add_done_callback(lambda _: task.cancel())

    def _answer_part(
        self, params: FetchParams, entries: Sequence[FetchEntry], has_records: bool
    ) -> asyncio.Future[list[FetchResult]]:
        answer: asyncio.Future[list[FetchResult]] = self._loop.create_future()
        found = self._found(params, entries)
        FetchAnswer(params, found, answer, self._loop).start(has_records=has_records)
        return answer

    def _found(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> list[Readable | FetchResult]:
        return [self.find(params, entry, news=False) for entry in entries]

    def find(self, params: FetchParams, entry: FetchEntry, *, news: bool) -> Readable | FetchResult:
        """Return what can be read of one entry, or the result that says why nothing can."""
        partition = self.replicas.partition(entry.topic_partition)
        if partition is None:
            code, hint = self.replicas.refusal(entry.topic_partition)
            return refused(entry, code, hint)
        try:
            return self._check(params, entry, partition, news=news)
        except KafkaError as error:
            return refused(entry, error.code, partition.hint)

    def _check(
        self, params: FetchParams, entry: FetchEntry, partition: Partition, *, news: bool
    ) -> Readable | FetchResult:
        """Check one entry, and take notice of a follower's progress where it is `news`."""
        is_follower = params.is_follower
        if entry.topic_id is not None and entry.topic_id != partition.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if partition.succession.is_awaited and not is_follower:
            # A follower is told at once: what it has of other partitions must not wait.
            return Readable(entry, partition, None, False)
        partition.check_epoch(entry.current_leader_epoch)
        if partition.is_awaited:
            return Readable(entry, partition, None, not params.is_consumer)
        away = self.sends_consumers_away
        any_replica = may_serve(params, partition, sends_consumers_away=away)
        log = log_to_read(partition, any_replica=any_replica)
        if is_follower:
            self._check_broker_epoch(params)
        diverging = _diverging_epoch(entry, log)
        if diverging is not None:
            return result_of(entry, partition, log, EMPTY_SLICE, diverging)
        if not log.start_offset <= entry.fetch_offset <= log.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if news and is_follower:
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
                told = result_of(entry, partition, log, EMPTY_SLICE, None)
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
        if registered is None or params.replica_epoch > registered:
            # This leader may not have heard of the registration yet.
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if params.replica_epoch < registered:
            # An earlier process of that broker says nothing about the log of the present one, and
            # who names no epoch is none of our brokers.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _diverging_epoch(entry: FetchEntry, log: PartitionLog) -> DivergingEpoch | None:
    """Return where the reader's log left this one (KIP-595); None if it did not, or did not ask.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, this log knows nothing of the reader's last epoch.
    """
    if entry.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_offset_for(entry.last_fetched_epoch, log.end_offset)
    if end_offset < 0 or entry.fetch_offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return DivergingEpoch(epoch=epoch, end_offset=end_offset)
    return None


def _queue_of(params: FetchParams, partition: Partition) -> FetchQueue:
    waiters = partition.waiters
    return waiters.consumer_fetches if params.is_consumer else waiters.follower_fetches


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


def _hand_on(
    done: asyncio.Future[list[FetchResult]], answer: asyncio.Future[list[FetchResult]]
) -> None:
    """Let a future be what another one has become; a client that is gone wants neither."""
    if answer.done() or done.cancelled():
        return
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
