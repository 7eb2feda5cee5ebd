"""Finds a dead directory that nobody writes to, or whose open files still work.

Every interval the directory's own thread checks that the path still is the directory of the start,
creates a small file in it, syncs it and removes it. Any `OSError` takes the same way as that of an
append. A call that does not come back is noticed on the loop: the thread is *hung* when it was seen
in one and the same call for the length of the deadline. Waiting behind many short calls is no
failure, and time in which this process itself stood still is not held against the disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from broker.logdirs.condition import hung
from broker.logdirs.condition_monitor import Look, look
from broker.logdirs.executor import run_aside
from broker.logdirs.hosted import HostedLog
from broker.logdirs.lifecycle import LogDirState
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.logdirs.slowness import Work
from jbodlab.errors import JbodlabError, LogDirError
from jbodlab.log import disk_errors
from jbodlab.log.directory_probe import PROBE_FILE, directory_identity, probe

__all__ = ["PROBE_FILE", "LogDirProbe", "directory_identity", "probe", "watch_long_work"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOKS_PER_DEADLINE = 20
"""How often within a deadline the loop looks at the running call."""

LONG_CALL_FACTOR = 15
"""How many deadlines a call may take that was announced as long: 30 s by default."""


class LogDirProbe:
    """Probes every directory, each at its own pace.

    Args:
        log_dirs: The directories; a separate metadata directory is probed as well.
        interval_ms: From one probe to the next.
        deadline_ms: Longest time that one call of a directory's thread may take.
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_probing = False

    def start(self) -> None:
        """Begin probing."""
        self._is_probing = True
        for log_dir in self._log_dirs.watched:
            self._begin(log_dir)

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[HostedLog]) -> None:
        """Probe a revived directory as any other; the tasks of what failed end by themselves."""
        del former, logs
        if self._is_probing:
            self._begin(log_dir)

    async def stop(self) -> None:
        """End probing."""
        self._is_probing = False
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, log_dir: LogDir) -> None:
        for task in (
            asyncio.create_task(self._probe(log_dir), name=f"probe {log_dir.path}"),
            asyncio.create_task(self._watch(log_dir), name=f"watch {log_dir.path}"),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _probe(self, log_dir: LogDir) -> None:
        loop = asyncio.get_running_loop()
        while log_dir.is_online:
            started = loop.time()
            if _serves(log_dir, self._log_dirs):
                try:
                    self._looked(log_dir, await log_dir.run(partial(_timed_probe, log_dir)))
                except LogDirError:
                    return
                except JbodlabError as error:
                    # No file descriptors left, or no memory: the disk cannot be blamed.
                    logger.warning("probe failed: %s", error, extra=log_dir.log_fields())
            await asyncio.sleep(max(0.0, started + self._interval_s - loop.time()))

    async def _watch(self, log_dir: LogDir) -> None:
        """Notice a call that does not come back.

        The time between two looks counts at most twice as long as planned: a loop that was stopped
        or starved in between cannot tell how long the call really took.
        """
        loop = asyncio.get_running_loop()
        pause_s = self._deadline_ms / 1000 / LOOKS_PER_DEADLINE
        seen_call, stuck_s, asked_s, last_look = 0, 0.0, 0.0, loop.time()
        while log_dir.is_online:
            await asyncio.sleep(pause_s)
            now = loop.time()
            elapsed_s, last_look = now - last_look, now
            call = log_dir.running_call
            if call == 0 or call != seen_call or not _serves(log_dir, self._log_dirs):
                seen_call, stuck_s, asked_s = call, 0.0, 0.0
                continue
            stuck_s += min(elapsed_s, 2 * pause_s)
            deadline_ms = self._deadline_ms * (
                LONG_CALL_FACTOR if log_dir.running_call_is_long else 1
            )
            if stuck_s >= deadline_ms / 1000:
                self._log_dirs.fail(log_dir, hung(f"{deadline_ms} ms"))
                return
            if stuck_s >= asked_s + self._deadline_ms / 1000:
                # How long such a call may take nobody knows, but whether the disk still answers.
                asked_s = stuck_s
                cause = await _cause_found_aside(log_dir, self._deadline_ms / 1000)
                if cause is not None:
                    self._log_dirs.fail(log_dir, cause)
                    return


def _timed_probe(log_dir: LogDir) -> Look | None:
    """Probe a directory and look at its file system, on its thread."""
    begun_s = time.monotonic()
    probe(log_dir.fs, log_dir.path, log_dir.identity)
    log_dir.io_samples.note(Work.PROBE, begun_s, time.monotonic())
    return look(log_dir)


async def watch_long_work(
    log_dirs: LogDirs,
    log_dir: LogDir,
    work: asyncio.Future[T],
    *,
    interval_s: float,
    deadline_s: float,
) -> None:
    """Notice a disk that dies or hangs during one long call of its thread, such as the loading.

    How long the call itself may take nobody knows. A second thread asks the same disk meanwhile;
    what it asks for is little.
    """
    while not work.done() and log_dir.is_online:
        answer = _ask(log_dir)
        both: list[asyncio.Future[T] | asyncio.Future[None]] = [work, answer]
        await asyncio.wait(both, timeout=deadline_s, return_when=FIRST_COMPLETED)
        if work.done() or not log_dir.is_online:
            return
        cause = _cause(answer, deadline_s)
        if cause is not None:
            log_dirs.fail(log_dir, cause)
            return
        await asyncio.wait([work], timeout=interval_s)


async def _cause_found_aside(log_dir: LogDir, deadline_s: float) -> str | None:
    """Ask a disk whose own thread is busy; returns why the directory failed, None if it did not."""
    answer = _ask(log_dir)
    await asyncio.wait([answer], timeout=deadline_s)
    return _cause(answer, deadline_s)


def _cause(answer: asyncio.Future[None], deadline_s: float) -> str | None:
    if not answer.done():
        return hung(f"{deadline_s:g} s")
    error = answer.exception()
    if isinstance(error, OSError) and disk_errors.is_directory_failure(error):
        return disk_errors.describe(error)
    return None


def _ask(log_dir: LogDir) -> asyncio.Future[None]:
    """Probe a directory on a thread of its own."""
    return run_aside(
        lambda: probe(log_dir.fs, log_dir.path, log_dir.identity), f"ask {log_dir.path}"
    )


def _serves(log_dir: LogDir, log_dirs: LogDirs) -> bool:
    """Return whether no long call is expected: loading the logs of a directory may take minutes."""
    return log_dir.state is LogDirState.ONLINE or log_dir not in log_dirs.all
