"""Decoding by columns agrees with the one definition of the records, on sound and damaged bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.read.record_columns import Lists, Values, decode_columns, reads
from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.schema import EncodeError, field_specs
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from jbodlab.vocabulary.errors import DecodeError
from tests.analytics.source_rows import VERSIONS, records_of

_NULL = object()
BY_COLUMNS = [(cls, version) for cls, version in VERSIONS if reads(cls, version)]


@st.composite
def bodies(draw: st.DrawFn, cls: type[Record], version: int) -> list[bytes]:
    raw = []
    for record in draw(st.lists(records_of(cls, version), min_size=1, max_size=8)):
        try:
            body = encode_body(record, version)
        except EncodeError:
            continue
        edit = draw(st.sampled_from(["none", "none", "cut", "byte", "more", "tags"]))
        if edit == "cut":
            body = body[: draw(st.integers(0, len(body)))]
        elif edit == "byte" and body:
            at = draw(st.integers(0, len(body) - 1))
            body = body[:at] + bytes([draw(st.integers(0, 255))]) + body[at + 1 :]
        elif edit == "more":
            body += draw(st.binary(max_size=3))
        elif edit == "tags":
            body = body[:-1] + draw(st.binary(max_size=12))
        raw.append(body)
    return raw


def _plain(cls: type[Record], version: int, body: bytes) -> Record | None:
    try:
        record, end = decode_body(cls, version, body)
    except DecodeError:
        return None
    assert isinstance(record, Record)
    return record if end == len(body) and not record.unknown_tags else None


def _read(column: Values | Lists, kind: Kind, row: int, default: object) -> object:
    if not column.present[row]:
        if isinstance(column, Lists):
            assert column.offsets[row] == column.offsets[row + 1]
            return default if not kind.nullable else _NULL
        return default
    if isinstance(column, Values):
        value = column.values[row]
        return UUID(bytes=value.tobytes()) if kind.form is Form.UUID else value.item()
    values = column.values[column.offsets[row] : column.offsets[row + 1]]
    if kind.form is Form.STRING:
        return values.tobytes().decode()
    if kind.form is Form.BYTES:
        return values.tobytes()
    assert kind.element is not None
    if kind.element.form is Form.UUID:
        return tuple(UUID(bytes=value.tobytes()) for value in values)
    return tuple(values.tolist())


def _layout(raw: list[bytes]) -> tuple[Any, Any, Any]:
    lengths = np.array([len(body) for body in raw], dtype=np.int64)
    ends = 2 + np.cumsum(lengths + 3) - 3
    data = b"\xff\xff" + b"".join(body + b"\x01\x00\x80" for body in raw)
    return np.frombuffer(data, dtype=np.uint8), ends - lengths, ends


@pytest.mark.parametrize(
    ("cls", "version"), BY_COLUMNS, ids=[f"{cls.NAME}-{version}" for cls, version in BY_COLUMNS]
)
@pytest.mark.parametrize("count", [6, pytest.param(40, marks=pytest.mark.soak)])
def test_columns_are_the_fields_of_the_plain_decoder(
    cls: type[Record], version: int, count: int
) -> None:
    @settings(max_examples=count)
    @given(bodies(cls, version))
    def holds(raw: list[bytes]) -> None:
        assert_agree(cls, version, raw)

    holds()


def assert_agree(cls: type[Record], version: int, raw: list[bytes]) -> None:
    decoded = decode_columns(cls, version, *_layout(raw))
    for row, body in enumerate(raw):
        record = _plain(cls, version, body)
        if record is None:
            assert decoded.plain[row]
        if decoded.plain[row]:
            continue
        assert record is not None
        for spec in field_specs(cls):
            expected = getattr(record, spec.name)
            found = _read(decoded.fields[spec.name], spec.kind, row, spec.default)
            if found is _NULL:
                assert expected in (None, spec.default)
            elif spec.kind.code == "d":
                assert np.array_equal(found, expected, equal_nan=True)  # type: ignore[arg-type]
            else:
                assert found == expected


@pytest.mark.parametrize(("cls", "version"), BY_COLUMNS)
def test_sound_records_are_not_left_to_the_plain_decoder(cls: type[Record], version: int) -> None:
    raw = [encode_body(cls(), version)] * 3
    assert not decode_columns(cls, version, *_layout(raw)).plain.any()


def test_types_with_nested_structs_are_left_to_the_plain_decoder() -> None:
    left = {cls.NAME for cls, version in VERSIONS if not reads(cls, version)}
    assert left == {
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "CLIENT_QUOTA_RECORD",
        "DELEGATION_TOKEN_RECORD",
    }
    cls = RECORD_TYPES[0]
    assert decode_columns(cls, 4, *_layout([encode_body(cls(), 4)])).plain.all()


def test_a_version_above_the_highest_is_read_as_the_highest() -> None:
    record = PartitionChangeRecord(partition_id=3, last_known_elr=())
    body = frame.encode(record, 2)[3:]
    decoded = decode_columns(PartitionChangeRecord, 77, *_layout([body]))
    assert not decoded.plain.any()
    assert decoded.fields["last_known_elr"].present.all()
    assert not decoded.fields["isr"].present.any()


def test_no_rows_give_empty_columns() -> None:
    decoded = decode_columns(PartitionRecord, 2, *_layout([]))
    assert {len(column.present) for column in decoded.fields.values()} == {0}
