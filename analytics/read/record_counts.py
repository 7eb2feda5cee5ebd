"""How many records of which epoch and type a stretch of the log holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Longs, groups
from analytics.read.arrow_reading import longs, texts, times
from analytics.read.lists import combinations
from analytics.read.partition_events import NO_TIME


@dataclass(slots=True)
class _Count:
    """Records of one epoch and type; times are microseconds since 1970 or NO_TIME."""

    records: int
    first: tuple[int, int]
    """Offset and time."""
    last: tuple[int, int]
    earliest: int | None
    latest: int | None


@dataclass(slots=True)
class RecordCounts:
    """Counts that grow batch by batch."""

    found: dict[tuple[int, str], _Count] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch that are records.

        Args:
            batch: Rows of the data source.
        """
        if batch.column("problem").null_count < len(batch):
            batch = batch.filter(pc.is_null(batch.column("problem")))
        epoch, types = longs(batch.column("epoch")), texts(batch.column("type"))
        offset, time = longs(batch.column("offset")), times(batch.column("timestamp"))
        for rows in groups(combinations(epoch, types.codes).codes):
            code = int(types.codes[rows[0]])
            if code >= 0:
                key = (int(epoch[rows[0]]), types.texts[code])
                self._count(key, offset[rows], time[rows])

    @property
    def rows(self) -> list[dict[str, object]]:
        """The counts as rows of the table of record counts."""
        return [
            {
                "epoch": epoch,
                "type": kind,
                "records": count.records,
                "first_offset": count.first[0],
                "first_time": _time(count.first[1]),
                "last_offset": count.last[0],
                "last_time": _time(count.last[1]),
                "earliest_time": count.earliest,
                "latest_time": count.latest,
            }
            for (epoch, kind), count in self.found.items()
        ]

    def _count(self, key: tuple[int, str], offsets: Longs, moments: Longs) -> None:
        low, high = int(np.argmin(offsets)), int(np.argmax(offsets))
        known = moments[moments != NO_TIME]
        count = _Count(
            records=len(offsets),
            first=(int(offsets[low]), int(moments[low])),
            last=(int(offsets[high]), int(moments[high])),
            earliest=int(known.min()) if len(known) else None,
            latest=int(known.max()) if len(known) else None,
        )
        self._add(key, count)

    def merge(self, other: RecordCounts) -> None:
        """Add what another stretch holds."""
        for key, count in other.found.items():
            self._add(key, count)

    def _add(self, key: tuple[int, str], count: _Count) -> None:
        before = self.found.get(key)
        if before is not None:
            count = _Count(
                records=before.records + count.records,
                first=min(before.first, count.first),
                last=max(before.last, count.last),
                earliest=_of(min, before.earliest, count.earliest),
                latest=_of(max, before.latest, count.latest),
            )
        self.found[key] = count


def _of(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return choose(one, other)


def _time(time: int) -> int | None:
    return None if time == NO_TIME else time
