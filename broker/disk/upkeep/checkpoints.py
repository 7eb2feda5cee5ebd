"""Writes the checkpoint files of every directory: high watermarks, recovery points and others.

A separate queue writes all checkpoint files of a directory, and only when their content changed. A
closed segment is synced before its recovery point is written, so that an unclean restart reads only
the last minutes.

A file contains the values of the moment at which it is written, never older values that waited in a
queue: if a log was truncated in between, such a value would be after its end.

Source: `kafka.server.ReplicaManager.checkpointHighWatermarks`, `kafka.log.LogManager`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from broker.disk.calls import ReplicaLostError, WaitsForRoomError
from broker.disk.directory import LogDir, LogDirs, LogDirState, LogsInUse, LogWithState
from broker.disk.upkeep.periodic import PeriodicTasks
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import write_offsets
from jbodlab.storage.log import checkpointed
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import TopicPartition

Offsets = Mapping[TopicPartition, int]
Logs = Sequence[tuple[LogWithState, int]]
"""Logs and their high watermarks."""


class CheckpointWriter(PeriodicTasks):
    """Keeps the checkpoint files of all directories up to date.

    Args:
        log_dirs: The directories.
        in_use: The replicas in them.
        high_watermark_interval_ms: `replica.high.watermark.checkpoint.interval.ms`.
        recovery_point_interval_ms: `log.flush.offset.checkpoint.interval.ms`.
        log_start_interval_ms: `log.flush.start.offset.checkpoint.interval.ms`.
        initial_delay_ms: `log.initial.task.delay.ms`; not for the high watermarks.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        in_use: LogsInUse,
        *,
        high_watermark_interval_ms: int,
        recovery_point_interval_ms: int,
        log_start_interval_ms: int,
        initial_delay_ms: int,
    ) -> None:
        self._log_dirs = log_dirs
        self._in_use = in_use
        # By life of a directory: what a former one wrote says nothing of what lies there now.
        self._written: WeakKeyDictionary[LogDir, dict[str, Offsets]] = WeakKeyDictionary()
        self._pending: WeakKeyDictionary[LogDir, dict[str, asyncio.Future[None]]] = (
            WeakKeyDictionary()
        )
        super().__init__(
            (
                "checkpoint of high watermarks",
                high_watermark_interval_ms,
                high_watermark_interval_ms,
                partial(self._everywhere, self.write_high_watermarks),
            ),
            (
                "checkpoint of recovery points",
                initial_delay_ms,
                recovery_point_interval_ms,
                partial(self._everywhere, self.write_recovery_points),
            ),
            (
                "checkpoint of log starts",
                initial_delay_ms,
                log_start_interval_ms,
                partial(self._everywhere, self.write_log_starts),
            ),
            # A follower has gaps of offsets that its leader's compaction has left.
            (
                "checkpoint of cleaner offsets",
                initial_delay_ms,
                log_start_interval_ms,
                partial(self._everywhere, self.write_cleaner_offsets),
            ),
        )

    def write_high_watermarks(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `replication-offset-checkpoint` of one directory if it changed."""
        return self._write(log_dir, names.HIGH_WATERMARK_FILE)

    async def write_recovery_points(self, log_dir: LogDir) -> None:
        """Sync closed segments of one directory, write `recovery-point-offset-checkpoint`."""
        left = deque(
            (log, log.state.sync_request(with_active=False))
            for log, _ in self._in_use.logs_in(log_dir)
            # A copy is synced by who makes it.
            if log.state.needs_sync and not log.files.is_future
        )
        try:
            if left:
                await left[0][0].barrier()
            while left:
                log, request = left[0]
                # One that was removed by hand, or waits for room, must not keep others from theirs.
                with contextlib.suppress(ReplicaLostError, WaitsForRoomError):
                    await log.sync(request)
                left.popleft()
        finally:
            # The next caller, such as a stop, must not take them for carried out.
            for log, request in left:
                log.state.not_synced(request)
        await self._write(log_dir, names.RECOVERY_POINT_FILE)

    async def lower(self, log_dir: LogDir) -> None:
        """Write what a log that is about to be cut has lowered.

        Raises:
            LogDirError: the directory failed.
        """
        await asyncio.gather(
            self._write(log_dir, names.HIGH_WATERMARK_FILE),
            self._write(log_dir, names.RECOVERY_POINT_FILE),
            self._write(log_dir, names.CLEANER_OFFSET_FILE),
            self._write(log_dir, names.LOG_START_OFFSET_FILE),
        )

    def write_log_starts(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `log-start-offset-checkpoint` of one directory if it changed."""
        return self._write(log_dir, names.LOG_START_OFFSET_FILE)

    def write_cleaner_offsets(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `cleaner-offset-checkpoint` of one directory if it changed."""
        return self._write(log_dir, names.CLEANER_OFFSET_FILE)

    def write_all(self, log_dir: LogDir) -> None:
        """Write all of them anew, as a replica has come to a directory or left it."""
        if log_dir.state is not LogDirState.ONLINE:
            return
        for name in CONTENTS:
            self._write(log_dir, name).add_done_callback(_drop_error)

    def _write(self, log_dir: LogDir, name: str) -> asyncio.Future[None]:
        """Have one file written; who asks while that waits for its turn is answered with it.

        Each gets a future of its own: one that is cancelled takes nothing away from the others.
        """
        pending = self._pending.setdefault(log_dir, {})
        known = pending.get(name)
        if known is not None:
            return asyncio.shield(known)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_drop_error)
        pending[name] = answer
        # Everything queued before it is done first; only then is looked at what is to be written.
        turn = log_dir.checkpoint(_nothing)
        turn.add_done_callback(partial(self._turn_came, log_dir, name, answer))
        return asyncio.shield(answer)

    def _turn_came(
        self,
        log_dir: LogDir,
        name: str,
        answer: asyncio.Future[None],
        turn: asyncio.Future[None],
    ) -> None:
        del self._pending[log_dir][name]
        if turn.cancelled() or turn.exception() is not None:
            _settle(answer, turn)
            return
        offsets = CONTENTS[name](self._in_use.logs_in(log_dir))
        written = self._written.setdefault(log_dir, {})
        if written.get(name) == offsets:
            answer.set_result(None)
            return
        written[name] = offsets
        write = partial(write_offsets, log_dir.checkpoint_fs, log_dir.path / name, offsets)
        done = log_dir.checkpoint(write)
        done.add_done_callback(partial(self._forget_if_failed, written, name))
        done.add_done_callback(partial(_settle, answer))

    @staticmethod
    def _forget_if_failed(
        written: dict[str, Offsets], name: str, done: asyncio.Future[None]
    ) -> None:
        """A disk that took no more may take it the next time."""
        if done.cancelled() or done.exception() is not None:
            written.pop(name, None)

    async def _everywhere(self, write: Callable[[LogDir], Awaitable[None]]) -> None:
        futures = [
            write(log_dir)
            for log_dir in self._log_dirs.online()
            if log_dir.state is LogDirState.ONLINE
        ]
        for result in await asyncio.gather(*futures, return_exceptions=True):
            # A failed directory was reported by its thread.
            if isinstance(result, BaseException) and not isinstance(
                result, LogDirError | KafkaError
            ):
                raise result


def _drop_error(future: asyncio.Future[None]) -> None:
    """A directory that failed has told everybody already."""
    if not future.cancelled():
        future.exception()


def _settle(answer: asyncio.Future[None], done: asyncio.Future[None]) -> None:
    if answer.done():
        return
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)


def _nothing() -> None:
    """Find out when its turn has come."""


def recovery_points(logs: Logs) -> Offsets:
    """Return the content of `recovery-point-offset-checkpoint` while the logs are in use."""
    return {log.topic_partition: checkpointed.recovery_point(log.state) for log, _ in logs}


def log_start_offsets(logs: Logs) -> Offsets:
    """Return the content of `log-start-offset-checkpoint`."""
    return {
        log.topic_partition: start
        for log, _ in logs
        # The start of a move's copy is the business of the log that it copies.
        if not log.files.is_future and (start := checkpointed.start_offset(log.state)) is not None
    }


def high_watermarks(logs: Logs) -> Offsets:
    """Return the content of `replication-offset-checkpoint`."""
    return {
        log.topic_partition: checkpointed.high_watermark(log.state, high_watermark)
        for log, high_watermark in logs
    }


def cleaner_offsets(logs: Logs) -> Offsets:
    """Return the content of `cleaner-offset-checkpoint`.

    Logs that were never compacted, and miss no offsets, are not listed.
    """
    return {
        log.topic_partition: cleaned_to
        for log, _ in logs
        if (cleaned_to := checkpointed.cleaned_to(log.state)) is not None
    }


CONTENTS: Mapping[str, Callable[[Logs], Offsets]] = {
    names.HIGH_WATERMARK_FILE: high_watermarks,
    names.LOG_START_OFFSET_FILE: log_start_offsets,
    names.RECOVERY_POINT_FILE: recovery_points,
    names.CLEANER_OFFSET_FILE: cleaner_offsets,
}
