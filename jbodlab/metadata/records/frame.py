"""One record <-> the bytes of a data record's value.

    unsigned varint  frame version, 1
    unsigned varint  api key, the record's type
    unsigned varint  version of the type's schema
    body             fields and tagged section

Source: `org.apache.kafka.server.common.serialization.AbstractApiMessageSerde`.
"""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.kafka_wire.schema import EncodeError
from jbodlab.metadata.records.json_text import data_text
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.record_batch.varint import read_uvarint, uvarint
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

FRAME_VERSION = 1
MAX_NUMBER = 32_767
"""Limit of each of the three numbers."""


class VersionedRecord(NamedTuple):
    """A record and the schema version it has, or shall have, on disk."""

    record: Record
    version: int


def encode(record: Record, version: int) -> bytes:
    """Return the bytes of a record, envelope included.

    Raises:
        EncodeError: the type has no such version, or the version cannot hold the record.
    """
    if isinstance(record, RawRecord):
        return _envelope(record.api_key, record.version) + record.body
    if not 0 <= version <= record.HIGHEST_VERSION:
        raise EncodeError(f"{record.NAME} has versions 0-{record.HIGHEST_VERSION}, got {version}")
    return bytes((FRAME_VERSION, record.API_KEY, version)) + encode_body(record, version)


def decode(value: bytes | memoryview | None) -> VersionedRecord:
    """Return the record of a value, a `RawRecord` if its type is not known.

    A version above the highest known one is read with the layout of the highest, as Kafka does:
    it fails only if bytes are missing or left over.

    Raises:
        DecodeError: the value is not a record for another reason.
    """
    if not value:
        raise DecodeError("metadata record has no value")
    data = value if isinstance(value, bytes) else bytes(value)
    if len(data) > 3 and data[0] == FRAME_VERSION and data[1] < 0x80 and data[2] < 0x80:
        api_key, version, position = data[1], data[2], 3
    else:
        api_key, version, position = _read_envelope(data)
    cls = RECORD_TYPES.get(api_key)
    if cls is None:
        raw = RawRecord(api_key=api_key, version=version, body=data[position:])
        return VersionedRecord(raw, version)
    record, end = decode_body(cls, min(version, cls.HIGHEST_VERSION), data, position)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} unexpected bytes after {cls.NAME} v{version}")
    return VersionedRecord(record, version)


def type_and_version(value: bytes) -> tuple[int, int]:
    """Return the type and the version that the envelope of a record names.

    Raises:
        DecodeError: the envelope is incomplete.
    """
    api_key, version, _ = _read_envelope(value)
    return api_key, version


def payload_text(versioned: VersionedRecord) -> str:
    """Return the JSON that Kafka's dump tool prints behind ``payload:``."""
    record, version = versioned
    data = data_text(record, min(version, record.HIGHEST_VERSION))
    return f'{{"type":"{record.NAME}","version":{version},"data":{data}}}'


def _read_envelope(data: bytes) -> tuple[int, int, int]:
    """Return type and version, and where the body begins."""
    position = 0
    numbers = []
    for name in ("frame version", "type", "version"):
        try:
            number, position = read_uvarint(data, position)
        except IndexError:
            raise BufferUnderflowError("metadata record is cut short in its envelope") from None
        if number > MAX_NUMBER:
            raise DecodeError(f"metadata record with {name} {number}")
        numbers.append(number)
    frame_version, api_key, version = numbers
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata record with frame version {frame_version}")
    return api_key, version, position


def _envelope(api_key: int, version: int) -> bytes:
    return uvarint(FRAME_VERSION) + uvarint(api_key) + uvarint(version)
