"""Texts put together from pieces: one memory copy per piece, no object per row.

Every row is a sequence of pieces, and a piece is a number: its place in one dictionary of texts.
Pieces that return (`,"leader":3`) are made once for the process; others, as the ids of topics, are
added for the rows at hand. Taking all pieces of all rows from the dictionary, in order, gives one
array whose bytes are the rows' texts already: every so many pieces a row ends.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bytes, Column, Longs

Pieces = npt.NDArray[np.int32]

SMALL_MIN = -2
SMALL_MAX = 253
"""Numbers whose pieces are made in advance; -1 and -2 are what Kafka uses beside real ones."""
SMALL_COUNT = SMALL_MAX - SMALL_MIN + 1

_STANDING_STEP = 8192

ID_CHARS = 22
_ID_BYTES = 16
_ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8
)


class _Standing:
    """The pieces that stay for the life of the process, whose threads share them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.places: dict[object, tuple[int, int]] = {}
        """Where the texts of a key begin and end."""
        self.array: pa.Array | None = None
        self.lock = Lock()

    def place(self, key: object, make: Callable[[], list[str]], limit: int) -> int | None:
        """Return where the texts of a key begin, after making them if they are new.

        None if there is no place for them below a limit.
        """
        with self.lock:
            if key not in self.places:
                texts = make()
                begin, end = len(self.texts), len(self.texts) + len(texts)
                if end > limit:
                    return None
                self.places[key] = begin, end
                self.texts += texts
                self.array = None
            begin, end = self.places[key]
            return begin if end <= limit else None

    def as_array(self, limit: int) -> pa.Array:
        """Return the texts below a limit; others may have come behind them."""
        with self.lock:
            if self.array is None:
                self.array = pa.array(self.texts, type=pa.string())
            return self.array[:limit]


_standing = _Standing()


class Dictionary:
    """The pieces of some rows: those that stay and, behind them, those of these rows only."""

    def __init__(self) -> None:
        self._own: list[pa.Array] = []
        self._own_count = 0
        # With room for standing pieces that are made while these rows are put together.
        self._first_own = (len(_standing.texts) // _STANDING_STEP + 2) * _STANDING_STEP

    def piece(self, text: str) -> int:
        """Return the place of a text that returns."""
        return self._place(text, lambda: [text])

    def small_numbers(self, before: str, after: str = "") -> int:
        """Return the place of the text of 0, between two texts; others lie around it."""
        return -SMALL_MIN + self._place(
            (before, after),
            lambda: [f"{before}{number}{after}" for number in range(SMALL_MIN, SMALL_MAX + 1)],
        )

    def small_numbers_in_list(self, name: str) -> int:
        """Return the place of 0 in the middle of a list; see `around` for the other places."""
        return -SMALL_MIN + self._place(
            ("list", name),
            lambda: [
                f"{before}{number}{after}"
                for before, after in around(name)
                for number in range(SMALL_MIN, SMALL_MAX + 1)
            ],
        )

    def _place(self, key: object, make: Callable[[], list[str]]) -> int:
        place = _standing.place(key, make, self._first_own)
        return self.add(pa.array(make(), type=pa.string())) if place is None else place

    def add(self, *texts: pa.Array) -> int:
        """Add texts of these rows and return the place of the first one."""
        place = self._first_own + self._own_count
        self._own += texts
        self._own_count += sum(map(len, texts))
        return place

    def take(self, pieces: Pieces) -> pa.Array:
        """Return the texts at places."""
        standing = _standing.as_array(self._first_own)
        if not self._own:
            return taken(standing, pa.array(pieces))
        empty = pa.repeat(pa.scalar(""), self._first_own - len(standing))
        return taken(pa.concat_arrays([standing, empty, *self._own]), pa.array(pieces))


def around(name: str) -> tuple[tuple[str, str], ...]:
    """Return what stands around an element of a list.

    In the order of places: in the middle, as the first one, as the last one, as the only one. So
    that an element's place is moved once if it is the first, and twice as far if it is the last.
    """
    return (",", ""), (f"{name}[", ""), (",", "]"), (f"{name}[", "]")


def taken(texts: pa.Array, places: pa.Array) -> pa.Array:
    """Return the texts at places that are known to be there; null where a place is."""
    return pc.take(texts, places)


def joined(pieces: pa.Array, row_ends: Longs, nulls: Column | None = None) -> pa.Array:
    """Return the texts of rows from the texts of their pieces.

    Args:
        pieces: The pieces' texts, those of the first row first.
        row_ends: Shape (n + 1,): how many pieces lie before row i, and behind the last one.
        nulls: Rows that are null; None if no row is.
    """
    _, offsets_buffer, bytes_buffer = pieces.buffers()
    assert pieces.offset == 0
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32, count=len(pieces) + 1)
    validity = None
    if nulls is not None:
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.StringArray.from_buffers(
        len(row_ends) - 1,
        pa.py_buffer(offsets[row_ends]),
        bytes_buffer,
        validity,
    )


def strings(offsets: Longs, values: Bytes) -> pa.Array:
    """Return an Arrow array of strings from the bytes of UTF-8 strings."""
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values)
    )


def id_texts(ids: Bytes) -> pa.Array:
    """Return the 22-character texts of ids, shape (n, 16)."""
    padded = np.zeros((len(ids), 18), dtype=np.uint8)
    padded[:, :_ID_BYTES] = ids
    first, second, third = (padded[:, start::3] for start in range(3))
    codes = np.empty((len(ids), 24), dtype=np.uint8)
    codes[:, 0::4] = first >> 2
    codes[:, 1::4] = (first & 0x03) << 4 | second >> 4
    codes[:, 2::4] = (second & 0x0F) << 2 | third >> 6
    codes[:, 3::4] = third & 0x3F
    texts = np.ascontiguousarray(_ALPHABET[codes[:, :ID_CHARS]])
    offsets = np.arange(0, (len(ids) + 1) * ID_CHARS, ID_CHARS, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(texts))


def distinct_ids(ids: Bytes) -> tuple[Pieces, pa.Array]:
    """Return for each id which of the distinct ones it is, and the texts of these.

    Args:
        ids: Shape (n, 16).
    """
    halves = np.ascontiguousarray(ids).view(np.uint64).reshape(-1, 2)
    low = np.ascontiguousarray(halves[:, 1])
    encoded = pa.array(low).dictionary_encode()
    codes: Pieces = encoded.indices.to_numpy(zero_copy_only=False)
    row = np.empty(len(encoded.dictionary), dtype=np.int64)
    row[codes] = np.arange(len(codes))  # of each distinct half, some row that has it
    high = halves[:, 0]
    if (high[row][codes] == high).all():
        return codes, id_texts(ids[row])
    # Ids that differ in their first half only: as a whole, which takes twice as long.
    raw = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_ID_BYTES), len(ids), [None, pa.py_buffer(halves)]
    )
    encoded = raw.dictionary_encode()
    distinct = np.frombuffer(encoded.dictionary.buffers()[1], dtype=np.uint8)
    distinct = distinct[: len(encoded.dictionary) * _ID_BYTES].reshape(-1, _ID_BYTES)
    return encoded.indices.to_numpy(zero_copy_only=False), id_texts(distinct)


def distinct_numbers(numbers: Column) -> tuple[Pieces, pa.Array]:
    """Return for each number which of the distinct ones it is, and the texts of these."""
    encoded = pa.array(numbers).dictionary_encode()
    return (
        encoded.indices.to_numpy(zero_copy_only=False),
        encoded.dictionary.cast(pa.string()),
    )
