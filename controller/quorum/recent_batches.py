"""The end of the log in memory: what followers fetch next, and what is committed next.

A read of the disk would wait behind the sync that is under way.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from jbodlab.vocabulary.ids import Offset

RECENT_BYTES_MAX = 16 << 20
"""Memory for it: more than may be appended and not committed."""


class LogBatch(NamedTuple):
    """A batch as it is in the log; the end offset is behind its last record."""

    base_offset: Offset
    end_offset: Offset
    data: bytes


class RecentBatches:
    """Batches without a gap, up to the end of the log."""

    def __init__(self) -> None:
        self._batches: deque[LogBatch] = deque()
        self._size = 0

    def append(self, batch: LogBatch) -> None:
        """Take a batch at the end of the log."""
        assert not self._batches or self._batches[-1].end_offset == batch.base_offset
        self._batches.append(batch)
        self._size += len(batch.data)
        while self._size > RECENT_BYTES_MAX and len(self._batches) > 1:
            self._size -= len(self._batches.popleft().data)

    def truncate(self, end_offset: Offset) -> None:
        """Forget the batches that do not end at an offset or before it."""
        while self._batches and self._batches[-1].end_offset > end_offset:
            self._size -= len(self._batches.pop().data)

    def clear(self) -> None:
        """Forget all: the log begins anew."""
        self._batches.clear()
        self._size = 0

    def between(
        self, first: Offset, end: Offset, bytes_max: int | None = None
    ) -> list[LogBatch] | None:
        """Return the batches from an offset on and below another one; None if some are not here.

        Args:
            first: Where a batch begins.
            end: Where a batch ends.
            bytes_max: Size not to exceed, except that at least one batch is returned.
        """
        found: list[LogBatch] = []
        for batch in reversed(self._batches):
            if batch.base_offset < first:
                break
            if batch.end_offset <= end:
                found.append(batch)
        found.reverse()
        if not found or found[0].base_offset != first:
            return None
        if bytes_max is None:
            return found
        size = 0
        for count, batch in enumerate(found):
            size += len(batch.data)
            if count and size > bytes_max:
                return found[:count]
        return found
