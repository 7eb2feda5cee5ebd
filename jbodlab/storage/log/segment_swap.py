"""Cleaned segments replace the segments they were made of; a crash at any moment is safe.

    1  the files are written as `.cleaned`, and they and their names are on the disk
    2  `.cleaned` becomes `.swap`, the highest base offset first         `prepare_swap`
    3  the directory is synced; from here on a start completes the swap
    4  the former segments become `.deleted`                             `complete_swap`
    5  `.swap` loses its suffix, the `.log` of each segment first

A start that finds a `.cleaned` reverts the swap, one that finds only `.swap` completes it; see
`leftovers`. The first three steps touch no file that has readers and run beside the directory's
serving thread; the other steps run on that thread, between the reads, and sync no file.

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
    """Do step 2; if it fails, for example for lack of room, its renames are reverted.

    Args:
        fs: The disk.
        folder: Partition directory of the log.
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
        # If a crash comes before these are removed, the remaining `.cleaned` reverts them at start.
        with contextlib.suppress(OSError):
            for target in renamed:
                fs.unlink(target)
        raise


def complete_swap(
    fs: FileSystem, folder: Path, former: Sequence[int], cleaned: Sequence[int]
) -> None:
    """Do steps 4 and 5; may be repeated after a failure for lack of room.

    Args:
        fs: The disk.
        folder: Partition directory of the log.
        former: Base offsets of the segments to replace.
        cleaned: Base offsets of the cleaned segments.
    """
    listed = set(fs.listdir(folder))
    swaps = [
        name
        for base_offset in cleaned
        for suffix in SUFFIXES
        if (name := names.offset_text(base_offset) + suffix) + names.SWAP_SUFFIX in listed
    ]
    # A missing `.swap` has got its final name already, which a former segment had before.
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
