"""Detects that the metadata directory of a running controller is gone.

Appends use an open file, which still works after its directory was locked, removed or replaced.
Without a check of the path a controller would continue to decide, and its next start would find
nothing.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from controller.limits import HANG_DEADLINE_S
from controller.quorum.log_thread import LogThread
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.directory_probe import check_identity, probe
from jbodlab.storage.directory.filesystem import Disk
from jbodlab.vocabulary.errors import LogDirError

logger = logging.getLogger(__name__)


async def watch_metadata_dir(
    fs: Disk,
    directory: Path,
    log_folder: Path,
    log_thread: LogThread,
    *,
    interval_ms: int,
    deadline_s: float = HANG_DEADLINE_S,
) -> None:
    """Look at the directory again and again; runs until cancelled.

    Args:
        fs: The disk.
        directory: The metadata directory.
        log_folder: The folder of the log in it.
        log_thread: The thread that touches both.
        interval_ms: Pause between two looks.
        deadline_s: Longest time for an answer.

    Raises:
        LogDirError: the directory cannot be used any more.
    """
    try:
        identities = await log_thread.run(partial(_pin, fs, directory, log_folder))
    except OSError as error:
        raise LogDirError(directory, None, disk_errors.describe(error)) from error
    look = partial(_look, fs, directory, log_folder, *identities)
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            async with asyncio.timeout(deadline_s):
                await log_thread.run(look)
        except TimeoutError as error:
            raise LogDirError(directory, None, f"no answer within {deadline_s:g} s") from error
        except OSError as error:
            if disk_errors.is_directory_failure(error):
                raise LogDirError(directory, None, disk_errors.describe(error)) from error
            logger.warning("cannot probe the metadata directory: %s", disk_errors.describe(error))


def _pin(fs: Disk, directory: Path, log_folder: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return what both are known by, and keep others from getting it as long as the process runs.

    An inode of something removed may be given to its replacement, unless it is held open.
    """
    for path in (directory, log_folder):
        fs.hold(path)
    return fs.identity(directory), fs.identity(log_folder)


def _look(
    fs: Disk,
    directory: Path,
    log_folder: Path,
    identity: tuple[int, int],
    log_identity: tuple[int, int],
) -> None:
    probe(fs, directory, identity)
    check_identity(fs, log_folder, log_identity)
