"""Fields of records as columns; test_columns_rows holds them against the plain decoder."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.read.record_columns import DecodedColumns, decode_columns, reads
from jbodlab.kafka_wire.codec import encode_body
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from tests.analytics.source_rows import VERSIONS


def decode(cls: type[Record], version: int, *raw: bytes) -> DecodedColumns:
    lengths = np.array([len(body) for body in raw], dtype=np.int64)
    ends = 2 + np.cumsum(lengths + 3) - 3
    data = b"\xff\xff" + b"".join(body + b"\x01\x00\x80" for body in raw)
    return decode_columns(cls, version, np.frombuffer(data, dtype=np.uint8), ends - lengths, ends)


@pytest.mark.parametrize(("cls", "version"), [each for each in VERSIONS if reads(*each)])
def test_sound_records_are_not_left_to_the_plain_decoder(cls: type[Record], version: int) -> None:
    assert not decode(cls, version, *[encode_body(cls(), version)] * 3).plain.any()


def test_types_with_nested_structs_are_left_to_the_plain_decoder() -> None:
    left = {cls.NAME for cls, version in VERSIONS if not reads(cls, version)}
    assert left == {
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "CLIENT_QUOTA_RECORD",
        "DELEGATION_TOKEN_RECORD",
    }
    cls = RECORD_TYPES[0]
    assert decode(cls, 4, encode_body(cls(), 4)).plain.all()


def test_a_version_above_the_highest_is_read_as_the_highest() -> None:
    record = PartitionChangeRecord(partition_id=3, last_known_elr=())
    decoded = decode(PartitionChangeRecord, 77, frame.encode(record, 2)[3:])
    assert not decoded.plain.any()
    assert decoded.fields["last_known_elr"].present.all()
    assert not decoded.fields["isr"].present.any()


def test_no_rows_give_empty_columns() -> None:
    decoded = decode(PartitionRecord, 2)
    assert {len(column.present) for column in decoded.fields.values()} == {0}
