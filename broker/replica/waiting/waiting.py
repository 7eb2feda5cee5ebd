"""Requests that wait, and the events that wake them.

A produce request waits until its records are written here or, with acks=all, on every in-sync
replica. A fetch waits until there is enough to send. No timer or sweep looks for them: a request
waits in its partition, and every event of that partition (records written, high watermark advanced,
role or epoch changed, ISR too small, directory failed, partition deleted) checks all waiting
requests at once. The timeout of the request is the last resort.

Source: `kafka.server.DelayedProduce`, `DelayedFetch`. There an event that does not check waiting
requests leaves them to their timeout, 30 seconds by default; here an event cannot forget them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, cast

import msgspec

from broker.replica.waiting.append_entries import (
    AppendEntry,
    AppendResult,
    BatchTransaction,
    LeaderHint,
)
from jbodlab.runtime.prompt_future import PromptFuture
from jbodlab.vocabulary.error_code import ErrorCode

KEPT_TIMERS = 4
"""Timers of time-outs that run on without a request; clients choose the time-outs."""

logger = logging.getLogger(__name__)


@contextmanager
def fail_on_exception(answer: asyncio.Future[Any]) -> Iterator[None]:
    """Fail the future with what is raised: nothing else would settle the request."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is logged where the answer is sent
        if not answer.done():
            answer.set_exception(error)


class AppendRequest:
    """One produce request; its future is done when each of its entries is settled."""

    __slots__ = (
        "_has_failed",
        "_open_count",
        "ends_ms",
        "entries",
        "future",
        "queues",
        "results",
        "transaction",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        entries: Sequence[AppendEntry],
        transaction: BatchTransaction | None = None,
    ) -> None:
        self.entries = entries
        self.transaction = transaction
        self.future: PromptFuture[list[AppendResult]] = PromptFuture(loop=loop)
        self._has_failed = False
        self.results: list[AppendResult | None] = [None] * len(entries)
        """By entry; None before it is settled."""
        self._open_count = len(entries)
        self.ends_ms: dict[AppendRequest, int] | None = None
        """All that have its time-out, see `TimeLimits`."""
        self.queues: dict[AppendQueue, None] = {}
        """Where its entries wait, to leave no trace there after a time-out."""
        if not entries:
            self.future.set_result([])

    def settle(self, index: int, result: AppendResult) -> None:
        """Give an entry its result; the first one counts."""
        if self.results[index] is not None:
            return
        self.results[index] = result
        if result.error_code is not ErrorCode.NONE:
            self._has_failed = True
        self._open_count -= 1
        if self._open_count:
            return
        if self.ends_ms is not None:
            del self.ends_ms[self]
        if self.future.done():
            return
        results = cast("list[AppendResult]", self.results)
        if self._has_failed:
            # Not at once: the response names the leader that the metadata have after this change.
            self.future.set_result(results)
        else:
            self.future.succeed(results)

    def refuse(
        self,
        index: int,
        error_code: ErrorCode,
        *,
        message: str | None = None,
        hint: LeaderHint | None = None,
    ) -> None:
        """Settle an entry with an error."""
        self.settle(
            index,
            AppendResult(
                topic_partition=self.entries[index].topic_partition,
                error_code=error_code,
                error_message=message,
                leader_hint=hint,
            ),
        )

    def time_out(self) -> None:
        """Settle what is still open with REQUEST_TIMED_OUT."""
        for index in range(len(self.entries)):
            if self.results[index] is None:
                self.refuse(index, ErrorCode.REQUEST_TIMED_OUT)
        for queue in self.queues:
            queue.drop_settled()


