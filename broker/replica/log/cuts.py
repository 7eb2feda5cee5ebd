"""Steps before a truncation: find the position, and lower the checkpoints.

If a checkpoint named an offset after the truncation, then after a crash the records appended there
next would count as synced or committed. So the directory's checkpoints are lowered first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from broker.disk.directory import LogCleaning
from broker.replica.log.carrying_out import require_complete
from broker.replica.log.directory_writer import DirectoryWriter
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_search import cut_point
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.producer_replay import ProducerReplay
from jbodlab.storage.log.segment_ranges import CutPoint, CutRequest


async def find_cut(files: LogFiles, writer: DirectoryWriter, request: CutRequest) -> CutPoint:
    """Find the place of a cut; others have their turn between the steps of a long search.

    Raises:
        WaitsForRoomError: what is to be cut is not all on the disk.
    """
    active = await writer.run(partial(require_complete, files, partial(cut_point, files, request)))
    if request.snapshots is None:
        return CutPoint(request, active, None)
    replay = ProducerReplay(files, request.snapshots, request.segments, active.next_offset)
    while not await writer.run(partial(require_complete, files, replay.step)):
        pass
    return CutPoint(request, active, replay.state)


@asynccontextmanager
async def about_to_cut(
    state: LogState,
    files: LogFiles,
    writer: DirectoryWriter,
    cleaning: LogCleaning,
    offset: int,
    committed: int,
) -> AsyncIterator[None]:
    """Let nobody compact a log, and no checkpoint name anything of it behind an offset.

    That lasts until it is cut there or is not. Checkpoints of a copy vouch for nothing. Most cuts
    need none: above the high watermark, and within the active segment, which a recovery
    reads in any case.

    Args:
        state: The log.
        files: Its files.
        writer: Of its directory.
        cleaning: Its compaction.
        offset: Where it is about to be cut.
        committed: Its high watermark.
    """
    async with cleaning.paused():
        above = offset >= min(state.end_offset, max(committed, state.active.base_offset))
        if above or files.is_future:
            yield
            return
        state.disk.will_be_cut(offset)
        try:
            await writer.write_checkpoints(writer.log_dir)
            yield
        finally:
            state.disk.cut_is_over(offset)
