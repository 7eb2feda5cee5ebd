"""Appends of all partitions in one log directory, on the way to its thread.

What one turn of the event loop brings for a directory goes to its thread as one call. While that
call runs, whatever else comes in is collected and goes as the next one. A busy directory so takes
few calls with many batches, an idle one takes each batch at once, and neither needs a setting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from broker.logdirs.log_dir import LogDir
from broker.logdirs.replica_files import ReplicaLostError
from broker.logdirs.slowness import IoSamples, Work
from jbodlab.log.replica_log import ReplicaLog
from jbodlab.protocol.record_batch import BatchHeader

T = TypeVar("T")

MAX_CALL_BYTES = 16 << 20
"""Most bytes of one call, so that reads of the directory are not kept waiting behind it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Append:
    """Batches for one log, stamped, and who wants to know when they are written.

    `written` is called on the loop with None, or with what went wrong.
    """

    log: ReplicaLog
    buffers: Sequence[bytes | memoryview]
    headers: Sequence[BatchHeader]
    size: int
    written: Callable[[BaseException | None], None]


class DirectoryWriter:
    """The queue of appends in front of one directory's thread; used on the loop only."""

    def __init__(self, log_dir: LogDir) -> None:
        self.log_dir = log_dir
        self._queue: list[Append] = []
        self._running = 0
        self._is_scheduled = False

    def append(self, append: Append) -> None:
        """Write at the end of a log; appends to one log happen in the order of these calls."""
        self._queue.append(append)
        self.log_dir.space.charge(append.size)
        if not self._running and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn_ended)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run on the directory's thread, after everything that was appended so far."""
        while self._queue:
            self._submit()
        return self.log_dir.run(function)

    def _turn_ended(self) -> None:
        self._is_scheduled = False
        if self._queue and not self._running:
            self._submit()

    def _submit(self) -> None:
        batch = self._take()
        self._running += 1
        future = self.log_dir.run(partial(write_all, batch, self.log_dir.io_samples))
        future.add_done_callback(partial(self._done, batch))

    def _take(self) -> list[Append]:
        size = 0
        for count, append in enumerate(self._queue):
            size += append.size
            if size > MAX_CALL_BYTES and count:
                batch, self._queue = self._queue[:count], self._queue[count:]
                return batch
        batch, self._queue = self._queue, []
        return batch

    def _done(
        self, batch: list[Append], future: asyncio.Future[dict[ReplicaLog, Exception]]
    ) -> None:
        self._running -= 1
        self.log_dir.space.settle(sum(append.size for append in batch))
        error: BaseException | None
        failed: dict[ReplicaLog, Exception] = {}
        if future.cancelled():
            error = asyncio.CancelledError()
        else:
            error = future.exception()
            if error is None:
                failed = future.result()
        if self._queue and not self._running:
            # Before the callbacks: the thread shall not idle while they run.
            self._submit()
        for append in batch:
            append.written(error or failed.get(append.log))


def write_all(appends: Sequence[Append], samples: IoSamples) -> dict[ReplicaLog, Exception]:
    """Write on the directory's thread; each log gets one call with all its batches.

    Args:
        appends: What to write.
        samples: Where the time that it took is noted.

    Returns:
        The logs whose append failed for a reason other than the disk.

    Raises:
        OSError: the disk failed; nothing is known of what has been written.
    """
    by_log: dict[ReplicaLog, list[Append]] = {}
    for append in appends:
        by_log.setdefault(append.log, []).append(append)
    failed: dict[ReplicaLog, Exception] = {}
    begun_s = time.monotonic()
    for log, wanted in by_log.items():
        try:
            if len(wanted) == 1:
                log.append(wanted[0].buffers, wanted[0].headers)
            else:
                buffers = [buffer for append in wanted for buffer in append.buffers]
                headers = [header for append in wanted for header in append.headers]
                log.append(buffers, headers)
        except OSError:
            raise
        except ReplicaLostError as error:
            # The disk is healthy, and whoever takes the replica offline says why.
            failed[log] = error
        except Exception as error:
            # One log must not fail its neighbours.
            logger.exception("append to %s failed", log.topic_partition)
            failed[log] = error
    samples.note(Work.APPEND, begun_s, time.monotonic())
    return failed
