"""The newest batches of the logs that this broker leads, kept in memory.

Followers and tailing consumers read what has just been appended, so their fetches need no call on a
directory's thread. A cache holds the end of one log without a gap; older batches are read from the
file. Sizes are in bytes and count whole batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

import msgspec

from broker.bounds.limits import TAIL_BYTES_MAX, TAIL_BYTES_PER_PARTITION

Buffer = bytes | memoryview


class Slice(msgspec.Struct, frozen=True):
    """Whole batches, in pieces, and how many bytes they have."""

    buffers: tuple[Buffer, ...]
    size: int


EMPTY_SLICE = Slice((), 0)


class _Entry(msgspec.Struct, frozen=True):
    next_offset: int
    size: int
    buffers: tuple[Buffer, ...]


class TailCacheBudget:
    """The limit over all caches of the broker; the cache that was idle longest gives way first."""

    def __init__(self, limit_bytes: int = TAIL_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._caches: OrderedDict[TailCache, None] = OrderedDict()
        self.size = 0

    def added(self, cache: TailCache, size: int) -> None:
        """Account for bytes that a cache took in, and make room for them."""
        self.size += size
        self._caches[cache] = None
        self._caches.move_to_end(cache)
        while self.size > self._limit_bytes and self._caches:
            next(iter(self._caches)).clear()

    def removed(self, cache: TailCache, size: int) -> None:
        """Account for bytes that a cache let go."""
        self.size -= size
        if not cache.size:
            self._caches.pop(cache, None)


class TailCache:
    """The newest batches of one log.

    Invariant: the entries follow each other without a gap, so everything from `start_offset` to
    the end of the last entry is here.
    """

    def __init__(
        self, budget: TailCacheBudget, limit_bytes: int = TAIL_BYTES_PER_PARTITION
    ) -> None:
        self._budget = budget
        self._limit_bytes = limit_bytes
        self._bases: list[int] = []
        self._entries: list[_Entry] = []
        self._first = 0
        self.size = 0

    @property
    def start_offset(self) -> int | None:
        """First offset held; None while empty."""
        return self._bases[self._first] if self._first < len(self._bases) else None

    def append(
        self, base_offset: int, next_offset: int, size: int, buffers: tuple[Buffer, ...]
    ) -> None:
        """Add a batch, or batches that belong together, at the end."""
        assert not self._entries or self._entries[-1].next_offset == base_offset
        self._bases.append(base_offset)
        self._entries.append(_Entry(next_offset, size, buffers))
        self.size += size
        while self.size > self._limit_bytes and self._first < len(self._entries) - 1:
            self._drop_first()
        self._budget.added(self, size)

    def read(
        self, offset: int, max_bytes: int, max_offset: int, *, at_least_one: bool
    ) -> Slice | None:
        """Return whole batches from the one that contains `offset`, none beyond `max_offset`.

        Returns:
            At most `max_bytes`, but the first batch in any case with `at_least_one`; None if the
            offset is older than what is held here.
        """
        first = self._index_of(offset)
        if first is None:
            return None
        buffers: list[Buffer] = []
        size = 0
        for index in range(first, len(self._entries)):
            entry = self._entries[index]
            if entry.next_offset > max_offset:
                break
            if size + entry.size > max_bytes and (size or not at_least_one):
                break
            buffers += entry.buffers
            size += entry.size
        return Slice(tuple(buffers), size)

    def available(self, offset: int, max_offset: int, enough: int) -> int | None:
        """Return how many bytes a read would find, counting no further than `enough`.

        None if the offset is older than what is held here.
        """
        first = self._index_of(offset)
        if first is None:
            return None
        size = 0
        for index in range(first, len(self._entries)):
            entry = self._entries[index]
            if entry.next_offset > max_offset or size >= enough:
                break
            size += entry.size
        return size

    def clear(self) -> None:
        """Forget everything."""
        size, self.size = self.size, 0
        self._bases.clear()
        self._entries.clear()
        self._first = 0
        self._budget.removed(self, size)

    def _index_of(self, offset: int) -> int | None:
        """Return the entry that contains an offset, one past the last for the end of the log."""
        index = bisect_right(self._bases, offset, self._first) - 1
        if index < self._first:
            return None
        return index if offset < self._entries[index].next_offset else index + 1

    def _drop_first(self) -> None:
        entry = self._entries[self._first]
        self._entries[self._first] = _Entry(entry.next_offset, 0, ())
        self._first += 1
        self.size -= entry.size
        self._budget.removed(self, entry.size)
        # Cut the dropped part off only now and then: a list loses its head in linear time.
        if self._first > 64 and self._first * 2 > len(self._entries):
            del self._bases[: self._first]
            del self._entries[: self._first]
            self._first = 0
