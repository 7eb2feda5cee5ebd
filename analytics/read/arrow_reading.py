"""Columns of tables as NumPy arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bools, Column, Longs
from analytics.read.arrow_columns import TIMESTAMP
from analytics.read.partition_events import NO_TIME

_US_PER_MS = 1000


class Texts(NamedTuple):
    """Texts as numbers: -1 for null."""

    codes: Longs
    texts: list[str]


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.ChunkedArray):
        # Chunks of dictionaries may count differently.
        return column.unify_dictionaries().combine_chunks()
    return column


def longs(column: pa.ChunkedArray | pa.Array, nothing: int = 0) -> Longs:
    """Return numbers, with one in the place of null."""
    numbers = whole(column)
    if not numbers.null_count:
        return np.asarray(numbers).astype(np.int64)
    return np.asarray(pc.fill_null(numbers.cast(pa.int64()), nothing))


def times(column: pa.ChunkedArray) -> Longs:
    """Return microseconds since 1970, NO_TIME where it is not known."""
    micros = whole(column).cast(TIMESTAMP).cast(pa.int64())
    return longs(micros, NO_TIME)


def texts(column: pa.ChunkedArray) -> Texts:
    """Return texts as numbers."""
    coded = whole(column)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return Texts(longs(coded.indices, -1), coded.dictionary.to_pylist())


def milliseconds(start: Longs, end: Longs, unknown: Bools | None = None) -> pa.Array:
    """Return the milliseconds from one time to another, null where one is not known."""
    missing = (start == NO_TIME) | (end == NO_TIME)
    if unknown is not None:
        missing |= unknown
    spans = np.where(missing, 0, end) // _US_PER_MS - np.where(missing, 0, start) // _US_PER_MS
    return pa.array(spans, mask=missing)


def elements(lists: pa.ChunkedArray) -> tuple[Longs, Longs]:
    """Return the elements of lists, and the row that each is from."""
    one = whole(lists)
    rows = np.asarray(pc.list_parent_indices(one)).astype(np.int64)
    return rows, np.asarray(pc.list_flatten(one)).astype(np.int64)


def lengths(lists: pa.ChunkedArray) -> Longs:
    """Return the numbers of elements of lists."""
    return longs(pc.list_value_length(whole(lists)))


def firsts(*columns: Column) -> Bools:
    """Return the rows at which one of some columns, sorted by them, changes."""
    size = len(columns[0])
    found = np.ones(size, dtype=np.bool_)
    if size:
        found[1:] = False
        for column in columns:
            found[1:] |= column[1:] != column[:-1]
    return found
