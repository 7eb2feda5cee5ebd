"""Compacts the logs of each directory, one after the other, the dirtiest first.

Each directory has its own worker, so a broken disk does not stop the others. The event loop chooses
the next log and installs the result of a round; the directory's `Compactor` reads and writes, in
calls that may take long. These calls use a separate view of the disk, so neither of the directory's
queues waits for them.

A round is cancelled when its log is truncated, moved or deleted, or when its directory fails.
Groups that are already installed stay; the rest is discarded, and the next round begins where this
one did.

Source: `org.apache.kafka.storage.internals.log.LogCleaner`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from broker.bounds.limits import CLEANER_PAUSE_MIN_S, CLEANER_STOP_S
from broker.compaction.choice import Candidate, candidates, first_headers
from broker.compaction.round import Round
from broker.compaction.settings import CleanerSettings
from broker.compaction.stats import CleanerStats
from broker.disk.calls import run_aside
from broker.disk.directory import LogDir, LogDirs, LogDirState, LogsInUse, OwnedLog
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.storage.compaction.compaction_plan import CleanerDiedError, Compactor, Rate
from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.errors import JbodlabError, KafkaError, LogDirError

logger = logging.getLogger(__name__)


class LogCleaner:
    """The workers of all directories; on the event loop.

    Args:
        log_dirs: The directories.
        in_use: The logs in them.
        write_checkpoint: Writes `cleaner-offset-checkpoint` of a directory.
        environment: Clocks, threads, and who makes the rounds.
        settings: Of this broker.

    Attributes:
        stats: Statistics of the rounds of each directory, by its path.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        in_use: LogsInUse,
        write_checkpoint: Callable[[LogDir], Awaitable[None]],
        *,
        environment: Environment,
        settings: CleanerSettings,
    ) -> None:
        self._log_dirs = log_dirs
        self._in_use = in_use
        self._write_checkpoint = write_checkpoint
        self._environment = environment
        self._settings = settings
        self._rounds: dict[LogDir, Round] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopped = False
        self._used: set[Compactor] = set()
        """Those that have done something and may hold what is to be given back."""
        self.stats = {log_dir.path: CleanerStats() for log_dir in log_dirs.all}

    def start(self) -> None:
        """Begin to look for what is to be compacted."""
        self._tasks = [
            supervised(partial(self._work, path), name=f"cleaner of {path}") for path in self.stats
        ]

    async def stop(self) -> None:
        """Call all rounds off and end."""
        self._is_stopped = True
        self._changed.set()
        for each in self._rounds.values():
            each.log.cleaning.abort()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLEANER_STOP_S)
            await end_tasks(late)

    def use(self, settings: CleanerSettings) -> None:
        """Put other settings into force: the rate now, all else from the next round on."""
        self._settings = settings
        self._divide_rate()
        self._changed.set()

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Call the round off that is made in a directory."""
        del error
        if log_dir in self._rounds:
            self._rounds[log_dir].log.cleaning.abort()

    def cleanable(self, log_dir: LogDir) -> list[Candidate]:
        """Return what there is to clean in a directory, due or not, in no order."""
        return candidates(self._in_use.logs_in(log_dir), self._environment.wall_ms())

    # Inside

    async def _work(self, path: Path) -> None:
        compactor = self._environment.compactor()
        try:
            while not self._is_stopped:
                cleaned = False
                try:
                    cleaned = await self._clean_next(path, compactor)
                except (LogDirError, KafkaError) as error:
                    logger.info("compaction in %s stopped: %s", path, error)
                except Exception:
                    logger.exception("compaction in %s failed; it will be retried", path)
                if not cleaned:
                    await self._rest(compactor)
                    await self._pause()
        finally:
            await self._rest(compactor)

    async def _rest(self, compactor: Compactor) -> None:
        """Give back what a compactor holds, if it has done something since the last time."""
        if compactor in self._used:
            self._used.discard(compactor)
            await run_aside(compactor.close, "cleaner rests", self._environment.threads)

    async def _pause(self) -> None:
        if self._is_stopped:
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._settings.backoff_ms / 1000, CLEANER_PAUSE_MIN_S)):
                await self._changed.wait()

    async def _clean_next(self, path: Path, compactor: Compactor) -> bool:
        """Compact the dirtiest log of a directory; returns whether one was compacted."""
        log_dir = self._log_dirs.by_path(path)
        if log_dir is None or log_dir.state is not LogDirState.ONLINE:
            return False
        if not self._settings.is_enabled:
            return False
        stats = self.stats[path]
        stats.looked(self._environment.wall_ms())
        chosen = await self._choose(log_dir)
        if chosen is None or self._is_stopped or not chosen.log.cleaning.is_free:
            return False
        settings = self._settings
        one = Round(
            log_dir,
            chosen,
            compactor,
            in_use=self._in_use,
            write_checkpoint=self._write_checkpoint,
            map_bytes=settings.map_bytes // len(self.stats),
            map_load_factor=settings.map_load_factor,
            rate=Rate(),
        )
        self._rounds[log_dir] = one
        self._divide_rate()
        self._used.add(compactor)
        try:
            done = await one.run()
        except OSError as error:
            self._judge(log_dir, chosen.log, error)
            return False
        except CleanerDiedError as error:
            self._failed(log_dir, chosen.log, error)
            return False
        except (LogDirError, KafkaError):
            raise
        except Exception as error:
            self._failed(log_dir, chosen.log, error)
            raise
        finally:
            del self._rounds[log_dir]
            self._divide_rate()
        if done is None:
            return False
        chosen.log.cleaning.failures = 0
        stats.cleaned(done)
        return True

    def _divide_rate(self) -> None:
        """Let the rounds that are made have equal shares of the broker's rate."""
        rate = self._settings.bytes_per_second
        for each in self._rounds.values():
            each.rate.bytes_per_second = None if rate is None else rate / len(self._rounds)

    async def _choose(self, log_dir: LogDir) -> Candidate | None:
        """Return the dirtiest log that is due and that there is room for.

        One whose rounds fail comes behind all others: it must not keep them from theirs.
        """
        now_ms = self._environment.wall_ms()
        due = []
        for each in candidates(self._in_use.logs_in(log_dir), now_ms):
            if not each.log.cleaning.is_free or each.log.is_blocked:
                continue
            first_timestamps: list[int] = []
            if each.needs_first_timestamps:
                files, places = each.log.files, each.dirty_places()
                find = partial(first_headers, files, log_dir.upkeep_fs, places)
                with contextlib.suppress(JbodlabError):
                    first_timestamps = await log_dir.upkeep(find)
            if each.is_due(now_ms, first_timestamps):
                due.append(each)
        fitting = [each for each in due if log_dir.space.disk.holds(each.room_bytes)]
        return max(
            fitting,
            key=lambda each: (-each.log.cleaning.failures, each.dirty.ratio),
            default=None,
        )

    def _failed(self, log_dir: LogDir, log: OwnedLog, error: Exception) -> None:
        """Count a round that failed for the log's own sake; the first in succession is said."""
        self.stats[log_dir.path].failures += 1
        log.cleaning.failures += 1
        logger.log(
            logging.WARNING if log.cleaning.failures == 1 else logging.INFO,
            "compaction of %s failed; it will be retried after all other logs: %s",
            log.topic_partition,
            str(error) or repr(error),
            extra=log_dir.log_fields(),
        )

    def _judge(self, log_dir: LogDir, log: OwnedLog, error: OSError) -> None:
        """Do what an error of the disk asks for, as the directory's own queues do."""
        if disk_errors.is_no_space(error):
            log_dir.no_space(disk_errors.describe(error))
        elif disk_errors.is_directory_failure(error):
            self._log_dirs.fail(log_dir, disk_errors.describe(error))
        else:
            self._failed(log_dir, log, error)
