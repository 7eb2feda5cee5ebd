"""The one queue of the active controller.

An operation is a decision bound to its request. One round takes what is queued, runs each operation
on the state that the one before left, and replays its records at once. Then all records of the
round are appended to the replicated log *once*. No decision waits for a write: the next round runs
while the rounds before it are written. Only when the log answers that a round is committed, its
callers are answered; the contract is that of `ReplicatedLog`. It holds for refusals and reads as
well, as what they saw may have been decided a moment before: they wait for the newest round. If
there is none, they wait until a majority confirms that this node still leads: one that was cut off
may not know yet that another one has taken its place.

An active controller is made when this node was elected, and it ends when the node resigns: its
state is ahead of what is committed, so it is thrown away with everything that waits. A failed
append ends the process: a controller without its metadata directory is none.

Source: `org.apache.kafka.controller.QuorumController`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from controller.decide.state import RECORDS_PER_RESULT_MAX, ControllerResult, ControllerState
from controller.lead.committed_state import CommittedState
from controller.limits import (
    BYTES_IN_FLIGHT_MAX,
    OPERATIONS_IN_FLIGHT_MAX,
    OPERATIONS_PER_ROUND_MAX,
    QUEUED_BYTES_MAX,
    QUEUED_OPERATIONS_MAX,
    ROUND_MS_MAX,
    ROUNDS_IN_FLIGHT_MAX,
)
from controller.quorum.replicated_log import Committed, NewBatch, NotLeaderError, ReplicatedLog
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.log.batches import MAX_BATCH_BYTES
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import BeginTransactionRecord, EndTransactionRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import TRANSACTION_LEVEL
from jbodlab.record_batch.record_batch import HEADER_SIZE
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset

logger = logging.getLogger(__name__)

T = TypeVar("T")
Decision = Callable[[ControllerState, int], ControllerResult[T]]
"""`(state, now_ms)` to what shall be written and answered."""

TRANSACTION_NAME = "Large operation"
RECORD_OVERHEAD_BYTES = 24
"""More than a batch adds to the value of a record."""


class _Operation(msgspec.Struct, Generic[T]):
    decide: Decision[T]
    future: asyncio.Future[T]
    enqueued_ms: int
    deadline_ms: int | None
    late: Decision[T] | None
    size_bytes: int


class OperationCounts(msgspec.Struct):
    """Outcomes of the operations since the start, for metrics.

    Attributes:
        started: Operations that were taken from the queue.
        timed_out: Those that had waited too long and were not run.
        late: Heartbeats that had waited too long; they count as a sign of life and no more.
        failed: Operations that failed in a way nobody thought of.
        refused: Operations for which the queue had no room.
    """

    started: int = 0
    timed_out: int = 0
    late: int = 0
    failed: int = 0
    refused: int = 0


Outcome = tuple[asyncio.Future[Any], object]
"""The future of an operation, and what it will be answered."""


class _Appended(NamedTuple):
    """A round that is being written."""

    outcomes: list[Outcome]
    size_bytes: int


class _Round:
    """The batches of one round in the making."""

    def __init__(self, next_offset: Offset) -> None:
        self.batches: list[tuple[Offset, list[bytes]]] = []
        self.next_offset = next_offset
        self.size_bytes = 0
        self._room_bytes = 0

    def add(self, values: list[bytes], *, atomic: bool) -> None:
        """Append the values of one result's records; an atomic one is kept in one batch."""
        if atomic and values and not self._fits(len(values), _size(values)):
            self._begin()
        for value in values:
            size = len(value) + RECORD_OVERHEAD_BYTES
            if not self._fits(1, size):
                self._begin()
            self.batches[-1][1].append(value)
            self._room_bytes -= size
            self.size_bytes += size
            self.next_offset = Offset(self.next_offset + 1)

    def _fits(self, count: int, size: int) -> bool:
        if not self.batches:
            return False
        return len(self.batches[-1][1]) + count <= RECORDS_PER_RESULT_MAX and (
            size <= self._room_bytes
        )

    def _begin(self) -> None:
        self.batches.append((self.next_offset, []))
        self._room_bytes = MAX_BATCH_BYTES - HEADER_SIZE


