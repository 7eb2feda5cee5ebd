"""Deletes old segments, and partition directories that were renamed to `-delete`.

The start of a log moves past old data at once. Its segments are removed after the new start is on
the disk: if a later start finds the first segments missing, it knows that nobody deleted them
(`jbodlab.storage.log.checkpointed`).

The event loop decides what to delete. The files are renamed between the appends, and removed by the
upkeep queue, for which no append waits.

Source: `kafka.log.LogManager.cleanupLogs`, `deleteLogs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from broker.bounds.limits import EXPIRED_FILES_INTERVAL_MS, LOGS_PER_TURN, RMTREE_ATTEMPTS
from broker.disk.calls import ReplicaLostError
from broker.disk.directory import LogDir, LogDirs, LogDirState, LogsInUse, OwnedLog
from broker.disk.upkeep.periodic import PeriodicTasks
from jbodlab.runtime.supervised import supervised
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import DirKind, parse_partition_dir
from jbodlab.vocabulary.errors import KafkaError, LogDirError

logger = logging.getLogger(__name__)


class RetentionTask(PeriodicTasks):
    """Applies retention to every log in use.

    Args:
        log_dirs: The directories.
        in_use: The replicas in them.
        write_log_starts: Writes `log-start-offset-checkpoint` of a directory.
        check_interval_ms: `log.retention.check.interval.ms`.
        initial_delay_ms: `log.initial.task.delay.ms`.
        wall_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        in_use: LogsInUse,
        write_log_starts: Callable[[LogDir], Awaitable[None]],
        *,
        check_interval_ms: int,
        initial_delay_ms: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self._log_dirs = log_dirs
        self._wall_ms = wall_ms
        self._in_use = in_use
        self._write_log_starts = write_log_starts
        super().__init__(
            ("retention", initial_delay_ms, check_interval_ms, self.check),
            (
                "removal of deleted segments",
                EXPIRED_FILES_INTERVAL_MS,
                EXPIRED_FILES_INTERVAL_MS,
                self.remove_expired,
            ),
        )

    async def check(self) -> None:
        """Delete what may go of every log in use."""
        await asyncio.gather(*(self._check(log_dir) for log_dir in _serving(self._log_dirs)))

    async def _check(self, log_dir: LogDir) -> None:
        starts: dict[OwnedLog, int] = {}
        for number, (log, high_watermark) in enumerate(self._in_use.logs_in(log_dir)):
            # A copy follows the log that it is a copy of.
            if log.files.is_future:
                continue
            if log.retain(self._wall_ms(), high_watermark):
                self._in_use.log_start_moved(log)
            start = min(log.start_offset, high_watermark)
            if log.state.has_segments_below(start):
                starts[log] = start
            if number % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
        if not starts:
            return
        try:
            await self._write_log_starts(log_dir)
        except LogDirError:
            return
        except KafkaError as error:
            # Segments go all the same: on a disk without room nothing else makes some.
            logger.warning(
                "cannot write the log start offsets: %s", error, extra=log_dir.log_fields()
            )
        for log, _ in self._in_use.logs_in(log_dir):
            if log in starts:
                log.drop_below(starts[log], self._wall_ms())

    async def remove_expired(self) -> None:
        """Remove the files of deleted segments whose delay is over."""
        await asyncio.gather(*(self._remove(log_dir) for log_dir in _serving(self._log_dirs)))

    async def _remove(self, log_dir: LogDir) -> None:
        now_ms = self._wall_ms()
        expired = [
            (log, bases)
            for log, _ in self._in_use.logs_in(log_dir)
            if (bases := log.state.expired(now_ms))
        ]
        if not expired:
            return
        with contextlib.suppress(LogDirError, KafkaError):
            # They may just be on their way to be renamed.
            await expired[0][0].barrier()
            for log, bases in expired:
                # Of a replica that is lost nothing needs to be removed.
                with contextlib.suppress(ReplicaLostError):
                    remove = partial(log.files.remove_set_aside, log_dir.upkeep_fs, bases)
                    await log_dir.upkeep(remove)
                if log.is_blocked:
                    # Some may not even be renamed: they are looked for again.
                    log.state.not_removed(bases, now_ms)


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
            leftovers = partial(_leftovers, log_dir.upkeep_fs, log_dir.path)
            for path in await log_dir.upkeep(leftovers):
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
        removal = supervised(partial(self._remove, log_dir, path), name=f"remove {path}")
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _remove(self, log_dir: LogDir, path: Path) -> None:
        try:
            await log_dir.upkeep(partial(_remove_tree, log_dir.upkeep_fs, path))
        except (LogDirError, KafkaError) as error:
            logger.warning("cannot remove %s: %s", path, error, extra=log_dir.log_fields())
        else:
            logger.info("removed %s", path, extra=log_dir.log_fields())


def _serving(log_dirs: LogDirs) -> Sequence[LogDir]:
    return [each for each in log_dirs.online() if each.state is LogDirState.ONLINE]


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
