"""Sparse index of one segment: offset to position in the `.log` file.

A `.index` file is a row of entries of 8 bytes, big-endian: int32 offset relative to the segment's
base, int32 position. An entry names the last offset of a batch and the position where that batch
begins. A file that was preallocated and not cut ends with entries of zeros, which readers ignore.

In memory the index is two arrays; the file is written as a whole when the segment is closed.
Until then a crash loses no entry, because recovery reads the segment and rebuilds the index.

Source: `org.apache.kafka.storage.internals.log.OffsetIndex`.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from jbodlab.vocabulary.errors import CorruptRecordError

ENTRY_SIZE = 8


class OffsetIndex:
    """The entries of one segment, ascending in offset and position."""

    __slots__ = ("_base_offset", "_offsets", "_positions")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Offset and position of each entry."""
        base = self._base_offset
        return [(base + o, p) for o, p in zip(self._offsets, self._positions, strict=True)]

    def is_full(self, index_bytes_max: int) -> bool:
        """Return whether the file would leave no room for another entry."""
        return len(self._offsets) >= index_bytes_max // ENTRY_SIZE

    def append(self, offset: int, position: int) -> None:
        """Add an entry behind all others."""
        relative = offset - self._base_offset
        assert not self._offsets or relative > self._offsets[-1]
        self._offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return the position of a batch at or before an offset, where a search for it starts."""
        found = bisect_right(self._offsets, offset - self._base_offset) - 1
        return self._positions[found] if found >= 0 else 0

    def last_position(self) -> int:
        """Return the position of the last entry, 0 without entries."""
        return self._positions[-1] if self._positions else 0

    def truncate_to(self, offset: int) -> None:
        """Drop entries at and behind an offset."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[keep:]
        del self._positions[keep:]

    def clear(self) -> None:
        """Drop all entries."""
        self.truncate_to(self._base_offset)

    def copy(self) -> OffsetIndex:
        """Return an independent copy."""
        other = OffsetIndex(self._base_offset)
        other._offsets, other._positions = self._offsets[:], self._positions[:]
        return other

    def encode(self) -> bytes:
        """Return the content of the file."""
        both = array("i", bytes(ENTRY_SIZE * len(self._offsets)))
        both[0::2] = self._offsets
        both[1::2] = self._positions
        if sys.byteorder == "little":
            both.byteswap()
        return both.tobytes()

    @classmethod
    def decode(cls, path: Path, data: bytes, base_offset: int) -> OffsetIndex:
        """Read the content of a file; zeros at its end are left out.

        Raises:
            CorruptRecordError: entries are partial or not ascending; the index must be rebuilt.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptRecordError(path, len(data), "offset index does not end with an entry")
        both = array("i")
        both.frombytes(data)
        if sys.byteorder == "little":
            both.byteswap()
        index = cls(base_offset)
        last_offset = last_position = -1
        for number in range(0, len(both), 2):
            offset, position = both[number], both[number + 1]
            if offset == 0 and position == 0:
                if any(both[number:]):
                    raise CorruptRecordError(path, 4 * number, "offset index has a hole of zeros")
                break
            if offset <= last_offset or position <= last_position:
                raise CorruptRecordError(path, 4 * number, "offset index is not ascending")
            index._offsets.append(offset)
            index._positions.append(position)
            last_offset, last_position = offset, position
        return index
