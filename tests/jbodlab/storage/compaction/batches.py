"""Batches to be compacted."""

from __future__ import annotations

import struct

from jbodlab.record_batch.compression import compress
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import CRC_OFFSET
from jbodlab.record_batch.varint import varint


def record(offset_delta: int, timestamp_delta: int, key: bytes, value: bytes | None) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    body += varint(len(key)) + key
    body += b"\x01" if value is None else varint(len(value)) + value
    body += b"\0"
    return varint(len(body)) + body


def batch_of(*records: bytes, codec: int = 0, attributes: int = 0, **fields: int) -> bytes:
    """Return a batch at offset 100 with base timestamp 5000, of producer 42."""
    known = {
        "max_timestamp": 5_020,
        "producer_id": 42,
        "producer_epoch": 1,
        "base_sequence": 7,
        "base_timestamp": 5_000,
        "last_offset_delta": len(records) - 1,
    } | fields
    body = compress(codec, b"".join(records))
    batch = bytearray(
        struct.pack(
            ">qiibIhiqqqhii",
            100,
            49 + len(body),
            3,
            2,
            0,
            attributes | codec,
            known["last_offset_delta"],
            known["base_timestamp"],
            known["max_timestamp"],
            known["producer_id"],
            known["producer_epoch"],
            known["base_sequence"],
            len(records),
        )
        + body
    )
    struct.pack_into(">I", batch, CRC_OFFSET, crc32c(batch[21:]))
    return bytes(batch)
