"""Detects dead directories that nobody writes to or whose open files still work, and hung ones.

At each interval a separate thread checks that the path is still the directory of the start, creates
a small file in it, syncs it and removes it. An `OSError` takes the directory offline, like one of
an append.

A directory is *hung* when one of its threads stays in the same step on the disk for the whole
deadline. Steps that return late, and waits behind them, make it at most slow. Time in which this
process itself was paused does not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from broker.disk.calls import Fence, run_aside
from broker.disk.condition import hung
from broker.disk.directory import FoundLog, LogDir, LogDirs, LogDirState
from broker.disk.slowness import TimedWork
from broker.disk.upkeep.condition_monitor import Look, look
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.directory_probe import PROBE_FILE, probe
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import KafkaError

__all__ = ["PROBE_FILE", "LogDirProbe", "probe", "watch_steps"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOKS_PER_DEADLINE = 20
"""How often within a deadline the loop looks at the running steps."""


class LogDirProbe:
    """Probes every directory, each at its own pace.

    Args:
        log_dirs: The directories; a separate metadata directory is probed as well.
        interval_ms: From one probe to the next.
        deadline_ms: Longest time that one step of a thread on the disk may take.
        looked: Told, after each probe, what was seen of the file system.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        *,
        interval_ms: int,
        deadline_ms: int,
        looked: Callable[[LogDir, Look | None], None] = lambda _log_dir, _look: None,
    ) -> None:
        self._log_dirs = log_dirs
        self._interval_s = interval_ms / 1000
        self._deadline_ms = deadline_ms
        self._looked = looked
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_probing = False

    def start(self) -> None:
        """Begin probing."""
        self._is_probing = True
        for log_dir in self._log_dirs.watched:
            self._begin(log_dir)
        watch = partial(
            watch_steps, self._log_dirs, lambda: self._log_dirs.watched, self._deadline_ms
        )
        self._keep(supervised(watch, name="watch the steps on the disks"))

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Probe a revived directory as any other; the tasks of what failed end by themselves."""
        del former, logs
        if self._is_probing:
            self._begin(log_dir)

    async def stop(self) -> None:
        """End probing."""
        self._is_probing = False
        await end_tasks(self._tasks)

    def _begin(self, log_dir: LogDir) -> None:
        self._keep(supervised(partial(self._probe, log_dir), name=f"probe {log_dir.path}"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _probe(self, log_dir: LogDir) -> None:
        loop = asyncio.get_running_loop()
        while log_dir.is_online:
            started = loop.time()
            if log_dir.state is LogDirState.ONLINE or log_dir not in self._log_dirs.all:
                try:
                    self._looked(log_dir, await _probed(log_dir))
                except OSError as error:
                    if log_dir.cause is not None:
                        return
                    if disk_errors.is_no_space(error):
                        log_dir.no_space(disk_errors.describe(error))
                    elif disk_errors.is_directory_failure(error):
                        self._log_dirs.fail(log_dir, disk_errors.describe(error))
                        return
                    else:
                        # No file descriptors left, or no memory: the disk cannot be blamed.
                        logger.warning(
                            "probe of a log directory failed: %s", error, extra=log_dir.log_fields()
                        )
                except KafkaError as error:
                    logger.warning(
                        "probe of a log directory failed: %s", error, extra=log_dir.log_fields()
                    )
            await asyncio.sleep(max(0.0, started + self._interval_s - loop.time()))


async def _probed(log_dir: LogDir) -> Look | None:
    """Probe a directory and look at its file system, on a thread that nobody waits for."""
    fs, leave = log_dir.side_door()

    def on_thread() -> Look | None:
        try:
            return _timed_probe(log_dir, fs)
        finally:
            leave()

    return await run_aside(on_thread, f"probe {log_dir.path}", log_dir.environment.threads)


def _timed_probe(log_dir: LogDir, fs: FileSystem) -> Look | None:
    monotonic_s = log_dir.environment.monotonic_s
    begun_s = monotonic_s()
    probe(fs, log_dir.path, log_dir.identity)
    log_dir.io_samples.note(TimedWork.PROBE, begun_s, monotonic_s())
    return look(log_dir, fs)


async def watch_steps(
    log_dirs: LogDirs, watched: Callable[[], Iterable[LogDir]], deadline_ms: int
) -> NoReturn:
    """Take each directory offline in which a step of one of the threads does not come back.

    The time between two looks counts at most twice as long as planned: a loop that was stopped or
    starved in between cannot tell how long the step really took.
    """
    loop = asyncio.get_running_loop()
    pause_s = deadline_ms / 1000 / LOOKS_PER_DEADLINE
    seen: dict[Fence, tuple[int, float]] = {}
    last_look = loop.time()
    while True:
        await asyncio.sleep(pause_s)
        now = loop.time()
        elapsed_s, last_look = min(now - last_look, 2 * pause_s), now
        stuck: dict[Fence, tuple[int, float]] = {}
        for log_dir in [each for each in watched() if each.is_online]:
            for fence, step in log_dir.running_steps().items():
                before, stuck_s = seen.get(fence, (0, 0.0))
                stuck[fence] = step, stuck_s + elapsed_s if before == step else 0.0
                if stuck[fence][1] >= deadline_ms / 1000:
                    log_dirs.fail(log_dir, hung(f"{deadline_ms} ms"))
                    break
        seen = stuck
