"""One coordinator: a replica that this broker leads, the state in its records, waiting requests.

    LOADING    the log is read; requests get an error and are retried
    ACTIVE     every event is decided; responses are sent when its records are committed. A step
               that fails unexpectedly leads back to LOADING: then only the log is right
    FAILED     the log cannot be read; the broker acts as if it were not the coordinator
    CLOSED     the replica no longer leads

A shard lives while the replica leads in one epoch. When that ends, for any reason, all waiting
requests are answered in the same turn, and nothing remains: a record that was written and not
committed is in the log of the next leader, or in no log. So nothing is ever rolled back here.

Decisions are pure (`core.Core`). Nothing else runs between a decision and its append. While the
replica changes its directory no decision is made: events wait, in order.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

import msgspec

from broker.bounds.limits import RELOAD_S_MAX
from broker.coordination.core import Answer, Core, Decision, Record, RecordCodec, Ticket, Work
from broker.coordination.loading import load
from broker.coordination.timers import Key, ShardTimers
from broker.disk.calls import run_aside
from broker.produce.leader_appends import append_marker, append_own
from broker.replica.partition import Partition
from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch
from jbodlab.storage.log.transactions import COMMIT, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError, KafkaError
from jbodlab.vocabulary.ids import LeaderEpoch
from jbodlab.vocabulary.producer import Producer
from jbodlab.vocabulary.threads import Threads

logger = logging.getLogger(__name__)

RELOAD_S = 0.1


class ShardState(Enum):
    """Where a shard is in its life."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    CLOSED = auto()


class _Pending(msgspec.Struct):
    """Decisions that wait for the high watermark to pass a batch."""

    end_offset: int
    deadline_s: float
    """On the loop's clock; until then the batch is to be committed."""
    answers: list[Answer]
    events: list[Any]


C = TypeVar("C", bound=Core[Any])


