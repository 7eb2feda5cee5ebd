"""Batches of the metadata log: records to bytes and back.

Data batches are uncompressed, have one timestamp, null keys, and in each value the envelope of
`jbodlab.metadata.records.frame`. Control records are in separate batches.

Source: `org.apache.kafka.raft.internals.BatchBuilder`, `RecordsIterator`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.control_records import (
    ControlRecord,
    decode_known_control,
    encode_control,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.record_batch.record_batch import (
    CONTROL,
    BatchHeader,
    build_batch,
    crc_is_valid,
    iterate_headers,
    iterate_records,
)
from jbodlab.vocabulary.errors import DecodeError, JbodlabError

MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Largest batch, header included; an atomic list of records that needs more is refused."""


class BatchTooLargeError(JbodlabError):
    """Records that must be in one batch do not fit into it."""


class MetadataBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded batch; `records` holds offsets with data or with control records."""

    base_offset: int
    last_offset: int
    epoch: int
    """Leader epoch in which it was appended."""
    timestamp_ms: int
    is_control: bool
    records: tuple[tuple[int, VersionedRecord | ControlRecord], ...]
    size: int
    """Bytes in the log."""
    crc: int

    @property
    def data_records(self) -> tuple[tuple[int, VersionedRecord], ...]:
        """Offsets and data records; empty for a control batch."""
        return tuple(
            (offset, item) for offset, item in self.records if isinstance(item, VersionedRecord)
        )


def control_batch(
    *records: ControlRecord, base_offset: int, epoch: int, timestamp_ms: int
) -> bytes:
    """Return one batch of control records."""
    return build_batch(
        [encode_control(record) for record in records],
        base_offset=base_offset,
        leader_epoch=epoch,
        timestamp_ms=timestamp_ms,
        attributes=CONTROL,
    )


def read_batches(data: bytes | bytearray | memoryview) -> Iterator[MetadataBatch]:
    """Decode batch after batch; an incomplete last batch ends it silently.

    Raises:
        DecodeError: a CRC is wrong, or a batch is none that the metadata log may hold.
    """
    for position, header in iterate_headers(data):
        yield decode_batch(data, position, header)


def decode_batch(
    data: bytes | bytearray | memoryview, position: int, header: BatchHeader
) -> MetadataBatch:
    """Decode the batch that begins at a position.

    Raises:
        DecodeError: as for `read_batches`.
    """
    if not crc_is_valid(data, position, header):
        raise DecodeError(f"batch at offset {header.base_offset} has a wrong CRC")
    records: tuple[tuple[int, VersionedRecord | ControlRecord], ...]
    if header.is_control:
        records = tuple(_control_records(data, position, header))
    else:
        records = tuple(_data_records(data, position, header))
    count = header.records_count
    if count == 0 or header.last_offset_delta != count - 1:
        raise DecodeError(
            f"batch at offset {header.base_offset} has {count} records and last offset "
            f"{header.last_offset}"
        )
    return MetadataBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=header.partition_leader_epoch,
        timestamp_ms=header.base_timestamp,
        is_control=header.is_control,
        records=records,
        size=header.size,
        crc=header.crc,
    )


def _control_records(
    data: bytes | bytearray | memoryview, position: int, header: BatchHeader
) -> Iterator[tuple[int, ControlRecord]]:
    for record in iterate_records(data, position, header):
        control = decode_known_control(record.key, record.value)
        if control is not None:
            yield record.offset, control


def _data_records(
    data: bytes | bytearray | memoryview, position: int, header: BatchHeader
) -> Iterator[tuple[int, VersionedRecord]]:
    for index, record in enumerate(iterate_records(data, position, header)):
        if record.offset != header.base_offset + index:
            raise DecodeError(
                f"record {index} of the batch at offset {header.base_offset} has offset "
                f"{record.offset}"
            )
        if record.timestamp != header.base_timestamp:
            raise DecodeError(f"metadata record at offset {record.offset} has its own timestamp")
        if record.key is not None or record.headers:
            raise DecodeError(f"metadata record at offset {record.offset} has a key or headers")
        yield record.offset, frame.decode(record.value)
