"""Keeps the condition of each online directory up to date, and notifies listeners.

The monitor receives the results of the probe, and appends that found no space. `disk_space`,
`slowness` and `condition` decide; the monitor logs and counts the changes and notifies the
listeners at once, in one synchronous call. Its only task notices pauses of this process.

A directory is watched from its first probe until it fails. A directory that returns is watched from
the beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from broker.bounds.limits import STALL_LOOK_S, STALL_MIN_S, STALLS_MAX
from broker.disk.condition import (
    HEALTHY,
    DegradedLogDirs,
    DirectoryCondition,
    DirectorySpace,
    DiskSpace,
    degraded_log_dirs,
    space_text,
)
from broker.disk.directory import FoundLog, LogDir, LogDirs
from broker.disk.slowness import LatencyWindow, SlowSettings, SlowWatch, Stall
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import JbodlabError, LogDirError

logger = logging.getLogger(__name__)


class Look(NamedTuple):
    """Sizes that a directory's thread saw of its file system, in bytes."""

    total_bytes: int
    free_bytes: int


def look(log_dir: LogDir, fs: FileSystem) -> Look | None:
    """Look at the file system of a directory.

    Args:
        log_dir: The directory.
        fs: Its disk as the thread may use it that looks.

    Returns:
        None where it does not say; that alone is no reason to take the directory offline.
    """
    with contextlib.suppress(OSError):
        return Look(*fs.disk_usage(log_dir.path))
    return None


class ConditionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a directory is FULL or SLOW.

    Attributes:
        reserved_bytes: `log.dir.reserved.bytes`; negative for the default, 0 for none.
    """

    reserved_bytes: int = -1
    slow: SlowSettings = msgspec.field(default_factory=SlowSettings)


class LogDirConditionListener(Protocol):
    """A listener that acts on the condition of an online directory."""

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Take notice of `log_dir.condition`, without touching a file and without waiting."""


class _Watched:
    """State of one watched directory."""

    def __init__(self, settings: SlowSettings) -> None:
        self.window = LatencyWindow(settings.window_ms)
        self.slow = SlowWatch(settings)


