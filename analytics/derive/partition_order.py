"""Rows in the order of their partition and offset, and how to find the one that comes next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_reading import longs, texts

_LARGEST = 2**62


@dataclass(slots=True)
class PartitionKeys:
    """A number for each partition, the same in every table of a bucket."""

    topics: dict[str, int] = field(default_factory=dict)

    def of(self, rows: pa.Table) -> Longs:
        """Return the numbers for the columns `topic_id` and `partition`."""
        ids = texts(rows.column("topic_id"))
        for text in ids.texts:
            self.topics.setdefault(text, len(self.topics))
        return ids.renumbered(self.topics) << 32 | (longs(rows.column("partition")) & 0xFFFFFFFF)


class InOrder:
    """The order of rows by key and offset.

    Args:
        key: Of each row.
        offset: Of each row.
    """

    def __init__(self, key: Longs, offset: Longs) -> None:
        self._low = int(offset.min()) if len(offset) else 0
        self._high = int(offset.max()) if len(offset) else 0
        span = self._high - self._low + 2
        self._offsets: Longs | None = None
        keys = np.unique(key)
        if (len(keys) + 1) * span >= _LARGEST:
            # Offsets of a log that is damaged may be anything; their order is all that counts.
            self._offsets = np.unique(offset)
            span = len(self._offsets) + 1
        self._keys, self._span = keys, span
        joined = np.searchsorted(keys, key) * span + self._place(offset)
        self.rows: Longs = np.argsort(joined, kind="stable")
        """The rows in order."""
        self._joined = joined[self.rows]
        self.key: Longs = key[self.rows]
        """Their keys, in order."""

    def first(self, key: Longs, offset: Longs) -> Longs:
        """Return the place in the order of the first row of a key at or behind an offset.

        It is -1 where the key has no such row.
        """
        if not len(self.rows):
            return np.full(len(key), -1, dtype=np.int64)
        rank = np.searchsorted(self._keys, key)
        found = np.searchsorted(self._joined, rank * self._span + self._place(offset))
        place = np.minimum(found, len(self.rows) - 1)
        return np.where((found < len(self.rows)) & (self.key[place] == key), place, -1)

    def _place(self, offset: Longs) -> Longs:
        if self._offsets is not None:
            return np.searchsorted(self._offsets, offset)
        behind = self._high - self._low + 1
        return np.where(offset > self._high, behind, np.maximum(offset, self._low) - self._low)
