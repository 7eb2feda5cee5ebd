"""Bytes to kio entities: kio's native decoder, and a tolerant one for tags that kio does not know.

The protocol allows a new tagged field without a new version, and a reader has to skip it; kio
raises `KeyError` there. The tolerant reader gives the same values, 10 to 30 times slower, and is
asked only then.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from typing import Any, get_args, get_origin

from jbodlab.kafka_wire.kio_import import ErrorCode as KioErrorCode
from jbodlab.kafka_wire.kio_import import SerialError, entity_reader
from jbodlab.kafka_wire.layout import (
    FIXED_FORMATS,
    EntityClass,
    default_of,
    is_struct,
    read_uvarint,
    tag_of,
    unwrap,
)
from jbodlab.kafka_wire.message_bounds import ANY_NUMBER, NULL_STRUCT, bounds_check
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

EntityReader = Callable[[bytes | memoryview, int], tuple[Any, int]]
"""(message, position) -> (entity, position after it); raises DecodeError and nothing else."""

_ERRORS = (SerialError, ValueError, struct.error, IndexError, OverflowError, TypeError)


def reader(entity_class: EntityClass, max_items: int = ANY_NUMBER) -> EntityReader:
    """Return the reader of a kio entity class.

    The reader wants bytes or a read-only memoryview, and does not mind bytes after the entity. It
    refuses one whose arrays have more than `max_items` items together before it decodes it.
    """
    native = entity_reader(entity_class)
    check = bounds_check(entity_class, max_items)

    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        check(data, position)
        try:
            entity, size = native(data, position)
        except KeyError:
            return tolerant(data, position)
        except _ERRORS as error:
            raise DecodeError(f"cannot decode {entity_class.__name__}: {error}") from error
        return entity, position + size

    def tolerant(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        try:
            return tolerant_reader(entity_class)(data, position)
        except _ERRORS as error:
            raise DecodeError(f"cannot decode {entity_class.__name__}: {error}") from error

    return read


@cache
def tolerant_reader(entity_class: EntityClass) -> EntityReader:
    """Return a reader that skips unknown tags; it may raise errors other than DecodeError."""
    flexible = entity_class.__flexible__
    ordinary = [(f.name, _field_reader(f, flexible)) for f in _fields(entity_class, tagged=False)]
    tagged_fields = _fields(entity_class, tagged=True)
    tagged = {tag_of(f): (f.name, _field_reader(f, flexible)) for f in tagged_fields}
    defaults = {f.name: default_of(f) for f in tagged_fields}

    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        values = dict(defaults)
        for name, read_field in ordinary:
            values[name], position = read_field(data, position)
        if flexible:
            count, position = read_uvarint(data, position)
            for _ in range(count):
                tag, position = read_uvarint(data, position)
                size, position = read_uvarint(data, position)
                if position + size > len(data):
                    raise BufferUnderflowError("a tag reaches beyond the message")
                if tag in tagged:
                    name, read_field = tagged[tag]
                    values[name], _ = read_field(data, position)
                position += size
        return entity_class(**values), position

    return read


def _fields(entity_class: EntityClass, *, tagged: bool) -> list[Field[Any]]:
    return [field for field in fields(entity_class) if (tag_of(field) is not None) is tagged]


def _field_reader(field: Field[Any], flexible: bool) -> EntityReader:
    annotation, optional = unwrap(field.type)
    kind = field.metadata.get("kafka_type")
    if get_origin(annotation) is tuple:
        item: EntityClass = unwrap(get_args(annotation)[0])[0]
        read_item = tolerant_reader(item) if is_struct(item) else _value(kind, flexible, False)
        return _array_reader(read_item, flexible, optional)
    if is_struct(annotation):
        read_struct = tolerant_reader(annotation)
        return _nullable(read_struct) if optional and tag_of(field) is None else read_struct
    return _value(kind, flexible, optional)


def _nullable(read_struct: EntityReader) -> EntityReader:
    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        if data[position] == NULL_STRUCT:
            return None, position + 1
        return read_struct(data, position + 1)

    return read


def _value(kind: str | None, flexible: bool, optional: bool) -> EntityReader:
    assert kind is not None
    if kind in FIXED_FORMATS:
        return _fixed_reader(FIXED_FORMATS[kind], None)
    if kind in _CONVERSIONS:
        return _fixed_reader(*_CONVERSIONS[kind])
    return _blob_reader(kind, flexible, optional)


def _fixed_reader(form: str, convert: Callable[[Any], Any] | None) -> EntityReader:
    layout = struct.Struct(">" + form)

    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        value = layout.unpack_from(data, position)[0]
        return (value if convert is None else convert(value)), position + layout.size

    return read


def _blob_reader(kind: str, flexible: bool, optional: bool) -> EntityReader:
    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        length, position = _length(data, position, flexible, short=kind == "string")
        if length < 0:
            if not optional and kind != "records":
                raise DecodeError(f"a {kind} that must be present is null")
            return None, position
        end = position + length
        if end > len(data):
            raise BufferUnderflowError(f"a {kind} reaches beyond the message")
        value = bytes(data[position:end])
        return (value.decode() if kind == "string" else value), end

    return read


def _array_reader(read_item: EntityReader, flexible: bool, optional: bool) -> EntityReader:
    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        length, position = _length(data, position, flexible, short=False)
        if length < 0:
            if not optional:
                raise DecodeError("an array that must be present is null")
            return None, position
        if length > len(data) - position:
            raise BufferUnderflowError(f"an array of {length} reaches beyond the message")
        items = []
        for _ in range(length):
            item, position = read_item(data, position)
            items.append(item)
        return tuple(items), position

    return read


def _length(
    data: bytes | memoryview, position: int, flexible: bool, *, short: bool
) -> tuple[int, int]:
    if flexible:
        length, position = read_uvarint(data, position)
        return length - 1, position
    form = ">h" if short else ">i"
    return struct.unpack_from(form, data, position)[0], position + (2 if short else 4)


def _milliseconds(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def _timestamp(value: int) -> datetime.datetime | None:
    return None if value < 0 else datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)


def _uuid(value: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes=value) if any(value) else None


_CONVERSIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "error_code": ("h", KioErrorCode),
    "uuid": ("16s", _uuid),
    "timedelta_i32": ("i", _milliseconds),
    "timedelta_i64": ("q", _milliseconds),
    "datetime_i64": ("q", _timestamp),
}
