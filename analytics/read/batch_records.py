"""The records inside batches by columns: where each begins, its offset, time and value.

A record's length leads to the next one, so the chain through a batch is sequential. All batches go
in lockstep instead: step k reads the length of the k-th record of every batch that has so many. A
large batch is cut into lanes first: its record number 64, 128, ... is looked for by the bytes that
it must begin with, and is believed once the lane before it ends exactly there.

The head of a record, up to the size of its value, is nearly always what its number in the batch
says (no attributes, no time of its own, its number, no key). It is compared with that; the few
others are read field by field. A batch that is not sound is left to the plain decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.read.arrays import (
    MAX_VARLONG_BYTES,
    Bools,
    Bytes,
    Column,
    Longs,
    fixed,
    signed_varints,
    unsigned_varints,
)
from analytics.read.batch_headers import MAX_OFFSET, Batches
from jbodlab.record_batch.record_batch import HEADER_SIZE
from jbodlab.record_batch.varint import varint

LANE_RECORDS = 64
"""Records of one lane; lanes are stepped through side by side."""

_FAR = 2**60
"""A position behind everything, for a record whose length cannot be one."""
_NULL_KEY = 1
_SEARCH_SLACK = 64


@dataclass(frozen=True, slots=True)
class Records:
    """n records in the order of the log; each attribute has shape (n,).

    Attributes:
        batch: Index of its batch.
        offset: Its offset in the log.
        timestamp: ms since 1970.
        start: Position of its value in the data.
        size: Bytes of the value; -1 for null.
    """

    batch: Longs
    offset: Longs
    timestamp: Longs
    start: Longs
    size: Longs

    def __len__(self) -> int:
        return len(self.batch)

    def select(self, rows: Column | slice) -> Records:
        """Return some of the records."""
        return Records(*(getattr(self, name)[rows] for name in self.__slots__))


def find_records(raw: bytes, data: Bytes, batches: Batches) -> tuple[Records, Bools]:
    """Find the records of batches, uncompressed ones and no control batches.

    Returns:
        The records, without those of batches that are not sound; and which batches these are.
    """
    starts = batches.position + HEADER_SIZE
    # No record takes fewer than two bytes: a count beyond that is not worth an array.
    odd: Bools = (batches.records_count > (batches.end - starts) // 2) | batches.is_plain
    counts = np.where(odd, 0, batches.records_count)
    lanes = _Lanes(raw, starts, batches.end, counts)
    body, behind, wrong = lanes.walk(data)
    odd |= wrong
    first = np.cumsum(counts) - counts
    batch = np.repeat(np.arange(len(batches)), counts)
    number = np.arange(len(body)) - np.repeat(first, counts)
    delta, own_time, value, size, bad = _fields(data, body, behind, number)
    if bad.any():
        odd[batch[bad]] = True
    timestamp = batches.base_timestamp[batch] + own_time
    if batches.has_append_time.any():
        timestamp = np.where(
            batches.has_append_time[batch], batches.max_timestamp[batch], timestamp
        )
    records = Records(batch, batches.base_offset[batch] + delta, timestamp, value, size)
    return (records.select(~odd[batch]) if odd.any() else records), odd


class _Lanes:
    """Parts of batches that are walked through side by side."""

    def __init__(self, raw: bytes, starts: Longs, ends: Longs, counts: Longs) -> None:
        self.raw = raw
        self.starts = starts
        self.ends = ends
        self.counts = counts

    def walk(self, data: Bytes) -> tuple[Longs, Longs, Bools]:
        """Return where each record's fields begin and end, and which batches are not sound."""
        start, end, count, batch = self._cut()
        body, behind, wrong = _lockstep(data, start, end, count)
        odd = np.zeros(len(self.starts), dtype=np.bool_)
        if wrong.any():
            first = np.cumsum(self.counts) - self.counts
            for index in np.unique(batch[wrong]).tolist():
                # Some lane began where no record does, or the batch is damaged: one by one.
                at, size = int(first[index]), int(self.counts[index])
                whole = slice(index, index + 1)
                one = _lockstep(data, self.starts[whole], self.ends[whole], self.counts[whole])
                body[at : at + size], behind[at : at + size] = one[0], one[1]
                odd[index] = one[2][0]
        return body, behind, odd

    def _cut(self) -> tuple[Longs, Longs, Longs, Longs]:
        """Return start, end, records and batch of each lane."""
        batch = np.arange(len(self.starts))
        large = np.nonzero(self.counts > LANE_RECORDS)[0]
        if not len(large):
            return self.starts, self.ends, self.counts, batch
        starts, ends = self.starts.tolist(), self.ends.tolist()
        cuts: list[tuple[int, int, int, int]] = []
        for index in large.tolist():
            cuts += self._cut_batch(index, starts[index], ends[index], int(self.counts[index]))
        of_large = np.array(cuts, dtype=np.int64)
        small = np.nonzero(self.counts <= LANE_RECORDS)[0]
        joined = [
            np.concatenate([of_small, of_large[:, column]])
            for column, of_small in enumerate(
                (self.starts[small], self.ends[small], self.counts[small], small)
            )
        ]
        order = np.argsort(joined[3], kind="stable")
        start, end, count, batch = (column[order] for column in joined)
        return start, end, count, batch

    def _cut_batch(
        self, index: int, start: int, end: int, count: int
    ) -> list[tuple[int, int, int, int]]:
        lanes = []
        step = 0
        number = 0
        for following in range(LANE_RECORDS, count, LANE_RECORDS):
            head = _head(following)
            # Records of one batch are alike: look where the last distance leads to first.
            low = start + step - step // 8
            found = self.raw.find(head, low, min(end, start + step + step // 8 + _SEARCH_SLACK))
            if found < 0:
                found = self.raw.find(head, start, end)
            if found < 0:
                break
            behind = found - 1
            while behind > start and self.raw[behind - 1] >= 0x80:
                behind -= 1  # the bytes of the length before the last one
            lanes.append((start, behind, following - number, index))
            start, step, number = behind, behind - start, following
        lanes.append((start, end, count - number, index))
        return lanes


def _lockstep(data: Bytes, start: Longs, end: Longs, count: Longs) -> tuple[Longs, Longs, Bools]:
    """Walk through all lanes at once.

    Returns:
        Where the fields of each record begin, and where they end, lane by lane; and which lanes do
        not end where they should.
    """
    total = int(count.sum())
    body = np.empty(total, dtype=np.int64)
    behind = np.empty(total, dtype=np.int64)
    order = np.argsort(-count, kind="stable")
    at = (np.cumsum(count) - count)[order]
    position = start[order]
    longest = int(count.max(initial=0))
    # How many lanes have more than k records; they come first.
    active = len(count) - np.searchsorted(np.sort(count), np.arange(longest), side="right")
    for step, lanes in enumerate(active.tolist()):
        zigzag, fields, bad = unsigned_varints(data, position[:lanes])
        following = fields + (zigzag >> 1)
        wrong = (zigzag & 1) + (zigzag == 0)  # negative, or nothing
        if wrong.any():
            following[wrong > 0] = _FAR
        if bad is not None:
            following[bad] = _FAR
        body[at[:lanes] + step] = fields
        behind[at[:lanes] + step] = following
        position[:lanes] = following
    wrong = np.empty(len(count), dtype=np.bool_)
    wrong[order] = position != end[order]
    return body, behind, wrong


def _fields(
    data: Bytes, body: Longs, behind: Longs, number: Longs
) -> tuple[Longs, Longs, Longs, Longs, Bools]:
    """Read records' fields: offset delta, time delta, value, its size, and which are not sound."""
    expected, mask, head_size = _heads(int(number.max(initial=0)).bit_length())
    as_expected = (fixed(data, body, "<u8") & mask[number]) == expected[number]
    size, value, bad_size = signed_varints(data, body + head_size[number])
    value_end = value + size
    sound = as_expected & (size >= 0) & (value_end + 1 == behind)
    sound &= data.take(value_end, mode="clip") == 0  # no headers
    if bad_size is not None:
        sound &= ~bad_size
    delta, own_time = number, np.zeros(len(number), dtype=np.int64)
    bad = np.zeros(len(number), dtype=np.bool_)
    if not sound.all():
        rows = np.nonzero(~sound)[0]
        delta = number.copy()
        delta[rows], own_time[rows], value[rows], size[rows], bad[rows] = _read_fields(
            data, body[rows], behind[rows]
        )
    return delta, own_time, value, size, bad


def _read_fields(
    data: Bytes, body: Longs, behind: Longs
) -> tuple[Longs, Longs, Longs, Longs, Bools]:
    """Read the fields of records whose head is unusual."""
    own_time, position, bad_time = signed_varints(data, body + 1, MAX_VARLONG_BYTES)
    delta, position, bad_delta = signed_varints(data, position)
    key_size, position, bad_key = signed_varints(data, position)
    bad = (key_size < -1) | (key_size > behind - position)
    position = position + np.where(bad, 0, np.maximum(key_size, 0))
    size, value, bad_size = signed_varints(data, position)
    bad |= (size < -1) | (size > behind - value)
    end = value + np.where(bad, 0, np.maximum(size, 0))
    # With headers, or with bytes behind them, the plain decoder says what it is.
    bad |= (end + 1 != behind) | (data.take(end, mode="clip") != 0)
    bad |= (own_time > MAX_OFFSET) | (own_time < -MAX_OFFSET)
    for wrong in (bad_time, bad_delta, bad_key, bad_size):
        if wrong is not None:
            bad |= wrong
    return delta, own_time, value, size, bad


@lru_cache(maxsize=1 << 14)
def _head(number: int) -> bytes:
    """Return the bytes between length and value size of a record, by its number in the batch."""
    return b"\x00\x00" + varint(number) + bytes([_NULL_KEY])


@lru_cache(maxsize=32)
def _heads(bits: int) -> tuple[Column, Column, Longs]:
    """Return, for each number below 2^bits: the head as a number, its mask, and its size."""
    heads = [_head(number) for number in range(1 << bits)]
    expected = np.array([int.from_bytes(head, "little") for head in heads], dtype=np.uint64)
    size = np.array([len(head) for head in heads], dtype=np.int64)
    # Attributes, the first byte, are not looked at.
    mask = np.array([(1 << 8 * len(head)) - 0x100 for head in heads], dtype=np.uint64)
    return expected, mask, size
