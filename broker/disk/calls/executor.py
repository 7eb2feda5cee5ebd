"""One thread for one queue of a log directory: calls in, results on the loop, failures noticed.

How to think about it: `submit` puts a call into a queue and a future into `_waiting`, both first
in, first out. The thread runs the calls in order and puts what came of each into `_results`; the
loop drains them in batches, so that many finished calls cost one wake-up. As both sides keep the
order, the n-th result belongs to the n-th future and nothing needs to be looked up. A caller that
needs no future (`submit_then`) is called back from the drain itself, one turn of the loop earlier,
unless a future that came before it has callbacks yet to run.

An `OSError` ends the executor for good, unless it is the process's own fault or the disk is full:
no later call touches the disk, every waiting future gets `LogDirError`, and the failure is reported
once, on the loop. The same happens from outside with `abandon` when the thread hangs in a call. The
thread is a daemon: one that never comes back does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from broker.disk.calls.no_space import NoSpaceError
from broker.disk.calls.shortage import ShortageError
from jbodlab.runtime.metrics import Histogram
from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.threads import CallQueue, Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _DirectoryFailure(Exception):  # noqa: N818 - a message between thread and loop, never raised
    """A thread's message to the loop when an `OSError` took the directory away."""


Then = Callable[[Any, BaseException | None], None]
"""Takes the place of a future for a caller that is called back: result, error."""