class ActiveController:
    """Runs operations one after the other; lives on the event loop.

    Args:
        log: The replicated log, which this node leads in `epoch`.
        state: State after everything in the log; all of it is committed.
        epoch: Leader epoch of the records to come.
        committed: The committed state of this node; it is told of the rounds that are written.
        counts: Counters of this process, which outlive the leader epoch.
        on_failure: Called after an unexpected exception in an operation.
        now_ms: The time that sessions are measured in; it never goes back.
        wall_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        *,
        log: ReplicatedLog,
        state: ControllerState,
        epoch: LeaderEpoch,
        committed: CommittedState,
        counts: OperationCounts,
        on_failure: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self.state = state
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.epoch = epoch
        self.committed = committed
        """`state` is ahead of it while a round is written."""
        self.counts = counts
        self.last_append_ms = self.now_ms()
        self._log = log
        self._on_failure = on_failure
        self._queue: deque[_Operation[Any]] = deque()
        self._urgent: deque[_Operation[Any]] = deque()
        """Heartbeats and the controller's own operations, in order; they run first."""
        self._queued_bytes = 0
        self._rounds: deque[_Appended] = deque()
        """Rounds that are not committed yet, the oldest first."""
        self._unconfirmed: deque[list[Outcome]] = deque()
        """Operations that wrote nothing, and wait until it is sure that this node led."""
        self._failure: BaseException | None = None
        """The first error that ends this controller."""
        self._is_due = False
        """Whether a round will run in the next turn of the event loop."""
        self._has_ended = asyncio.Event()
        self._has_resigned = False

    async def submit(
        self,
        decide: Decision[T],
        *,
        deadline_ms: int | None = None,
        late: Decision[T] | None = None,
        size_bytes: int = 0,
        is_own: bool = False,
    ) -> T:
        """Run an operation; returns its response when everything it caused is committed.

        Args:
            decide: The operation.
            deadline_ms: Longest time in the queue; None for any.
            late: Runs instead of the operation when that time is over, even if the caller has given
                up by then. Such an operation is a heartbeat, of which each broker has one: it is
                always let into the queue, and runs before what others ask for, as a controller
                that is asked too much must not take its brokers for dead.
            size_bytes: Size of its request in memory.
            is_own: Whether the controller itself wants it, as where it fences a silent broker. It
                is let in and runs as a heartbeat does, behind the heartbeats that came before it.

        Raises:
            NotLeaderError: this node resigned. The operation was not run, or its outcome is
                unknown: all of it is in the log, or nothing.
            KafkaError: REQUEST_TIMED_OUT: too long in the queue, and there is no `late`; or the
                queue is full.
                UNKNOWN_SERVER_ERROR: the operation failed in a way nobody thought of; it has
                changed nothing.
        """
        if self._has_resigned:
            raise NotLeaderError
        is_urgent = is_own or late is not None
        if not is_urgent and self._is_full(size_bytes):
            self.counts.refused += 1
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller's queue is full")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queue = self._urgent if is_urgent else self._queue
        queue.append(_Operation(decide, future, self.now_ms(), deadline_ms, late, size_bytes))
        self._queued_bytes += size_bytes
        self._run_soon()
        return await future

    async def run(self) -> None:
        """Wait for the end of this controller.

        Raises:
            NotLeaderError: this node resigned.
            LogDirError: the metadata log can no longer be written.
        """
        await self._has_ended.wait()
        raise NotLeaderError if self._failure is None else self._failure

    def controls_appended(self, end_offset: Offset) -> None:
        """Take note that the quorum has appended records of its own up to an offset."""
        self.state = replace(self.state, next_offset=end_offset)

    def resign(self) -> None:
        """Fail everything that waits, and go back to the committed state; on the loop, in one turn.

        The log may have more: what was being written.
        """
        self._has_resigned = True
        waiting = [each.future for each in (*self._urgent, *self._queue)]
        waiting += [future for outcomes in self._unconfirmed for future, _ in outcomes]
        # The next leader may have what this one was about to commit.
        uncertain = [future for each in self._rounds for future, _ in each.outcomes]
        self._urgent.clear()
        self._queue.clear()
        self._rounds.clear()
        self._unconfirmed.clear()
        for futures, is_outcome_unknown in ((waiting, False), (uncertain, True)):
            for future in futures:
                if not future.done():
                    future.set_exception(NotLeaderError(is_outcome_unknown=is_outcome_unknown))
        self.committed.drop_pending()
        self.state = replace(
            self.state, image=self.committed.image, next_offset=self.committed.end_offset
        )
        self._has_ended.set()

    def _is_full(self, size_bytes: int) -> bool:
        return len(self._queue) >= QUEUED_OPERATIONS_MAX or (
            bool(self._queue) and self._queued_bytes + size_bytes > QUEUED_BYTES_MAX
        )

    def _may_run(self) -> bool:
        """Return whether there is an operation to run, and room for its round."""
        rounds = self._rounds
        if self._failure is not None or not (self._urgent or self._queue):
            return False
        return not rounds or (
            len(rounds) < ROUNDS_IN_FLIGHT_MAX
            and sum(len(each.outcomes) for each in rounds) < OPERATIONS_IN_FLIGHT_MAX
            and sum(each.size_bytes for each in rounds) < BYTES_IN_FLIGHT_MAX
        )

    def _run_soon(self) -> None:
        """Run a round in the next turn of the event loop, so that everybody else gets a turn."""
        if not self._is_due and self._may_run():
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_due = False
        if not self._may_run():
            return
        try:
            self._run_round()
        except Exception as error:  # noqa: BLE001 - it ends the process
            self._end_by(error)
        self._run_soon()

    def _end_by(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._has_ended.set()

    def _run_round(self) -> None:
        outcomes: list[Outcome] = []
        new = _Round(self.state.next_offset)
        end_ms = self.now_ms() + ROUND_MS_MAX
        for _ in range(min(len(self._urgent) + len(self._queue), OPERATIONS_PER_ROUND_MAX)):
            operation = (self._urgent or self._queue).popleft()
            self._queued_bytes -= operation.size_bytes
            if operation.future.done() and operation.late is None:
                # The caller has gone, and what it wanted with it.
                continue
            try:
                outcomes.append((operation.future, self._run_operation(operation, new)))
            except KafkaError as error:
                outcomes.append((operation.future, error))
            if self.now_ms() >= end_ms:
                break
        if new.batches:
            self._append(new, outcomes)
        elif self._rounds:
            self._rounds[-1].outcomes.extend(outcomes)
        else:
            self._answer_confirmed(outcomes)

    def _answer_confirmed(self, outcomes: list[Outcome]) -> None:
        """Answer operations that wrote nothing, as soon as it is sure that this node still led."""
        confirmation = self._log.confirm(self.epoch) if outcomes else None
        if confirmation is None:
            _answer(outcomes)
            return
        self._unconfirmed.append(outcomes)
        confirmation.add_done_callback(self._confirmed)

    def _confirmed(self, confirmation: asyncio.Future[None]) -> None:
        error = confirmation.exception()
        if self._has_resigned:
            return
        if error is None:
            _answer(self._unconfirmed.popleft())
        else:
            self._end_by(error)

    def _run_operation(self, operation: _Operation[Any], new: _Round) -> object:
        now = self.now_ms()
        self.counts.started += 1
        decide = operation.decide
        if operation.deadline_ms is not None and now - operation.enqueued_ms > (
            operation.deadline_ms
        ):
            if operation.late is None:
                self.counts.timed_out += 1
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "waited too long in the controller's queue"
                )
            self.counts.late += 1
            decide = operation.late
        try:
            result = decide(self.state, now)
            values = [frame.encode(record, version) for record, version in result.records]
            if result.atomic and (
                len(values) > RECORDS_PER_RESULT_MAX
                or _size(values) > MAX_BATCH_BYTES - HEADER_SIZE
            ):
                result = self._in_transaction(result)
                values = [frame.encode(record, version) for record, version in result.records]
            state = self._replayed(result)
        except KafkaError:
            raise
        except Exception as error:
            self.counts.failed += 1
            logger.exception("an operation failed unexpectedly")
            self._on_failure()
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error in the controller"
            ) from error
        self.state = state
        new.add(values, atomic=result.atomic)
        response = result.response
        if values and hasattr(response, "metadata_offset"):
            response = replace(response, metadata_offset=state.next_offset - 1)
        return response

    def _in_transaction(self, result: ControllerResult[T]) -> ControllerResult[T]:
        """Return a result that counts as a whole though it is cut into several batches.

        Readers show nothing of it before its end, and a controller that finds it open aborts it.
        """
        if self.state.metadata_version < TRANSACTION_LEVEL:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{len(result.records)} records do not fit into one batch, and metadata "
                "transactions "
                f"need metadata.version {TRANSACTION_LEVEL}",
            )
        begin = VersionedRecord(BeginTransactionRecord(name=TRANSACTION_NAME), 0)
        end = VersionedRecord(EndTransactionRecord(), 0)
        return replace(result, records=(begin, *result.records, end), atomic=False)

    def _replayed(self, result: ControllerResult[Any]) -> ControllerState:
        """Return the state after a result; what cannot be replayed must not reach the log."""
        state = self.state
        if result.heartbeats is not None:
            state = replace(state, heartbeats=result.heartbeats)
        if result.mutations is not None:
            state = replace(state, mutations=result.mutations)
        if result.records:
            delta = MetadataDelta(state.image)
            for offset, (record, _) in enumerate(result.records, start=state.next_offset):
                delta.replay(record, offset)
            next_offset = Offset(state.next_offset + len(result.records))
            image = delta.apply(next_offset - 1, self.epoch, self.wall_ms())
            state = replace(state, image=image, next_offset=next_offset)
        return state

    def _append(self, new: _Round, outcomes: list[Outcome]) -> None:
        """Append a round; its operations are answered when it is committed."""
        image = self.state.image
        batches = [
            NewBatch(
                base_offset=base_offset,
                records=[(None, value) for value in values],
                timestamp_ms=image.timestamp_ms,
            )
            for base_offset, values in new.batches
        ]
        appended = self._log.append(self.epoch, batches)
        self.committed.expect(image)
        self._rounds.append(_Appended(outcomes, new.size_bytes))
        appended.add_done_callback(self._appended)

    def _appended(self, appended: asyncio.Future[Committed]) -> None:
        """Answer the operations of the oldest round; a round that failed has no answer."""
        error = appended.exception()
        if self._has_resigned:
            return
        if error is None:
            self.last_append_ms = self.now_ms()
            _answer(self._rounds.popleft().outcomes)
            self._run_soon()
        else:
            self._end_by(error)


def _answer(outcomes: list[Outcome]) -> None:
    for future, outcome in outcomes:
        if future.done():
            continue
        if isinstance(outcome, KafkaError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _size(values: list[bytes]) -> int:
    return sum(len(value) + RECORD_OVERHEAD_BYTES for value in values)
