"""Protobuf messages <-> the values of `jbodlab.controller_api.requests`, both ways.

Each value has a message of the same name, with fields of the same names. No protobuf type travels
beyond the modules that call these functions. A mistake of a peer is refused here, with a
`DecodeError` that names the field: an id that is not 16 bytes, an error code that Kafka has not.

How a field is translated follows from its type in the value:

    id (UUID)               16 bytes
    error code              its number
    number, text, bytes     itself
    struct                  the message with its fields
    tuple of fixed length   the message with its elements, in the order of the field numbers
    tuple of any length     a list of these; where it may be None, or is in a list: the message
                            whose only field is that list
    None                    an absent field

As `dataclasses` does, this module writes the source of a function and compiles it, once for each
message: heartbeats and assignments of ten thousand replicas are too frequent for a walk over types.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api import requests
from jbodlab.controller_api.messages import SERVICE
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError

ID_SIZE_BYTES = 16
IDS_KEPT = 256
"""Of each field; neighbours in a list of assignments mostly share the directory or the topic."""

Source = str
"""An expression of Python."""


class FieldCodec(NamedTuple):
    """The source of what one thing becomes, given the source of the thing itself."""

    encode: Callable[[Source], Source]
    decode: Callable[[Source], Source]


ITSELF = FieldCodec(lambda value: value, lambda raw: raw)
Functions = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def to_proto(value: object) -> Any:
    """Return the protobuf message of a value of `jbodlab.controller_api.requests`."""
    return _TO_PROTO[type(value)](value)


def from_proto(message: Message) -> Any:
    """Return the value of `jbodlab.controller_api.requests` that a protobuf message stands for.

    Raises:
        DecodeError: an id is not 16 bytes, or an error code is not one of Kafka's.
    """
    return _FROM_PROTO[type(message)](message)


def make_functions(kind: type, descriptor: Descriptor) -> Functions:
    """Return `to_proto` and `from_proto` of a struct and its message.

    Raises:
        AssertionError: the fields of one are not those of the other.
    """
    writer = _Writer()
    codec = writer.message(kind, descriptor, "")
    source = (
        f"def to_proto(value):\n    return {codec.encode('value')}\n"
        f"def from_proto(message):\n    return {codec.decode('message')}\n"
    )
    exec(compile(source, f"<{kind.__name__}>", "exec"), writer.names)
    return writer.names["to_proto"], writer.names["from_proto"]


class _Writer:
    """Writes the expressions of one message; `where` leads to their field in error texts."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"to_error_code": _to_error_code}
        """Objects that the expressions name."""
        self._numbers = count()

    def message(self, hint: Any, descriptor: Descriptor, where: str) -> FieldCodec:
        """Return the codec of a value for which there is a message."""
        wires = sorted(descriptor.fields, key=lambda each: each.number)
        if typing.get_origin(hint) is not tuple:
            hints = typing.get_type_hints(hint)
            assert set(hints) == {each.name for each in wires}, (
                f"the fields of {hint} are not those of {descriptor.name}"
            )
            paths = {each.name: f".{each.name}" for each in wires}
            begin, named = f"{self._name(hint)}(", True
        elif _is_list(hint):
            hints, paths, begin, named = {wires[0].name: hint}, {wires[0].name: ""}, "(", False
        else:
            elements = zip(wires, typing.get_args(hint), strict=True)
            hints = {wire.name: element for wire, element in elements}
            paths = {each.name: f"[{number}]" for number, each in enumerate(wires)}
            begin, named = "(", False
        fields = {each.name: self._field(hints[each.name], each, where) for each in wires}
        made = self._name(GetMessageClass(descriptor))

        def encode(value: Source) -> Source:
            content = (
                f"{name}={each.encode(value + paths[name])}" for name, each in fields.items()
            )
            return f"{made}({', '.join(content)})"

        def decode(message: Source) -> Source:
            parts = [
                (f"{name}=" if named else "") + each.decode(f"{message}.{name}")
                for name, each in fields.items()
            ]
            # A tuple of one element would need another comma.
            return f"{begin}{', '.join(parts)})"

        return FieldCodec(encode, decode)

    def _field(self, hint: Any, wire: FieldDescriptor, where: str) -> FieldCodec:
        """Return the codec of what one field of a message holds."""
        where += wire.name
        present = _without_none(hint)
        if _is_repeated(wire):
            assert present is hint, f"{wire.full_name} cannot be absent"
            return self._list(typing.get_args(hint)[0], wire, where)
        item = self._item(present, wire, where)
        assert wire.has_presence is (present is not hint), (
            f"{wire.full_name} is optional, and its value is not, or the other way round"
        )
        return _optional(item) if present is not hint else item

    def _item(self, hint: Any, wire: FieldDescriptor, where: str) -> FieldCodec:
        """Return the codec of what a field holds, or of one element of a list."""
        if wire.message_type is not None:
            return self.message(hint, wire.message_type, f"{where}.")
        while isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        if hint is UUID:
            to_uuid = self._name(lru_cache(IDS_KEPT)(partial(_to_uuid, where)))
            # As `UUID.bytes`, which is a call of Python.
            return FieldCodec(
                lambda value: f"{value}.int.to_bytes({ID_SIZE_BYTES})",
                lambda raw: f"{to_uuid}({raw})",
            )
        if hint is ErrorCode:
            return FieldCodec(lambda value: value, lambda raw: f"to_error_code({raw})")
        assert hint in (bool, bytes, float, int, str), f"{where}: {hint}"
        return ITSELF

    def _list(self, element: Any, wire: FieldDescriptor, where: str) -> FieldCodec:
        item = self._item(element, wire, where)
        if item is ITSELF:
            return FieldCodec(lambda value: value, lambda raw: f"tuple({raw})")
        each = f"each_{next(self._numbers)}"
        return FieldCodec(
            lambda value: f"[{item.encode(each)} for {each} in {value}]",
            lambda raw: f"tuple([{item.decode(each)} for {each} in {raw}])",
        )

    def _name(self, it: object) -> Source:
        """Return a name by which an expression can speak of something."""
        name = f"constant_{next(self._numbers)}"
        self.names[name] = it
        return name


