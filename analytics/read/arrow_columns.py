"""NumPy columns as Arrow arrays, and arrays that many batches share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Bools, Column, Longs
from analytics.read.plain_rows import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

TIMESTAMP = pa.timestamp("us", tz="UTC")


def longs(values: Column, nothing: Bools | None = None) -> pa.Array:
    """Return numbers of 64 bits, null where it is said."""
    return pa.array(values, mask=nothing if nothing is not None and nothing.any() else None)


def times_of_ms(timestamp_ms: Longs) -> pa.Array:
    """Return Arrow timestamps; times that Spark's timestamps cannot hold are null."""
    if not len(timestamp_ms) or (
        timestamp_ms.min() >= MIN_TIMESTAMP_MS and timestamp_ms.max() <= MAX_TIMESTAMP_MS
    ):
        return pa.Array.from_buffers(
            TIMESTAMP, len(timestamp_ms), [None, pa.py_buffer(timestamp_ms * 1000)]
        )
    outside = (timestamp_ms < MIN_TIMESTAMP_MS) | (timestamp_ms > MAX_TIMESTAMP_MS)
    return pa.array(np.where(outside, 0, timestamp_ms) * 1000, mask=outside).cast(TIMESTAMP)


def constant(value: object, size: int) -> pa.Array:
    """Return an array of one value, which is shared by all that are as long or shorter."""
    return _constant(value, 1 << max(12, (size - 1).bit_length()))[:size]


@lru_cache(maxsize=32)
def _constant(value: object, size: int) -> pa.Array:
    return pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value), size)


def nulls(size: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls, shared as well."""
    return constant(pa.scalar(None, kind), size)


def slices(size: int, rows: int) -> Iterator[slice]:
    """Yield slices of at most so many rows."""
    for start in range(0, size, rows):
        yield slice(start, min(size, start + rows))
