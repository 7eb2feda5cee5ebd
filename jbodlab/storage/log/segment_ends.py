"""Reads the two ends of a segment, which show the offsets it holds without a read of the whole.

So every start detects a closed segment that lost its end, its beginning or its indexes, at the cost
of a few small reads. Damage in the middle of a segment is detected by its readers.
"""

from __future__ import annotations

import struct
from pathlib import Path

from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segment_reader import SegmentReader
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.vocabulary.errors import CorruptRecordError

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def closed_segment(
    files: LogFiles, base_offset: int, next_base: int, has_gaps: bool
) -> ClosedSegment | None:
    """Return the bounds of a closed segment.

    Args:
        files: Files of the log.
        base_offset: Base offset of the segment.
        next_base: Base offset of the next segment.
        has_gaps: Whether compaction may have left gaps of offsets.

    Returns:
        None if the indexes are not usable, or the segment does not reach from its base offset to
        the next one: the caller must then read the whole segment.
    """
    fs, size = files.fs, files.fs.size(files.path(base_offset))
    try:
        position = _last_position(fs, files.path(base_offset, names.INDEX_SUFFIX), base_offset)
        times = _last_time(fs, files.path(base_offset, names.TIME_INDEX_SUFFIX), base_offset)
        reader = files.reader(SegmentRange(base_offset, size, next_base, None))
        if not _begins_at(reader, base_offset, has_gaps) or _lacks_entries(files, reader):
            return None
        found = _scanned(reader, base_offset, position, times)
    except (FileNotFoundError, CorruptRecordError):
        return None
    if found.size != size:
        return None
    joins_on = found.next_offset <= next_base if has_gaps else found.next_offset == next_base
    return found if joins_on else None


def last_segment(files: LogFiles, base_offset: int, has_gaps: bool) -> ActiveSegment | None:
    """Return the last segment of a log that was closed in order, with its indexes.

    Returns:
        None if its indexes are missing or invalid, or its ends are invalid; it must then be
        read.
    """
    fs, size = files.fs, files.fs.size(files.path(base_offset))
    index_path = files.path(base_offset, names.INDEX_SUFFIX)
    times_path = files.path(base_offset, names.TIME_INDEX_SUFFIX)
    try:
        index = OffsetIndex.decode(index_path, fs.read_bytes(index_path), base_offset)
        times = TimeIndex.decode(times_path, fs.read_bytes(times_path), base_offset)
        reader = files.reader(SegmentRange(base_offset, size, -1, None))
        if not _begins_at(reader, base_offset, has_gaps) or _lacks_entries(files, reader):
            return None
        found = _scanned(reader, base_offset, index.last_position(), times.last)
        first = reader.first_header()
        aborted = files.read_aborted(base_offset, None)
    except (FileNotFoundError, CorruptRecordError):
        return None
    if found.size != size:
        return None
    return ActiveSegment.loaded(
        found,
        index,
        times,
        first_timestamp=-1 if first is None else first.max_timestamp,
        aborted=aborted,
    )


def _begins_at(reader: SegmentReader, base_offset: int, has_gaps: bool) -> bool:
    first = reader.first_header()
    if first is None:
        return reader.size == 0
    return first.base_offset == base_offset or (has_gaps and first.base_offset > base_offset)


def _lacks_entries(files: LogFiles, reader: SegmentReader) -> bool:
    """Return whether somebody emptied the time index of a segment that was closed.

    Its last entry is the largest timestamp. An offset index may be empty: readers then begin at the
    beginning of the segment.
    """
    path = files.path(names.parse_offset(reader.path.name), names.TIME_INDEX_SUFFIX)
    first = reader.first_header()
    return first is not None and first.max_timestamp >= 0 and not files.fs.size(path)


def _scanned(
    reader: SegmentReader, base_offset: int, position: int, times: tuple[int, int]
) -> ClosedSegment:
    """Read from a position on; the returned segment ends at the end of the last whole batch."""
    next_offset = base_offset
    max_timestamp, max_timestamp_offset = times
    for found in reader.scan(position):
        header = found.header
        if header.base_offset < next_offset:
            raise CorruptRecordError(reader.path, found.position, "offsets do not ascend")
        next_offset = header.next_offset
        position = found.position + header.size
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, header.last_offset
    return ClosedSegment(base_offset, next_offset, position, max_timestamp, max_timestamp_offset)


def _last_position(fs: FileSystem, path: Path, base_offset: int) -> int:
    entry = _last_entry(fs, path, _OFFSET_ENTRY.size)
    if entry is None:
        return 0
    if not any(entry):
        # The index was preallocated, and not cut when the segment was closed.
        return OffsetIndex.decode(path, fs.read_bytes(path), base_offset).last_position()
    offset, position = _OFFSET_ENTRY.unpack(entry)
    if offset < 0 or position < 0:
        raise CorruptRecordError(path, 0, "offset index ends with an impossible entry")
    return int(position)


def _last_time(fs: FileSystem, path: Path, base_offset: int) -> tuple[int, int]:
    entry = _last_entry(fs, path, _TIME_ENTRY.size)
    if entry is None:
        return -1, base_offset
    if not any(entry):
        return TimeIndex.decode(path, fs.read_bytes(path), base_offset).last
    timestamp, offset = _TIME_ENTRY.unpack(entry)
    return int(timestamp), base_offset + int(offset)


def _last_entry(fs: FileSystem, path: Path, entry_size: int) -> bytes | None:
    """Return the last entry of an index file, None if it is empty.

    Raises:
        CorruptRecordError: it does not end with a whole entry.
    """
    size = fs.size(path)
    if size % entry_size:
        raise CorruptRecordError(path, size, "index does not end with an entry")
    if not size:
        return None
    source = fs.open_source(path)
    try:
        return source.pread(entry_size, size - entry_size)
    finally:
        source.close()
