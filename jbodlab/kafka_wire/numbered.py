"""Keys and values of coordinators' records: an int16, and the fields that it says of.

The number is the record type in a key, and the version in a value.

Source: `org.apache.kafka.common.protocol.MessageUtil`.
"""

from __future__ import annotations

import struct
from typing import Any

from jbodlab.kafka_wire.codec import StructT, decode_body, encode_body
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

_NUMBER = struct.Struct(">h")


def encode_numbered(number: int, entity: Any, version: int) -> bytes:
    """Return a number and the fields of a version.

    Raises:
        EncodeError: a field does not fit.
    """
    return _NUMBER.pack(number) + encode_body(entity, version)


def number_of(data: bytes, what: str) -> int:
    """Return the number; `what` names it in the error.

    Raises:
        BufferUnderflowError: there is none.
    """
    if len(data) < _NUMBER.size:
        raise BufferUnderflowError(f"{what} is cut short")
    (number,) = _NUMBER.unpack_from(data)
    return int(number)


def decode_numbered(cls: type[StructT], version: int, data: bytes, what: str) -> StructT:
    """Return the fields behind the number; `what` names them in the error.

    Raises:
        DecodeError: the bytes are not exactly these fields.
    """
    decoded, end = decode_body(cls, version, data, _NUMBER.size)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} unexpected bytes after {what}")
    return decoded
