"""Finding batch borders in a block of bytes, by three fields of each header.

Fetches walk over every batch they return, so this module reads only the fields that it needs and
leaves the batch contents to the readers. A block begins with a batch and may end within one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from jbodlab.record_batch.record_batch import HEADER_SIZE, SIZE_PREFIX
from jbodlab.vocabulary.errors import DecodeError

_EXTENT = struct.Struct(">qi11xi")
"""Base offset, batch length and last offset delta."""


class Extent(NamedTuple):
    """Offsets of a batch, and its end position, which may be behind the end of the block."""

    base_offset: int
    last_offset: int
    end: int


def extent_at(block: bytes, start: int) -> Extent:
    """Look at the batch that begins at `start`; its header is within the block.

    Raises:
        DecodeError: no batch begins there.
    """
    base_offset, length, last_offset_delta = _EXTENT.unpack_from(block, start)
    if length < HEADER_SIZE - SIZE_PREFIX or last_offset_delta < 0:
        raise DecodeError(f"no batch begins {start} bytes into the block")
    return Extent(base_offset, base_offset + last_offset_delta, start + SIZE_PREFIX + length)


def skip_before(block: bytes, offset: int) -> tuple[int, bool]:
    """Skip the batches that end before an offset.

    Returns:
        Where the next batch begins, and whether its header is within the block and it contains the
        offset or a larger one.

    Raises:
        DecodeError: the block contains bytes that are not a batch.
    """
    start = 0
    while len(block) - start >= HEADER_SIZE:
        extent = extent_at(block, start)
        if extent.last_offset >= offset:
            return start, True
        start = extent.end
    return start, False


def whole_batches(
    block: bytes, first: Extent, limit: int, max_offset: int | None
) -> tuple[int, int]:
    """Count in the batches behind a first one that end within the limits.

    Args:
        block: The block.
        first: The batch to begin behind.
        limit: Where in the block the last one must end.
        max_offset: Only batches entirely below it; None for all.

    Returns:
        Where the last one ends, and the offset behind it.

    Raises:
        DecodeError: the block contains bytes that are not a batch.
    """
    end, next_offset = first.end, first.last_offset + 1
    while limit - end >= HEADER_SIZE:
        extent = extent_at(block, end)
        if extent.end > limit or (max_offset is not None and extent.last_offset >= max_offset):
            break
        end, next_offset = extent.end, extent.last_offset + 1
    return end, next_offset
