"""When the partitions of a bucket lived, by columns.

The life of a partition is the time in which it has replicas anywhere. Partitions of a topic mostly
begin and end together, so that equal lives are counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_reading import FOR_EVER, firsts
from analytics.decode.partition_events import NO_TIME
from analytics.derive.placement_steps import Placements
from analytics.tables.table import LONG, STRING, TIME

LIFE = pa.schema(
    [
        pa.field("topic", STRING),
        pa.field("topic_id", STRING),
        pa.field("from_time", TIME),
        pa.field("to_time", TIME),
        pa.field("count", LONG),
    ]
)
"""So many partitions of a topic lived from then to then."""


def lives(placed: Placements, end_us: int | None) -> dict[str, pa.Array]:
    """Return the columns of LIFE.

    Args:
        placed: The placements of the bucket.
        end_us: End of the log, microseconds since 1970; None if it is not known.
    """
    end = NO_TIME if end_us is None else end_us
    starts = np.nonzero(firsts(placed.key))[0]
    if not len(starts):
        starts = np.zeros(0, dtype=np.int64)
        begin = until = key = starts
    else:
        since = np.where(placed.since_time == NO_TIME, FOR_EVER, placed.since_time)
        begin = np.minimum.reduceat(since, starts)
        begin = np.where(begin == FOR_EVER, NO_TIME, begin)
        is_open = placed.until == FOR_EVER
        until = np.maximum.reduceat(np.where(is_open, end, placed.until_time), starts)
        key = placed.key[starts] >> 32
    order = np.lexsort((until, begin, key))
    first: Longs = np.nonzero(firsts(key[order], begin[order], until[order]))[0]
    heads = order[first]
    chosen = placed.rows.take(pa.array(starts[heads]))
    return {name: chosen.column(name) for name in ("topic", "topic_id")} | {
        "from_time": time_array(begin[heads]),
        "to_time": time_array(until[heads]),
        "count": pa.array(np.append(first[1:], len(order))[: len(first)] - first),
    }
