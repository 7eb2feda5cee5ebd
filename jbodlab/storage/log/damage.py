"""Which batches a load accepts, and what it does about damage.

A replica's log ends before the first invalid byte: other replicas have the rest. If valid batches
follow, their offsets are logged and the bytes are kept as `.damaged`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.log_files import SEGMENT_SUFFIXES, LogFiles
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segment_reader import next_batch
from jbodlab.storage.log.segments import ActiveSegment
from jbodlab.vocabulary.limits import DAMAGED_COPY_BYTES

logger = logging.getLogger(__name__)


class Damage(NamedTuple):
    """Where the valid part of a log ends, although its files go on.

    Attributes:
        active: The valid part of the damaged segment.
        size: Size of its file in bytes; the valid part may be all of it, if segments are missing
            behind it.
        behind: Base offsets of the segments behind it.
        is_known: Whether the segment was known to be on the disk, which rules out a torn write.
    """

    active: ActiveSegment
    size: int
    behind: Sequence[int]
    is_known: bool


class LoadPolicy(Protocol):
    """How the log of a kind is loaded.

    Attributes:
        batch_bytes_max: A larger batch is not valid; None for no limit.
        has_only_batches: Whether the batches are the only source of the state: the log has no
            idempotent producers, and the leader epochs are not read from their file.
    """

    batch_bytes_max: int | None
    has_only_batches: bool

    def accepts(self, segment: ActiveSegment, header: BatchHeader) -> bool:
        """Return whether a batch with a right checksum may be the next one of a segment.

        Called once for each batch of the log, in their order.
        """

    def end_at(self, files: LogFiles, damage: Damage) -> bool:
        """Report the damage at which the log now ends, and keep bytes behind it.

        Returns:
            Whether the segments behind it are kept under other names; else they are deleted.

        Raises:
            CorruptRecordError: the log must not be opened.
        """


class ReplicaPolicy:
    """The policy for a partition's replica."""

    batch_bytes_max: int | None = None
    has_only_batches = False

    def accepts(self, segment: ActiveSegment, header: BatchHeader) -> bool:
        """Return whether a batch may be the next one; compaction leaves gaps."""
        return segment.may_follow(header)

    def end_at(self, files: LogFiles, damage: Damage) -> bool:
        """Keep everything behind the damage, unless it is a torn write."""
        active, size, behind, is_known = damage
        # A future replica may end anywhere: the copy continues there, and its log has all records.
        keeps = not files.is_future and (
            is_known or bool(behind) or _has_batches_behind(files, active, size)
        )
        if keeps:
            report_loss(files, active, size, behind)
            if size > active.size:
                keep_tail(files, active, size)
        elif size > active.size:
            logger.warning(
                "truncated a segment at its first invalid byte",
                extra={"path": str(files.path(active.base_offset)), "size": active.size},
            )
        return keeps


def _has_batches_behind(files: LogFiles, active: ActiveSegment, size: int) -> bool:
    """Return whether a valid batch follows the first invalid byte of the last segment."""
    file = files.reader(SegmentRange(active.base_offset, size, -1, 0)).file
    return next_batch(file, active.size + 1, size, active.next_offset) is not None


def report_loss(files: LogFiles, right: ActiveSegment, size: int, behind: Sequence[int]) -> None:
    """Log which offsets are lost.

    Args:
        files: Files of the log.
        right: The valid part of the damaged segment.
        size: Size of its file, bytes.
        behind: Base offsets of the segments behind it.
    """
    path = files.path(right.base_offset)
    logger.error(
        "%s: damaged at byte %d of %d; this replica has lost the offsets from %d on; %s",
        path,
        right.size,
        size,
        right.next_offset,
        f"later segments ({len(behind)}, from offset {behind[0]} on) are kept as .damaged"
        if behind
        else "it is the last segment",
        extra={
            "path": str(path),
            "position": right.size,
            "first_lost_offset": right.next_offset,
            "segments_set_aside": len(behind),
        },
    )


def report_lost_end(files: LogFiles, known_end: int, end_offset: int) -> None:
    """Log which offsets are lost at the end of a log, if it ends before its recovery point.

    Args:
        files: Files of the log.
        known_end: Recovery point of the log before the load.
        end_offset: End of the log after the load.
    """
    if end_offset < known_end and files.is_current:
        logger.error(
            "%s ends at offset %d; this replica has lost offsets %d to %d, which were on the disk",
            files.directory,
            end_offset,
            end_offset,
            known_end - 1,
            extra={"path": str(files.directory), "first_lost_offset": end_offset},
        )


def lost_beginning(files: LogFiles, known_start: int | None, first: int) -> int | None:
    """Return the first offset of the segments lost in front of the first one, None if none are.

    Args:
        files: Files of the log.
        known_start: Log start that was on the disk before any segment below it was deleted; None
            if it is unknown.
        first: Base offset of its first segment.
    """
    if known_start is None or first <= known_start or not files.is_current:
        return None
    logger.warning("%s begins at offset %d, expected %d", files.directory, first, known_start)
    return known_start


def keep_tail(files: LogFiles, right: ActiveSegment, size: int) -> None:
    """Keep the bytes cut off a damaged segment, for people to look at; durable at return.

    The bytes keep their positions: the front of the new file is a hole that takes no room.
    """
    fs, path = files.fs, files.path(right.base_offset)
    source = fs.open_source(path)
    try:
        target = fs.open_target(path.with_name(path.name + names.DAMAGED_SUFFIX))
        try:
            position = right.size
            while position < size:
                copied = target.copy_from(
                    source, position, min(size - position, DAMAGED_COPY_BYTES)
                )
                if not copied:
                    break
                position += copied
            target.fsync()
        finally:
            target.close()
    finally:
        source.close()


def set_aside(files: LogFiles, base_offset: int) -> None:
    """Keep a segment behind damage under another name."""
    files.forget(base_offset)
    rename_segment(files.fs, files.directory, base_offset)


def rename_segment(fs: FileSystem, folder: Path, base_offset: int) -> None:
    """Give the files of a segment names that no log has; durable with the next sync of the folder.

    A file that the segment has already lost is skipped.
    """
    for suffix in SEGMENT_SUFFIXES:
        path = folder / f"{names.offset_text(base_offset)}{suffix}"
        if fs.exists(path):
            fs.rename(path, path.with_name(path.name + names.DAMAGED_SUFFIX), sync=False)
