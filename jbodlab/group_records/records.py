"""One record of `__consumer_offsets`: key and value as bytes and as values.

Key: int16 record type, fields. Value: int16 version, fields; null is a tombstone.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde`.
"""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.group_records.keys import KEY_TYPES, AnyKey
from jbodlab.group_records.values import VALUE_TYPES, GroupValue
from jbodlab.kafka_wire.numbered import decode_numbered, encode_numbered, number_of
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError


class GroupRecord(NamedTuple):
    """State of a key from here on; a value of None takes the entry away."""

    key: AnyKey
    value: GroupValue | None


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record.

    Raises:
        EncodeError: a field does not fit, such as a group id of more than 32767 bytes.
    """
    key, value = record
    encoded_key = encode_numbered(key.RECORD_TYPE, key, 0)
    if value is None:
        return encoded_key, None
    assert VALUE_TYPES[type(key)] is type(value), record
    version = value.written_version
    return encoded_key, encode_numbered(version, value, version)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Return the record that key and value hold.

    Raises:
        UnknownRecordTypeError: a share group, a streams group or a newer release has this type.
        DecodeError: anything else that is not a record.
    """
    if key is None:
        raise DecodeError("group record has no key")
    record_type = number_of(key, "the record type of a group record")
    key_type = KEY_TYPES.get(record_type)
    if key_type is None:
        raise UnknownRecordTypeError(record_type)
    decoded_key = decode_numbered(key_type, 0, key, key_type.__name__)
    return GroupRecord(decoded_key, None if value is None else decode_value(key_type, value)[0])


def decode_value(key_type: type[AnyKey], value: bytes) -> tuple[GroupValue, int]:
    """Return the value that stands under a key of some type, and its version.

    Raises:
        DecodeError: the bytes are no such value, or of a version that is not known.
    """
    value_type = VALUE_TYPES[key_type]
    version = number_of(value, "the version of a group record")
    name, highest = value_type.__name__, value_type.HIGHEST_VERSION
    if not 0 <= version <= highest:
        raise DecodeError(f"expected {name} of version 0-{highest}, got {version}")
    return decode_numbered(value_type, version, value, f"{name} v{version}"), version
