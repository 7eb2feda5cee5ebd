"""Completes or reverts the operations that a process left unfinished in a partition directory.

    *.tmp             a small file that was being replaced        removed
    *.deleted         a segment on its way out                    removed
    *.cleaned         a compaction that was not complete          removed
    *.swap            a compaction that was, and takes its place  completed
    an index without its segment                                  removed

Source: `org.apache.kafka.storage.internals.log.LogLoader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.segment_reader import SegmentReader

_CHECKPOINT_DELETED_SUFFIX = ".checkpoint" + names.DELETED_SUFFIX
"""Metadata snapshots on their way out; not ours to remove."""


def remove_leftovers(fs: FileSystem, directory: Path) -> list[str]:
    """Finish or undo; returns the names in the directory afterwards."""
    listed = fs.listdir(directory)
    cleaned = names.with_suffix(listed, names.CLEANED_SUFFIX)
    lowest_cleaned = min(map(names.parse_offset, cleaned), default=None)
    changed = bool(cleaned)
    for name in listed:
        if name.endswith(names.TMP_SUFFIX) or (
            name.endswith(names.DELETED_SUFFIX) and not name.endswith(_CHECKPOINT_DELETED_SUFFIX)
        ):
            fs.unlink(directory / name)
            changed = True
    swaps: list[str] = []
    for name in names.with_suffix(listed, names.SWAP_SUFFIX):
        # A swap whose cleaned segments were not all renamed is reverted.
        if lowest_cleaned is not None and names.parse_offset(name) >= lowest_cleaned:
            fs.unlink(directory / name)
        else:
            swaps.append(name)
    for name in cleaned:
        fs.unlink(directory / name)
    if swaps:
        _complete_swaps(fs, directory, swaps)
    if swaps or changed:
        listed = fs.listdir(directory)
    orphans = _orphan_indexes(listed)
    for name in orphans:
        fs.unlink(directory / name)
    return [name for name in listed if name not in orphans] if orphans else listed


def _complete_swaps(fs: FileSystem, directory: Path, swaps: Sequence[str]) -> None:
    """Put the replacing files in the place of the segments that they replace."""
    low: int | None = None
    high = -1
    for name in swaps:
        if name.endswith(names.LOG_SUFFIX + names.SWAP_SUFFIX):
            base_offset = names.parse_offset(name)
            low = base_offset if low is None else min(low, base_offset)
            high = max(high, _swap_end(fs, directory, name))
    if low is not None:
        segments = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES)
        for name in names.with_suffix(fs.listdir(directory), (*segments, names.SNAPSHOT_SUFFIX)):
            offset = names.parse_offset(name)
            if low < offset < high or (low == offset and name.endswith(segments)):
                fs.unlink(directory / name)
    for name in swaps:
        fs.rename(directory / name, directory / name.removesuffix(names.SWAP_SUFFIX))


def _swap_end(fs: FileSystem, directory: Path, name: str) -> int:
    file = fs.open_append(directory / name)
    try:
        next_offset = names.parse_offset(name)
        for _, header, _ in SegmentReader(file, directory / name, file.size()).scan():
            next_offset = header.next_offset
        return next_offset
    finally:
        file.close()


def _orphan_indexes(listed: Sequence[str]) -> set[str]:
    """Return the index files without a segment."""
    logs = {name for name in listed if name.endswith(names.LOG_SUFFIX)}
    return {
        name
        for name in names.with_suffix(listed, names.INDEX_SUFFIXES)
        if names.log_file(names.parse_offset(name)) not in logs
    }
