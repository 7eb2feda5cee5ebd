"""Finding the first record with a timestamp or a later one (ListOffsets by time)."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.errors import CorruptRecordError, DecodeError
from jbodlab.log.segment import ScannedBatch, Segment
from jbodlab.protocol.record_batch import iterate_records


def first_record_at(
    segments: Sequence[Segment], timestamp: int, log_start_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record that is not older than `timestamp`.

    Timestamps need not ascend in a log: the first such record in the order of offsets counts.

    Returns:
        None if there is none at or behind the log start.

    Raises:
        CorruptRecordError: the batch that should hold it is damaged.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        position = segment.index.lookup(segment.time_index.lookup(timestamp))
        for batch in segment.scan(position):
            header = batch.header
            if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                continue
            found = _first_in_batch(segment, batch, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _first_in_batch(
    segment: Segment, batch: ScannedBatch, timestamp: int, log_start_offset: int
) -> tuple[int, int] | None:
    header = batch.header
    try:
        for record in iterate_records(batch.data, 0, header):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return record.timestamp, record.offset
    except DecodeError as error:
        if header.compression:
            # Its codec may not be installed. Who starts at the batch reads a little more than was
            # asked for, but misses nothing.
            return header.max_timestamp, max(header.base_offset, log_start_offset)
        raise CorruptRecordError(segment.path, batch.position, str(error)) from error
    return None
