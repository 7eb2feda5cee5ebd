"""The checks of a client's record batch before it gets an offset.

First the header is checked, then every record; a compressed batch is decompressed for this into a
limited amount of memory. The batch is stored as it came. Only its base offset and leader epoch are
overwritten, and its largest timestamp if the records have another one or if the topic uses the
broker's clock; the latter needs a new CRC.

Source: `org.apache.kafka.storage.internals.log.LogValidator`, `UnifiedLog`; KIP-98.
"""

from __future__ import annotations

import msgspec

from broker.bounds.limits import BYTES_AT_ONCE, RECORDS_AT_ONCE, RECORDS_BYTES_MAX, RECORDS_RATIO
from broker.replica.partition import BatchLimits
from jbodlab.record_batch import record_batch
from jbodlab.record_batch.compression import CODEC_NAMES, check_framing, decompress
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.record_batch.record_validation import RECORD_BYTES_MIN, WalkedRecords, check_records
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import (
    BufferUnderflowError,
    DecodeError,
    DecompressedSizeError,
    KafkaError,
)

MAGIC_OFFSET = 16
NO_TIMESTAMP = -1
TIMESTAMP_MAX = 2**63 - 1


class CheckedBatch(msgspec.Struct, frozen=True):
    """A batch that may be appended.

    Attributes:
        append_time_ms: The broker's clock, where the topic wants it in the batch, else -1.
    """

    data: bytes | memoryview
    header: BatchHeader
    append_time_ms: int = NO_TIMESTAMP


def check_header(records: bytes | memoryview | None, limits: BatchLimits) -> BatchHeader:
    """Check what can be told of the records of one partition without looking at each.

    Args:
        records: The one batch that a client may send for a partition.
        limits: The topic's limits.

    Returns:
        The header, for `check_body`.

    Raises:
        KafkaError: the batch is refused, with the code for the client.
    """
    if not records:
        raise _invalid("expected a record batch, got none")
    if len(records) > MAGIC_OFFSET and records[MAGIC_OFFSET] != record_batch.MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"expected a record batch with magic {record_batch.MAGIC}, got {records[MAGIC_OFFSET]}",
        )
    try:
        header = record_batch.read_header(records)
    except (BufferUnderflowError, DecodeError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    size = header.size
    if size > len(records):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"expected a record batch of {size} bytes, got {len(records)} bytes",
        )
    if size < len(records):
        raise _invalid("expected one record batch for each partition, got more")
    if size > limits.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch size is {size} bytes which exceeds the maximum configured "
            f"value of {limits.max_message_bytes}",
        )
    if size > limits.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"message batch size is {size} bytes which exceeds the maximum configured "
            f"segment size of {limits.segment_bytes}",
        )
    if crc32c(memoryview(records)[record_batch.CRC_START :]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "record batch has a wrong CRC")
    _check_shape(header)
    return header


def takes_long(header: BatchHeader) -> bool:
    """Return whether `check_body` should not be called on the event loop."""
    return (
        header.compression != 0
        or header.records_count > RECORDS_AT_ONCE
        or header.size > BYTES_AT_ONCE
    )


def check_body(
    records: bytes | memoryview, header: BatchHeader, limits: BatchLimits, now_ms: int
) -> CheckedBatch:
    """Check the records of a batch, all of them; on any thread.

    Args:
        records: The batch.
        header: From `check_header`.
        limits: The topic's limits.
        now_ms: Wall clock, ms since 1970.

    Raises:
        KafkaError: the batch is refused, with the code for the client.
    """
    if header.compression:
        walked = _decompressed(records, header)
    else:
        try:
            walked = check_records(records, record_batch.HEADER_SIZE, header.records_count)
        except DecodeError as error:
            raise _invalid(str(error)) from error
    if limits.compacted and not walked.all_have_keys:
        raise _invalid("compacted topic cannot accept message without key")
    if limits.log_append_time:
        attributes = header.attributes | record_batch.LOG_APPEND_TIME
        return _stamped(records, attributes, now_ms, append_time_ms=now_ms)
    newest = _checked_timestamp(header, walked, limits, now_ms)
    if newest != header.max_timestamp:
        return _stamped(records, header.attributes, newest)
    return CheckedBatch(records, header)


def _check_shape(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise _invalid(f"expected base offset 0 in a new batch, got {header.base_offset}")
    if header.records_count <= 0 or header.last_offset_delta + 1 != header.records_count:
        raise _invalid(
            f"record batch claims {header.records_count} records, but its last offset delta is "
            f"{header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("clients must not send control batches")
    if header.is_transactional and header.producer_id < 0:
        raise _invalid("record batch belongs to a transaction, but has no producer id")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(
            f"producer id {header.producer_id} needs a sequence and an epoch of at least 0, got "
            f"{header.base_sequence} and {header.producer_epoch}"
        )
    if header.compression >= len(CODEC_NAMES):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"unknown compression codec {header.compression}",
        )
    if header.attributes & record_batch.LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "invalid timestamp type in the batch: producers must not set LogAppendTime",
        )


def _decompressed(records: bytes | memoryview, header: BatchHeader) -> WalkedRecords:
    count = header.records_count
    try:
        bytes_max = max(RECORDS_BYTES_MAX, RECORDS_RATIO * header.size)
        if count * RECORD_BYTES_MIN > bytes_max:
            raise DecodeError(f"compressed batch of {header.size} bytes claims {count} records")
        body = memoryview(records)[record_batch.HEADER_SIZE :]
        check_framing(header.compression, body)
        return check_records(decompress(header.compression, body, bytes_max), 0, count)
    except DecompressedSizeError as error:
        # A producer that can makes several batches of it.
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except DecodeError as error:
        raise _invalid(str(error)) from error


def _checked_timestamp(
    header: BatchHeader, walked: WalkedRecords, limits: BatchLimits, now_ms: int
) -> int:
    """Return the largest timestamp of the records; all must be in the range that is permitted."""
    oldest = header.base_timestamp + walked.delta_min
    newest = header.base_timestamp + walked.delta_max
    if oldest == newest == NO_TIMESTAMP:
        return NO_TIMESTAMP
    too_old = now_ms - oldest > limits.timestamp_before_max_ms
    too_new = newest - now_ms > limits.timestamp_after_max_ms or newest > TIMESTAMP_MAX
    if too_old or too_new:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {oldest} to {newest} of the batch are outside the permitted range around "
            f"{now_ms}",
        )
    return newest


def _stamped(
    records: bytes | memoryview,
    attributes: int,
    max_timestamp: int,
    append_time_ms: int = NO_TIMESTAMP,
) -> CheckedBatch:
    data = bytearray(records)
    data[21:23] = attributes.to_bytes(2, "big", signed=True)
    data[35:43] = max_timestamp.to_bytes(8, "big", signed=True)
    crc = crc32c(memoryview(data)[record_batch.CRC_START :])
    data[record_batch.CRC_OFFSET : record_batch.CRC_START] = crc.to_bytes(4, "big")
    stamped = bytes(data)
    return CheckedBatch(stamped, record_batch.read_header(stamped), append_time_ms)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
