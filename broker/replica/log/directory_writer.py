"""Collects the file changes of the logs in one directory for its serving queue.

All changes of one turn of the event loop, or of one request, go to the directory's thread as one
call. While that call runs, further changes are collected for the next call. So a busy directory
needs few calls with many batches, an idle one writes each batch at once, and neither needs a
setting.

Changes for which the disk has no space, or the process no descriptor, stay on the thread
(`carrying_out`) and are retried until they succeed; a directory without space stays FULL meanwhile.
Retries end with an error only if the directory fails or the log is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.bounds.limits import FULL_RETRY_S, MAX_CALL_BYTES
from broker.disk.calls import NoSpaceError, ShortageError
from broker.disk.directory import LogDir
from broker.replica.log.carrying_out import CallOutcome, CarryingOut, LogChange
from jbodlab.runtime.supervised import call_each
from jbodlab.storage.log.log_files import LogFiles

T = TypeVar("T")

logger = logging.getLogger(__name__)

WriteCheckpoints = Callable[[LogDir], Awaitable[None]]


class DirectoryWriter:
    """The queue of changes in front of one directory's thread; used on the loop only.

    Args:
        log_dir: The directory.
        write_checkpoints: Writes those of a directory that a coming cut has lowered.
    """

    def __init__(self, log_dir: LogDir, write_checkpoints: WriteCheckpoints) -> None:
        self.log_dir = log_dir
        self.write_checkpoints = write_checkpoints
        self._queue: list[LogChange] = []
        self._carrying_out = CarryingOut(log_dir.io_samples, log_dir.environment.monotonic_s)
        """On the thread only."""
        self._waiting: dict[LogChange, None] = {}
        """Changes that came back from the thread and wait for room there, in their order."""
        self._blocked: Mapping[LogFiles, LogChange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._running = 0
        self._is_scheduled = False

    def submit(self, change: LogChange, *, is_last: bool = False) -> None:
        """Have a change carried out; those of one log are in the order of these calls.

        Args:
            change: The change.
            is_last: Whether the caller has nothing more for this directory: what was submitted is
                sent now, and not a turn of the loop later, unless a call runs, whose end sends it.
        """
        self._queue.append(change)
        self.log_dir.space.charge(change.size)
        if self._running:
            return
        if is_last:
            self._send()
        elif not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn_ended)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run in the serving queue, after everything that was submitted so far."""
        while self._queue:
            self._send()
        return self.log_dir.run(function)

    def run_until_room(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run as `run`, again and again while there is no room, descriptor or memory for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def begin() -> None:
            self.run(function).add_done_callback(end)

        def end(done: asyncio.Future[T]) -> None:
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            if answer.done():
                return
            if isinstance(error, NoSpaceError | ShortageError):
                loop.call_later(FULL_RETRY_S, begin)
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result())

        begin()
        return answer

    def is_blocked(self, files: LogFiles) -> bool:
        """Return whether changes of a log wait for room on the disk."""
        return files in self._blocked

    def give_up(self, files: LogFiles) -> None:
        """Let nothing of a log wait for room any more: nobody will use it."""
        if files in self._blocked:
            self._call(partial(self._carrying_out.give_up, files), ())

    def stop(self) -> None:
        """Try nothing again: what waits for room now is lost with this process."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _turn_ended(self) -> None:
        self._is_scheduled = False
        if self._queue and not self._running:
            self._send()

    def _try_again(self) -> None:
        self._timer = None
        if self._blocked:
            self._call(self._carrying_out.try_again, ())

    def _send(self) -> None:
        if len(self._queue) == 1:
            changes, self._queue = self._queue, []
        else:
            changes = self._take()
        self._running += 1
        self.log_dir.run_then(
            partial(self._carrying_out.carry_out, changes), partial(self._done, changes)
        )

    def _call(self, work: Callable[[], CallOutcome], changes: Sequence[LogChange]) -> None:
        self._running += 1
        self.log_dir.run_then(work, partial(self._done, changes))

    def _take(self) -> list[LogChange]:
        size = 0
        for count, change in enumerate(self._queue):
            size += change.size
            if size > MAX_CALL_BYTES and count:
                changes, self._queue = self._queue[:count], self._queue[count:]
                return changes
        changes, self._queue = self._queue, []
        return changes

    def _done(
        self, changes: Sequence[LogChange], outcome: CallOutcome | None, error: BaseException | None
    ) -> None:
        self._running -= 1
        before = self._blocked
        finished: Sequence[tuple[LogChange, BaseException | None]]
        if outcome is None:
            # Also what waits for room, since the thread keeps nothing then.
            finished = [(change, error) for change in (*self._waiting, *changes)]
            self._blocked, self._waiting = {}, {}
        else:
            finished, self._blocked, cause = outcome
            if self._blocked or self._waiting:
                self._waiting.update(dict.fromkeys(changes))
                for change, _ in finished:
                    del self._waiting[change]
            if cause is not None:
                self.log_dir.no_space(cause)
            elif before and not self._blocked:
                taken = {change.files for change, failure in finished if failure is None}
                # A log that was given up instead tells nothing of the disk.
                if taken.issuperset(before):
                    self.log_dir.room_again()
            if self._blocked and self._timer is None and not self._is_stopped:
                self._timer = asyncio.get_running_loop().call_later(FULL_RETRY_S, self._try_again)
        self.log_dir.space.logs_wait = bool(self._blocked)
        size = 0
        for change, _ in finished:
            size += change.size
        self.log_dir.space.settle(size)
        if self._queue and not self._running:
            # Before the callbacks: the thread shall not idle while they run.
            self._send()
        # Once for each log: who waits for one of its batches often waits for the next.
        news: dict[LogFiles | LogChange, Callable[[], None]] = {}
        for change, failure in finished:
            news[change.files] = change.told
            try:
                change.done(failure)
            except Exception:
                logger.exception("a change of the log of %s failed", change.files.topic_partition)
        for files, change in self._blocked.items():
            if files not in before:
                news[change] = change.blocked
        call_each(news.values(), "a change of a log")
