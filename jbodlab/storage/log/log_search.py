"""Searches the files of a log for the place of a cut, or for a record by its timestamp."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.segment_ranges import CutRequest, SearchStart, SegmentRange, TimedRange
from jbodlab.storage.log.segment_reader import SegmentReader
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment


def cut_point(files: LogFiles, request: CutRequest) -> ActiveSegment:
    """Find the place of a cut, and the state of its segment up to there.

    Raises:
        CorruptRecordError: an index of the segment was damaged since the log was opened.
    """
    part, offset = request.segment_range, request.offset
    if request.active is not None:
        index, times = request.active.index, request.active.time_index
        aborted = request.active.aborted
    else:
        indexes = files.indexes(part)
        index, times = indexes.offset_index.copy(), indexes.time_index.copy()
        aborted = files.read_aborted(part.base_offset, request.aborted_count)
    index.truncate_to(offset)
    times.truncate_to(offset)
    position, next_offset = index.last_position(), part.base_offset
    max_timestamp, max_timestamp_offset = times.last
    reader = files.reader(part)
    for found in reader.scan(position):
        header = found.header
        if header.next_offset > offset:
            break
        position, next_offset = found.position + header.size, header.next_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, header.last_offset
    first = reader.first_header() if position else None
    return ActiveSegment.loaded(
        ClosedSegment(part.base_offset, next_offset, position, max_timestamp, max_timestamp_offset),
        index,
        times,
        first_timestamp=-1 if first is None else first.max_timestamp,
        aborted=[entry for entry in aborted if entry.last_offset < next_offset],
    )


def first_record_at(
    files: LogFiles, ranges: Sequence[SegmentRange], timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record that is not older than `timestamp`.

    Timestamps need not ascend in a log: the first such record in the order of offsets is returned.

    Args:
        files: Files of the log.
        ranges: Segments that may hold the record, from `SegmentList.ranges_by_time`.
        timestamp: In ms.
        start_offset: Records below this offset are ignored.

    Raises:
        CorruptRecordError: the batch that should hold the record is damaged.
    """
    for part in files.existing(ranges):
        position = part.position
        if position is None:
            indexes = files.indexes(part)
            position = indexes.offset_index.lookup(indexes.time_index.lookup(timestamp))
        reader = files.reader(part)
        for batch in reader.scan(position):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = reader.first_record_in(batch, timestamp, start_offset)
            if found is not None:
                return found
    return None


def newest_record(
    files: LogFiles, ranges: Sequence[TimedRange], start: int, end: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the newest record in a range, the first one if several are.

    Args:
        files: Files of the log.
        ranges: Segments that may hold the record, from `SegmentList.ranges_by_newest`.
        start: First offset of the range.
        end: Offset behind the range.

    Raises:
        CorruptRecordError: the batch that should hold the record is damaged.
    """
    best: tuple[int, int] | None = None
    for max_timestamp, whole, known in ranges:
        if best is not None and max_timestamp < best[0]:
            break
        for part in files.existing((whole,)):
            starts = known
            if starts is None:
                index, times = files.indexes(part)
                starts = SearchStart.all_of(index, times, max_timestamp, start, end)
            found = _newest_in(files.reader(part), starts, start, end)
            if found is not None and (best is None or (-found[0], found[1]) < (-best[0], best[1])):
                best = found
    return best


def _newest_in(
    reader: SegmentReader, starts: Sequence[SearchStart], start: int, end: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the newest record of a segment in a range."""
    for search_start in starts:
        best: tuple[int, int] | None = None
        newest = -1
        position: int | None = None
        for batch in reader.scan(search_start.position):
            header = batch.header
            if header.base_offset >= end:
                break
            is_older = header.max_timestamp <= newest or not header.records_count
            if header.last_offset < start or is_older:
                continue
            if start <= header.base_offset and header.last_offset < end:
                # Decompressed only if no other batch is newer: most often timestamps ascend.
                newest, position = header.max_timestamp, batch.position
                continue
            found = reader.newest_record_in(batch, start, end)
            if found is not None and found[0] > newest:
                newest, position, best = found[0], None, found
        if position is not None:
            best = reader.newest_record_in(next(reader.scan(position)), start, end)
        if best is not None and newest >= search_start.enough_ms:
            return best
    return None
