"""The headers of a chain of batches by columns.

Where a batch begins is known only from the length of the one before it, so finding the chain is a
loop, the only one here: a few hundred nanoseconds a batch. Everything else is one step for all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c  # the library itself: the door to it costs as much as a small batch

from analytics.read.arrays import Bools, Bytes, Column, Longs
from jbodlab.record_batch.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    SIZE_PREFIX,
)

MAX_OFFSET = 2**62
"""Offsets and times below it can be added to without leaving 64 bits."""

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_SIZE

_LENGTH = struct.Struct(">i")
_COPIED_BYTES = 1024
assert (HEADER_SIZE - SIZE_PREFIX, SIZE_PREFIX) == (49, 12)  # written out where it is hot


@dataclass(frozen=True, slots=True)
class Batches:
    """Headers of n batches; each attribute has shape (n,).

    Attributes:
        position: Where each begins in the data.
        end: The position behind it.
        crc: CRC-32C that the header gives.
    """

    position: Longs
    end: Longs
    base_offset: Longs
    last_offset: Longs
    epoch: Longs
    magic: Longs
    crc: Longs
    attributes: Longs
    base_timestamp: Longs
    max_timestamp: Longs
    records_count: Longs

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: Column | slice) -> Batches:
        """Return some of the batches."""
        return Batches(*(getattr(self, name)[rows] for name in self.__slots__))

    @property
    def is_plain(self) -> Bools:
        """Batches that only the plain decoder reads: control batches and compressed ones."""
        plain: Bools = self.attributes & (CONTROL | COMPRESSION_MASK) != 0
        plain |= (self.base_offset > MAX_OFFSET) | (self.base_timestamp > MAX_OFFSET)
        plain |= self.base_timestamp < -MAX_OFFSET
        return plain

    @property
    def has_append_time(self) -> Bools:
        """Batches whose records all have its max timestamp."""
        has_it: Bools = self.attributes & LOG_APPEND_TIME != 0
        return has_it

    @property
    def in_order(self) -> bool:
        """Whether every header is plausible and follows the one before it."""
        return bool(
            (self.magic == MAGIC).all()
            and (self.records_count >= 0).all()
            and (self.base_offset >= 0).all()
            and (self.base_offset < MAX_OFFSET).all()
            and (self.last_offset >= self.base_offset).all()
            and (self.base_offset[1:] == self.last_offset[:-1] + 1).all()
            and (self.epoch >= 0).all()
            and (
                (self.epoch[1:] == self.epoch[:-1])
                # A leader begins its epoch with a control batch.
                | ((self.epoch[1:] > self.epoch[:-1]) & (self.attributes[1:] & CONTROL != 0))
            ).all()
        )


def chain(data: bytes, start: int, end: int) -> tuple[Longs, int]:
    """Follow the lengths of batches.

    Returns:
        The positions of all whole batches below `end`, and the position behind the last of them.
    """
    positions: list[int] = []
    add = positions.append
    read = _LENGTH.unpack_from
    last = end - HEADER_SIZE
    position = start
    while position <= last:
        (length,) = read(data, position + 8)
        behind = position + length + 12
        if length < 49 or behind > end:
            break
        add(position)
        position = behind
    return np.array(positions, dtype=np.int64), position


def headers(data: Bytes, position: Longs) -> Batches:
    """Read the headers of batches that are whole."""
    if not len(position):
        nothing = np.zeros(0, dtype=np.int64)
        return Batches(*[nothing] * len(Batches.__slots__))
    windows: Column = np.ndarray(
        (len(data) - HEADER_SIZE + 1,), dtype=f"V{HEADER_SIZE}", buffer=data, strides=(1,)
    )
    raw: Column = windows[position].view(_HEADER)

    def column(name: str) -> Longs:
        return raw[name].astype(np.int64)

    base_offset = column("base_offset")
    return Batches(
        position=position,
        end=position + column("batch_length") + SIZE_PREFIX,
        base_offset=base_offset,
        last_offset=base_offset + column("last_offset_delta"),
        epoch=column("epoch"),
        magic=column("magic"),
        crc=column("crc"),
        attributes=column("attributes"),
        base_timestamp=column("base_timestamp"),
        max_timestamp=column("max_timestamp"),
        records_count=column("records_count"),
    )


def crc_is_right(data: bytes, batches: Batches) -> Bools:
    """Return which batches have the CRC of their bytes."""
    starts = (batches.position + CRC_START).tolist()
    bounds = map(slice, starts, batches.end.tolist())
    # The loop runs in C, as small batches are many; to copy one is less work than to view it.
    if len(data) < _COPIED_BYTES * len(batches):
        found = list(map(crc32c, map(data.__getitem__, bounds)))
    else:
        with memoryview(data) as view:
            found = list(map(crc32c, map(view.__getitem__, bounds)))
    right: Bools = np.array(found, dtype=np.int64) == batches.crc
    return right