class DirectoryExecutor:
    """Runs blocking calls of one directory, one after the other, on a thread of its own.

    Args:
        name: Name of the thread.
        threads: Where the thread comes from.
        monotonic_s: Clock of `latency`.
        make_error: Makes the error that callers get, from the cause of the failure.
        on_failure: Called once, on the loop, with the cause, when a call failed with an `OSError`
            that condemns the directory.
        on_no_space: Called, on the loop, with the cause, when a call failed as the disk took no
            more; before its caller hears of it.
        on_shortage: Called, on the loop, when a call failed as the process lacked descriptors or
            memory; before its caller hears of it.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: Threads,
        monotonic_s: Callable[[], float],
        make_error: Callable[[str], LogDirError],
        on_failure: Callable[[str], None],
        on_no_space: Callable[[str], None] = lambda _cause: None,
        on_shortage: Callable[[], object] = lambda: None,
    ) -> None:
        self.latency = Histogram()
        """Seconds that each call took on the thread, without its wait in the queue."""
        self.wait = Histogram()
        """Seconds that each call waited in the queue."""
        self._name = name
        self._threads = threads
        self._monotonic_s = monotonic_s
        self._make_error = make_error
        self._on_failure = on_failure
        self._on_no_space = on_no_space
        self._on_shortage = on_shortage
        self._calls: CallQueue = threads.queue()
        """Each with the moment at which it came; None for what cleans up."""
        self._waiting: deque[asyncio.Future[object] | Then] = deque()
        self._results: deque[tuple[object, BaseException | None]] = deque()
        self._wakeup_pending = False
        self._is_resolving = False
        """Whether callbacks of a future that has its result are still to run."""
        self._drains = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        # The thread stops touching the disk as soon as this is set, by itself or by `abandon`.
        self._cause: str | None = None
        self._is_abandoned = False
        self._is_stopped = False
        self._calls_started = 0
        self._running_call = 0

    @property
    def running_call(self) -> int:
        """Number of the call that runs at this moment, counted from 1; 0 while the thread idles.

        Two looks that see the same number, not 0, saw the same call still running.
        """
        return self._running_call

    @property
    def queue_length(self) -> int:
        """How many calls have no result yet, the running one included."""
        return len(self._waiting)

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` on the thread, behind everything submitted before.

        Args:
            function: The call to run.

        Returns:
            A future of the running loop. It gets `LogDirError` when the directory fails before or
            in this call, `NoSpaceError` when the disk took no more, `ShortageError` when the
            process lacked descriptors or memory, `KafkaError` when an `OSError` was the process's
            own fault in another way, and any other exception of `function` as it is.
        """
        loop = self._loop or self._start()
        future: asyncio.Future[T] = loop.create_future()
        if self._is_abandoned or self._is_stopped:
            future.set_exception(self._make_error(self._cause or "the broker is stopping"))
            return future
        self._waiting.append(cast("asyncio.Future[object]", future))
        self._calls.put((function, self._monotonic_s()))
        return future

    def submit_then(
        self, function: Callable[[], T], then: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """Run `function` as `submit` does, and call `then` with its result or its error."""
        loop = self._loop or self._start()
        if self._is_abandoned or self._is_stopped:
            loop.call_soon(then, None, self._make_error(self._cause or "the broker is stopping"))
            return
        self._waiting.append(then)
        self._calls.put((function, self._monotonic_s()))

    def clean_up(self, function: Callable[[], object]) -> None:
        """Run `function` on the thread even if the directory failed; what it raises is dropped.

        For giving back file descriptors. A thread that hangs never gets to it.
        """
        if self._loop is None:
            self._start()
        self._calls.put((function, None))

    def abandon(self, cause: str) -> None:
        """Fail everything that waits, now, and everything submitted later. On the loop only."""
        if self._is_abandoned:
            return
        self._is_abandoned = True
        self._cause = self._cause or cause
        self._results.clear()
        waiting, self._waiting = self._waiting, deque()
        for then in waiting:
            error = self._make_error(self._cause)
            if not isinstance(then, asyncio.Future):
                # Not at once: whoever abandons is in the middle of the failure.
                assert self._loop is not None
                self._loop.call_soon(then, None, error)
            elif not then.done():
                then.set_exception(error)

    def stop(self) -> None:
        """Let the thread end after the calls that are queued; later ones are refused."""
        if not self._is_stopped:
            self._is_stopped = True
            self._calls.put(None)

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()
        self._threads.start(self._work, self._name)
        return self._loop

    def _work(self) -> None:
        """Body of the thread."""
        while (item := self._calls.get()) is not None:
            function, came_s = item
            if came_s is None:
                self._run_clean_up(function)
            elif self._cause is None:
                self._run(function, came_s)
            # A call may hold megabytes of a produce request; they must not stay until the next.
            del item, function

    def _run(self, function: Callable[[], object], came_s: float) -> None:
        self._calls_started += 1
        self._running_call = self._calls_started
        begun_s = self._monotonic_s()
        self.wait.observe(begun_s - came_s)
        result: object = None
        error: BaseException | None = None
        try:
            result = function()
        except (OSError, MemoryError) as found:
            error = self._judge(disk_errors.as_os_error(found))
        except BaseException as found:  # noqa: BLE001 - handed to the caller, whatever it is
            error = found
        self._running_call = 0
        self.latency.observe(self._monotonic_s() - begun_s)
        self._results.append((result, error))
        if not self._wakeup_pending:
            # Set before the loop is woken and cleared before it drains: a result that comes
            # while it drains is either seen by it or wakes it again.
            self._wakeup_pending = True
            self._wake()

    def _judge(self, error: OSError) -> BaseException:
        if disk_errors.is_no_space(error):
            refused = NoSpaceError(disk_errors.describe(error))
            refused.__cause__ = error
            return refused
        if disk_errors.is_shortage(error):
            short = ShortageError(disk_errors.describe(error))
            short.__cause__ = error
            return short
        if disk_errors.is_directory_failure(error):
            self._cause = disk_errors.describe(error)
            return _DirectoryFailure(self._cause)
        translated = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, disk_errors.describe(error))
        translated.__cause__ = error
        return translated

    def _wake(self) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            logger.debug("result of a directory's call came after the event loop had closed")

    def _drain(self) -> None:
        """Hand finished results to their futures; on the loop."""
        self._wakeup_pending = False
        results = self._results
        while results and not self._is_abandoned:
            result, error = results.popleft()
            if error is not None and isinstance(error, _DirectoryFailure):
                # The failed call's future is still in `_waiting`, in front: it fails with the rest.
                self._on_failure(str(error))
                self.abandon(str(error))
                break
            then = self._waiting.popleft()
            if error is not None:
                self._tell(error)
            if not isinstance(then, asyncio.Future):
                if self._is_resolving:
                    assert self._loop is not None
                    self._loop.call_soon(then, result, error)
                    continue
                try:
                    then(result, error)
                except Exception:
                    # Others wait for the results behind this one.
                    logger.exception("a callback of a directory's call failed")
            elif not then.done():
                if error is None:
                    then.set_result(result)
                else:
                    then.set_exception(error)
                self._is_resolving = True
        results.clear()
        if self._is_resolving:
            # Behind the callbacks of all futures, and behind what waits for these.
            assert self._loop is not None
            self._drains += 1
            self._loop.call_soon(self._resolved, self._drains)

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, NoSpaceError):
            self._on_no_space(error.cause)
        elif isinstance(error, ShortageError):
            self._on_shortage()

    def _resolved(self, drains: int) -> None:
        # A later drain has callbacks of its own yet to run.
        if drains == self._drains:
            self._is_resolving = False

    def _run_clean_up(self, function: Callable[[], object]) -> None:
        self._calls_started += 1
        self._running_call = self._calls_started
        try:
            function()
        except Exception:
            # The directory is lost, and its descriptors may be as well.
            logger.debug("cleaning up after a directory failed", exc_info=True)
        self._running_call = 0


def run_aside(function: Callable[[], T], name: str, threads: Threads) -> asyncio.Future[T]:
    """Run one blocking call on a thread of its own, beside that of any directory.

    For looks at a disk that may not answer. A call that never comes back does not keep the process
    from ending.

    Returns:
        A future of the running loop, with what `function` returns or raises.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    # The caller may have stopped waiting; then its error is nobody's news.
    answer.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(cast(T, result))
        else:
            answer.set_exception(error)

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = function()
        except BaseException as found:  # noqa: BLE001 - handed to whoever waits
            error = found
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            logger.debug("answer of a disk came after the event loop had closed")

    threads.start(work, name)
    return answer
