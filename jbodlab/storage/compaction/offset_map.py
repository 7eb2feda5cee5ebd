"""The newest offset of each key in a round of compaction, in bounded memory.

A hash table over one `bytearray`, slots of 24 bytes: the MD5 of the key, 16 bytes, and its offset,
int64. A key goes to the slot that the first half of its hash names, or to the next free one. The
table begins small and grows up to its limit; a dict would take five times the memory for a key.

The map treats two keys with the same hash as one key; with 2^32 keys the odds are 2^-64.

Source: `org.apache.kafka.storage.internals.log.SkimpyOffsetMap`.
"""

from __future__ import annotations

import struct
from hashlib import md5

_OFFSET = struct.Struct(">q")
HASH_BYTES = 16
SLOT_BYTES = HASH_BYTES + _OFFSET.size
_EMPTY = bytes(HASH_BYTES)

FIRST_SLOTS = 1 << 12
GROWTH = 4
GROW_AT = 0.7
"""A table below its limit grows when this part of its slots is in use."""

NO_OFFSET = -1


class OffsetMap:
    """See the module's text.

    Args:
        memory_bytes: Most bytes of the table, `log.cleaner.dedupe.buffer.size`; the table has at
            least one slot.
        load_factor: Part of the slots that may be used, `log.cleaner.io.buffer.load.factor`.
    """

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        self._slots_max = max(2, memory_bytes // SLOT_BYTES)
        self.capacity = max(1, min(int(self._slots_max * load_factor), self._slots_max - 1))
        self._count = 0
        self._allocate(min(FIRST_SLOTS, self._slots_max))

    def __len__(self) -> int:
        return self._count

    @property
    def utilization(self) -> float:
        """Number of keys as a part of the capacity, 0 to 1."""
        return self._count / self.capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Note that a key has a record at an offset, larger than those before.

        Returns:
            False if the map has no room for another key; the map is unchanged then.
        """
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        table = self._table
        if table[at : at + HASH_BYTES] == _EMPTY:
            if self._count >= self.capacity:
                return False
            if self._count >= self._grow_at:
                self._grow()
                table, at = self._table, self._find(digest)
            self._count += 1
            table[at : at + HASH_BYTES] = digest
        _OFFSET.pack_into(table, at + HASH_BYTES, offset)
        return True

    def get(self, key: bytes) -> int:
        """Return the newest offset of a key, -1 if it is not known."""
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        if self._table[at : at + HASH_BYTES] == _EMPTY:
            return NO_OFFSET
        (offset,) = _OFFSET.unpack_from(self._table, at + HASH_BYTES)
        return int(offset)

    def _find(self, digest: bytes) -> int:
        """Return the position of a hash's slot, or of the free slot that it would get."""
        table = self._table
        at = int.from_bytes(digest[:8], "little") % self._slots * SLOT_BYTES
        found = table[at : at + HASH_BYTES]
        while found != digest and found != _EMPTY:
            at += SLOT_BYTES
            if at == len(table):
                at = 0
            found = table[at : at + HASH_BYTES]
        return at

    def _allocate(self, slots: int) -> None:
        self._slots = slots
        self._table = bytearray(slots * SLOT_BYTES)
        self._grow_at = self._slots_max if slots == self._slots_max else int(slots * GROW_AT)

    def _grow(self) -> None:
        former = self._table
        self._allocate(min(self._slots * GROWTH, self._slots_max))
        for start in range(0, len(former), SLOT_BYTES):
            digest = bytes(former[start : start + HASH_BYTES])
            if digest != _EMPTY:
                at = self._find(digest)
                self._table[at : at + SLOT_BYTES] = former[start : start + SLOT_BYTES]
