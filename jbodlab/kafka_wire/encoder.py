"""Values to bytes: one straight-line function is generated for each kio entity class.

kio's own writer makes one call for each field; here neighbouring fields of fixed size go into one
`struct.pack`, which is five to ten times faster. The bytes are the same, and a test compares them
over every API and version that is served.

A kio class serves as the layout: the order, types and tags of one version. The value may be an
entity of that class or anything with its attributes; brokers answer with one value for all
versions of an API and let the layout leave out what the version does not have. A struct in an array
may also be given as `bytes`: those that its own class encodes it to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import cache
from typing import Any, get_args, get_origin

from jbodlab.kafka_wire.layout import (
    FIXED_FORMATS,
    EntityClass,
    default_of,
    is_struct,
    tag_of,
    unwrap,
)

Write = Callable[[bytes], object]
Encoder = Callable[[Any, Write], None]
"""(value, write): calls `write` with the pieces, such as the `append` of a list."""

Buffer = bytes | bytearray | memoryview
ResponseEncoder = Callable[[Any, bytearray], Sequence[Buffer]]
"""(value, head): writes a body behind a header; returns the pieces of both, `head` first."""

CONVERTED = {
    "error_code": ("h", "{0}.value"),
    "uuid": ("16s", "(b'' if {0} is None else {0}.bytes)"),
    "timedelta_i32": ("i", "round({0}.total_seconds() * 1000)"),
    "timedelta_i64": ("q", "round({0}.total_seconds() * 1000)"),
    "datetime_i64": ("q", "(-1 if {0} is None else round({0}.timestamp() * 1000))"),
}
"""Types whose value is converted: struct format and expression."""

_SMALL_VARINTS = 4096


def encode(entity_class: EntityClass, value: Any) -> bytes:
    """Return the bytes of one value after the layout of an entity class."""
    pieces: list[bytes] = []
    encoder(entity_class)(value, pieces.append)
    return b"".join(pieces)


def uvarint(number: int) -> bytes:
    """Return an unsigned varint."""
    return _VARINTS[number] if number < _SMALL_VARINTS else _uvarint(number)


@cache
def encoder(entity_class: EntityClass) -> Encoder:
    """Return the generated encoder of an entity class."""
    generator = _Generator()
    generator.line(0, "def encode(value, write):")
    generator.entity(1, entity_class, "value")
    return generator.compiled(entity_class.__module__)


def in_one_piece(entity_class: EntityClass) -> ResponseEncoder:
    """Return what writes a body into the buffer of its header.

    Pieces of a large one would take several times the memory of the whole.
    """
    encode_body = encoder(entity_class)

    def encode_response(value: Any, head: bytearray) -> Sequence[Buffer]:
        encode_body(value, head.extend)
        return (head,)

    return encode_response


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_VARINTS = [_uvarint(number) for number in range(_SMALL_VARINTS)]


class _Generator:
    """Source text of one encoder, and the objects that it refers to."""

    def __init__(self) -> None:
        self.source: list[str] = []
        self.names: dict[str, Any] = {"uvarint": uvarint}
        self._pending: list[tuple[str, str]] = []
        """Fixed-size fields not yet written: struct format and expression."""

    def compiled(self, name: str) -> Encoder:
        """Return the function that the source text so far defines as `encode`."""
        exec(compile("\n".join(self.source), f"<encoder of {name}>", "exec"), self.names)
        generated: Encoder = self.names["encode"]
        return generated

    def line(self, indent: int, text: str) -> None:
        self.source.append("    " * indent + text)

    def entity(self, indent: int, entity_class: EntityClass, value: str) -> None:
        flexible = entity_class.__flexible__
        tagged: list[Field[Any]] = []
        for field in fields(entity_class):
            if tag_of(field) is not None:
                tagged.append(field)
            else:
                self._field(indent, field, f"{value}.{field.name}", flexible)
        if flexible and not tagged:
            self._pending.append(("B", "0"))
        self._flush(indent)
        if tagged:
            self.line(indent, f"{self._name(_tag_section(tagged))}({value}, write)")
        self.line(indent, "pass")

    def _field(self, indent: int, field: Field[Any], value: str, flexible: bool) -> None:
        annotation, optional = unwrap(field.type)
        kind = field.metadata.get("kafka_type")
        if get_origin(annotation) is tuple:
            self._array(indent, get_args(annotation)[0], kind, value, flexible, optional)
        elif is_struct(annotation):
            self._flush(indent)
            if optional and tag_of(field) is None:
                self.line(indent, f"write(b'\\xff' if {value} is None else b'\\x01')")
                self.line(indent, f"if {value} is not None:")
                indent += 1
            self.entity(indent, annotation, value)
        else:
            assert kind is not None
            self._primitive(indent, kind, value, flexible, optional)

    def value(self, indent: int, field: Field[Any], value: str) -> None:
        """Write one field, and nothing of it later."""
        self._field(indent, field, value, flexible=True)
        self._flush(indent)

    def _array(
        self, indent: int, item: Any, kind: str | None, value: str, flexible: bool, optional: bool
    ) -> None:
        self._flush(indent)
        array, element = self._name(), self._name()
        item, _ = unwrap(item)
        self.line(indent, f"{array} = {value}")
        indent = self._length(indent, array, flexible, optional, short=False)
        self.line(indent, f"for {element} in {array}:")
        if is_struct(item):
            self.line(indent + 1, f"if {element}.__class__ is bytes:")
            self.line(indent + 2, f"write({element})")
            self.line(indent + 2, "continue")
            self.entity(indent + 1, item, element)
        else:
            assert kind is not None
            self._primitive(indent + 1, kind, element, flexible, False)
            self._flush(indent + 1)

    def _primitive(
        self, indent: int, kind: str, value: str, flexible: bool, optional: bool
    ) -> None:
        if kind in FIXED_FORMATS:
            self._pending.append((FIXED_FORMATS[kind], value))
            return
        if kind in CONVERTED:
            form, expression = CONVERTED[kind]
            self._pending.append((form, expression.format(value)))
            return
        self._flush(indent)
        blob = self._name()
        encoded = f"(None if {value} is None else {value}.encode())"
        self.line(indent, f"{blob} = {encoded if kind == 'string' else value}")
        indent = self._length(indent, blob, flexible, optional, short=kind == "string")
        self.line(indent, f"write({blob})")

    def _length(
        self, indent: int, value: str, flexible: bool, optional: bool, *, short: bool
    ) -> int:
        """Write null mark or length; returns the indent of what is written when not null."""
        if optional:
            null = b"\0" if flexible else b"\xff" * (2 if short else 4)
            self.line(indent, f"if {value} is None: write({null!r})")
            self.line(indent, "else:")
            indent += 1
        if flexible:
            self.line(indent, f"write(uvarint(len({value}) + 1))")
        else:
            pack = self._name(struct.Struct(">h" if short else ">i").pack)
            self.line(indent, f"write({pack}(len({value})))")
        return indent

    def _flush(self, indent: int) -> None:
        if self._pending:
            layout = struct.Struct(">" + "".join(form for form, _ in self._pending))
            values = ", ".join(expression for _, expression in self._pending)
            self.line(indent, f"write({self._name(layout.pack)}({values}))")
            self._pending = []

    def _name(self, referred: Any = None) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = referred
        return name


def _tag_section(tagged: list[Field[Any]]) -> Encoder:
    """Return what writes the tags whose value is not the default, in the order of the tags."""
    tags = []
    for field in sorted(tagged, key=lambda f: tag_of(f) or 0):
        encode_value = _tagged_encoder(field)
        tag = tag_of(field)
        assert tag is not None
        # Compared as bytes: a value need not be of the class that the default is of.
        tags.append((uvarint(tag), field.name, encode_value, encode_value(default_of(field))))

    def section(value: Any, write: Write) -> None:
        present = []
        for tag, name, encode_value, default in tags:
            payload = encode_value(getattr(value, name))
            if payload != default:
                present += [tag, uvarint(len(payload)), payload]
        write(uvarint(len(present) // 3) + b"".join(present))

    return section


def _tagged_encoder(field: Field[Any]) -> Callable[[Any], bytes]:
    generator = _Generator()
    generator.line(0, "def encode(value, write):")
    generator.value(1, field, "value")
    exec(
        compile("\n".join(generator.source), f"<encoder of {field.name}>", "exec"), generator.names
    )
    write_field: Encoder = generator.names["encode"]

    def encode_value(value: Any) -> bytes:
        pieces: list[bytes] = []
        write_field(value, pieces.append)
        return b"".join(pieces)

    return encode_value
