"""What the logs in one directory want done to their files, on the way to its serving queue.

What one turn of the event loop brings for a directory goes to its thread as one call. While that
call runs, whatever else comes in is collected and goes as the next one. A busy directory so takes
few calls with many batches, an idle one takes each batch at once, and neither needs a setting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from broker.disk.log_dir import LogDir
from broker.disk.no_space import all_or_lost
from broker.disk.replica_files import ReplicaLostError
from broker.disk.slowness import IoSamples, Work
from jbodlab.log.instructions import Instructions, SyncRequest
from jbodlab.log.log_files import LogFiles
from jbodlab.supervised import call_each

T = TypeVar("T")

MAX_CALL_BYTES = 16 << 20
"""Most bytes of one call, so that reads of the directory are not kept waiting behind it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """Instructions for the files of one log, and who wants to know when they are carried out.

    Attributes:
        size: Bytes that it adds to the directory.
        sync: What must be on the disk as well before it counts as carried out.
        done: Called on the loop with None, or with what went wrong.
    """

    files: LogFiles
    instructions: Instructions
    size: int
    sync: SyncRequest | None
    done: Callable[[BaseException | None], None]


class DirectoryWriter:
    """The queue of changes in front of one directory's thread; used on the loop only."""

    def __init__(self, log_dir: LogDir) -> None:
        self.log_dir = log_dir
        self._queue: list[Change] = []
        self._running = 0
        self._is_scheduled = False

    def submit(self, change: Change) -> None:
        """Have a change carried out; those of one log are in the order of these calls."""
        self._queue.append(change)
        self.log_dir.space.charge(change.size)
        if not self._running and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn_ended)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run in the serving queue, after everything that was submitted so far."""
        while self._queue:
            self._send()
        return self.log_dir.run(partial(all_or_lost, function))

    def _turn_ended(self) -> None:
        self._is_scheduled = False
        if self._queue and not self._running:
            self._send()

    def _send(self) -> None:
        changes = self._take()
        self._running += 1
        work = partial(
            carry_out_all, changes, self.log_dir.io_samples, self.log_dir.outside.monotonic_s
        )
        future = self.log_dir.run(partial(all_or_lost, work))
        future.add_done_callback(partial(self._done, changes))

    def _take(self) -> list[Change]:
        size = 0
        for count, change in enumerate(self._queue):
            size += change.size
            if size > MAX_CALL_BYTES and count:
                changes, self._queue = self._queue[:count], self._queue[count:]
                return changes
        changes, self._queue = self._queue, []
        return changes

    def _done(
        self, changes: list[Change], future: asyncio.Future[dict[LogFiles, Exception]]
    ) -> None:
        self._running -= 1
        self.log_dir.space.settle(sum(change.size for change in changes))
        error: BaseException | None
        failed: dict[LogFiles, Exception] = {}
        if future.cancelled():
            error = asyncio.CancelledError()
        else:
            error = future.exception()
            if error is None:
                failed = future.result()
        if self._queue and not self._running:
            # Before the callbacks: the thread shall not idle while they run.
            self._send()
        call_each(
            [partial(change.done, error or failed.get(change.files)) for change in changes],
            "a change of a log",
        )


def carry_out_all(
    changes: Sequence[Change], samples: IoSamples, monotonic_s: Callable[[], float]
) -> dict[LogFiles, Exception]:
    """Carry changes out on the directory's thread; each log gets one call with all of its own.

    Args:
        changes: What to do.
        samples: Where the time that it took is noted.
        monotonic_s: The clock for that.

    Returns:
        The logs that a change failed of, for a reason other than the disk.

    Raises:
        OSError: the disk failed; nothing is known of what has been done.
    """
    by_log: dict[LogFiles, list[Change]] = {}
    for change in changes:
        by_log.setdefault(change.files, []).append(change)
    failed: dict[LogFiles, Exception] = {}
    begun_s = monotonic_s()
    for files, wanted in by_log.items():
        try:
            if len(wanted) == 1:
                files.carry_out(wanted[0].instructions)
            else:
                files.carry_out([each for change in wanted for each in change.instructions])
            for change in wanted:
                if change.sync is not None:
                    files.sync(files.fs, change.sync)
        except OSError:
            raise
        except ReplicaLostError as error:
            # The disk is healthy, and whoever takes the replica offline says why.
            failed[files] = error
        except Exception as error:
            # One log must not fail its neighbours.
            logger.exception("change of %s failed", files.topic_partition)
            failed[files] = error
    samples.note(Work.APPEND, begun_s, monotonic_s())
    return failed
