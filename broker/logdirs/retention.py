"""Deletes what may go: old segments, and partition directories that were renamed to `-delete`.

One log is one call on its directory's thread, so that appends wait for one deletion at most.

Source: `kafka.log.LogManager.cleanupLogs`, `deleteLogs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from broker.logdirs.hosted import HostedLog, HostedLogs
from broker.logdirs.lifecycle import LogDirState
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.logdirs.periodic import PeriodicTask
from broker.logdirs.replica_files import ReplicaLostError
from jbodlab.errors import KafkaError, LogDirError
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.names import DirKind, parse_partition_dir
from jbodlab.log.replica_log import ReplicaLog

logger = logging.getLogger(__name__)

EXPIRED_FILES_INTERVAL_MS = 10_000
"""How often is looked for `.deleted` files whose delay is over."""

RMTREE_ATTEMPTS = 3

LOGS_PER_CALL = 32
"""So many logs are looked at in one call; appends to the directory wait no longer than that."""


class RetentionTask:
    """Applies retention to every log in use.

    Args:
        log_dirs: The directories.
        hosted: The replicas in them.
        check_interval_ms: `log.retention.check.interval.ms`.
        initial_delay_ms: `log.initial.task.delay.ms`.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        hosted: HostedLogs,
        *,
        check_interval_ms: int,
        initial_delay_ms: int,
    ) -> None:
        self._log_dirs = log_dirs
        self._hosted = hosted
        self._tasks = (
            PeriodicTask(
                "retention", check_interval_ms, self.check, initial_delay_ms=initial_delay_ms
            ),
            PeriodicTask(
                "removal of deleted segments", EXPIRED_FILES_INTERVAL_MS, self.remove_expired
            ),
        )

    def start(self) -> None:
        """Begin to check."""
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            await task.stop()

    async def check(self) -> None:
        """Delete what may go of every log in use, all directories at the same time."""
        await asyncio.gather(*(self._check(log_dir) for log_dir in _serving(self._log_dirs)))

    async def remove_expired(self) -> None:
        """Remove the files of deleted segments whose delay is over."""
        await asyncio.gather(*(self._remove(log_dir) for log_dir in _serving(self._log_dirs)))

    async def _check(self, log_dir: LogDir) -> None:
        # Asked again for each batch: while one is being looked at, logs may go away.
        done: set[ReplicaLog] = set()
        while True:
            hosted = (each for each in self._hosted.hosted_in(log_dir) if each.log not in done)
            batch = list(islice(hosted, LOGS_PER_CALL))
            if not batch:
                return
            done.update(each.log for each in batch)
            try:
                moved = await log_dir.run(partial(_retain, batch, _now_ms()))
            except LogDirError as error:
                logger.debug("retention ended early: %s", error, extra=log_dir.log_fields())
                return
            for log, start in moved:
                self._hosted.log_start_moved(log, start)

    async def _remove(self, log_dir: LogDir) -> None:
        logs = [each.log for each in self._hosted.hosted_in(log_dir)]
        with contextlib.suppress(LogDirError, KafkaError):
            await log_dir.run(partial(_remove_expired, logs, _now_ms()), is_long=True)


class DirectoryRemover:
    """Removes `-delete` directories once their delay is over."""

    def __init__(self, log_dirs: LogDirs) -> None:
        self._log_dirs = log_dirs
        self._timers: dict[Path, asyncio.TimerHandle] = {}
        self._removals: set[asyncio.Task[None]] = set()

    async def schedule_leftovers(self, delay_ms: int) -> None:
        """Schedule what the process before this one had not removed yet."""
        for log_dir in _serving(self._log_dirs):
            await self.schedule_leftovers_in(log_dir, delay_ms)

    async def schedule_leftovers_in(self, log_dir: LogDir, delay_ms: int) -> None:
        """Schedule what is left in one directory."""
        with contextlib.suppress(LogDirError, KafkaError):
            for path in await log_dir.run(partial(_leftovers, log_dir.fs, log_dir.path)):
                self.schedule(log_dir, path, delay_ms)

    def schedule(self, log_dir: LogDir, path: Path, delay_ms: int) -> None:
        """Remove a partition directory after a delay, `file.delete.delay.ms`."""
        loop = asyncio.get_running_loop()
        earlier = self._timers.pop(path, None)
        if earlier is not None:
            # It was scheduled before its directory failed and came back.
            earlier.cancel()
        self._timers[path] = loop.call_later(delay_ms / 1000, self._begin, log_dir, path)

    def stop(self) -> None:
        """Forget what is scheduled; the next start finds it again."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _begin(self, log_dir: LogDir, path: Path) -> None:
        del self._timers[path]
        removal = asyncio.create_task(self._remove(log_dir, path), name=f"remove {path}")
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _remove(self, log_dir: LogDir, path: Path) -> None:
        try:
            await log_dir.run(partial(_remove_tree, log_dir.fs, path), is_long=True)
        except (LogDirError, KafkaError) as error:
            logger.warning("%s was not removed: %s", path, error, extra=log_dir.log_fields())
        else:
            logger.info("removed %s", path, extra=log_dir.log_fields())


def _serving(log_dirs: LogDirs) -> Sequence[LogDir]:
    return [each for each in log_dirs.online() if each.state is LogDirState.ONLINE]


def _retain(batch: Sequence[HostedLog], now_ms: int) -> list[tuple[ReplicaLog, int]]:
    """Apply retention; returns the logs whose start moved, and where to."""
    moved = []
    for log, high_watermark in batch:
        if log.is_future:
            # It follows the log that it is a copy of.
            continue
        before = log.log_start_offset
        try:
            log.retention(now_ms, high_watermark)
        except KafkaError as error:
            logger.warning("no retention: %s", error)
        if log.log_start_offset != before:
            moved.append((log, log.log_start_offset))
    return moved


def _remove_expired(logs: Sequence[ReplicaLog], now_ms: int) -> None:
    for log in logs:
        # Of a replica that is lost nothing needs to be removed.
        with contextlib.suppress(ReplicaLostError):
            log.delete_expired(now_ms)


def _leftovers(fs: FileSystem, log_dir: Path) -> list[Path]:
    found = []
    for name in fs.listdir(log_dir):
        with contextlib.suppress(ValueError):
            if parse_partition_dir(name).kind is DirKind.DELETE:
                found.append(log_dir / name)
    return found


def _remove_tree(fs: FileSystem, path: Path) -> None:
    # Somebody may be removing it, or a part of it, by hand; that is no fault of the disk.
    for _ in range(RMTREE_ATTEMPTS):
        try:
            fs.rmtree(path)
        except FileNotFoundError:
            if not fs.exists(path):
                return
        else:
            return


def _now_ms() -> int:
    return int(time.time() * 1000)
