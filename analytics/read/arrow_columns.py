"""NumPy columns as Arrow arrays, and arrays that many batches share.

Texts that repeat are dictionaries, which Parquet's writer takes as they are. A number that is not
known is NOTHING.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Bools, Column, Longs
from analytics.read.lists import Interned, combinations
from analytics.read.partition_events import NO_TIME
from analytics.read.plain_rows import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from jbodlab.vocabulary import kafka_uuid

NOTHING = -(2**62)
"""Stands for null in columns of int64."""

TIMESTAMP = pa.timestamp("us", tz="UTC")


def ints(values: Column) -> pa.Array:
    """Return numbers of 32 bits, null where the value is NOTHING."""
    if values.dtype != np.int64:
        return pa.array(values.astype(np.int32, copy=False))
    nothing = values == NOTHING
    mask = nothing if nothing.any() else None
    return pa.array(np.where(nothing, 0, values).astype(np.int32), mask=mask)


def longs(values: Column, nothing: Bools | None = None) -> pa.Array:
    """Return numbers of 64 bits, null where it is said."""
    return pa.array(values, mask=nothing if nothing is not None and nothing.any() else None)


def times(values: Column, nothing: Bools | None = None) -> pa.Array:
    """Return moments, null where they are not known or where it is said."""
    mask = values == NO_TIME
    if nothing is not None:
        mask = mask | nothing
    return pa.array(values, mask=mask if mask.any() else None).cast(TIMESTAMP)


def words(codes: Column, texts: Sequence[str]) -> pa.Array:
    """Return texts by their place in a list, null where that is negative."""
    mask = codes < 0
    indices = pa.array(codes.astype(np.int32), mask=mask if mask.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, type=pa.string()))


def ids(values: Column, known: Bools | None = None) -> pa.Array:
    """Return the texts of ids, shape (n, 16); null where not known."""
    codes = np.full(len(values), -1, dtype=np.int32)
    rows = np.arange(len(values)) if known is None else np.nonzero(known)[0]
    halves = np.ascontiguousarray(values[rows]).view(np.int32).reshape(-1, 4)
    found = combinations(*halves.T)
    codes[rows] = found.codes
    return words(codes, id_texts(values[rows[found.rows]]))


def id_texts(values: Column) -> list[str]:
    """Return ids in Kafka's text form."""
    return [kafka_uuid.to_text(UUID(bytes=value.tobytes())) for value in values]


def int_lists(lists: Interned) -> pa.Array:
    """Return lists of numbers."""
    offsets = pa.array(lists.distinct.offsets.astype(np.int32))
    distinct = pa.ListArray.from_arrays(offsets, pa.array(lists.distinct.values))
    return distinct.take(pa.array(lists.codes))


def id_lists(lists: Interned) -> pa.Array:
    """Return lists of the texts of ids."""
    offsets = pa.array(lists.distinct.offsets.astype(np.int32))
    distinct = pa.ListArray.from_arrays(offsets, ids(lists.distinct.values).cast(pa.string()))
    return distinct.take(pa.array(lists.codes))


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


@lru_cache(maxsize=16)
def _constant(value: object, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), size)


def nulls(size: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls, shared as well."""
    return _nulls(1 << max(12, (size - 1).bit_length()), kind)[:size]


@lru_cache(maxsize=16)
def _nulls(size: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(size, kind)


def slices(size: int, rows: int) -> Iterator[slice]:
    """Yield slices of at most so many rows."""
    for start in range(0, size, rows):
        yield slice(start, min(size, start + rows))
