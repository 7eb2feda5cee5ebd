"""Lists as columns: each distinct list once, and a code per row.

A partition changes often, its lists repeat: two lists are equal if their codes are, and a table's
column of lists is a gather from few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Column, Longs

Codes = npt.NDArray[np.int32]


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
