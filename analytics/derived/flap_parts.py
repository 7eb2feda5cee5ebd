"""Summaries of ISR changes by columns, one per replica."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from analytics.columns.arrays import Column, Longs
from analytics.table import INT, LONG, STRING

COLUMNS = ("topic", "topic_id", "partition", "offset", "time", "joined", "left", "cause")
"""What is read of the table of ISR changes."""

PARTS = StructType(
    [
        StructField("topic", STRING),
        StructField("topic_id", STRING),
        StructField("partition", INT),
        StructField("broker", INT),
        StructField("first_offset", LONG),
        StructField("first_us", LONG),
        StructField("last_us", LONG),
        StructField("first_out_us", LONG),
        StructField("shrinks", LONG),
        StructField("expands", LONG),
        StructField("out_ms", LONG),
        StructField("out_ms_max", LONG),
        StructField("open_us", LONG),
    ]
)
"""One summary; `open_us` is when the replica left, if it was out at the end of the stretch."""

REASSIGNMENT = "reassignment"
"""A replica that a reassignment removed has not fallen out."""

_US_PER_MS = 1000
_NEVER = np.iinfo(np.int64).max


def flap_parts(rows: pa.Table) -> pa.RecordBatch:
    """Sum up rows of ISR changes.

    Args:
        rows: `COLUMNS`, in any order, of one stretch of time per partition.

    Returns:
        Rows of schema `PARTS`.
    """
    schema = to_arrow_schema(PARTS)
    topic = _codes(rows.column("topic_id"))
    partition = _ints(rows.column("partition"))
    offset, time = _ints(rows.column("offset")), _times(rows.column("time"))
    removed = np.asarray(
        pc.fill_null(pc.equal(rows.column("cause"), REASSIGNMENT), False).to_numpy()
    )
    left_row, left = _elements(rows.column("left"))
    stays = ~removed[left_row]
    left_row, left = left_row[stays], left[stays]
    joined_row, joined = _elements(rows.column("joined"))
    row = np.concatenate([left_row, joined_row])
    if not len(row):
        return pa.RecordBatch.from_pylist([], schema=schema)
    broker = np.concatenate([left, joined])
    out = np.arange(len(row)) < len(left_row)
    order = np.lexsort((offset[row], broker, partition[row], topic[row]))
    row, broker, out = row[order], broker[order], out[order]
    first = np.ones(len(row), dtype=np.bool_)
    first[1:] = (
        (broker[1:] != broker[:-1])
        | (partition[row[1:]] != partition[row[:-1]])
        | (topic[row[1:]] != topic[row[:-1]])
    )
    starts = np.nonzero(first)[0]
    last = np.append(starts[1:], len(row)) - 1
    us = time[row]
    out_ms = np.zeros(len(row), dtype=np.int64)
    out_ms[:-1] = np.maximum((us[1:] - us[:-1]) // _US_PER_MS, 0)
    out_ms[~out] = 0
    out_ms[last] = 0
    first_out: Longs = np.minimum.reduceat(np.where(out, us, _NEVER), starts)
    shrinks: Longs = np.add.reduceat(out.astype(np.int64), starts)
    heads = pa.array(row[starts])
    columns = {
        "topic": rows.column("topic").take(heads),
        "topic_id": rows.column("topic_id").take(heads),
        "partition": partition[row[starts]].astype(np.int32),
        "broker": broker[starts].astype(np.int32),
        "first_offset": offset[row[starts]],
        "first_us": us[starts],
        "last_us": us[last],
        "first_out_us": pa.array(first_out, mask=first_out == _NEVER),
        "shrinks": shrinks,
        "expands": last - starts + 1 - shrinks,
        "out_ms": np.add.reduceat(out_ms, starts),
        "out_ms_max": np.maximum.reduceat(out_ms, starts),
        "open_us": pa.array(us[last], mask=~out[last]),
    }
    arrays = [_array(columns[field.name]).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _elements(lists: pa.ChunkedArray) -> tuple[Longs, Longs]:
    """Return the elements of lists, and the row that each is from."""
    whole = _array(lists)
    rows = np.asarray(pc.list_parent_indices(whole)).astype(np.int64)
    return rows, np.asarray(pc.list_flatten(whole)).astype(np.int64)


def _codes(texts: pa.ChunkedArray) -> Column:
    whole = _array(texts)
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    return np.asarray(whole.indices)


def _ints(column: pa.ChunkedArray) -> Longs:
    return np.asarray(_array(column)).astype(np.int64)


def _times(column: pa.ChunkedArray) -> Longs:
    micros = _array(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return np.asarray(pc.fill_null(micros, 0)).astype(np.int64)


def _array(values: pa.ChunkedArray | pa.Array | Column) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values)
    if isinstance(values, pa.ChunkedArray):
        # Chunks of dictionaries may count differently.
        return values.unify_dictionaries().combine_chunks()
    return values
