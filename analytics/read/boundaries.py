"""Where batches begin in the middle of a segment, without reading what lies before.

A batch is believed to begin at a byte if it can be one, if its CRC is right, and if what follows it
is the header of a batch that continues its offsets. A task that reads the bytes up to a boundary
checks it again: the chain of batches must end there, at that offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analytics.read.arrays import Bytes
from analytics.read.batch_headers import MAX_OFFSET, chain, crc_is_right, headers
from jbodlab.record_batch.record_batch import CONTROL, HEADER_SIZE, MAGIC

WINDOW_BYTES = 1 << 16
"""Bytes that are looked through at once; most batches are smaller."""

SEARCH_BYTES = 16 << 20
"""How far a boundary is looked for: twice the largest batch that Kafka's controller writes."""

Read = Callable[[int, int], bytes]
"""Returns bytes of a file by position and length."""

_KNOWN_ATTRIBUTES = 0x7F


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The beginning of a batch in a file, and what its header says."""

    file: str
    position: int
    base_offset: int
    epoch: int | None
    """Leader epoch; None if it was not read."""
    begins_epoch: bool = True
    """Whether an epoch may begin with it: whether it is a control batch."""


def find_boundary(
    read: Read, file: str, size: int, position: int, after_offset: int
) -> Boundary | None:
    """Return the first batch at or behind a position that has a batch behind it."""
    last = min(size - 2 * HEADER_SIZE, position + SEARCH_BYTES)
    start = position
    while start <= last:
        window = read(start, min(WINDOW_BYTES, size - start))
        if len(window) < HEADER_SIZE:
            return None
        data = np.frombuffer(window, dtype=np.uint8)
        for candidate in _candidates(data, size - start, after_offset):
            found = _check(read, start + candidate, size)
            if found is not None and found[0] > after_offset:
                base_offset, epoch, begins_epoch = found
                return Boundary(
                    file=file,
                    position=start + candidate,
                    base_offset=base_offset,
                    epoch=epoch,
                    begins_epoch=begins_epoch,
                )
        start += len(window) - HEADER_SIZE + 1
    return None


def _candidates(data: Bytes, bytes_left: int, after_offset: int) -> list[int]:
    """Return the positions at which the header of a batch may stand."""
    count = len(data) - HEADER_SIZE + 1

    def byte(index: int) -> Bytes:
        return data[index : index + count]

    # Offsets below 2^56, lengths below 2^28, epochs and counts that are not negative.
    likely = (byte(16) == MAGIC) & (byte(0) == 0) & (byte(8) < 0x10) & (byte(12) < 0x80)
    likely &= (byte(21) == 0) & (byte(22) <= _KNOWN_ATTRIBUTES) & (byte(23) < 0x80)
    positions = np.nonzero(likely & (byte(57) < 0x80))[0].astype(np.int64)
    found = headers(data, positions)
    fits = (found.end <= bytes_left) & (found.end - positions >= HEADER_SIZE)
    fits &= (found.base_offset > after_offset) & (found.base_offset < MAX_OFFSET)
    possible: list[int] = positions[fits].tolist()
    return possible


def _check(read: Read, position: int, size: int) -> tuple[int, int, bool] | None:
    """Look at a position.

    Returns:
        Base offset and epoch of the batch there, and whether it is a control batch; None if no
        batch begins there.
    """
    length = int.from_bytes(read(position + 8, 4), "big") + 12
    raw = read(position, min(length + HEADER_SIZE, size - position))
    if len(raw) < length + HEADER_SIZE:
        return None  # the last batch of a file: nothing behind it says that it is one
    data = np.frombuffer(raw, dtype=np.uint8)
    both = headers(data, np.array([0, length], dtype=np.int64))
    if not both.in_order or not crc_is_right(raw, both.select(slice(0, 1)))[0]:
        return None
    return int(both.base_offset[0]), int(both.epoch[0]), bool(both.attributes[0] & CONTROL)


def first_epoch(raw: bytes) -> tuple[int | None, bool]:
    """Look at the batch that bytes begin with.

    Returns:
        Its leader epoch, None if there is no batch; and whether the epoch may begin with it.
    """
    positions, _ = chain(raw, 0, len(raw))
    if not len(positions):
        return None, True
    first = headers(np.frombuffer(raw, dtype=np.uint8), positions[:1])
    if int(first.magic[0]) != MAGIC:
        return None, True
    return int(first.epoch[0]), bool(first.attributes[0] & CONTROL)