class ConditionMonitor:
    """The conditions of all directories of `log.dirs`; on the event loop.

    Args:
        log_dirs: The directories.
        settings: The limits.
        on_degraded: Told what the controller is to know, whenever that changes.
        monotonic_s: Clock of the calls' times.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        settings: ConditionSettings,
        *,
        on_degraded: Callable[[DegradedLogDirs], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self.changes: dict[Path, int] = dict.fromkeys((each.path for each in log_dirs.all), 0)
        """How often the condition of each directory changed."""
        self._log_dirs = log_dirs
        self._settings = settings
        self._on_degraded = on_degraded
        self._monotonic_s = monotonic_s
        self._listeners: list[LogDirConditionListener] = []
        self._watched: dict[LogDir, _Watched] = {}
        self._stalls: deque[Stall] = deque(maxlen=STALLS_MAX)
        # When the loop is to be found running next; infinite while nobody looks.
        self._due_s = float("inf")
        self._degraded = DegradedLogDirs()
        self._task: asyncio.Task[None] | None = None
        self._looks: dict[asyncio.Task[None], None] = {}

    def add_listener(self, listener: LogDirConditionListener) -> None:
        """Add who is told of changes; the listeners are told in the order they were added."""
        self._listeners.append(listener)

    @property
    def degraded(self) -> DegradedLogDirs:
        """Condition of all directories for the controller now."""
        conditions = [
            (log_dir.directory_id, log_dir.condition)
            for log_dir in self._log_dirs.online()
            if log_dir.directory_id is not None
        ]
        return degraded_log_dirs(conditions, slow_moves_leaders=self._settings.slow.moves_leaders)

    def latencies_ms(self, log_dir: LogDir) -> dict[str, float]:
        """Return the medians by which a directory is judged, by the kind of work."""
        watched = self._watched.get(log_dir)
        medians = {} if watched is None else watched.window.medians_ms
        return {work.value: median_ms for work, median_ms in medians.items()}

    def start(self) -> None:
        """Begin to notice stalls."""
        self._task = supervised(self._notice_stalls, name="notice stalls")

    async def stop(self) -> None:
        """End."""
        task, self._task = self._task, None
        await end_tasks([*self._looks, task])

    async def first_look(self, deadline_ms: int) -> None:
        """Look at the room of every directory before anything is placed or appended there.

        One that does not answer within the deadline is not waited for: the probe will find the
        call still running, and knows better than we whether the disk is to blame.
        """
        looks = [self._look_soon(log_dir) for log_dir in self._log_dirs.online()]
        if looks:
            await asyncio.wait(looks, timeout=deadline_ms / 1000)

    def looked(self, log_dir: LogDir, found: Look | None) -> None:
        """Judge a directory by what a thread has just seen; what it was timed at is there."""
        if not log_dir.is_online or log_dir not in self._log_dirs.all:
            log_dir.io_samples.take()
            return
        watched = self._watched.get(log_dir) or self._begin(log_dir)
        log_dir.space.written(self._monotonic_s())
        if found is not None:
            log_dir.space.looked(
                found.total_bytes, found.free_bytes, tuple(self._neighbours(log_dir))
            )
        now_s = self._monotonic_s()
        self._note_stall(now_s)
        watched.window.add(log_dir.io_samples.take(), self._stalls, now_s)
        peers = [other.window.medians_ms for d, other in self._watched.items() if d is not log_dir]
        watched.slow.looked(watched.window.medians_ms, peers)
        self._refresh(log_dir)

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Forget a directory; what is offline is in no condition."""
        del error
        self._watched.pop(log_dir, None)
        log_dir.space.leave()
        log_dir.io_samples.take()
        log_dir.condition = HEALTHY
        self._tell_degraded()

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Look at a revived directory at once; its replicas are there already."""
        del former, logs
        self._look_soon(log_dir)

    def _look_soon(self, log_dir: LogDir) -> asyncio.Task[None]:
        task = asyncio.create_task(self._look(log_dir), name=f"look at {log_dir.path}")
        self._looks[task] = None
        task.add_done_callback(self._looks.pop)
        return task

    async def _look(self, log_dir: LogDir) -> None:
        # A failure is reported by the directory itself; anything else is left to the probe.
        with contextlib.suppress(JbodlabError):
            self.looked(log_dir, await log_dir.upkeep(partial(look, log_dir, log_dir.upkeep_fs)))

    def _begin(self, log_dir: LogDir) -> _Watched:
        """Watch a directory from now on; it shares the room with others on its file system."""
        space = log_dir.space
        shared = next((each.disk for each in self._neighbours(log_dir)), None)
        space.disk = shared or DiskSpace(self._settings.reserved_bytes)
        space.on_full = partial(self._found_full, log_dir)
        space.on_taken = partial(self._look_soon, log_dir)
        watched = self._watched[log_dir] = _Watched(self._settings.slow)
        return watched

    def _neighbours(self, log_dir: LogDir) -> Iterator[DirectorySpace]:
        """Yield the rooms of the other watched directories on the same file system."""
        if log_dir.identity is None:
            return
        device, _ = log_dir.identity
        for other in self._watched:
            if other is not log_dir and other.identity is not None and other.identity[0] == device:
                yield other.space

    def _found_full(self, log_dir: LogDir) -> None:
        """An append did not fit."""
        self._refresh(log_dir)

    def _refresh(self, log_dir: LogDir) -> None:
        """Take over what was decided; FULL concerns all directories on the file system."""
        for each in [d for d in self._watched if d.space.disk is log_dir.space.disk]:
            self._change(
                each,
                DirectoryCondition(
                    is_full=each.space.disk.is_full, is_slow=self._watched[each].slow.is_slow
                ),
            )
        self._tell_degraded()

    def _change(self, log_dir: LogDir, condition: DirectoryCondition) -> None:
        before = log_dir.condition
        if condition == before:
            return
        log_dir.condition = condition
        self.changes[log_dir.path] += 1
        causes = []
        if condition.is_full != before.is_full:
            causes.append(space_text(log_dir.space.disk))
        if condition.is_slow != before.is_slow:
            causes.append(self._watched[log_dir].slow.cause)
        cause = "; ".join(causes)
        logger.log(
            logging.WARNING if condition.is_worse_than(before) else logging.INFO,
            "log directory %s (%s) is %s, was %s: %s",
            log_dir.path,
            log_dir.id_text,
            condition.name,
            before.name,
            cause,
            extra={
                **log_dir.log_fields(),
                "from": before.name,
                "to": condition.name,
                "cause": cause,
            },
        )
        for listener in self._listeners:
            try:
                listener.log_dir_condition_changed(log_dir)
            except Exception:
                # The controller must hear of it even if stopping a follower went wrong.
                logger.exception(
                    "a listener failed to process a change of the directory's condition",
                    extra=log_dir.log_fields(),
                )

    def _tell_degraded(self) -> None:
        degraded = self.degraded
        if degraded != self._degraded:
            self._degraded = degraded
            self._on_degraded(degraded)

    async def _notice_stalls(self) -> None:
        while True:
            # Not the loop's clock: that stands still while a callback runs.
            self._due_s = self._monotonic_s() + STALL_LOOK_S
            await asyncio.sleep(STALL_LOOK_S)
            self._note_stall(self._monotonic_s())

    def _note_stall(self, now_s: float) -> None:
        """Note that the loop ran later than it should have; who notices first, does."""
        if now_s - self._due_s > STALL_MIN_S:
            self._stalls.append(Stall(self._due_s, now_s))
            self._due_s = now_s
