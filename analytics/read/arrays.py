"""Steps on NumPy arrays that decoding by columns is made of.

Positions are int64 arrays into one uint8 array. Reads never leave that array: a position behind its
end reads other bytes instead, and whoever asked finds out by comparing positions with ends, because
positions only ever grow.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
"""One value per row, of whatever type."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

MAX_FIXED_BYTES = 16
"""The widest value that `fixed` reads; shorter data must be padded to it."""

MAX_VARINT = 2**32 - 1
MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


class Numbers(NamedTuple):
    """Result of reading a varint per row."""

    values: Longs
    position: Longs
    """The positions behind them."""
    bad: Bools | None
    """Rows whose varint is too long or too large; None if there are none."""


def padded(data: Bytes) -> Bytes:
    """Return the data, with zeros behind it if it is too short to read from."""
    if len(data) >= MAX_FIXED_BYTES:
        return data
    return np.concatenate([data, np.zeros(MAX_FIXED_BYTES, dtype=np.uint8)])


def fixed(data: Bytes, position: Longs, code: str) -> Column:
    """Return the value of fixed size that stands at each position.

    Args:
        data: At least 16 bytes.
        position: Where to read, not negative.
        code: Type of the value as NumPy names it, big-endian, such as ``>i4`` or ``V16``.
    """
    dtype = np.dtype(code)
    if dtype.itemsize == 1:
        return data.take(position, mode="clip").view(dtype)
    # One item begins at each byte: gathering it costs one copy of its size.
    windows: Column = np.ndarray(
        (len(data) - dtype.itemsize + 1,), dtype=dtype, buffer=data, strides=data.strides
    )
    values: Column = windows[np.minimum(position, len(windows) - 1)]
    return values if dtype.kind == "V" else values.astype(dtype.newbyteorder("="))


def unsigned_varints(data: Bytes, position: Longs) -> Numbers:
    """Read an unsigned varint of at most 32 bits per row."""
    numbers, behind, long = _short_varints(data, position)
    if long is None:
        return Numbers(numbers, behind, None)
    found, size, bad = _long_varints(data, position[long], MAX_VARINT_BYTES)
    bad |= found > MAX_VARINT
    behind[long] = position[long] + size
    numbers[long] = found.astype(np.int64)
    return Numbers(numbers, behind, _mask(len(numbers), long[bad]))


def signed_varints(data: Bytes, position: Longs, max_bytes: int = MAX_VARINT_BYTES) -> Numbers:
    """Read a zig-zag varint per row; one whose number needs more than 64 bits is bad."""
    numbers, behind, long = _short_varints(data, position)
    values = (numbers >> 1) ^ -(numbers & 1)
    if long is None:
        return Numbers(values, behind, None)
    found, size, bad = _long_varints(data, position[long], max_bytes)
    behind[long] = position[long] + size
    one = np.uint64(1)
    values[long] = (found >> one).astype(np.int64) ^ -(found & one).astype(np.int64)
    return Numbers(values, behind, _mask(len(values), long[bad]))


def spread(starts: Longs, counts: Longs, step: int = 1) -> Longs:
    """Return starts[i], starts[i] + step, ..., counts[i] numbers for each i, one behind another."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    positions = np.repeat(starts - (ends - counts) * step, counts)
    positions += np.arange(0, total * step, step, dtype=np.int64)
    return positions


def offsets_of(counts: Longs) -> Longs:
    """Return where the elements of each row begin, and behind the last one where all end."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _short_varints(
    data: Bytes, position: Longs
) -> tuple[Longs, Longs, npt.NDArray[np.intp] | None]:
    """Read varints of one or two bytes: numbers, positions behind them, the rows with longer ones.

    Nearly all are this short, and most of one byte.
    """
    first = data.take(position, mode="clip")
    numbers = first.astype(np.int64)
    behind = position + 1
    if not len(first) or first.max() < 0x80:
        return numbers, behind, None
    two = first >= 0x80
    second = data.take(behind, mode="clip")
    second *= two
    numbers += (second.astype(np.int64) - two) << 7  # the first byte's upper bit counts 128
    behind += two
    return numbers, behind, None if second.max() < 0x80 else np.nonzero(second >= 0x80)[0]


def _long_varints(
    data: Bytes, position: Longs, max_bytes: int
) -> tuple[npt.NDArray[np.uint64], Longs, Bools]:
    """Read varints of any length: numbers, sizes, and which are too long or too large."""
    numbers = np.zeros(len(position), dtype=np.uint64)
    size = np.zeros(len(position), dtype=np.int64)
    bad = np.zeros(len(position), dtype=np.bool_)
    open_rows = np.arange(len(position))
    for index in range(max_bytes):
        byte = data.take(position[open_rows] + index, mode="clip").astype(np.uint64)
        if index == MAX_VARLONG_BYTES - 1:
            bad[open_rows[byte > 1]] = True  # beyond 64 bits
        numbers[open_rows] |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        size[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
        if not len(open_rows):
            return numbers, size, bad
    bad[open_rows] = True
    return numbers, size, bad


def _mask(length: int, rows: npt.NDArray[np.intp]) -> Bools | None:
    if not len(rows):
        return None
    mask = np.zeros(length, dtype=np.bool_)
    mask[rows] = True
    return mask
