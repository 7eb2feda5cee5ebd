"""Writes the checkpoint files of every directory: high watermarks, recovery points, log starts.

All of a directory's files are written on its own thread, and only when their content changed. A
closed segment that is not on the disk yet is flushed before its recovery point is written, so that
an unclean restart has to read no more than the last minutes.

Source: `kafka.server.ReplicaManager.checkpointHighWatermarks`, `kafka.log.LogManager`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from broker.logdirs.hosted import HostedLogs
from broker.logdirs.lifecycle import LogDirState
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.logdirs.periodic import PeriodicTask
from broker.logdirs.replica_files import ReplicaLostError
from jbodlab.errors import KafkaError, LogDirError
from jbodlab.ids import TopicPartition
from jbodlab.log import names
from jbodlab.log.checkpoints import write_offsets
from jbodlab.log.replica_log import ReplicaLog

Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    """Keeps the checkpoint files of all directories up to date.

    Args:
        log_dirs: The directories.
        hosted: The replicas in them.
        high_watermark_interval_ms: `replica.high.watermark.checkpoint.interval.ms`.
        recovery_point_interval_ms: `log.flush.offset.checkpoint.interval.ms`.
        log_start_interval_ms: `log.flush.start.offset.checkpoint.interval.ms`.
        initial_delay_ms: `log.initial.task.delay.ms`; not for the high watermarks.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        hosted: HostedLogs,
        *,
        high_watermark_interval_ms: int,
        recovery_point_interval_ms: int,
        log_start_interval_ms: int,
        initial_delay_ms: int,
    ) -> None:
        self._log_dirs = log_dirs
        self._hosted = hosted
        # By life of a directory: what a former one wrote says nothing of what lies there now.
        self._written: WeakKeyDictionary[LogDir, dict[Path, Offsets]] = WeakKeyDictionary()
        self._tasks = (
            PeriodicTask(
                "checkpoint of high watermarks",
                high_watermark_interval_ms,
                partial(self._everywhere, self.write_high_watermarks),
            ),
            PeriodicTask(
                "checkpoint of recovery points",
                recovery_point_interval_ms,
                partial(self._everywhere, self.write_recovery_points),
                initial_delay_ms=initial_delay_ms,
            ),
            PeriodicTask(
                "checkpoint of log starts",
                log_start_interval_ms,
                partial(self._everywhere, self.write_log_starts),
                initial_delay_ms=initial_delay_ms,
            ),
        )

    def start(self) -> None:
        """Begin to write."""
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """End; what the last checkpoint lacks is written by the clean shutdown."""
        for task in self._tasks:
            await task.stop()

    def write_high_watermarks(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `replication-offset-checkpoint` of one directory if it changed."""
        offsets = {
            log.topic_partition: high_watermark
            for log, high_watermark in self._hosted.hosted_in(log_dir)
        }
        path = log_dir.path / names.HIGH_WATERMARK_FILE
        return log_dir.run(partial(self._write_if_changed, log_dir, path, offsets))

    def write_recovery_points(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Flush closed segments of one directory, write `recovery-point-offset-checkpoint`."""
        logs = self._logs(log_dir)
        path = log_dir.path / names.RECOVERY_POINT_FILE

        def write() -> None:
            for log in logs:
                # A copy is flushed by who makes it.
                if log.needs_flush and not log.is_future:
                    # A replica that was removed by hand must not keep the others from theirs.
                    with contextlib.suppress(ReplicaLostError):
                        log.flush()
            self._write_if_changed(log_dir, path, recovery_points(logs))

        return log_dir.run(write, is_long=True)

    def write_log_starts(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `log-start-offset-checkpoint` of one directory if it changed."""
        logs = self._logs(log_dir)
        path = log_dir.path / names.LOG_START_OFFSET_FILE
        return log_dir.run(lambda: self._write_if_changed(log_dir, path, log_start_offsets(logs)))

    def write_all(self, log_dir: LogDir) -> None:
        """Write all three anew, as a replica has come to a directory or left it."""
        if log_dir.state is not LogDirState.ONLINE:
            return
        for write in (
            self.write_high_watermarks,
            self.write_log_starts,
            self.write_known_recovery_points,
        ):
            write(log_dir).add_done_callback(_drop_error)

    def write_known_recovery_points(self, log_dir: LogDir) -> asyncio.Future[None]:
        """Write `recovery-point-offset-checkpoint` of one directory without flushing anything."""
        logs = self._logs(log_dir)
        path = log_dir.path / names.RECOVERY_POINT_FILE
        return log_dir.run(lambda: self._write_if_changed(log_dir, path, recovery_points(logs)))

    def _logs(self, log_dir: LogDir) -> Sequence[ReplicaLog]:
        return [log for log, _ in self._hosted.hosted_in(log_dir)]

    def _write_if_changed(self, log_dir: LogDir, path: Path, offsets: Offsets) -> None:
        # On the directory's thread, which alone touches its entries.
        written = self._written.setdefault(log_dir, {})
        if written.get(path) != offsets:
            write_offsets(log_dir.fs, path, offsets)
            written[path] = offsets

    async def _everywhere(self, write: Callable[[LogDir], asyncio.Future[None]]) -> None:
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


def recovery_points(logs: Sequence[ReplicaLog]) -> Offsets:
    """Return the content of `recovery-point-offset-checkpoint`; on the directory's thread."""
    return {log.topic_partition: log.recovery_point for log in logs}


def log_start_offsets(logs: Sequence[ReplicaLog]) -> Offsets:
    """Return the content of `log-start-offset-checkpoint`; on the directory's thread.

    Only logs that begin inside their first segment are listed; for the others the name of that
    segment says it.
    """
    return {
        log.topic_partition: log.log_start_offset
        for log in logs
        if log.log_start_offset > log.segment_base_offsets[0]
    }