def _optional(item: FieldCodec) -> FieldCodec:
    def encode(value: Source) -> Source:
        source = item.encode(value)
        # Protocol Buffers take None for an absent field.
        return source if source == value else f"(None if {value} is None else {source})"

    def decode(raw: Source) -> Source:
        message, _, name = raw.rpartition(".")
        return f"({item.decode(raw)} if {message}.HasField({name!r}) else None)"

    return FieldCodec(encode, decode)


def _is_repeated(field: Any) -> bool:
    """Return whether a field of a descriptor is a list, in any version of protobuf."""
    # `is_repeated` came with 6.31; the label, which says the same, went with 7.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def _is_list(hint: Any) -> bool:
    """Return whether a type is a tuple of any length."""
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] == (Ellipsis,)


def _without_none(hint: Any) -> Any:
    """Return a type without None; the type itself where None is not among its values."""
    left = [each for each in typing.get_args(hint) if each is not types.NoneType]
    return left[0] if types.NoneType in typing.get_args(hint) else hint


def _to_uuid(where: str, raw: bytes) -> UUID:
    """Return the id of these bytes.

    Raises:
        DecodeError: they are not 16.
    """
    if len(raw) != ID_SIZE_BYTES:
        raise DecodeError(f"field {where} has {len(raw)} bytes where an id has {ID_SIZE_BYTES}")
    return UUID(bytes=raw)


@lru_cache
def _to_error_code(number: int) -> ErrorCode:
    """Return the error code with a number.

    Raises:
        DecodeError: Kafka has none with this number.
    """
    try:
        return ErrorCode(number)
    except ValueError:
        raise DecodeError(f"{number} is not a Kafka error code") from None


_TO_PROTO: dict[type, Callable[[Any], Any]] = {}
_FROM_PROTO: dict[type, Callable[[Any], Any]] = {}
for _method in SERVICE.methods:
    for _descriptor in (_method.input_type, _method.output_type):
        _kind = getattr(requests, _descriptor.name)
        _functions = make_functions(_kind, _descriptor)
        _TO_PROTO[_kind], _FROM_PROTO[GetMessageClass(_descriptor)] = _functions
