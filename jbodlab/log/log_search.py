"""Looks something up in the files of a log: the place of a cut, the first record of a time."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.log.log_files import LogFiles
from jbodlab.log.places import CutRequest, Place
from jbodlab.log.segments import ActiveSegment, ClosedSegment


def cut_point(files: LogFiles, request: CutRequest) -> ActiveSegment:
    """Find the place of a cut: what its segment is up to there."""
    place, offset = request.place, request.offset
    if request.active is not None:
        index, times = request.active.index, request.active.time_index
        aborted = request.active.aborted
    else:
        indexes = files.indexes(place)
        index, times = indexes.offset_index.copy(), indexes.time_index.copy()
        aborted = files.read_aborted(place.base_offset)
    index.truncate_to(offset)
    times.truncate_to(offset)
    position, next_offset = index.last_position(), place.base_offset
    max_timestamp, max_timestamp_offset = times.last
    reader = files.reader(place)
    for found in reader.scan(position):
        header = found.header
        if header.next_offset > offset:
            break
        position, next_offset = found.position + header.size, header.next_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, header.last_offset
    first = reader.first_header() if position else None
    return ActiveSegment.loaded(
        ClosedSegment(
            place.base_offset, next_offset, position, max_timestamp, max_timestamp_offset
        ),
        index,
        times,
        first_timestamp=-1 if first is None else first.max_timestamp,
        aborted=[entry for entry in aborted if entry.last_offset < next_offset],
    )


def first_record_at(
    files: LogFiles, places: Sequence[Place], timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record that is not older than `timestamp`.

    Timestamps need not ascend in a log: the first such record in the order of offsets counts.

    Args:
        files: Of the log.
        places: Segments that may hold it, from `SegmentList.places_by_time`.
        timestamp: In ms.
        start_offset: Records below are not counted.

    Raises:
        CorruptRecordError: the batch that should hold it is damaged.
    """
    for place in files.there(places):
        position = place.position
        if position is None:
            indexes = files.indexes(place)
            position = indexes.offset_index.lookup(indexes.time_index.lookup(timestamp))
        reader = files.reader(place)
        for batch in reader.scan(position):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = reader.first_record_in(batch, timestamp, start_offset)
            if found is not None:
                return found
    return None
