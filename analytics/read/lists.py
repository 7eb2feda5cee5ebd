"""Lists as columns: each distinct list once, and a code per row.

A partition changes often, its lists repeat: two lists are equal if their codes are, and a table's
column of lists is a gather from few.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Column, Longs, offsets_of, spread

Codes = npt.NDArray[np.int32]

ID_BYTES = 16

MATRIX_WIDTH = 16
"""Longest list that is compared as a row of a matrix."""


class Ragged(NamedTuple):
    """A list per row: the elements of row i are values[offsets[i] : offsets[i + 1]].

    The values are int32, or ids of shape (m, 16).
    """

    offsets: Longs
    values: Column

    @property
    def lengths(self) -> Longs:
        """Number of elements of each row."""
        return np.diff(self.offsets)

    def take(self, rows: Column) -> Ragged:
        """Return the lists of some rows."""
        counts = self.lengths[rows]
        return Ragged(offsets_of(counts), self.values[spread(self.offsets[rows], counts)])

    def to_lists(self) -> list[list[Any]]:
        """Return the rows as lists; of ids, each is a list of numbers."""
        values, bounds = self.values.tolist(), self.offsets.tolist()
        return [values[low:high] for low, high in pairwise(bounds)]


class Interned(NamedTuple):
    """Distinct lists, and which of them each row has."""

    codes: Codes
    distinct: Ragged


def ragged(offsets: Longs, values: Column) -> Ragged:
    """Return lists with values of the one type that this module knows for them."""
    if values.ndim == 1:
        values = values.astype(np.int32, copy=False)
    return Ragged(offsets, np.ascontiguousarray(values))


def of_lists(lists: Sequence[Sequence[int]]) -> Ragged:
    """Return lists of numbers."""
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    flat = [value for values in lists for value in values]
    return Ragged(offsets_of(counts), np.array(flat, dtype=np.int32))


def of_id_lists(lists: Sequence[Sequence[bytes]]) -> Ragged:
    """Return lists of ids."""
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    flat = b"".join(value for values in lists for value in values)
    return Ragged(
        offsets_of(counts), np.frombuffer(flat, dtype=np.uint8).reshape(-1, ID_BYTES).copy()
    )


def concatenated(parts: Sequence[Ragged]) -> Ragged:
    """Return the rows of several, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    offsets = [parts[0].offsets]
    end = int(parts[0].offsets[-1])
    for part in parts[1:]:
        offsets.append(part.offsets[1:] + end)
        end += int(part.offsets[-1])
    return Ragged(np.concatenate(offsets), np.concatenate([part.values for part in parts]))


def intern(lists: Ragged) -> Interned:
    """Find the distinct lists."""
    width = lists.values.dtype.itemsize * (ID_BYTES if lists.values.ndim == 2 else 1)
    size = len(lists.offsets) - 1
    encoded = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        size,
        [None, pa.py_buffer(lists.offsets * width), pa.py_buffer(lists.values)],
    ).dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int32, copy=False)
    dictionary = encoded.dictionary
    _, offsets_buffer, data = dictionary.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64, count=len(dictionary) + 1)
    offsets = offsets // width
    raw = b"" if data is None else data
    values = np.frombuffer(raw, dtype=lists.values.dtype)
    if lists.values.ndim == 2:
        values = values[: len(values) // ID_BYTES * ID_BYTES].reshape(-1, ID_BYTES)
    return Interned(codes, Ragged(offsets, values[: int(offsets[-1]) if len(offsets) else 0]))


def merged(parts: Sequence[Interned]) -> Interned:
    """Bring the codes of several together, rows one behind the other."""
    found = intern(concatenated([part.distinct for part in parts]))
    codes = []
    base = 0
    for part in parts:
        count = len(part.distinct.offsets) - 1
        codes.append(found.codes[base : base + count][part.codes])
        base += count
    return Interned(np.concatenate(codes), found.distinct)


class Pairs(NamedTuple):
    """Distinct combinations of columns of codes, and which of them each row has."""

    codes: Codes
    rows: Longs
    """For each combination, one row that has it."""


def combinations(*columns: Column) -> Pairs:
    """Find the distinct combinations of some columns of numbers; each may use 32 bits."""
    size = len(columns[0])
    codes = np.zeros(size, dtype=np.int64)
    for column in columns:
        combined = codes << 32 | (column.astype(np.int64) & 0xFFFFFFFF)
        encoded = pa.array(combined).dictionary_encode()
        codes = np.asarray(encoded.indices).astype(np.int64)
    count = int(codes.max()) + 1 if size else 0
    rows = np.zeros(count, dtype=np.int64)
    rows[codes[::-1]] = np.arange(size - 1, -1, -1, dtype=np.int64)
    return Pairs(codes.astype(np.int32), rows)


def members(elements: Ragged, container: Ragged) -> npt.NDArray[np.bool_]:
    """Return for each element of each list whether the other list of that row has it."""
    rows = np.repeat(np.arange(len(elements.offsets) - 1), elements.lengths)
    width = int(container.lengths.max(initial=0))
    if width <= MATRIX_WIDTH:
        counts = container.lengths
        inside = np.arange(max(width, 1)) < counts[:, None]
        matrix = np.zeros(inside.shape, dtype=np.int32)
        matrix[inside] = container.values[spread(container.offsets[:-1], counts)]
        found: npt.NDArray[np.bool_] = (
            (matrix[rows] == elements.values[:, None]) & inside[rows]
        ).any(axis=1)
        return found
    owners = np.repeat(np.arange(len(container.offsets) - 1), container.lengths)
    mine = rows << 32 | (elements.values.astype(np.int64) & 0xFFFFFFFF)
    theirs = owners << 32 | (container.values.astype(np.int64) & 0xFFFFFFFF)
    return np.isin(mine, theirs)


def kept(lists: Ragged, keep: npt.NDArray[np.bool_]) -> Ragged:
    """Return lists without some of their elements."""
    running = np.zeros(len(keep) + 1, dtype=np.int64)
    np.cumsum(keep, out=running[1:])
    return Ragged(running[lists.offsets], lists.values[keep])
