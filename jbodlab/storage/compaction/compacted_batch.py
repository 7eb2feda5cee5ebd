"""The records of a batch that compaction keeps, and the bytes of the new batch.

Compaction keeps a record if it is the newest of its key, as far as keys were mapped; it drops a
record without a key. It drops the records of an aborted transaction, and a marker whose transaction
has no batch left. A tombstone, or such a marker, stays for `delete.retention.ms` after the first
round that read it: that round sets a *horizon*, attribute bit 6, with the time in the place of the
base timestamp. The timestamps of the records stay the same, as their deltas change with it
(KIP-534). Beyond its horizon it stays as long as an out-of-sync replica may not have copied it.

Offsets, sequences, producer and leader epoch of a batch never change. The header of a batch stays
without any record if its removal would lose state: the last batch of a producer in the producer
state, and the batch that ends a round.

Source: `org.apache.kafka.storage.internals.log.Cleaner`, `MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from jbodlab.record_batch.compression import compress, decompress
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import (
    COMPRESSION_MASK,
    CRC_OFFSET,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    SIZE_PREFIX,
    BatchHeader,
    crc_is_valid,
)
from jbodlab.record_batch.record_slices import RecordSlice, slice_records
from jbodlab.record_batch.varint import varint
from jbodlab.storage.compaction.cleaned_transactions import CleanedTransactions
from jbodlab.storage.compaction.offset_map import OffsetMap
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.transactions import read_marker
from jbodlab.vocabulary.errors import DecodeError

NO_TIMESTAMP = -1


class LastBatch(NamedTuple):
    """The last batch of a producer, by which a log remembers it.

    Attributes:
        last_offset: Of its last batch of records; None if it has none in its epoch, and a marker
            carries that.
    """

    last_offset: int | None
    epoch: int


def last_batches(producers: ProducerState) -> dict[int, LastBatch]:
    """Return the last batch of each producer, whose header must stay, by producer id."""
    return {
        producer_id: LastBatch(
            entry.batches[-1].last_offset if entry.batches else None, entry.epoch
        )
        for producer_id, entry in producers.entries
    }


class BatchFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Decides which records of a batch stay; the state of one round of compaction.

    Attributes:
        offsets: The newest offset of each key.
        mapped_end: Keys of records below it are in the map.
        round_end: End offset of the round if the map has room for all keys.
        producers: Last batches of the producers in the producer state, by id.
        transactions: The transactions that the round has read.
        now_ms: When the round began, milliseconds since 1970.
        keeps_deletes: Whether tombstones and markers stay beyond their horizon, until another
            round.
        delete_retention_ms: How long tombstones and markers stay.
    """

    offsets: OffsetMap
    mapped_end: int
    round_end: int
    producers: Mapping[int, LastBatch]
    transactions: CleanedTransactions
    now_ms: int
    keeps_deletes: bool
    delete_retention_ms: int

    def keep(self, data: memoryview, header: BatchHeader) -> bytes | memoryview | None:
        """Return the batch with the records that stay; None if the batch is dropped.

        Batches must be passed in the order of the log.

        Raises:
            DecodeError: the batch is damaged.
        """
        if not crc_is_valid(data, 0, header):
            raise DecodeError(f"batch at offset {header.base_offset} has a wrong CRC")
        if header.is_control:
            marker = read_marker(data, 0, header)
            may_drop = self.transactions.may_drop(header, marker)
            if not header.records_count or (may_drop and self._is_past_horizon(header)):
                return self._without_records(header)
            if may_drop and not header.attributes & DELETE_HORIZON:
                records = decompress(header.compression, data[HEADER_SIZE:])
                kept = slice_records(records, header.records_count)
                return rewrite(header, records, kept, self.now_ms + self.delete_retention_ms)
            return data
        if self.transactions.is_aborted(header) or not header.records_count:
            return self._without_records(header)
        return self._keep_records(data, header)

    def _keep_records(self, data: memoryview, header: BatchHeader) -> bytes | memoryview | None:
        records = decompress(header.compression, data[HEADER_SIZE:])
        found = slice_records(records, header.records_count)
        keeps_tombstones = not self._is_past_horizon(header)
        base_offset, mapped_end, newest = header.base_offset, self.mapped_end, self.offsets.get
        kept = [
            record
            for record in found
            if base_offset + record.offset_delta >= mapped_end
            or (
                record.key is not None
                and (record.has_value or keeps_tombstones)
                and base_offset + record.offset_delta >= newest(record.key)
            )
        ]
        if not kept:
            return self._without_records(header)
        horizon_ms: int | None = None
        if not header.attributes & DELETE_HORIZON and not all(each.has_value for each in kept):
            horizon_ms = self.now_ms + self.delete_retention_ms
        if len(kept) == len(found) and horizon_ms is None:
            return data
        return rewrite(header, records, kept, horizon_ms)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        has_horizon = bool(header.attributes & DELETE_HORIZON)
        return has_horizon and not self.keeps_deletes and self.now_ms >= header.base_timestamp

    def _without_records(self, header: BatchHeader) -> bytes | None:
        if header.next_offset == self.round_end or self._is_last_of_producer(header):
            return empty(header)
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_offset


def rewrite(
    header: BatchHeader, records: bytes, kept: Sequence[RecordSlice], horizon_ms: int | None = None
) -> bytes:
    """Return a batch with some of its records.

    Args:
        header: Header of the original batch.
        records: All of its records, uncompressed.
        kept: The records that stay, in their order; not empty.
        horizon_ms: New horizon, milliseconds since 1970; None to keep the present one, if any.
    """
    by_append_time = bool(header.attributes & LOG_APPEND_TIME)
    timestamps = [
        header.max_timestamp if by_append_time else header.base_timestamp + each.timestamp_delta
        for each in kept
    ]
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
    elif not attributes & DELETE_HORIZON:
        base_timestamp = timestamps[0]
    if base_timestamp == header.base_timestamp and not by_append_time:
        body = b"".join([records[each.start : each.end] for each in kept])
    else:
        body = b"".join(
            [
                _with_delta(records, each, timestamp - base_timestamp)
                for each, timestamp in zip(kept, timestamps, strict=True)
            ]
        )
    return _batch(
        header,
        compress(header.compression, body),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps),
        records_count=len(kept),
    )


def empty(header: BatchHeader) -> bytes:
    """Return the header of a batch that has no records any more."""
    has_horizon = bool(header.attributes & DELETE_HORIZON)
    return _batch(
        header,
        b"",
        attributes=header.attributes & ~COMPRESSION_MASK,
        base_timestamp=header.base_timestamp if has_horizon else NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        records_count=0,
    )


def _with_delta(records: bytes, record: RecordSlice, timestamp_delta: int) -> bytes:
    delta = varint(timestamp_delta)
    rest = records[record.rest_at : record.end]
    size = varint(1 + len(delta) + len(rest))
    return size + records[record.delta_at - 1 : record.delta_at] + delta + rest


def _batch(
    header: BatchHeader,
    body: bytes,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    records_count: int,
) -> bytes:
    batch = bytearray(
        HEADER.pack(
            header.base_offset,
            HEADER_SIZE - SIZE_PREFIX + len(body),
            header.partition_leader_epoch,
            header.magic,
            0,
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            records_count,
        )
    )
    batch += body
    crc = crc32c(memoryview(batch)[CRC_START:])
    batch[CRC_OFFSET:CRC_START] = crc.to_bytes(CRC_START - CRC_OFFSET, "big")
    return bytes(batch)
