"""Record batch v2: header view, iteration, building, and stamping without encoding again.

A batch is a header of 61 bytes and its records, all integers big-endian:

    offset  field                  type
    0       base offset            int64
    8       batch length           int32   bytes behind this field
    12      partition leader epoch int32
    16      magic                  int8    2
    17      crc                    uint32  CRC-32C of bytes 21 to the end
    21      attributes             int16   bits 0-2 codec, 3 log append time, 4 transactional,
                                           5 control, 6 delete horizon
    23      last offset delta      int32
    27      base timestamp         int64   ms
    35      max timestamp          int64   ms
    43      producer id            int64
    51      producer epoch         int16
    53      base sequence          int32
    57      records count          int32
    61      records, compressed as one block if a codec is set

A record: varint length of the rest, int8 attributes, varlong timestamp delta, varint offset delta,
varint key size and key, varint value size and value, varint header count and headers (varint key
size, key, varint value size, value). Sizes are zig-zag; -1 is null.

The CRC does not cover base offset, batch length, leader epoch and magic, so a broker can set them.

Source: `org.apache.kafka.common.record.DefaultRecordBatch`, `DefaultRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec

from jbodlab.record_batch.compression import decompress
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.varint import read_varint, varint
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

HEADER_SIZE = 61
SIZE_PREFIX = 12
"""Bytes before and with the batch length, which does not count them."""
CRC_OFFSET = 17
CRC_START = 21
"""The first byte that the CRC covers."""
_CODEC_AT = 22
"""The lower byte of the attributes."""
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp is the time until which tombstones, or a marker, are kept (KIP-534)."""

MAX_SEQUENCE = 2**31 - 1

HEADER = struct.Struct(">qiibIhiqqqhii")
HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
_HEAD = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_PRODUCER_AT = 43


class BatchHeader(msgspec.Struct, frozen=True):
    """The 61 bytes at the start of a batch, in wire order, and what follows from them.

    Each value that follows is computed once, since each request asks for it several times;
    `header_of` makes a header of the fields alone.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    size: int
    """Bytes of the whole batch."""
    last_offset: int
    """Offset of the last record; compaction keeps it even if it removes that record."""
    next_offset: int
    """Offset at which the next batch begins."""
    compression: int
    """Number of the codec; 0 is none."""
    is_control: bool
    """Whether the records are markers that no consumer sees."""
    is_transactional: bool
    """Whether the batch belongs to a producer's transaction."""

    @property
    def last_sequence(self) -> int:
        """Producer sequence of the last record, 0 follows 2^31-1; -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    def stamped(self, base_offset: int, leader_epoch: int) -> tuple[BatchHeader, bytes]:
        """Return the header of the same batch with another offset and epoch.

        Returns:
            The header, and the first 16 bytes of the batch; its CRC stays valid.
        """
        last_offset = base_offset + self.last_offset_delta
        head = _HEAD.pack(base_offset, self.batch_length, leader_epoch)
        stored = BatchHeader(
            base_offset,
            self.batch_length,
            leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
            self.size,
            last_offset,
            last_offset + 1,
            self.compression,
            self.is_control,
            self.is_transactional,
        )
        return stored, head


def header_of(fields: HeaderFields) -> BatchHeader:
    """Return the header that the 13 fields of `HEADER` make; nothing is checked."""
    base_offset, batch_length, attributes = fields[0], fields[1], fields[5]
    last_offset = base_offset + fields[6]
    return BatchHeader(
        *fields,
        SIZE_PREFIX + batch_length,
        last_offset,
        last_offset + 1,
        attributes & COMPRESSION_MASK,
        attributes & CONTROL != 0,
        attributes & TRANSACTIONAL != 0,
    )


class BatchRecord(msgspec.Struct, frozen=True):
    """One record of a batch; the timestamp is in ms, `None` is null."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header of the batch that begins at a position.

    Raises:
        BufferUnderflowError: fewer than 61 bytes are left.
        DecodeError: the batch length or the magic is impossible.
    """
    if len(data) - position < HEADER_SIZE:
        raise BufferUnderflowError(
            f"{len(data) - position} bytes left at position {position}, "
            f"a batch header has {HEADER_SIZE}"
        )
    header = header_of(HEADER.unpack_from(data, position))
    if header.magic != MAGIC:
        raise DecodeError(
            f"batch at position {position} has magic {header.magic}, expected {MAGIC}"
        )
    if header.batch_length < HEADER_SIZE - SIZE_PREFIX:
        raise DecodeError(f"batch at position {position} has invalid length {header.batch_length}")
    return header


def records_count(batch: bytes | memoryview) -> int:
    """Return how many records a whole batch says that it has."""
    (count,) = _COUNT.unpack_from(batch, HEADER.size - _COUNT.size)
    return int(count)


def codec_of(data: bytes | memoryview) -> int:
    """Return the number of the codec of the batch at the beginning; 0 if it has no header."""
    return data[_CODEC_AT] & COMPRESSION_MASK if len(data) >= HEADER_SIZE else 0


def is_transactional(data: bytes | memoryview) -> bool:
    """Return whether the batch at the beginning is one of a transaction, without reading it."""
    return (
        len(data) >= HEADER_SIZE
        and data[_CODEC_AT] & TRANSACTIONAL != 0
        and data[CRC_OFFSET - 1] == MAGIC
    )


def producer_of(data: bytes | memoryview) -> tuple[int, int]:
    """Return id and epoch of the producer of the batch at the beginning, which has a header."""
    producer_id, epoch = _PRODUCER.unpack_from(data, _PRODUCER_AT)
    return producer_id, epoch


def crc_is_valid(data: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    """Return whether the batch is complete and its CRC is the one of its bytes."""
    end = position + header.size
    if end > len(data):
        return False
    return crc32c(memoryview(data)[position + CRC_START : end]) == header.crc


def iterate_headers(data: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; an incomplete last batch ends it silently.

    Raises:
        DecodeError: the bytes cannot be a batch.
    """
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        end = position + header.size
        if end > len(data):
            return
        yield position, header
        position = end


