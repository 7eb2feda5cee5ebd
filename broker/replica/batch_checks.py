"""What a broker checks in the record batch that a client sends, before it becomes an offset.

The batch is kept as it came. Only its base offset and leader epoch are written over, and where the
topic wants the broker's clock, its timestamp, for which the CRC has to be computed anew.

Source: `org.apache.kafka.storage.internals.log.LogValidator`, `UnifiedLog`; KIP-98.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.replica.client_requests import NO_TRANSACTIONS
from jbodlab.error_code import ErrorCode
from jbodlab.errors import BufferUnderflowError, DecodeError, KafkaError
from jbodlab.protocol import record_batch
from jbodlab.protocol.crc32c import crc32c
from jbodlab.protocol.record_batch import BatchHeader
from jbodlab.protocol.record_walk import RECORD_BYTES_MIN, check_records

MAGIC_OFFSET = 16
RECORDS_BYTES_MAX = 64 << 20
"""What the records of a compressed batch may have uncompressed, at least, by their number."""
MAX_CODEC = 4
"""The largest codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What a topic accepts; sizes in bytes, times in ms.

    Attributes:
        log_append_time: Whether the broker's clock stamps the batch.
        compacted: Whether every record needs a key.
    """

    max_message_bytes: int
    segment_bytes: int
    log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that may be appended."""

    data: bytes | memoryview
    header: BatchHeader


def accept_batch(
    records: bytes | memoryview | None, limits: BatchLimits, now_ms: int
) -> CheckedBatch:
    """Check the records of one partition in a produce request.

    Args:
        records: The one batch that a client may send for a partition.
        limits: What the topic accepts.
        now_ms: Wall clock, ms since 1970.

    Raises:
        KafkaError: the batch is refused, with the code for the client.
    """
    header = _header_of(records)
    assert records is not None
    if header.size > limits.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch size is {header.size} bytes which exceeds the maximum configured "
            f"value of {limits.max_message_bytes}",
        )
    if header.size > limits.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"message batch size is {header.size} bytes which exceeds the maximum configured "
            f"segment size of {limits.segment_bytes}",
        )
    if not record_batch.crc_is_valid(records, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "record batch with a wrong CRC")
    _check_shape(header)
    _check_records(records, header)
    _check_timestamps(header, limits, now_ms)
    if limits.compacted:
        _check_keys(records, header)
    if limits.log_append_time:
        return _with_append_time(records, header, now_ms)
    return CheckedBatch(records, header)


def _header_of(records: bytes | memoryview | None) -> BatchHeader:
    if not records:
        raise _invalid("no record batch")
    if len(records) > MAGIC_OFFSET and records[MAGIC_OFFSET] != record_batch.MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"record batch with magic {records[MAGIC_OFFSET]}, only {record_batch.MAGIC} is served",
        )
    try:
        header = record_batch.read_header(records)
    except (BufferUnderflowError, DecodeError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.size > len(records):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"record batch of {header.size} bytes in {len(records)} bytes of records",
        )
    if header.size < len(records):
        raise _invalid("more than one record batch for a partition")
    return header


def _check_shape(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset} of a new batch, expected 0")
    if header.records_count <= 0 or header.last_offset_delta + 1 != header.records_count:
        raise _invalid(
            f"record batch counts {header.records_count} records, but its last offset delta is "
            f"{header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("control batch from a client")
    if header.is_transactional:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, NO_TRANSACTIONS)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(
            f"producer id {header.producer_id} with sequence {header.base_sequence} and epoch "
            f"{header.producer_epoch}"
        )
    if header.compression > MAX_CODEC:
        raise _invalid(f"unknown compression codec {header.compression}")


def _check_records(records: bytes | memoryview, header: BatchHeader) -> None:
    """Check that the batch holds the records that it counts; compressed ones stay unopened."""
    count = header.records_count
    if header.compression:
        if count * RECORD_BYTES_MIN > RECORDS_BYTES_MAX:
            raise _invalid(f"{count} records in a compressed batch of {header.size} bytes")
        return
    try:
        check_records(records, record_batch.HEADER_SIZE, count)
    except DecodeError as error:
        raise _invalid(str(error)) from error


def _check_timestamps(header: BatchHeader, limits: BatchLimits, now_ms: int) -> None:
    if limits.log_append_time:
        return
    oldest, newest = header.base_timestamp, header.max_timestamp
    too_old = now_ms - oldest > limits.timestamp_before_max_ms
    if too_old or newest - now_ms > limits.timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {oldest} to {newest} of the batch are out of the permitted range around "
            f"{now_ms}",
        )


def _check_keys(records: bytes | memoryview, header: BatchHeader) -> None:
    try:
        keyless = any(r.key is None for r in record_batch.iterate_records(records, 0, header))
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if keyless:
        raise _invalid("compacted topic cannot accept message without key")


def _with_append_time(
    records: bytes | memoryview, header: BatchHeader, now_ms: int
) -> CheckedBatch:
    data = bytearray(records)
    attributes = header.attributes | record_batch.LOG_APPEND_TIME
    data[21:23] = attributes.to_bytes(2, "big")
    data[35:43] = now_ms.to_bytes(8, "big")
    crc = crc32c(memoryview(data)[record_batch.CRC_START :])
    data[record_batch.CRC_OFFSET : record_batch.CRC_START] = crc.to_bytes(4, "big")
    stamped = bytes(data)
    return CheckedBatch(stamped, record_batch.read_header(stamped))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