class TimeLimits:
    """The time-outs of append requests: one timer for all that have the same, as nearly all do.

    A timer for each would be made and cancelled with every request. So a few timers run on while
    no request waits for them: the next request with that time-out finds its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._limits: dict[int, _TimeLimit] = {}

    def __len__(self) -> int:
        return len(self._limits)

    def time_out_after(self, request: AppendRequest, timeout_ms: int) -> None:
        """Settle what is then still open of a request with REQUEST_TIMED_OUT."""
        if request.future.done():
            return
        timeout_ms = max(timeout_ms, 0)
        limit = self._limits.get(timeout_ms)
        if limit is None:
            limit = self._new_limit(timeout_ms)
        request.ends_ms = limit.ends_ms
        # The loop's timers count in whole ms: one that fires must find something over.
        limit.ends_ms[request] = round(self._loop.time() * 1000) + timeout_ms

    def _new_limit(self, timeout_ms: int) -> _TimeLimit:
        if len(self._limits) >= KEPT_TIMERS:
            for idle in [each for each in self._limits.values() if not each.ends_ms]:
                idle.end()
        limit = self._limits[timeout_ms] = _TimeLimit(self._loop, timeout_ms, self._limits)
        return limit


class _TimeLimit:
    """The requests with one time-out that are not settled, by the order of their ends."""

    __slots__ = ("_limits", "_loop", "_timeout_ms", "_timer", "ends_ms")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout_ms: int, limits: dict[int, _TimeLimit]
    ) -> None:
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._limits = limits
        self.ends_ms: dict[AppendRequest, int] = {}
        self._timer = loop.call_later(timeout_ms / 1000, self._look)

    def end(self) -> None:
        self._timer.cancel()
        del self._limits[self._timeout_ms]

    def _look(self) -> None:
        now_ms = round(self._loop.time() * 1000)
        is_over = takewhile(lambda item: item[1] <= now_ms, self.ends_ms.items())
        for request, _ in list(is_over):
            request.time_out()
        if self.ends_ms:
            left_ms = next(iter(self.ends_ms.values())) - now_ms
            self._timer = self._loop.call_later(left_ms / 1000, self._look)
        else:
            self._limits.pop(self._timeout_ms, None)


class WaitingAppend(msgspec.Struct, frozen=True):
    """One entry of a produce request that waits for its partition."""

    required_offset: int
    """The end offset that must be reached: one beyond the last record."""
    request: AppendRequest
    position: int
    success: AppendResult


class AppendQueue:
    """The entries that wait at one partition for one kind of progress, by ascending offset."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[WaitingAppend] = deque()

    def add(self, waiting: WaitingAppend) -> None:
        """Let an entry wait; duplicates of older batches may come out of order."""
        waiting.request.queues[self] = None
        queue = self.waiting
        if queue and queue[-1].required_offset > waiting.required_offset:
            position = len(queue)
            while position and queue[position - 1].required_offset > waiting.required_offset:
                position -= 1
            queue.insert(position, waiting)
        else:
            queue.append(waiting)

    def reached(self, end_offset: int) -> None:
        """Settle what waited for this end offset or a smaller one."""
        queue = self.waiting
        while queue and queue[0].required_offset <= end_offset:
            waiting = queue.popleft()
            waiting.request.settle(waiting.position, waiting.success)

    def refuse_all(
        self, error_code: ErrorCode, *, message: str | None = None, hint: LeaderHint | None = None
    ) -> None:
        """Settle everything that waits with an error."""
        queue, self.waiting = self.waiting, deque()
        for waiting in queue:
            waiting.request.refuse(waiting.position, error_code, message=message, hint=hint)

    def take_reached(self, end_offset: int) -> list[WaitingAppend]:
        """Return, and forget, what waits for this end offset or a smaller one."""
        taken = []
        while self.waiting and self.waiting[0].required_offset <= end_offset:
            taken.append(self.waiting.popleft())
        return taken

    def refuse_beyond(
        self, end_offset: int, error_code: ErrorCode, *, hint: LeaderHint | None = None
    ) -> None:
        """Settle everything that waits for a larger end offset with an error."""
        queue = self.waiting
        while queue and queue[-1].required_offset > end_offset:
            waiting = queue.pop()
            waiting.request.refuse(waiting.position, error_code, hint=hint)

    def drop_settled(self) -> None:
        """Forget entries whose request timed out."""
        self.waiting = deque(w for w in self.waiting if w.request.results[w.position] is None)


class WaitingFetch:
    """A fetch, or a deletion of records, that stands in several partitions until one wakes it.

    Args:
        loop: The event loop.
        finish: Called once, when the fetch shall be answered with what there is.
        is_enough: Asked at every wake-up that is not forced: is there enough to answer?
        rest_s: Time between two such questions: of many partitions each of them takes long.
    """

    __slots__ = (
        "_asking",
        "_finish",
        "_is_enough",
        "_loop",
        "_places",
        "_rest_s",
        "_timer",
        "done",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        max_wait_ms: int,
        *,
        is_enough: Callable[[], bool],
        finish: Callable[[], None],
        rest_s: float = 0.0,
    ) -> None:
        self._loop = loop
        self._rest_s = rest_s
        self._asking: asyncio.TimerHandle | None = None
        self._is_enough = is_enough
        self._finish = finish
        self._places: list[FetchQueue] = []
        self.done = False
        self._timer = loop.call_later(max_wait_ms / 1000, self.wake, True)

    def stand_in(self, queue: FetchQueue) -> None:
        """Wait for the events of a partition."""
        self._places.append(queue)
        queue.add(self)

    def wake(self, forced: bool) -> None:
        """Answer if there is enough, or in any case when `forced`."""
        if self.done:
            return
        if not forced:
            if self._rest_s:
                if self._asking is None:
                    self._asking = self._loop.call_later(self._rest_s, self._ask)
                return
            if not self._is_enough():
                return
        self.cancel()
        self._finish()

    def _ask(self) -> None:
        self._asking = None
        if self._is_enough():
            self.wake(forced=True)

    def cancel(self) -> None:
        """Leave all partitions without an answer."""
        self.done = True
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
        for queue in self._places:
            queue.discard(self)
        self._places.clear()


class FetchQueue:
    """The fetches that wait at one partition for one kind of progress."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[WaitingFetch, None] = {}

    def add(self, fetch: WaitingFetch) -> None:
        """Let a fetch wait here."""
        self.waiting[fetch] = None

    def discard(self, fetch: WaitingFetch) -> None:
        """Forget a fetch."""
        self.waiting.pop(fetch, None)

    def wake(self, *, forced: bool = False) -> None:
        """Wake everybody: there may be more to send, or with `forced` there is news of any kind."""
        for fetch in list(self.waiting):
            try:
                fetch.wake(forced)
            except Exception:
                # Others wait here as well, and for what follows.
                logger.exception("a waiting fetch failed to process a change")