def iterate_records(
    data: bytes | bytearray | memoryview, position: int = 0, header: BatchHeader | None = None
) -> Iterator[BatchRecord]:
    """Yield the records of the batch at a position; the CRC is not checked.

    Raises:
        DecodeError: the batch is incomplete, its records or their count are malformed, or it is
            compressed and cannot be decompressed.
    """
    if header is None:
        header = read_header(data, position)
    end = position + header.size
    if end > len(data):
        raise BufferUnderflowError(
            f"batch at position {position} has {header.size} bytes, {len(data) - position} are left"
        )
    if header.records_count < 0:
        raise DecodeError(
            f"batch at offset {header.base_offset} claims {header.records_count} records"
        )
    records = decompress(header.compression, memoryview(data)[position + HEADER_SIZE : end])
    log_append_time = bool(header.attributes & LOG_APPEND_TIME)
    cursor = 0
    for _ in range(header.records_count):
        record, cursor = _read_record(records, cursor, header, log_append_time)
        yield record
    if cursor != len(records):
        raise DecodeError(
            f"{len(records) - cursor} bytes left over behind the records of the batch at offset "
            f"{header.base_offset}"
        )


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp_ms: int,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Build an uncompressed batch of records that share one timestamp.

    Args:
        records: Key and value of each record, not empty.
        base_offset: Offset of the first record; the others follow without gaps.
        leader_epoch: Epoch of the leader that appends it; -1 when a broker will stamp it.
        timestamp_ms: Base and max timestamp, ms since 1970.
        attributes: Bits without a codec.
        producer_id: Id of an idempotent producer, -1 without.
        producer_epoch: Epoch of that producer, -1 without.
        base_sequence: Sequence of the first record, -1 without.
    """
    assert records
    assert not attributes & COMPRESSION_MASK
    body = bytearray()
    for offset_delta, (key, value) in enumerate(records):
        record = bytearray(b"\x00\x00")  # attributes, timestamp delta
        record += varint(offset_delta)
        for part in (key, value):
            if part is None:
                record.append(1)
            else:
                record += varint(len(part))
                record += part
        record.append(0)  # no headers
        body += varint(len(record))
        body += record
    last_delta = len(records) - 1
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - SIZE_PREFIX + len(body),
            leader_epoch,
            MAGIC,
            0,
            attributes,
            last_delta,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch += body
    _CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def _read_record(
    data: bytes, start: int, header: BatchHeader, log_append_time: bool
) -> tuple[BatchRecord, int]:
    try:
        size, position = read_varint(data, start)
        end = position + size
        if size <= 0 or end > len(data):
            raise DecodeError(f"record of {size} bytes where {len(data) - position} are left")
        position += 1  # attributes, unused
        timestamp_delta, position = read_varint(data, position, 10)
        offset_delta, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if data[position] == 0:
            position += 1
        else:
            headers, position = _read_headers(data, position, end)
    except IndexError:
        raise BufferUnderflowError("a record reaches beyond the end of its batch") from None
    if position != end:
        raise DecodeError(f"record of {size} bytes has fields of {size + position - end} bytes")
    timestamp = header.max_timestamp if log_append_time else header.base_timestamp + timestamp_delta
    return BatchRecord(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(
    data: bytes, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(data, position)
    if count < 0 or count > end - position:
        raise DecodeError(f"record with {count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        raw_key, position = _read_bytes(data, position, end)
        if raw_key is None:
            raise DecodeError("record header has no key")
        try:
            key = raw_key.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"record header key is not UTF-8: {error}") from error
        value, position = _read_bytes(data, position, end)
        headers.append((key, value))
    return tuple(headers), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = data[position]
    if size < 0x80:
        size = (size >> 1) ^ -(size & 1)
        position += 1
    else:
        size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise DecodeError(f"invalid field size {size} in a record")
        return None, position
    if position + size > end:
        raise BufferUnderflowError(f"field of {size} bytes where {end - position} are left")
    return data[position : position + size], position + size
