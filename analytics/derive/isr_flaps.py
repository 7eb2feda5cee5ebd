"""How often, and how long, each replica of a bucket was out of the ISR, by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Longs
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_reading import elements, firsts, longs, texts, times
from analytics.decode.partition_events import NO_TIME
from analytics.derive.partition_order import PartitionKeys
from analytics.derive.placement_steps import Placements

_REASSIGNMENT = frozenset(("reassignment",))
"""A replica that a reassignment removed has not fallen out."""

_US_PER_MS = 1000
_NEVER = np.iinfo(np.int64).max


def isr_flaps(
    rows: pa.Table, keys: PartitionKeys, placed: Placements, end_us: int | None
) -> dict[str, pa.Array] | None:
    """Return the columns of the table of ISR flaps; None if no replica left.

    Args:
        rows: All changes of the ISR of the bucket, in any order.
        keys: Numbers of partitions.
        placed: The placements of the bucket; a replica is out no longer than it is placed.
        end_us: End of the log, microseconds since 1970; None if it is not known.
    """
    removed = texts(rows.column("cause")).where_in(_REASSIGNMENT)
    left_row, left = elements(rows.column("left"))
    stays = ~removed[left_row]
    left_row, left = left_row[stays], left[stays]
    joined_row, joined = elements(rows.column("joined"))
    row = np.concatenate([left_row, joined_row])
    if not len(left_row):
        return None
    broker = np.concatenate([left, joined])
    out = np.arange(len(row)) < len(left_row)
    key = keys.of(rows)[row]
    offset = longs(rows.column("offset"))[row]
    order = np.lexsort((offset, broker, key))
    row, broker, out, key = row[order], broker[order], out[order], key[order]
    starts = np.nonzero(firsts(key, broker))[0]
    last = np.append(starts[1:], len(row)) - 1
    us = times(rows.column("time"))[row]

    until = np.append(us[1:], NO_TIME)
    until[last] = _gone(placed, key[starts], broker[starts], end_us)
    known = out & (us != NO_TIME) & (until != NO_TIME)
    out_ms = np.where(known, until, 0) - np.where(known, us, 0)
    out_ms = np.maximum(out_ms // _US_PER_MS, 0)

    shrinks: Longs = np.add.reduceat(out.astype(np.int64), starts)
    first_out: Longs = np.minimum.reduceat(np.where(out, us, _NEVER), starts)
    total: Longs = np.add.reduceat(out_ms, starts)
    longest: Longs = np.maximum.reduceat(out_ms, starts)
    fell = shrinks > 0
    heads = pa.array(row[starts[fell]])
    return {name: rows.column(name).take(heads) for name in ("topic", "topic_id", "partition")} | {
        "broker": pa.array(broker[starts[fell]].astype(np.int32)),
        "shrinks": pa.array(shrinks[fell]),
        "expands": pa.array((last - starts + 1 - shrinks)[fell]),
        "first_time": time_array(first_out[fell]),
        "last_time": time_array(us[last[fell]]),
        "out_ms_total": pa.array(total[fell]),
        "out_ms_max": pa.array(longest[fell]),
    }


def _gone(placed: Placements, key: Longs, broker: Longs, end_us: int | None) -> Longs:
    """Return until when each replica was placed anywhere, the end of the log if it still is."""
    end = NO_TIME if end_us is None else end_us
    starts = np.nonzero(firsts(placed.key, placed.broker))[0]
    if not len(starts):
        return np.full(len(key), end, dtype=np.int64)
    is_open: Bools = placed.until_time == NO_TIME
    latest = np.maximum.reduceat(np.where(is_open, end, placed.until_time), starts)
    known = dict(
        zip(
            zip(placed.key[starts].tolist(), placed.broker[starts].tolist(), strict=True),
            latest.tolist(),
            strict=True,
        )
    )
    pairs = zip(key.tolist(), broker.tolist(), strict=True)
    return np.array([known.get(pair, end) for pair in pairs], dtype=np.int64)