class ShardContext(msgspec.Struct, Generic[C, Record], frozen=True, kw_only=True):
    """The parts that all shards of one topic have in common.

    Attributes:
        new_core: Makes the empty state machine of a partition.
        codec: The format of its records.
        append_errors: Error codes of the log, and the codes that clients get instead of them.
        commit_timeout_ms: How long a batch may wait for the high watermark.
        bring_about: Takes a shard, and an effect of one of its decisions.
    """

    new_core: Callable[[], C]
    codec: RecordCodec[Record]
    append_errors: Mapping[ErrorCode, ErrorCode]
    wall_ms: Callable[[], int]
    commit_timeout_ms: Callable[[], int]
    threads: Threads
    bring_about: Callable[[Shard[C, Record], Any], None] = lambda _shard, _effect: None
    working: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Long computations run one after the other: more threads would make none faster."""


class Shard(Generic[C, Record]):
    """The coordinator of one partition, during one leadership.

    Args:
        partition: The replica; it leads.
        leader_epoch: In this epoch.
        context: The broker's.
    """

    def __init__(
        self, partition: Partition, leader_epoch: LeaderEpoch, context: ShardContext[C, Record]
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._core = context.new_core()
        self._timers = ShardTimers(self._loop, context.wall_ms, self._timer_fired)
        self._tickets = count()
        self._owed: dict[Ticket, asyncio.Future[Any]] = {}
        """Whom an answer is owed, parked requests included."""
        self._pending: deque[_Pending] = deque()
        self._told = 0
        """How many of them, the first ones, were told that nobody knows."""
        self._limit: asyncio.TimerHandle | None = None
        self._limit_s = 0.0
        self._works: set[asyncio.Task[None]] = set()
        self._held: deque[Callable[[], None]] = deque()
        """Steps that wait until the replica is in its new directory."""
        self._reload_s = RELOAD_S
        self._active_since_s = self._loop.time()
        self._loading = self._begin_loading()

    @property
    def waiting_count(self) -> int:
        """How many requests wait for an answer."""
        return len(self._owed)

    def submit(self, request: Any) -> asyncio.Future[Any]:
        """Have the core decide a request.

        Returns:
            A future of the answer; its error is a `KafkaError` after `append_errors`. If the caller
            cancels it, the shard calls `Core.connection_closed`.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        return self._owing(lambda ticket: self._decide(request, ticket))

    def end_transaction(
        self, producer: Producer, marker: Marker, *, bumps_epoch: bool = False
    ) -> asyncio.Future[None]:
        """Append the marker that ends the transaction of a producer in this partition.

        Args:
            producer: Whose transaction ends, with its epoch from then on.
            marker: The coordinator's decision.
            bumps_epoch: Whether each end of a transaction bumps the epoch (transaction version 2).

        Returns:
            A future that is done when the marker is committed; its error is a `KafkaError` after
            `append_errors`.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        return self._owing(
            lambda ticket: self._end_transaction(producer, marker, bumps_epoch, ticket)
        )

    def _owing(self, step: Callable[[Ticket], None]) -> asyncio.Future[Any]:
        """Take a step for a request, and return the future of the answer that it is owed."""
        self.check_active()
        future: asyncio.Future[Any] = self._loop.create_future()
        ticket = Ticket(next(self._tickets))
        self._owed[ticket] = future
        future.add_done_callback(partial(self._answered, ticket))
        self._in_order(partial(step, ticket))
        return future

    def check_active(self) -> None:
        """Raise the KafkaError that everybody hears who asks at this moment; none while ACTIVE."""
        if self.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def run(self, decide: Callable[[C], Decision[Record]]) -> None:
        """Let the core decide on an event other than a request; `loaded` covers it in a load."""
        if self.state is ShardState.ACTIVE:
            self._in_order(lambda: self._run(decide))

    def committed(self, high_watermark: int) -> None:
        """Send what waited for the high watermark."""
        if self.state is not ShardState.ACTIVE:
            return
        self._guarded(partial(self._core.committed_up_to, high_watermark))
        while self._pending and self._pending[0].end_offset <= high_watermark:
            done = self._pending.popleft()
            self._told = max(0, self._told - 1)
            self._send(done.answers)
            for event in done.events:
                self._in_order(partial(self._happened, event))
        self._arm_limit()

    def close(self) -> None:
        """End: the replica leads no more. Everybody is answered before this returns."""
        self.state = ShardState.CLOSED
        self._loading.cancel()
        self._give_up()

    def _give_up(self) -> None:
        """Forget what goes on, and send everybody away who waits."""
        for task in self._works:
            task.cancel()
        self._timers.clear()
        self._held.clear()
        self._pending.clear()
        self._told = 0
        self._arm_limit()
        owed, self._owed = self._owed, {}
        for future in owed.values():
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))

    # Steps, each of them decided and carried out in one turn

    def _in_order(self, step: Callable[[], None]) -> None:
        """Take a step, or let it wait until the replica is in its new directory."""
        if self.state is not ShardState.ACTIVE:
            # A step before this one has failed, and with it the state that this one is about.
            return
        if self._held or self.partition.is_held:
            if not self._held:
                self.partition.waiters.when_ready(self._released)
            self._held.append(step)
        else:
            self._guarded(step)

    def _released(self) -> None:
        while self._held and not self.partition.is_held:
            self._guarded(self._held.popleft())
        if self._held:
            self.partition.waiters.when_ready(self._released)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Take a step; one that fails may have left a state that its log contradicts."""
        try:
            step()
        except Exception:
            logger.exception(
                "a step of the coordinator of %s failed; reloading it",
                self.partition.topic_partition,
                extra=self.partition.topic_partition._asdict(),
            )
            self._load_anew()

    def _load_anew(self) -> None:
        """Begin again from the log, which alone knows what has happened."""
        if self.state is not ShardState.ACTIVE:
            return
        if self._loop.time() - self._active_since_s > RELOAD_S_MAX:
            self._reload_s = RELOAD_S
        self.state = ShardState.LOADING
        self._give_up()
        self._core = self._context.new_core()
        self._loading = self._begin_loading(self._reload_s)
        self._reload_s = min(2 * self._reload_s, RELOAD_S_MAX)

    def _decide(self, request: Any, ticket: Ticket) -> None:
        if ticket not in self._owed:
            return
        try:
            decision = self._core.decide(request, ticket, self._now_ms())
        except Exception as error:
            # Nothing has changed yet; a request that always fails must not end all others.
            logger.exception(
                "the coordinator of %s failed to process a request",
                self.partition.topic_partition,
                extra=self.partition.topic_partition._asdict(),
            )
            self._answer(ticket, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
            return
        self._carry_out(decision)

    def _end_transaction(
        self, producer: Producer, marker: Marker, bumps_epoch: bool, ticket: Ticket
    ) -> None:
        if ticket not in self._owed:
            return
        try:
            end_offset, is_new = append_marker(
                self.partition, producer, marker, bumps_epoch=bumps_epoch, now_ms=self._now_ms()
            )
        except KafkaError as error:
            self._answer(ticket, self._append_error(error))
            return
        if is_new:
            self._core.end_transaction(producer, marker.type == COMMIT, end_offset)
        if end_offset <= self.partition.high_watermark:
            self._answer(ticket, None)
        else:
            self._wait_for(end_offset, [Answer(ticket, None)])

    def _run(self, decide: Callable[[C], Decision[Record]]) -> None:
        self._carry_out(decide(self._core))

    def _happened(self, event: Any) -> None:
        self._carry_out(self._core.committed(event, self._now_ms()))

    def _tell_refused(self, event: Any, error: KafkaError) -> None:
        self._carry_out(self._core.refused(event, error, self._now_ms()), at_once=True)

    def _timer_fired(self, key: Key) -> None:
        self._in_order(partial(self._timer_over, key))

    def _timer_over(self, key: Key) -> None:
        self._carry_out(self._core.timer(key, self._now_ms()))

    def _client_left(self, ticket: Ticket) -> None:
        self._carry_out(self._core.connection_closed(ticket, self._now_ms()))

    # Carrying out

    def _carry_out(self, decision: Decision[Record], *, at_once: bool = False) -> None:
        """Carry a decision out.

        Args:
            decision: The decision.
            at_once: Whether its answers wait for no batch but its own: they tell of errors.
        """
        end_offset = None
        if decision.records:
            try:
                first, end_offset = self._append(decision)
            except KafkaError as error:
                self._refused(decision, error)
                return
            self._core.apply(decision, first)
        else:
            self._core.apply(decision)
        self._timers.set(decision.timers)
        if decision.work is not None:
            name = f"compute for {self.partition.topic_partition}"
            task = self._loop.create_task(self._work(decision.work, name), name=name)
            self._works.add(task)
            task.add_done_callback(self._works.discard)
        for effect in decision.effects:
            self._context.bring_about(self, effect)
        events = [] if decision.event is None else [decision.event]
        if end_offset is not None:
            self._wait_for(end_offset, decision.answers, events)
        elif self._pending and not (decision.at_once or at_once):
            # Nobody hears of a state that may vanish.
            self._wait_for(self._pending[-1].end_offset, decision.answers, events)
        else:
            self._send(decision.answers)
            for event in events:
                self._happened(event)

    async def _work(self, work: Work, name: str) -> None:
        """Compute something beside the event loop; what it is worth by then the core decides."""
        result = None
        try:
            async with self._context.working:
                result = await run_aside(work.run, name, self._context.threads)
        except Exception:
            logger.exception("computation failed: %s", name)
        self._in_order(partial(self._worked, work, result))

    def _worked(self, work: Work, result: Any) -> None:
        self._carry_out(self._core.worked(work.event, result, self._now_ms()))

    def _wait_for(
        self, end_offset: int, answers: Iterable[Answer] = (), events: Iterable[Any] = ()
    ) -> None:
        deadline_s = self._loop.time() + self._context.commit_timeout_ms() / 1000
        self._pending.append(_Pending(end_offset, deadline_s, list(answers), list(events)))
        self._arm_limit()

    def _append(self, decision: Decision[Record]) -> tuple[int, int]:
        """Append records as one batch; returns the offsets of the first and behind the last."""
        records = [self._context.codec.encode(record) for record in decision.records]
        if decision.producer is None:
            batch = build_batch(records, timestamp_ms=self._now_ms())
        else:
            batch = build_batch(
                records,
                timestamp_ms=self._now_ms(),
                attributes=TRANSACTIONAL,
                producer_id=decision.producer.producer_id,
                producer_epoch=decision.producer.producer_epoch,
            )
        header = append_own(self.partition, batch)
        return header.base_offset, header.next_offset

    def _append_error(self, error: KafkaError) -> KafkaError:
        """Return the error that clients get for an error of the log; the text is kept."""
        code = self._context.append_errors.get(error.code, error.code)
        return KafkaError(code, error.message)

    def _refused(self, decision: Decision[Record], cause: KafkaError) -> None:
        error = self._append_error(cause)
        logger.log(
            logging.WARNING if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else logging.DEBUG,
            "the coordinator of %s cannot write records: %s",
            self.partition.topic_partition,
            cause,
            extra=self.partition.topic_partition._asdict(),
        )
        self._send([Answer(answer.ticket, error) for answer in decision.answers])
        if decision.event is not None:
            self._tell_refused(decision.event, error)

    def _send(self, answers: Sequence[Answer]) -> None:
        for ticket, response in answers:
            self._answer(ticket, response)

    def _answer(self, ticket: Ticket, response: Any) -> None:
        future = self._owed.pop(ticket, None)
        if future is None or future.done():
            return
        if isinstance(response, KafkaError):
            future.set_exception(response)
        else:
            future.set_result(response)

    def _answered(self, ticket: Ticket, future: asyncio.Future[Any]) -> None:
        if self._owed.pop(ticket, None) is not None and future.cancelled():
            self._in_order(partial(self._client_left, ticket))

    def _now_ms(self) -> int:
        return self._context.wall_ms()

    # Decisions that are not committed in time

    def _arm_limit(self) -> None:
        """Wake up when the first time is over of what is not told yet."""
        first = self._pending[self._told] if len(self._pending) > self._told else None
        if self._limit is not None:
            # One that comes too early sets the next one.
            if first is not None and self._limit_s <= first.deadline_s:
                return
            self._limit.cancel()
            self._limit = None
        if first is not None:
            # Not asked of the handle: uvloop's does not know it where the time is over.
            self._limit_s = first.deadline_s
            self._limit = self._loop.call_at(self._limit_s, self._too_late)

    def _too_late(self) -> None:
        """Tell those who waited too long that nobody knows; their records stay where they are."""
        self._limit = None
        now_s = self._loop.time()
        error = self._append_error(
            KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the records were not replicated in time")
        )
        refused: list[Any] = []
        while len(self._pending) > self._told:
            pending = self._pending[self._told]
            if pending.deadline_s > now_s:
                break
            self._told += 1
            answers, pending.answers = pending.answers, []
            events, pending.events = pending.events, []
            self._send([Answer(answer.ticket, error) for answer in answers])
            refused += events
        self._arm_limit()
        for event in refused:
            self._in_order(partial(self._tell_refused, event, error))

    # Loading

    def _begin_loading(self, pause_s: float = 0) -> asyncio.Task[None]:
        name = f"load {self.partition.topic_partition}"
        return self._loop.create_task(self._load(pause_s), name=name)

    async def _load(self, pause_s: float) -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        begun_s = self._loop.time()
        try:
            count_read = await load(self.partition, self._core, self._context.codec)
        except Exception as error:
            self.state = ShardState.FAILED
            logger.log(
                logging.ERROR,
                "cannot load the coordinator of %s: %s",
                self.partition.topic_partition,
                error,
                exc_info=None if isinstance(error, JbodlabError) else error,
                extra=self.partition.topic_partition._asdict(),
            )
            return
        self.state = ShardState.ACTIVE
        self._active_since_s = self._loop.time()
        logger.info(
            "loaded the coordinator of %s in epoch %d; read %d records in %.0f ms",
            self.partition.topic_partition,
            self.leader_epoch,
            count_read,
            1000 * (self._loop.time() - begun_s),
            extra=self.partition.topic_partition._asdict(),
        )
        self._guarded(self._loaded)

    def _loaded(self) -> None:
        high_watermark = self.partition.high_watermark
        self._core.committed_up_to(high_watermark)
        assert self.partition.log is not None
        end_offset = self.partition.log.end_offset
        if high_watermark < end_offset:
            self._wait_for(end_offset)
        self.run(lambda core: core.loaded(self._now_ms()))
