"""Batches of the formats before the present one, magic 0 and 1: their one line.

    0   int64   offset of the last record
    8   int32   size of what follows
    12  uint32  CRC-32 of what follows
    16  int8    magic
    17  int8    attributes: bits 0-2 codec, bit 3 timestamp type
    18  int64   timestamp, only with magic 1

No release since 3.0 writes them, and the metadata log never had them, so records are not opened.

Source: `org.apache.kafka.common.record.LegacyRecord`.
"""

from __future__ import annotations

import struct
import zlib

from jbodlab.protocol.record_batch import COMPRESSION_MASK, LOG_APPEND_TIME
from storage_tool.dump.reader import HEAD_SIZE, MAGIC_OFFSET, RawBatch
from storage_tool.dump.report import Report, bool_text, codec_name

_HEAD = struct.Struct(">qiIb")
_TIMESTAMP = struct.Struct(">q")
_ATTRIBUTES_OFFSET = 17
_TIMESTAMP_OFFSET = 18
_SIZES_MIN = (26, 34)
"""Least size of a batch of magic 0 and 1."""


def legacy_batch(report: Report, shown: str, batch: RawBatch, *, deep: bool) -> None:
    """Report a batch of an old format."""
    data, position = batch.data, batch.position
    assert len(data) > HEAD_SIZE
    offset, _, crc, magic = _HEAD.unpack_from(data)
    if magic < 0 or len(data) < _SIZES_MIN[magic]:
        report.problem(
            shown,
            f"batch at position {position} has {len(data)} bytes and magic {magic}",
            position=position,
        )
        return
    attributes = data[_ATTRIBUTES_OFFSET]
    timestamp, timestamp_type = -1, "NoTimestampType"
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(data, _TIMESTAMP_OFFSET)
        timestamp_type = "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime"
    codec = codec_name(attributes & COMPRESSION_MASK)
    is_valid = zlib.crc32(data[MAGIC_OFFSET:]) == crc
    report.legacy_batch(
        f"offset: {offset} position: {position} {timestamp_type}: {timestamp} size: {len(data)} "
        f"magic: {magic} compresscodec: {codec} crc: {crc} isvalid: {bool_text(is_valid)}",
        lastOffset=offset,
        position=position,
        timestampType=timestamp_type,
        timestamp=timestamp,
        size=len(data),
        magic=magic,
        compresscodec=codec,
        crc=crc,
        isvalid=is_valid,
    )
    if deep:
        report.problem(
            shown,
            f"cannot read the records of the batch at position {position}: it has magic {magic}",
            position=position,
            offset=offset,
        )
