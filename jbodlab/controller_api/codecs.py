"""How parts of a value are translated: expressions of Python, and what these call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from jbodlab.controller_api import type_hints, wire_table
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID

ID_SIZE_BYTES = 16

Source = str
"""An expression of Python."""


class Codec(NamedTuple):
    """The source of what one thing becomes, given the source of the thing itself."""

    encode: Callable[[Source], Source]
    decode: Callable[[Source], Source]


ITSELF = Codec(lambda value: value, lambda raw: raw)


class FieldCodec(NamedTuple):
    """A part of a value, and the fields of a message that hold it.

    Attributes:
        encode: Names of the fields and the sources of their content, given the part.
        decode: The source of the part, given the message.
    """

    encode: Callable[[Source], dict[str, Source]]
    decode: Callable[[Source], Source]


def field_codec(name: str, codec: Codec) -> FieldCodec:
    """Return the codec of a part that is always there, in a field of this name."""
    return FieldCodec(
        lambda value: {name: codec.encode(value)},
        lambda message: codec.decode(f"{message}.{name}"),
    )


def known_from(variable: Source) -> FieldCodec:
    """Return the codec of a part that is no field, but is in a variable already."""
    return FieldCodec(lambda _: {}, lambda _: variable)


def scalar(hint: Any, where: str) -> Codec:
    """Return the codec of a type for which there is no message; `where` names its field."""
    plain = type_hints.plain(hint)
    if plain is UUID:
        return Codec(lambda value: f"{value}.bytes", lambda raw: f"to_uuid({where!r}, {raw})")
    if plain is ErrorCode:
        return Codec(lambda value: value, lambda raw: f"to_error_code({raw})")
    assert plain in (bool, bytes, float, int, str), f"{where}: {hint}"
    return ITSELF


def optional_id(where: str) -> Codec:
    """Return the codec of an id that may be None, where no bytes at all stand for that."""
    return Codec(
        lambda value: f"(b'' if {value} is None else {value}.bytes)",
        lambda raw: f"to_optional_uuid({where!r}, {raw})",
    )


def optional_field(name: str, item: Codec, is_optional: bool, absent: Source) -> FieldCodec:
    """Return the codec of a part whose field may be absent.

    Args:
        name: The field.
        item: What it holds.
        is_optional: Whether the part may be None, which leaves the field out.
        absent: What an absent field stands for.
    """

    def encode(value: Source) -> dict[str, Source]:
        source = item.encode(value)
        # Protocol Buffers take None for an absent field.
        if is_optional and source != value:
            source = f"(None if {value} is None else {source})"
        return {name: source}

    def decode(message: Source) -> Source:
        source = item.decode(f"{message}.{name}")
        return f"({source} if {message}.HasField({name!r}) else {absent})"

    return FieldCodec(encode, decode)


def nullable_list(name: str, items: Codec, place: tuple[type, str] | None) -> FieldCodec:
    """Return the codec of a list that may be None, in a field `place` of a value."""
    flag, null = ("", False) if place is None else wire_table.FLAGS.get(place, ("", False))

    def encode(value: Source) -> dict[str, Source]:
        content = {name: items.encode(f"({value} or ())")}
        if flag:
            content[flag] = f"{value} is {'None' if null else 'not None'}"
        return content

    def decode(message: Source) -> Source:
        has_list = f"{message}.{flag} is {not null}" if flag else f"{message}.{name}"
        return f"({items.decode(f'{message}.{name}')} if {has_list} else None)"

    return FieldCodec(encode, decode)


def to_uuid(field: str, raw: bytes) -> UUID:
    """Return the id of these bytes.

    Raises:
        DecodeError: they are not 16.
    """
    if len(raw) != ID_SIZE_BYTES:
        raise DecodeError(f"field {field} has {len(raw)} bytes where an id has {ID_SIZE_BYTES}")
    return UUID(bytes=raw)


def to_optional_uuid(field: str, raw: bytes) -> UUID | None:
    """Return the id of these bytes; None without any, and for zeros.

    Raises:
        DecodeError: they are neither none nor 16.
    """
    found = to_uuid(field, raw) if raw else ZERO_UUID
    return None if found == ZERO_UUID else found


def to_error_code(number: int) -> ErrorCode:
    """Return the error code with a number.

    Raises:
        DecodeError: Kafka has none with this number.
    """
    try:
        return ErrorCode(number)
    except ValueError:
        raise DecodeError(f"{number} is not a Kafka error code") from None
