"""Opens the segments of a metadata log, and handles damaged ones.

A tail that no valid batch follows is truncated. Any other damage affects acknowledged records: a
controller's log stays unchanged and is not opened, and a broker's copy is truncated there.
"""

from __future__ import annotations

import logging
from pathlib import Path

from jbodlab.metadata.log import clean_close
from jbodlab.metadata.log.clean_close import ClosedAt
from jbodlab.metadata.log.segment import MetadataSegment, delete_files
from jbodlab.metadata.log.segment_scan import Damage
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import CorruptRecordError

logger = logging.getLogger(__name__)


def open_segments(
    fs: FileSystem, directory: Path, is_copy: bool, epoch_max: int | None
) -> list[MetadataSegment]:
    """Open the segments, at least one.

    Args:
        fs: The disk.
        directory: Directory of the log.
        is_copy: Whether a controller can send the records again; see `MetadataLog.open`.
        epoch_max: Highest leader epoch so far; None if unknown.

    Raises:
        CorruptRecordError: valid records follow damaged or missing ones, and the log is not a copy.
    """
    segments: list[MetadataSegment] = []
    closed = None if is_copy else clean_close.take(fs, directory)
    offsets = _base_offsets(fs, directory, names.LOG_SUFFIX)
    if not offsets:
        if not is_copy:
            _refuse_loss(fs, directory, 0)
        offsets = [0]
    try:
        for position, offset in enumerate(offsets):
            epoch = segments[-1].last_epoch if segments else -1
            segments.append(
                MetadataSegment(fs, directory, offset, epoch=epoch, epoch_max=epoch_max)
            )
            later = offsets[position + 1 :]
            damage = _damage(segments[-1], later)
            if damage is not None:
                _cut(segments[-1], damage, later, is_copy)
                for lost in reversed(later):
                    delete_files(fs, directory, lost)
                break
            if later:
                segments[-1].seal()
            elif not is_copy:
                _refuse_loss(fs, directory, segments[-1].end_offset)
                if segments[-1].size and closed != end_of(segments[-1]):
                    segments[-1].rewrite()
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def end_of(segment: MetadataSegment) -> ClosedAt:
    """Return the end of a log, given its last segment."""
    return ClosedAt(base_offset=segment.base_offset, size=segment.size)


def _refuse_loss(fs: FileSystem, directory: Path, end_offset: int) -> None:
    """Refuse a log that lacks the file of an index at its end: an index is removed before its file.

    Raises:
        CorruptRecordError: an index has entries for records behind the end of the log.
    """
    for suffix in (names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX):
        for offset in _base_offsets(fs, directory, suffix):
            path = directory / names.log_file(offset)
            if offset >= end_offset and not fs.exists(path) and fs.size(path.with_suffix(suffix)):
                raise CorruptRecordError(
                    path, 0, f"the segment is missing, but its {suffix} file exists"
                )


def _damage(segment: MetadataSegment, later: list[int]) -> Damage | None:
    """Return the damage of a segment, given the base offsets of the segments behind it."""
    if segment.damage is not None or not later or segment.end_offset == later[0]:
        return segment.damage
    reason = f"its records reach beyond offset {later[0] - 1}"
    if segment.end_offset < later[0]:
        reason = f"offsets {segment.end_offset} to {later[0] - 1} are missing"
    return Damage(position=segment.size, reason=reason, valid_after=None)


def _cut(segment: MetadataSegment, damage: Damage, later: list[int], is_copy: bool) -> None:
    """Cut a segment at its damage.

    Raises:
        CorruptRecordError: the cut would remove acknowledged records.
    """
    follows = ""
    if damage.valid_after is not None:
        follows = f"; a valid batch follows at position {damage.valid_after}"
    elif later:
        follows = f"; the log continues with {names.log_file(later[0])}"
    if follows and not is_copy:
        raise CorruptRecordError(segment.path, damage.position, damage.reason + follows)
    values = {
        "path": str(segment.path),
        "size": segment.size,
        "end_offset": segment.end_offset,
        "reason": damage.reason + follows,
    }
    if follows:
        logger.error("the copy of the metadata log is damaged; truncating it there", extra=values)
    else:
        if not is_copy:
            values["set_aside"] = str(segment.set_damage_aside())
        logger.warning("truncating a metadata segment after its last valid batch", extra=values)
    segment.rewrite()


def _base_offsets(fs: FileSystem, directory: Path, suffix: str) -> list[int]:
    found = []
    for name in fs.listdir(directory):
        if name.endswith(suffix):
            try:
                found.append(names.parse_offset(name))
            except ValueError:
                logger.warning(
                    "ignoring a file that is not a segment", extra={"path": str(directory / name)}
                )
    return sorted(found)
