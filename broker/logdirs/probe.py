"""Finds a dead directory that nobody writes to, or whose open files still work.

Every interval the directory's own thread checks that the path still is the directory of the start,
creates a small file in it, syncs it and removes it. Any `OSError` takes the same way as that of an
append. A call that does not come back is noticed on the loop: the thread is *hung* when it was seen
in one and the same call for the length of the deadline. Waiting behind many short calls is no
failure, and time in which this process itself stood still is not held against the disk.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from broker.logdirs.lifecycle import LogDirState
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from jbodlab.errors import JbodlabError, LogDirError
from jbodlab.log.filesystem import FileSystem

logger = logging.getLogger(__name__)

PROBE_FILE = ".jbodlab-probe"
"""One name for ever: what a killed process left behind is removed by the next one's first probe."""

LOOKS_PER_DEADLINE = 20
"""How often within a deadline the loop looks at the running call."""

LONG_CALL_FACTOR = 15
"""How many deadlines a call may take that was announced as long: 30 s by default."""


def directory_identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a directory.

    Raises:
        OSError: there is nothing at `path`, or something else than a directory.
    """
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return found.st_dev, found.st_ino


def probe(fs: FileSystem, path: Path, identity: tuple[int, int] | None) -> None:
    """Create, write, sync and remove a file in a directory.

    Raises:
        OSError: the directory is missing, is not the one it was at start, or cannot be written.
    """
    if identity is not None and directory_identity(path) != identity:
        raise FileNotFoundError(errno.ENOENT, "another directory took its place", str(path))
    file = path / PROBE_FILE
    fs.write_bytes(file, b"jbodlab\n", sync=True)
    fs.unlink(file)


class LogDirProbe:
    """Probes every directory, each at its own pace.

    Args:
        log_dirs: The directories; a separate metadata directory is probed as well.
        interval_ms: From one probe to the next.
        deadline_ms: Longest time that one call of a directory's thread may take.
    """

    def __init__(self, log_dirs: LogDirs, *, interval_ms: int, deadline_ms: int) -> None:
        self._log_dirs = log_dirs
        self._interval_s = interval_ms / 1000
        self._deadline_ms = deadline_ms
        self._tasks: Sequence[asyncio.Task[None]] = ()

    def start(self) -> None:
        """Begin probing."""
        self._tasks = [
            task
            for log_dir in self._log_dirs.watched
            for task in (
                asyncio.create_task(self._probe(log_dir), name=f"probe {log_dir.path}"),
                asyncio.create_task(self._watch(log_dir), name=f"watch {log_dir.path}"),
            )
        ]

    async def stop(self) -> None:
        """End probing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = ()

    async def _probe(self, log_dir: LogDir) -> None:
        loop = asyncio.get_running_loop()
        while log_dir.is_online:
            started = loop.time()
            if _serves(log_dir, self._log_dirs):
                try:
                    await log_dir.run(lambda: probe(log_dir.fs, log_dir.path, log_dir.identity))
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
        seen_call, stuck_s, last_look = 0, 0.0, loop.time()
        while log_dir.is_online:
            await asyncio.sleep(pause_s)
            now = loop.time()
            elapsed_s, last_look = now - last_look, now
            call = log_dir.running_call
            if call == 0 or call != seen_call or not _serves(log_dir, self._log_dirs):
                seen_call, stuck_s = call, 0.0
                continue
            stuck_s += min(elapsed_s, 2 * pause_s)
            deadline_ms = self._deadline_ms * (
                LONG_CALL_FACTOR if log_dir.running_call_is_long else 1
            )
            if stuck_s >= deadline_ms / 1000:
                self._log_dirs.fail(log_dir, f"no answer within {deadline_ms} ms")
                return


def _serves(log_dir: LogDir, log_dirs: LogDirs) -> bool:
    """Return whether no long call is expected: loading the logs of a directory may take minutes."""
    return log_dir.state is LogDirState.ONLINE or log_dir not in log_dirs.all
