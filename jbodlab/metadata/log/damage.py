"""Damage in a metadata log: what is valid, what is cut, and what is refused.

A batch is valid if it is whole, its CRC is right, its offset continues the one before, and its
leader epoch is not lower. The CRC does not cover offset and epoch, so they are checked here.

The kind of damage matters less than the bytes behind it. No valid batch follows a torn append, as
each append is synced before the next one. So if a valid batch follows a damaged one, the damaged
one was on the disk as well, and the damage has hit an acknowledged record. A tail that no valid
batch follows is cut. Any other damage ends the start of a controller and changes nothing; a
broker's copy is cut there.
"""

from __future__ import annotations

import logging
from pathlib import Path

from jbodlab.metadata.log.batches import MAX_BATCH_BYTES
from jbodlab.record_batch.record_batch import HEADER, HEADER_SIZE, MAGIC, BatchHeader, header_of
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.damage import Damage
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segment_reader import next_batch
from jbodlab.storage.log.segments import ActiveSegment
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.limits import COPY_CHUNK_BYTES

logger = logging.getLogger(__name__)


class MetadataPolicy:
    """The policy for one load of a metadata log.

    Args:
        is_copy: Whether a controller can send the records again; see `MetadataLog.open`.
        epoch_max: Highest leader epoch so far; None if unknown.
    """

    batch_bytes_max: int | None = MAX_BATCH_BYTES
    has_only_batches = True

    def __init__(self, *, is_copy: bool, epoch_max: int | None) -> None:
        self._is_copy = is_copy
        self._epoch_max = epoch_max
        # Leader epochs of the last batch and of the one before it.
        self._epoch = self._epoch_before = -1

    def accepts(self, segment: ActiveSegment, header: BatchHeader) -> bool:
        """Return whether a batch continues the log."""
        if self._misplaced(segment.next_offset, header):
            return False
        self._epoch_before, self._epoch = self._epoch, header.partition_leader_epoch
        return True

    def end_at(self, files: LogFiles, damage: Damage) -> bool:
        """Cut the log, or refuse it if that would remove acknowledged records; see `LoadPolicy`.

        Raises:
            CorruptRecordError: valid records follow, and the log is not a copy.
        """
        active = damage.active
        path = files.path(active.base_offset)
        reason, valid_after = self._look(files, damage)
        follows = ""
        if valid_after is not None:
            follows = f"; a valid batch follows at position {valid_after}"
        elif damage.behind:
            follows = f"; the log continues with {names.log_file(damage.behind[0])}"
        values = {
            "path": str(path),
            "size": active.size,
            "end_offset": active.next_offset,
            "reason": reason + follows,
        }
        if not follows:
            if not self._is_copy:
                values["set_aside"] = str(_set_tail_aside(files.fs, path, active.size, damage.size))
            logger.warning("truncating a metadata segment after its last valid batch", extra=values)
        elif self._is_copy:
            logger.error(
                "the copy of the metadata log is damaged; truncating it there", extra=values
            )
        else:
            raise CorruptRecordError(path, active.size, reason + follows)
        return False

    def _look(self, files: LogFiles, damage: Damage) -> tuple[str, int | None]:
        """Return what is wrong, and the position of the next valid batch of the file."""
        position, size, expected = damage.active.size, damage.size, damage.active.next_offset
        if position == size:
            next_base = damage.behind[0]
            if expected < next_base:
                return f"offsets {expected} to {next_base - 1} are missing", None
            return f"its records reach beyond offset {next_base - 1}", None
        file = files.reader(SegmentRange(damage.active.base_offset, size, -1, 0)).file
        data = file.pread(HEADER_SIZE, position)
        search_from = position + 1
        if len(data) < HEADER_SIZE:
            reason = f"expected a batch header of {HEADER_SIZE} bytes, got {len(data)}"
        else:
            header = header_of(HEADER.unpack(data))
            reason = self._reason(header, expected, size - position)
            if self._epoch_before <= header.partition_leader_epoch < self._epoch:
                # Rather the batch before has the wrong epoch, and this one follows it.
                search_from = position
        return reason, next_batch(
            file, search_from, size, expected, batch_bytes_max=MAX_BATCH_BYTES
        )

    def _reason(self, header: BatchHeader, expected: int, left: int) -> str:
        if header.magic != MAGIC:
            return f"expected magic {MAGIC}, got {header.magic}"
        if header.batch_length < 0 or header.size > left:
            return f"batch at offset {expected} has {header.size} bytes where {left} are left"
        return self._misplaced(expected, header) or f"batch at offset {expected} has a wrong CRC"

    def _misplaced(self, expected: int, header: BatchHeader) -> str:
        """Return why a batch is not valid at an offset; empty if it is valid."""
        if header.base_offset != expected:
            return f"expected a batch at offset {expected}, got {header.base_offset}"
        where = f"batch at offset {header.base_offset}"
        epoch = header.partition_leader_epoch
        if epoch < self._epoch:
            return f"{where} has leader epoch {epoch} after one of epoch {self._epoch}"
        if self._epoch_max is not None and epoch > self._epoch_max:
            return f"{where} has leader epoch {epoch}, the highest was {self._epoch_max}"
        return f"{where} ends before it begins" if header.last_offset_delta < 0 else ""


def refuse_missing_end(fs: FileSystem, directory: Path) -> None:
    """Refuse a log whose last segments are missing, as the index files beside them show.

    The index files of a segment have entries as soon as it has synced records. Beside a `.deleted`
    segment they are what an interrupted removal has left.

    Raises:
        CorruptRecordError: an index behind the last segment has entries.
    """
    listed = fs.listdir(directory)
    logs = names.with_suffix(listed, names.LOG_SUFFIX)
    last = max(map(names.parse_offset, logs), default=-1)
    indexes = names.with_suffix(listed, (names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX))
    for name in sorted(indexes, reverse=True):
        path = directory / names.log_file(names.parse_offset(name))
        if names.parse_offset(name) <= last:
            continue
        if path.name + names.DELETED_SUFFIX in listed:
            fs.unlink(directory / name)
        elif fs.size(directory / name):
            suffix = Path(name).suffix
            raise CorruptRecordError(
                path, 0, f"the segment is missing, but its {suffix} file exists"
            )


def rewrite(files: LogFiles, segment: ActiveSegment) -> None:
    """Write the batches of a segment into a new file, which replaces the old one, durably.

    This makes the readable bytes trustworthy: after a failed sync, the kernel still returns bytes
    that it never writes again.
    """
    path = files.path(segment.base_offset)
    temporary = path.with_name(path.name + names.TMP_SUFFIX)
    _copy(files.fs, path, temporary, 0, segment.size)
    files.forget(segment.base_offset)
    files.fs.rename(temporary, path)


def _set_tail_aside(fs: FileSystem, path: Path, start: int, end: int) -> Path:
    """Copy the end of a file into another one, durably; returns its path."""
    name = f"{path.name}.{start}{names.DAMAGED_SUFFIX}"
    target, number = path.with_name(name), 1
    while fs.exists(target):
        number += 1
        target = path.with_name(f"{name}.{number}")
    _copy(fs, path, target, start, end)
    return target


def _copy(fs: FileSystem, source_path: Path, target_path: Path, start: int, end: int) -> None:
    """Write a part of a file into a new one, and sync that."""
    source, target = fs.open_source(source_path), fs.open_append(target_path)
    try:
        for position in range(start, end, COPY_CHUNK_BYTES):
            target.write(source.pread(min(COPY_CHUNK_BYTES, end - position), position))
        target.fsync()
    finally:
        target.close()
        source.close()
