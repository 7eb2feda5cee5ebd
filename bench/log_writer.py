"""Arrays of record values -> batches -> segments of a metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import CRC_START, HEADER, HEADER_SIZE, MAGIC, SIZE_PREFIX
from jbodlab.storage.directory.names import log_file

CONTROLLER = 100
START_MS = 1_700_000_000_000

Array = npt.NDArray[Any]


@dataclass
class LogWriter:
    """Puts values into batches and batches into segments."""

    directory: Path
    segment_bytes: int
    random: np.random.Generator
    offset: int = 0
    epoch: int = 0
    now_ms: int = START_MS
    batches: int = 0
    _file: BinaryIO | None = None
    _size: int = 0

    def new_leader(self) -> None:
        """Begin a leader epoch."""
        self.epoch += 1
        data = control_batch(
            LeaderChangeMessage(leader_id=CONTROLLER),
            base_offset=self.offset,
            epoch=self.epoch,
            timestamp_ms=self.now_ms,
        )
        self._write(data)
        self.offset += 1
        self.batches += 1

    def append(self, groups: Sequence[Array], order: Array | None, largest: int) -> None:
        """Write values as batches of 1 to `largest` records.

        Args:
            groups: Values, each array of shape (n, bytes).
            order: Which row of all rows comes first, second, ...; None for the order they have.
            largest: Records of the largest batch.
        """
        total = sum(len(group) for group in groups)
        place = np.arange(total) if order is None else np.argsort(order)
        sizes = self._batch_sizes(total, largest)
        first = np.cumsum(sizes) - sizes
        number = np.arange(total) - np.repeat(first, sizes)
        delta_size = 1 + (number >= 64) + (number >= 8192)
        value_size = np.empty(total, dtype=np.int64)
        begin = 0
        for group in groups:
            value_size[place[begin : begin + len(group)]] = group.shape[1]
            begin += len(group)
        # attributes, time, number, no key, size of the value, value, no headers
        size = 4 + delta_size + _varint_size(value_size) + value_size
        whole = size + _varint_size(size)
        ends = np.cumsum(whole)
        out = np.empty(int(ends[-1]), dtype=np.uint8)
        begin = 0
        for group in groups:
            rows = place[begin : begin + len(group)]
            begin += len(group)
            for bytes_of_delta in (1, 2, 3):
                chosen = np.nonzero(delta_size[rows] == bytes_of_delta)[0]
                if len(chosen):
                    at = rows[chosen]
                    block = _framed(group[chosen], number[at], bytes_of_delta)
                    start = ends[at] - whole[at]
                    out[start[:, None] + np.arange(block.shape[1])] = block
        self._write_batches(out, first + sizes, sizes, ends)

    def _batch_sizes(self, total: int, largest: int) -> Array:
        if largest == 1:
            return np.ones(total, dtype=np.int64)
        # Most batches are small, a few are as large as they may be.
        sizes = np.minimum(
            self.random.geometric(4 / largest, size=total // max(1, largest // 8) + 8), largest
        )
        ends = np.minimum(np.cumsum(sizes), total)
        if ends[-1] < total:
            rest = np.arange(ends[-1] + largest, total + largest, largest)
            ends = np.concatenate([ends, np.minimum(rest, total)])
        ends = np.unique(ends)
        return np.diff(ends, prepend=0)

    def _write_batches(self, out: Array, lasts: Array, sizes: Array, ends: Array) -> None:
        raw = out.tobytes()
        begin = 0
        parts: list[bytes] = []
        steps = self.random.integers(1, 40, size=len(sizes)).tolist()
        for last, count, step in zip(lasts.tolist(), sizes.tolist(), steps, strict=True):
            self.now_ms += step
            end = int(ends[last - 1])
            body = raw[begin:end]
            begin = end
            head = HEADER.pack(
                self.offset,
                HEADER_SIZE - SIZE_PREFIX + len(body),
                self.epoch,
                MAGIC,
                0,
                0,
                count - 1,
                self.now_ms,
                self.now_ms,
                -1,
                -1,
                -1,
                count,
            )
            crc = crc32c(head[CRC_START:] + body)
            parts += (head[:17], crc.to_bytes(4, "big"), head[CRC_START:], body)
            self.offset += count
        self.batches += len(sizes)
        self._write(b"".join(parts), self.offset - int(sizes.sum()))

    def _write(self, data: bytes, base_offset: int | None = None) -> None:
        if self._file is None or self._size + len(data) > self.segment_bytes:
            self.close()
            self.directory.mkdir(parents=True, exist_ok=True)
            base = self.offset if base_offset is None else base_offset
            self._file = (self.directory / log_file(base)).open("wb")
            self._size = 0
        self._file.write(data)
        self._size += len(data)

    def close(self) -> None:
        """Close the last segment."""
        if self._file is not None:
            self._file.close()


def _varint_size(number: Array) -> Array:
    """Return how many bytes the zig-zag varint of a size takes."""
    size: Array = 1 + (number >= 64) + (number >= 8192)
    return size


def _varint(number: Array, size: int) -> Array:
    """Return the zig-zag varints of numbers that take the same number of bytes."""
    zigzag = number << 1
    columns = [
        (zigzag >> 7 * index & 0x7F | (0x80 if index < size - 1 else 0)) for index in range(size)
    ]
    return np.stack(columns, axis=1).astype(np.uint8)


def _framed(values: Array, number: Array, delta_size: int) -> Array:
    """Return whole records of values of one size, their numbers in the batch being given."""
    rows, value_size = values.shape
    value_length = np.full(rows, value_size)
    size_of_length = int(_varint_size(np.array(value_size)))
    size = np.full(rows, 4 + delta_size + size_of_length + value_size)
    zeros = np.zeros((rows, 1), dtype=np.uint8)
    return np.concatenate(
        [
            _varint(size, int(_varint_size(size[:1])[0])),
            zeros,
            zeros,
            _varint(number, delta_size),
            zeros + 1,
            _varint(value_length, size_of_length),
            values,
            zeros,
        ],
        axis=1,
    )
