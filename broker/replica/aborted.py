"""The aborted transactions of a part of a log, out of memory and out of the files."""

from __future__ import annotations

from functools import partial

from broker.replica.directory_writer import DirectoryWriter
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.transactions import aborted_between


async def find_aborted(
    state: LogState, files: LogFiles, writer: DirectoryWriter, offset: int, end_offset: int
) -> list[tuple[int, int]]:
    """Return the aborted transactions with records in a range, by their first offsets.

    Returns:
        Producer id and first offset of each.
    """
    bases = state.segments.aborted_from(offset)
    found = aborted_between(state.active.aborted, offset, end_offset)
    if bases:
        find = partial(files.aborted, bases, offset, end_offset)
        found = [*await writer.run(find), *found]
    return [
        (each.producer_id, each.first_offset)
        for each in sorted(found, key=lambda each: each.first_offset)
    ]
