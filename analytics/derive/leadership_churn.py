"""How often the leader of each partition of a bucket changed, by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_reading import firsts, longs, texts, times
from analytics.derive.change_counts import is_change
from analytics.derive.partition_order import InOrder, PartitionKeys
from jbodlab.ids import NO_LEADER


def leadership_churn(rows: pa.Table, keys: PartitionKeys) -> dict[str, pa.Array] | None:
    """Return the columns of the table of leadership churn; None if no leader changed.

    Args:
        rows: All intervals of leaders of the bucket.
        keys: Numbers of partitions.
    """
    changes = np.nonzero(is_change(texts(rows.column("cause"))))[0]
    if not len(changes):
        return None
    offset = longs(rows.column("valid_from_offset"))[changes]
    order = InOrder(keys.of(rows)[changes], offset)
    changes = changes[order.rows]
    starts = np.nonzero(firsts(order.key))[0]
    last = np.append(starts[1:], len(changes)) - 1
    time = times(rows.column("valid_from_time"))[changes]
    to_none: Longs = (longs(rows.column("leader"))[changes] == NO_LEADER).astype(np.int64)
    heads = pa.array(changes[starts])
    return {name: rows.column(name).take(heads) for name in ("topic", "topic_id", "partition")} | {
        "changes": pa.array(last - starts + 1),
        "to_none": pa.array(np.add.reduceat(to_none, starts)),
        "first_time": time_array(time[starts]),
        "last_time": time_array(time[last]),
    }
