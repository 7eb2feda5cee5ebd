"""What the generated codecs ask of kio's classes: field types, tags, sizes on the wire."""

from __future__ import annotations

import datetime
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

EntityClass = Any
"""A class that kio generated for one version of a message; these classes have no common base."""

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
"""Types whose value goes unchanged into a struct format."""

FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "error_code": 2,
    "uuid": 16,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
"""Every type that has one size; strings, bytes and records have a length before them."""

MAX_VARINT_BYTES = 5


def primitive_kind(kind: str | None) -> str:
    """Return the type of a field that is neither a struct nor an array of them."""
    assert kind is not None
    return kind


def is_struct(annotation: Any) -> bool:
    """Return whether a field or an array item is a struct with fields of its own."""
    return is_dataclass(annotation)


def unwrap(annotation: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and True; anything else comes back with False."""
    if get_origin(annotation) is UnionType:
        inner = next(argument for argument in get_args(annotation) if argument is not NoneType)
        return inner, True
    return annotation, False


def tag_of(field: Field[Any]) -> int | None:
    """Return the tag of a tagged field, None for an ordinary one."""
    tag: int | None = field.metadata.get("tag")
    return tag


def default_of(field: Field[Any]) -> Any:
    """Return what a field means where it is absent.

    The zero value of the type where the schema names no default; for a struct, the defaults of
    its fields.
    """
    if field.default is not MISSING:
        return field.default
    annotation, optional = unwrap(field.type)
    if optional:
        return None
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return annotation(**{nested.name: default_of(nested) for nested in fields(annotation)})
    if get_origin(annotation) is tuple:
        return ()
    kind = primitive_kind(field.metadata.get("kafka_type"))
    if kind in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(0)
    return {"string": "", "bytes": b"", "bool": False, "uuid": None}.get(kind, 0)


def read_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it.

    Raises:
        DecodeError: the bytes end inside it, or it is longer than five bytes.
    """
    value = 0
    for index in range(MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise BufferUnderflowError("a varint reaches beyond the message")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise DecodeError(f"varint at {position} is longer than {MAX_VARINT_BYTES} bytes")
