"""Sparse index of one segment: timestamp to offset.

A `.timeindex` file is a row of entries of 12 bytes, big-endian: int64 timestamp, int32 offset
relative to the segment's base. An entry says: the largest timestamp so far is this one, and the
batch that brought it ends with this offset. When a segment is closed off, its largest timestamp is
always the last entry. A file that was preallocated and not cut ends with zeros.

Source: `org.apache.kafka.storage.internals.log.TimeIndex`.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from jbodlab.vocabulary.errors import CorruptRecordError

_ENTRY = struct.Struct(">qi")
ENTRY_SIZE = _ENTRY.size


class TimeIndex:
    """The entries of one segment, ascending in timestamp and offset."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Timestamp and offset of each entry."""
        base = self._base_offset
        return [(t, base + o) for t, o in zip(self._timestamps, self._offsets, strict=True)]

    @property
    def last(self) -> tuple[int, int]:
        """The last entry; (-1, base offset) without entries."""
        if not self._timestamps:
            return -1, self._base_offset
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def is_full(self, index_bytes_max: int) -> bool:
        """Return whether the file would have room only for the entry of the closing."""
        return len(self._timestamps) >= index_bytes_max // ENTRY_SIZE - 1

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it brings a larger timestamp."""
        if timestamp > self.last[0]:
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self._base_offset)

    def lookup(self, timestamp: int) -> int:
        """Return an offset before which no record has this timestamp or a larger one."""
        found = bisect_right(self._timestamps, timestamp) - 1
        return self._base_offset + (self._offsets[found] if found >= 0 else 0)

    def last_before(self, offset: int) -> tuple[int, int]:
        """Return the last entry below an offset; (-1, base offset) without one."""
        count = bisect_left(self._offsets, offset - self._base_offset)
        if not count:
            return -1, self._base_offset
        return self._timestamps[count - 1], self._base_offset + self._offsets[count - 1]

    def truncate_to(self, offset: int) -> None:
        """Drop entries at and behind an offset."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def clear(self) -> None:
        """Drop all entries."""
        self.truncate_to(self._base_offset)

    def copy(self) -> TimeIndex:
        """Return an independent copy."""
        other = TimeIndex(self._base_offset)
        other._timestamps, other._offsets = self._timestamps[:], self._offsets[:]
        return other

    def encode(self) -> bytes:
        """Return the content of the file."""
        # By columns: an index of a large segment has entries by the hundred thousand.
        found = bytearray(ENTRY_SIZE * len(self._offsets))
        for values, code, at in ((self._timestamps, "q", 0), (self._offsets, "i", 8)):
            column = array(code, values)
            if sys.byteorder == "little":
                column.byteswap()
            data, size = column.tobytes(), column.itemsize
            for number in range(size):
                found[at + number :: ENTRY_SIZE] = data[number::size]
        return bytes(found)

    @classmethod
    def decode(cls, path: Path, data: bytes, base_offset: int) -> TimeIndex:
        """Read the content of a file; zeros at its end are left out.

        Raises:
            CorruptRecordError: entries are partial or not ascending; the index must be rebuilt.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptRecordError(path, len(data), "time index does not end with an entry")
        index = cls(base_offset)
        last_timestamp = last_offset = -1
        for number, (timestamp, offset) in enumerate(_ENTRY.iter_unpack(data)):
            position = number * ENTRY_SIZE
            if timestamp == 0 and offset == 0:
                if any(data[position:]):
                    raise CorruptRecordError(path, position, "time index has a hole of zeros")
                break
            if timestamp <= last_timestamp or offset < last_offset:
                raise CorruptRecordError(path, position, "time index is not ascending")
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
            last_timestamp, last_offset = timestamp, offset
        return index
