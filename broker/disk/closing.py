"""Closes all log directories of a broker that stops, so that the next start need not read the data.

Source: `kafka.log.LogManager.shutdown`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.disk import clean_shutdown
from broker.disk.fence import Fence
from broker.disk.lifecycle import LogDirState
from broker.disk.log_dir import LogDir
from broker.disk.log_dirs import LogDirs
from broker.disk.logs_in_use import LogInUse, LogsInUse
from broker.disk.no_space import WaitsForRoomError
from broker.disk.replica_files import ReplicaLostError
from jbodlab.ids import BrokerEpoch
from jbodlab.log import checkpointed, names
from jbodlab.log.checkpoints import write_offsets
from jbodlab.log.disk_errors import OutOfRoomError
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.instructions import Instructions, SyncRequest
from jbodlab.log.log_files import LogFiles

HANG_DEADLINE_S = 30.0

logger = logging.getLogger(__name__)


async def close_log_dirs(
    log_dirs: LogDirs,
    in_use: LogsInUse,
    broker_epoch: BrokerEpoch,
    *,
    hang_deadline_s: float = HANG_DEADLINE_S,
) -> bool:
    """Flush and close everything, write all checkpoints, mark the directories as clean.

    Directories that are offline or were not loaded are left as they are. Nothing else may use the
    logs any more. A slow disk has the time that it needs: thousands of logs want as many syncs.

    Args:
        log_dirs: The directories.
        in_use: The logs in them.
        broker_epoch: Ours, for the markers.
        hang_deadline_s: Longest time for one step on a disk.

    Returns:
        Whether all directories were closed.
    """
    closing = {
        log_dir.run(
            partial(
                _close_directory,
                log_dir.fs,
                log_dir.path,
                [_Closing.of(each) for each in in_use.logs_in(log_dir)],
                broker_epoch,
            )
        ): log_dir
        for log_dir in log_dirs.online()
        if log_dir.state is LogDirState.ONLINE
    }
    hung = await _until_closed(closing, hang_deadline_s)
    for future in hung:
        logger.warning("directory did not close in time", extra=closing[future].log_fields())
    done = closing.keys() - hung
    for future in done:
        if (error := future.exception()) is not None:
            logger.warning(
                "directory was not closed cleanly: %s", error, extra=closing[future].log_fields()
            )
    return not hung and all(future.exception() is None for future in done)


async def _until_closed(
    closing: Mapping[asyncio.Future[None], LogDir], deadline_s: float
) -> set[asyncio.Future[None]]:
    """Wait for all; returns those of which a step did not come back from one look to the next."""
    pending, hung = set(closing), set[asyncio.Future[None]]()
    seen: dict[asyncio.Future[None], set[tuple[Fence, int]]] = {}
    while pending:
        _, pending = await asyncio.wait(pending, timeout=deadline_s)
        for future in tuple(pending):
            running = set(closing[future].running_steps().items())
            if running & seen.get(future, set()):
                pending.discard(future)
                hung.add(future)
            seen[future] = running
    return hung


class _Closing(NamedTuple):
    """What is left to do to the files of one log, and what its checkpoints say then."""

    files: LogFiles
    instructions: Instructions
    sync: SyncRequest
    recovery_point: int
    recovery_point_before: int
    log_start_offset: int | None
    high_watermark: int
    cleaned_to: int | None

    @classmethod
    def of(cls, each: LogInUse) -> _Closing:
        """Close a log; on the event loop."""
        log, high_watermark = each
        state = log.state
        recovery_point_before = checkpointed.recovery_point(state)
        instructions = log.close()
        # Indexes and snapshots are made anew from the batches should they not be there.
        request = state.sync_request(with_active=True)._replace(snapshots=())
        return cls(
            log.files,
            instructions,
            request,
            state.end_offset,
            recovery_point_before,
            None if log.files.is_future else checkpointed.start_offset(state),
            high_watermark,
            state.disk.cleaned_to,
        )


def _close_directory(
    fs: FileSystem, path: Path, closing: Sequence[_Closing], broker_epoch: BrokerEpoch
) -> None:
    """Close one directory; on its thread. The marker is the last thing written.

    Raises:
        WaitsForRoomError: the disk has no room for all of a log; there is no marker then.
    """
    closed = []
    behind: list[_Closing] = []
    for each in closing:
        try:
            if each.files.is_behind:
                raise WaitsForRoomError(each.files.topic_partition)
            each.files.carry_out(each.instructions)
            each.files.sync(fs, each.sync, with_parent=False)
        except ReplicaLostError as error:
            logger.warning("nothing to close: %s", error)
        except (OutOfRoomError, WaitsForRoomError):
            behind.append(each)
            closed.append(each._replace(recovery_point=each.recovery_point_before))
        else:
            closed.append(each)
        each.files.abandon()
    points = {each.files.topic_partition: each.recovery_point for each in closed}
    starts = {
        each.files.topic_partition: each.log_start_offset
        for each in closed
        if each.log_start_offset is not None
    }
    write_offsets(fs, path / names.RECOVERY_POINT_FILE, points)
    write_offsets(fs, path / names.LOG_START_OFFSET_FILE, starts)
    write_offsets(
        fs,
        path / names.HIGH_WATERMARK_FILE,
        {each.files.topic_partition: each.high_watermark for each in closing},
    )
    cleaned = {
        each.files.topic_partition: each.cleaned_to
        for each in closing
        if each.cleaned_to is not None
    }
    write_offsets(fs, path / names.CLEANER_OFFSET_FILE, cleaned)
    if behind:
        raise WaitsForRoomError(behind[0].files.topic_partition)
    if any(each.sync.names for each in closed):
        # Once, for the names of them all.
        fs.fsync_dir(path)
    clean_shutdown.write(fs, path, broker_epoch)
