"""Closes all log directories when the broker stops, so that the next start need not read the data.

The serving queue carries out the remaining changes of a directory. Then several threads sync what
is not on the disk yet: a disk does many syncs in about the time of one. Finally the checkpoints and
the marker are written, after checkpoints that were already queued.

Source: `kafka.log.LogManager.shutdown`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from broker.bounds.limits import CLOSE_HANG_DEADLINE_S, SYNCS_AT_ONCE
from broker.disk.calls import Fence, ReplicaLostError, WaitsForRoomError, run_aside
from broker.disk.directory import LogDir, LogDirs, LogDirState, LogInUse, LogsInUse
from broker.disk.life import clean_shutdown
from broker.disk.upkeep import CONTENTS
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import write_offsets
from jbodlab.storage.directory.disk_errors import OutOfRoomError
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.instructions import Instructions, SyncRequest
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.ids import BrokerEpoch, TopicPartition

logger = logging.getLogger(__name__)


async def close_log_dirs(
    log_dirs: LogDirs,
    in_use: LogsInUse,
    broker_epoch: BrokerEpoch,
    *,
    hang_deadline_s: float = CLOSE_HANG_DEADLINE_S,
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
        asyncio.create_task(
            _close_directory(
                log_dir, [_Closing.of(each) for each in in_use.logs_in(log_dir)], broker_epoch
            ),
            name=f"close {log_dir.path}",
        ): log_dir
        for log_dir in log_dirs.online()
        if log_dir.state is LogDirState.ONLINE
    }
    hung = await _until_closed(closing, hang_deadline_s)
    for task in hung:
        logger.warning("log directory did not close in time", extra=closing[task].log_fields())
        task.cancel()
    done = closing.keys() - hung
    for task in done:
        if (error := task.exception()) is not None:
            logger.warning(
                "log directory was not closed cleanly: %s", error, extra=closing[task].log_fields()
            )
    return not hung and all(task.exception() is None for task in done)


async def _until_closed(
    closing: Mapping[asyncio.Task[None], LogDir], deadline_s: float
) -> set[asyncio.Task[None]]:
    """Wait for all; returns those of which a step did not come back from one look to the next."""
    pending, hung = set(closing), set[asyncio.Task[None]]()
    seen: dict[asyncio.Task[None], set[tuple[Fence, int]]] = {}
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
    """The work left to do on the files of one log, and the content of its checkpoints then."""

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
            state.cleaned_to,
        )


async def _close_directory(
    log_dir: LogDir, closing: Sequence[_Closing], broker_epoch: BrokerEpoch
) -> None:
    """Close one directory.

    Raises:
        WaitsForRoomError: the disk has no room for all of a log; there is no marker then.
        OSError, LogDirError: it failed.
    """
    closed, behind = await log_dir.run(partial(_carry_out, closing))
    unsynced = deque(each for each in closed if not each.sync.is_empty)
    lost: list[_Closing] = []
    threads = log_dir.environment.threads
    await asyncio.gather(
        *(
            run_aside(partial(_sync, log_dir, unsynced, lost), f"close {log_dir.path}", threads)
            for _ in range(min(SYNCS_AT_ONCE, len(unsynced)))
        )
    )
    left = [each for each in (*closed, *behind) if each not in lost]
    await log_dir.checkpoint(partial(_write_checkpoints, log_dir, left))
    if behind:
        raise WaitsForRoomError(behind[0].files.topic_partition)
    has_names = any(each.sync.names for each in closed)
    await log_dir.checkpoint(partial(_mark, log_dir, broker_epoch, has_names=has_names))


def _carry_out(closing: Sequence[_Closing]) -> tuple[list[_Closing], list[_Closing]]:
    """Do what is left to do to the files.

    Returns:
        The logs for which that was done, and those for which there was no room.
    """
    closed, behind = [], []
    for each in closing:
        try:
            if each.files.is_behind:
                raise WaitsForRoomError(each.files.topic_partition)
            each.files.carry_out(each.instructions)
        except ReplicaLostError as error:
            logger.warning("a replica was removed before its log was closed: %s", error)
        except (OutOfRoomError, WaitsForRoomError):
            behind.append(each._replace(recovery_point=each.recovery_point_before))
        else:
            closed.append(each)
        each.files.abandon()
    return closed, behind


def _sync(log_dir: LogDir, unsynced: deque[_Closing], lost: list[_Closing]) -> None:
    """Sync logs as long as there are any; one of several threads.

    Args:
        log_dir: The directory.
        unsynced: Logs, from which each of the threads takes the next one.
        lost: Gets those that were removed by somebody.
    """
    fs, leave = log_dir.side_door()
    try:
        while True:
            try:
                each = unsynced.popleft()
            except IndexError:
                return
            try:
                each.files.sync(fs, each.sync, with_parent=False)
            except ReplicaLostError as error:
                logger.warning("a replica was removed before its log was closed: %s", error)
                lost.append(each)
    finally:
        leave()


def _write_checkpoints(log_dir: LogDir, closed: Sequence[_Closing]) -> None:
    contents: dict[str, dict[TopicPartition, int]] = {name: {} for name in CONTENTS}
    for each in closed:
        topic_partition = each.files.topic_partition
        contents[names.RECOVERY_POINT_FILE][topic_partition] = each.recovery_point
        contents[names.HIGH_WATERMARK_FILE][topic_partition] = each.high_watermark
        if each.log_start_offset is not None:
            contents[names.LOG_START_OFFSET_FILE][topic_partition] = each.log_start_offset
        if each.cleaned_to is not None:
            contents[names.CLEANER_OFFSET_FILE][topic_partition] = each.cleaned_to
    for name, offsets in contents.items():
        write_offsets(log_dir.checkpoint_fs, log_dir.path / name, offsets)


def _mark(log_dir: LogDir, broker_epoch: BrokerEpoch, *, has_names: bool) -> None:
    """Write the marker, which is the last thing written."""
    if has_names:
        # Once, for the names of all logs.
        log_dir.checkpoint_fs.fsync_dir(log_dir.path)
    clean_shutdown.write(log_dir.checkpoint_fs, log_dir.path, broker_epoch)
