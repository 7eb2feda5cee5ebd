"""Where the records of a batch begin and end: enough to copy some of them and to drop others.

Values and headers are not decoded. The layout is in `record_batch`.
"""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.record_batch.varint import read_varint
from jbodlab.vocabulary.errors import DecodeError


class RecordSlice(NamedTuple):
    """One record in the bytes of its batch.

    Attributes:
        start: Position of its size.
        delta_at: Position of its timestamp delta, behind size and attributes.
        rest_at: Position of the fields behind the timestamp delta.
        end: Position behind the record.
        timestamp_delta: In ms.
        key: None for a record without a key.
        has_value: Whether the record has a value; False for a tombstone.
    """

    start: int
    delta_at: int
    rest_at: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def slice_records(records: bytes, count: int) -> list[RecordSlice]:
    """Return the slices of a batch's uncompressed records.

    Raises:
        DecodeError: the number of records differs, or a record is malformed.
    """
    found = []
    position = 0
    try:
        for _ in range(count):
            found.append(_slice(records, position))
            position = found[-1].end
    except IndexError:
        raise DecodeError(f"{count} records reach beyond {len(records)} bytes") from None
    if position != len(records):
        raise DecodeError(f"{count} records do not fill {len(records)} bytes")
    return found


def _slice(data: bytes, start: int) -> RecordSlice:
    size, position = read_varint(data, start)
    end = position + size
    if size <= 0 or end > len(data):
        raise DecodeError(f"record of {size} bytes where {len(data) - position} are left")
    delta_at = position + 1
    timestamp_delta, rest_at = read_varint(data, delta_at, 10)
    offset_delta, position = read_varint(data, rest_at)
    key: bytes | None = None
    key_size, position = read_varint(data, position)
    if key_size >= 0:
        key = data[position : position + key_size]
        position += key_size
    value_size, position = read_varint(data, position)
    if position + max(value_size, 0) >= end:
        raise DecodeError(f"record of {size} bytes has longer fields")
    return RecordSlice(
        start, delta_at, rest_at, end, timestamp_delta, offset_delta, key, value_size >= 0
    )
