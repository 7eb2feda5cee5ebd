"""Changes of leaders and of ISRs in a bucket, counted by time, by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Column, Longs
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import Texts, longs, texts, times
from analytics.decode.lists import combinations
from analytics.decode.partition_events import NO_TIME
from analytics.tables import catalog as t
from jbodlab.ids import NO_LEADER

LEADER, ISR = "leader", "isr"

NO_CHANGE = frozenset(("created", "snapshot"))
"""The begin of a partition, or of the log, is no change of its leader."""

_US_PER_MS = 1000

CHANGE_COUNTS = """
    SELECT what, from_time, change, cause, sum(changes) AS changes, sum(to_none) AS to_none
    FROM {changes} GROUP BY what, from_time, change, cause
"""
"""The question that gives the table, from `changes` of every bucket."""


def change_counts(leadership: pa.Table, isr: pa.Table, bucket_ms: int) -> pa.Table:
    """Count changes.

    Args:
        leadership: `cause`, `leader` and `valid_from_time` of intervals of leaders.
        isr: `change`, `cause` and `time` of changes of ISRs.
        bucket_ms: Length of the stretches of time.

    Returns:
        Rows of the table of change counts, several for one of it where buckets are several.
    """
    cause = texts(leadership.column("cause"))
    changed = is_change(cause)
    to_none = changed & (longs(leadership.column("leader")) == NO_LEADER)
    rows = np.nonzero(changed)[0]
    of_leaders = _counted(
        LEADER,
        times(leadership.column("valid_from_time"))[rows],
        None,
        Texts(cause.codes[rows], cause.texts),
        to_none[rows],
        bucket_ms,
    )
    moments = times(isr.column("time"))
    of_isrs = _counted(
        ISR,
        moments,
        texts(isr.column("change")),
        texts(isr.column("cause")),
        np.zeros(len(moments), dtype=np.bool_),
        bucket_ms,
    )
    return pa.concat_tables([of_leaders, of_isrs])


def is_change(cause: Texts) -> Bools:
    """Return the intervals of leaders that began by a change."""
    changed: Bools = ~cause.where_in(NO_CHANGE) & (cause.codes >= 0)
    return changed


def _counted(
    what: str, time: Longs, change: Texts | None, cause: Texts, to_none: Bools, bucket_ms: int
) -> pa.Table:
    width = bucket_ms * _US_PER_MS
    known = time != NO_TIME
    begin = np.where(known, time, 0)
    begin = np.where(known, begin - begin % width, NO_TIME)
    encoded = pa.array(begin).dictionary_encode()
    begins = np.asarray(encoded.dictionary)
    kinds = np.zeros(len(time), dtype=np.int64) if change is None else change.codes
    found = combinations(np.asarray(encoded.indices), kinds, cause.codes)
    size = len(found.rows)
    at = np.asarray(encoded.indices)[found.rows]
    columns: dict[str, Column | pa.Array] = {
        "what": words(np.zeros(size, dtype=np.int32), [what]),
        "from_time": time_array(begins[at] if size else np.zeros(0, dtype=np.int64)),
        "change": pa.nulls(size, pa.string())
        if change is None
        else words(change.codes[found.rows], change.texts),
        "cause": words(cause.codes[found.rows], cause.texts),
        "changes": pa.array(np.bincount(found.codes, minlength=size)),
        "to_none": pa.array(np.bincount(found.codes[to_none], minlength=size)),
    }
    names = [column.name for column in t.CHANGE_COUNTS.columns]
    table = pa.table({name: columns[name] for name in names})
    return table.cast(t.CHANGE_COUNTS.schema)
