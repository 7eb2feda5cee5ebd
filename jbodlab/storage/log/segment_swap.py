"""Cleaned segments take the place of those that they were made of, whatever moment is the last.

    1  the files are written as `.cleaned`, and they and their names are on the disk
    2  `.cleaned` becomes `.swap`, the highest base offset first         `prepare_swap`
    3  the names are brought to the disk, from where there is no way back
    4  the former segments become `.deleted`                             `complete_swap`
    5  `.swap` loses its suffix, the `.log` of each segment first

A start that finds a `.cleaned` undoes it all, one that finds only `.swap` goes on; see `leftovers`.
The first three steps touch nothing that anybody reads and are made beside the directory's serving
thread; the others are in their turn there, between the reads, and sync nothing.

Source: `org.apache.kafka.storage.internals.log.LocalLog.replaceSegments`, which does not sync.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem

ALWAYS_THERE = (names.LOG_SUFFIX, names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX)
"""Files that every cleaned segment has."""
SUFFIXES = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES)


def prepare_swap(fs: FileSystem, folder: Path, cleaned: Sequence[int]) -> None:
    """Do step 2; where it breaks off, for want of room, nothing of it is left.

    Args:
        fs: The disk.
        folder: Of the log.
        cleaned: Base offsets of the cleaned segments, ascending.
    """
    renamed: list[Path] = []
    try:
        for base_offset in reversed(cleaned):
            for suffix in SUFFIXES:
                name = names.offset_text(base_offset) + suffix
                source = folder / (name + names.CLEANED_SUFFIX)
                if suffix in ALWAYS_THERE or fs.exists(source):
                    target = folder / (name + names.SWAP_SUFFIX)
                    fs.rename(source, target, sync=False)
                    renamed.append(target)
    except OSError:
        # A `.cleaned` that was not renamed undoes the others at a start, until they are gone.
        with contextlib.suppress(OSError):
            for target in renamed:
                fs.unlink(target)
        raise


def complete_swap(
    fs: FileSystem, folder: Path, former: Sequence[int], cleaned: Sequence[int]
) -> None:
    """Do steps 4 and 5; once more if it broke off, for want of room.

    Args:
        fs: The disk.
        folder: Of the log.
        former: Base offsets of the segments that go.
        cleaned: Base offsets of those that take their place.
    """
    listed = set(fs.listdir(folder))
    swaps = [
        name
        for base_offset in cleaned
        for suffix in SUFFIXES
        if (name := names.offset_text(base_offset) + suffix) + names.SWAP_SUFFIX in listed
    ]
    # Where one of them is gone it has its name, which was that of a former segment.
    if sum(not name.endswith(names.TXN_INDEX_SUFFIX) for name in swaps) == (
        len(cleaned) * len(ALWAYS_THERE)
    ):
        for base_offset in former:
            for suffix in SUFFIXES:
                name = names.offset_text(base_offset) + suffix
                if name in listed:
                    target = folder / (name + names.DELETED_SUFFIX)
                    fs.rename(folder / name, target, sync=False)
    for name in swaps:
        fs.rename(folder / (name + names.SWAP_SUFFIX), folder / name, sync=False)
