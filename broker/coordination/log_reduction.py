"""Reduces a coordinator's log to the last record of each key.

A log has many records for each key, because compaction comes later. Most of them are dropped while
the log is read, as bytes, before they are decoded; the others keep the order of the log. Records
above the high watermark are all kept, because they may be committed one by one.

Records of a transaction count from its marker on, and an older one never replaces a newer. A
tombstone without a transaction takes away what open transactions have of its key, too.

Used on a directory's thread.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from jbodlab.record_batch.record_batch import (
    BatchHeader,
    crc_is_valid,
    iterate_headers,
    iterate_records,
)
from jbodlab.storage.log.transactions import COMMIT, read_marker
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.large_dict import LargeDict


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """One record, not decoded; a value of None is a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


class RawBatch(NamedTuple):
    """Records that one batch, or the marker that ends a transaction, makes count."""

    end_offset: int
    records: Sequence[EncodedRecord]


class LogReduction:
    """Takes a log in, piece by piece.

    Args:
        high_watermark: Above it nothing is reduced.
    """

    def __init__(self, high_watermark: int) -> None:
        self._high_watermark = high_watermark
        self._last: LargeDict[bytes, EncodedRecord] = LargeDict()
        self._open: dict[int, list[EncodedRecord]] = {}
        """Records of transactions without a marker yet, by producer id."""
        self.above: list[RawBatch] = []
        """Batches above the high watermark, in the order of the log."""
        self._newest_above: dict[bytes, int] = {}
        """The offset of the last record there of each key."""
        self._parts: Iterator[list[EncodedRecord]] | None = None
        self._arranged: list[list[EncodedRecord]] = []
        """Records that `records` yields; in each list the end of the log first."""
        self.record_count = 0

    def take(self, data: bytes, offset: int) -> int:
        """Take whole batches in.

        Args:
            data: The bytes read.
            offset: The first offset wanted; a batch that ends below it is left out.

        Returns:
            Where the next piece begins.

        Raises:
            DecodeError: a batch is damaged, or cannot be read.
        """
        for position, header in iterate_headers(data):
            if header.next_offset <= offset:
                continue
            if not crc_is_valid(data, position, header):
                raise DecodeError(f"record batch at offset {header.base_offset} has a wrong CRC")
            records = self._counting(data, position, header)
            if header.next_offset > self._high_watermark:
                self.above.append(RawBatch(header.next_offset, records))
                self._newest_above.update((record.key, record.offset) for record in records)
            else:
                self._last.put_last((record.key, record) for record in records)
            offset = header.next_offset
        return offset

    def arrange(self) -> bool:
        """Prepare a part of the keys for `records`, once all is taken in; it prepares the rest.

        Tombstones are left out, as nothing came before.

        Returns:
            Whether a part was left to prepare.
        """
        if self._parts is None:
            self._parts = self._last.take_parts()
        for part in self._parts:
            self._arranged.append([each for each in reversed(part) if each.value is not None])
            return True
        return False

    def records(self) -> Iterator[EncodedRecord]:
        """Yield the last record of each key, and forget it; all may be a large part of the memory.

        They are in the order of the log.
        """
        while self.arrange():
            pass
        return heapq.merge(*map(_taken, self._arranged), key=attrgetter("offset"))

    def open_records(self) -> Iterator[tuple[int, EncodedRecord]]:
        """Return the records of transactions without a marker, with their producer ids."""
        for producer_id, records in self._open.items():
            for record in records:
                yield producer_id, record

    def _counting(self, data: bytes, position: int, header: BatchHeader) -> list[EncodedRecord]:
        """Return the records that count from this batch on."""
        if header.is_control:
            marker = read_marker(data, position, header)
            ended = self._open.pop(header.producer_id, []) if marker is not None else []
            if marker is None or marker.type != COMMIT:
                return []
            return [each for each in ended if not self._has_newer(each)]
        records = [
            EncodedRecord(record.offset, _present(record.key, record.offset), record.value)
            for record in iterate_records(data, position, header)
        ]
        self.record_count += len(records)
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(records)
            return []
        gone = {record.key for record in records if record.value is None} if self._open else ()
        if gone:
            for producer_id, those in self._open.items():
                self._open[producer_id] = [each for each in those if each.key not in gone]
        return records

    def _has_newer(self, record: EncodedRecord) -> bool:
        last = self._last.get(record.key)
        newest = self._newest_above.get(record.key, -1 if last is None else last.offset)
        return newest > record.offset


def _taken(records: list[EncodedRecord]) -> Iterator[EncodedRecord]:
    while records:
        yield records.pop()


def _present(key: bytes | None, offset: int) -> bytes:
    if key is None:
        raise DecodeError(f"record at offset {offset} has no key")
    return key
