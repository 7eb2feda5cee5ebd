"""One record of `__consumer_offsets`: key and value as bytes and as values.

Key: int16 record type, fields. Value: int16 version, fields; null is a tombstone.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from jbodlab.group_records.keys import KEY_TYPES, AnyKey
from jbodlab.group_records.values import VALUE_TYPES, GroupValue
from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.vocabulary.errors import (
    BufferUnderflowError,
    DecodeError,
    UnknownRecordTypeError,
)

_NUMBER = struct.Struct(">h")


class GroupRecord(NamedTuple):
    """What is known of a key from here on; a value of None takes the entry away."""

    key: AnyKey
    value: GroupValue | None


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record.

    Raises:
        EncodeError: a field does not fit, such as a group id of more than 32767 bytes.
    """
    key, value = record
    encoded_key = _NUMBER.pack(key.RECORD_TYPE) + encode_body(key, 0)
    if value is None:
        return encoded_key, None
    assert VALUE_TYPES[type(key)] is type(value), record
    version = value.written_version
    return encoded_key, _NUMBER.pack(version) + encode_body(value, version)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Return the record that key and value hold.

    Raises:
        UnknownRecordTypeError: a share group, a streams group or a newer release has this type.
        DecodeError: anything else that is not a record.
    """
    if key is None:
        raise DecodeError("group record has no key")
    record_type = _number(key, "record type")
    key_type = KEY_TYPES.get(record_type)
    if key_type is None:
        raise UnknownRecordTypeError(record_type)
    decoded_key, end = decode_body(key_type, 0, key, _NUMBER.size)
    _check_end(end, key, key_type.__name__)
    return GroupRecord(decoded_key, None if value is None else decode_value(key_type, value)[0])


def decode_value(key_type: type[AnyKey], value: bytes) -> tuple[GroupValue, int]:
    """Return the value that stands under a key of some type, and its version.

    Raises:
        DecodeError: the bytes are no such value, or of a version that is not known.
    """
    value_type = VALUE_TYPES[key_type]
    version = _number(value, "version")
    name, highest = value_type.__name__, value_type.HIGHEST_VERSION
    if not 0 <= version <= highest:
        raise DecodeError(f"expected {name} of version 0-{highest}, got {version}")
    decoded, end = decode_body(value_type, version, value, _NUMBER.size)
    _check_end(end, value, f"{name} v{version}")
    return decoded, version


def _number(data: bytes, what: str) -> int:
    if len(data) < _NUMBER.size:
        raise BufferUnderflowError(f"group record is cut short in its {what}")
    (number,) = _NUMBER.unpack_from(data)
    return int(number)


def _check_end(end: int, data: bytes, what: str) -> None:
    if end != len(data):
        raise DecodeError(f"{len(data) - end} unexpected bytes after {what}")
