"""Kafka's message language as bytes: encoder and decoder of a struct in one version.

For each class and version the source of a straight-line function is written and compiled once:
neighbouring fields of fixed size become one `struct` call, sizes are read and written in place, and
a nested struct is written in place, too. That takes a third of walking over the declaration, and a
tenth of kio's own writer.

The classes are those that kio generates for one version of a client message, and the records that
are declared by `jbodlab.kafka_wire.schema`. To an encoder the class is only a layout: the value may
be anything with its attributes. Brokers answer with one value for all versions of an API, and the
layout leaves out what the version does not have. A struct in an array of a client message may also
be given as `bytes`: those that its own class encodes it to.

Tagged section of a struct: varint count; per field, ascending: varint tag, varint size, data.
Versions before the first flexible one have none, and sizes of fixed width.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeVar, cast

from jbodlab.kafka_wire.kinds import FieldSpec, Form, Kind
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.kafka_wire.schema import EncodeError, Struct, fields_in, is_flexible
from jbodlab.record_batch.varint import UVARINTS, read_uvarint, uvarint
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

Write = Callable[[bytes], object]
Encoder = Callable[[Any, Write], None]
"""(value, write): calls `write` with the pieces, such as the `append` of a list."""

Decoder = Callable[[bytes, int], tuple[Any, int]]
"""(bytes, position) -> (struct, position behind it).

Raises DecodeError, or what `decode_body` turns into one.
"""

Buffer = bytes | bytearray | memoryview
ResponseEncoder = Callable[[Any, bytearray], Sequence[Buffer]]
"""(value, head): writes a body behind a header; returns the pieces of both, `head` first."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")

StructT = TypeVar("StructT", bound=Struct)

STRING_BYTES_MAX = 32_767
PACKERS_MAX = 100
NULL, PRESENT = b"\xff", b"\x01"
"""Byte before a struct that may be null."""
ZERO = b"\0"
"""Size of null; a tagged section without tags; null of a tagged field that is a struct."""


def encode(cls: EntityClass, value: Any, version: int = 0) -> bytes:
    """Return the bytes of one value after the layout of a class; errors are those of `struct`."""
    pieces: list[bytes] = []
    encoder(cls, version)(value, pieces.append)
    return b"".join(pieces)


def encode_body(value: Struct, version: int) -> bytes:
    """Return the fields of a declared struct, its tagged section included.

    Raises:
        EncodeError: a field that this version lacks is not at its default, or a value does not fit
            its type.
    """
    pieces: list[bytes] = []
    try:
        encoder(type(value), version)(value, pieces.append)
        return b"".join(pieces)
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{type(value).__name__} v{version} cannot hold {value}") from error


def decode_body(
    cls: type[StructT], version: int, data: bytes, position: int = 0
) -> tuple[StructT, int]:
    """Read a declared struct; the second value is the position behind it.

    Raises:
        DecodeError: the bytes are too few or do not follow the schema.
    """
    try:
        return decoder(cls, version)(data, position)
    except (IndexError, struct.error) as error:
        raise BufferUnderflowError(f"{cls.__name__} v{version} is cut short") from error
    except UnicodeDecodeError as error:
        raise DecodeError(f"{cls.__name__} v{version}: string is not UTF-8") from error


def in_one_piece(entity_class: EntityClass) -> ResponseEncoder:
    """Return what writes a body into the buffer of its header.

    Pieces of a large one would take several times the memory of the whole.
    """
    encode_entity = encoder(entity_class)

    def encode_response(value: Any, head: bytearray) -> Sequence[Buffer]:
        encode_entity(value, head.extend)
        return (head,)

    return encode_response


def _make_encoder(cls: EntityClass, version: int = 0) -> Encoder:
    source = _EncoderSource(cls, version)
    source.line(0, "def encode(value, write):")
    source.struct(1, cls, "value")
    return cast("Encoder", source.compiled("encode"))


def _make_decoder(cls: EntityClass, version: int = 0, flexible: bool | None = None) -> Decoder:
    source = _DecoderSource(cls, version, flexible)
    source.struct(cls)
    return cast("Decoder", source.compiled("decode"))


encoder: Callable[..., Encoder] = cache(_make_encoder)
"""(class, version) -> its generated encoder; only a declared class has versions."""

decoder: Callable[..., Decoder] = cache(_make_decoder)
"""(class, version) -> its generated decoder.

A nested class is flexible where the whole is: (class, version, flexible).
"""


def refuse_length(length: int, left: int) -> None:
    """Raise for a length that the rest of the message cannot hold."""
    raise BufferUnderflowError(f"length {length} with {left} bytes left in the message")


def refuse_null() -> None:
    """Raise for a value that must be there."""
    raise DecodeError("a field that must be present is null")


READING: Mapping[str, Any] = MappingProxyType(
    {
        "refuse": refuse_length,
        "read_uvarint": read_uvarint,
        "int16": _INT16.unpack_from,
        "int32": _INT32.unpack_from,
        "unpack_from": struct.unpack_from,
    }
)
"""Names in functions that read."""


class Source:
    """Source text of one function, and the objects that it names.

    In functions that read, `d` is the message, `s` its size and `p` the position.
    """

    def __init__(self, cls: EntityClass, version: int = 0, flexible: bool | None = None) -> None:
        self.version = version
        self.flexible = is_flexible(cls, version) if flexible is None else flexible
        self.is_declared = issubclass(cls, Struct)
        self._title = f"{cls.__module__}.{cls.__name__} v{version}"
        self._lines: list[str] = []
        self.names: dict[str, Any] = {}

    def line(self, indent: int, text: str) -> None:
        """Add a line."""
        self._lines.append("    " * indent + text)

    def name(self, value: object = None) -> str:
        """Return a name that is used once, under which the source finds a value."""
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name

    def length(self, indent: int, kind: Kind) -> None:
        """Read a length into `n`: -1 for null, at most the rest of the message."""
        if self.flexible:
            self.line(indent, "n = d[p] - 1; p += 1")
            self.line(indent, "if n > 126: n, p = read_uvarint(d, p - 1); n -= 1")
        else:
            read, size = ("int16", 2) if kind.form is Form.STRING else ("int32", 4)
            self.line(indent, f"n, = {read}(d, p); p += {size}")
        self.line(indent, "if n > s - p or n < -1: refuse(n, s - p)")

    def compiled(self, function: str) -> object:
        """Return the function that the source text defines."""
        where = f"<{function} {self._title}>"
        exec(compile("\n".join(self._lines), where, "exec"), self.names)
        return self.names[function]


class _EncoderSource(Source):
    """Source of `encode(value, write)`."""

    def __init__(self, cls: EntityClass, version: int) -> None:
        super().__init__(cls, version)
        self.cls = cls
        self.names = {
            "uvarints": UVARINTS,
            "int16": _INT16.pack,
            "int32": _INT32.pack,
            "tag_section": _tag_section,
            "EncodeError": EncodeError,
            "string": _string,
            "refuse_string": _refuse_string,
        }
        self._pending: list[tuple[str, str]] = []
        """Fixed-size fields not yet written: struct format and expression."""

    def struct(self, indent: int, cls: EntityClass, value: str) -> None:
        """Write the fields of a struct."""
        found = fields_in(cls, self.version)
        assert self.flexible or not found.tagged
        for spec in found.absent:
            self.line(indent, f"if {value}.{spec.name} != {self.name(spec.default)}:")
            text = f"{cls.__name__} v{self.version} has no {spec.name}"
            self.line(indent + 1, f"raise EncodeError({text!r})")
        for spec in found.plain:
            self.field(indent, spec.kind, f"{value}.{spec.name}")
        if self.flexible and not found.tagged and not self.is_declared:
            self._pending.append(("B", "0"))
        self.flush(indent)
        if self.flexible and (found.tagged or self.is_declared):
            self._tags(indent, found.tagged, value)
        self.line(indent, "pass")

    def field(self, indent: int, kind: Kind, value: str, null: bytes = NULL) -> None:
        """Write a field; one of fixed size later, together with its neighbours."""
        if kind.is_fixed:
            self._pending.append((kind.code, kind.packed.format(value)))
            return
        self.flush(indent)
        if kind.form is Form.STRUCT:
            assert kind.struct is not None
            if kind.nullable:
                self.line(indent, f"write({null!r} if {value} is None else {PRESENT!r})")
                self.line(indent, f"if {value} is not None:")
            self.struct(indent + kind.nullable, kind.struct, value)
        else:
            self._sized(indent, kind, value)

    def _sized(self, indent: int, kind: Kind, value: str) -> None:
        """Write what has a size before it, or null."""
        data, element = self.name(), kind.element
        self.line(indent, f"{data} = {value}")
        if kind.nullable:
            self.line(indent, f"if {data} is None: write({self._null_size(kind)!r})")
            self.line(indent, "else:")
            indent += 1
        if kind.form is Form.STRING:
            self.line(indent, f"{data} = {data}.encode()")
            if self.is_declared:
                self.line(
                    indent, f"if len({data}) > {STRING_BYTES_MAX}: refuse_string(len({data}))"
                )
            self.line(indent, f"write({self._size(data, kind)} + {data})")
        elif kind.form is Form.BYTES:
            self.line(indent, f"write({self._size(data, kind)})")
            self.line(indent, f"write({data})")
        elif element is not None and element.is_fixed and element.packed == "{0}":
            self.line(indent, f"write({self._flat(kind, data)})")
        elif element is not None:
            item = self.name()
            self.line(indent, f"write({self._size(data, kind)})")
            self.line(indent, f"for {item} in {data}:")
            if element.struct is not None and not self.is_declared:
                self.line(indent + 1, f"if {item}.__class__ is bytes:")
                self.line(indent + 2, f"write({item})")
                self.line(indent + 2, "continue")
            self.field(indent + 1, element, item)
            self.flush(indent + 1)

    def _flat(self, kind: Kind, value: str) -> str:
        """Return an expression for the bytes of a value that is not null and has no structs."""
        if kind.is_fixed:
            pack = self.name(struct.Struct(f">{kind.code}").pack)
            return f"{pack}({kind.packed.format(value)})"
        if kind.form is Form.STRING:
            return f"string({value}, {self.flexible}, {self.is_declared})"
        element = kind.element
        if element is None:
            return f"{self._size(value, kind)} + {value}"
        if element.is_fixed and element.packed == "{0}":
            items = f"{self.name(_packers(element.code))}[len({value})](*{value})"
        else:
            items = f"b''.join([{self._flat(element, 'item')} for item in {value}])"
        return f"{self._size(value, kind)} + {items}"

    def flush(self, indent: int) -> None:
        """Write the fields that are pending."""
        if self._pending:
            packed = struct.Struct(">" + "".join(code for code, _ in self._pending))
            values = ", ".join(expression for _, expression in self._pending)
            self.line(indent, f"write({self.name(packed.pack)}({values}))")
            self._pending = []

    def _tags(self, indent: int, tagged: Sequence[FieldSpec], value: str) -> None:
        unknown = f"{value}.unknown_tags"
        if not tagged:
            self.line(indent, f"write(tag_section({unknown}) if {unknown} else {ZERO!r})")
            return
        tags, field, data = self.name(), self.name(), self.name()
        self.line(indent, f"{tags} = []")
        for spec in tagged:
            if spec.kind.is_flat:
                null = f"{self._null_size(spec.kind)!r} if {field} is None else "
                written = null * spec.kind.nullable + self._flat(spec.kind, field)
            else:
                written = f"{self.name(self._tag_encoder(spec.kind))}({field})"
            # Compared as bytes, too: a value need not be of the class that the default is of.
            omitted = self.name(eval(written, self.names | {field: spec.omitted}))
            self.line(indent, f"{field} = {value}.{spec.name}")
            self.line(indent, f"if {field} != {self.name(spec.omitted)}:")
            self.line(indent + 1, f"{data} = {written}")
            self.line(indent + 1, f"if {data} != {omitted}: {tags}.append(({spec.tag}, {data}))")
        if self.is_declared:
            self.line(indent, f"if {unknown}: {tags} = sorted((*{tags}, *{unknown}))")
        self.line(indent, f"write(tag_section({tags}) if {tags} else {ZERO!r})")

    def _size(self, value: str, kind: Kind) -> str:
        if self.flexible:
            return f"uvarints[len({value}) + 1]"
        return f"{'int16' if kind.form is Form.STRING else 'int32'}(len({value}))"

    def _null_size(self, kind: Kind) -> bytes:
        if self.flexible:
            return ZERO
        return b"\xff" * (2 if kind.form is Form.STRING else 4)

    def _tag_encoder(self, kind: Kind) -> Callable[[Any], bytes]:
        source = _EncoderSource(self.cls, self.version)
        source.line(0, "def encode(value, write):")
        source.field(1, kind, "value", null=ZERO)
        source.flush(1)
        write_tag = cast("Encoder", source.compiled("encode"))

        def encode_tag(value: Any) -> bytes:
            pieces: list[bytes] = []
            write_tag(value, pieces.append)
            return b"".join(pieces)

        return encode_tag


class _DecoderSource(Source):
    """Source of `decode(d, p)`; a field is read into a variable of its name."""

    def __init__(self, cls: EntityClass, version: int, flexible: bool | None) -> None:
        super().__init__(cls, version, flexible)
        self.names = {
            **READING,
            "cls": cls,
            "refuse_null": refuse_null,
            "refuse_presence": _refuse_presence,
            "refuse_string": _refuse_long_string,
            "refuse_tag": _refuse_tag,
        }

    def struct(self, cls: EntityClass) -> None:
        """Read the fields of a struct and make it."""
        found = fields_in(cls, self.version)
        self.line(0, "def decode(d, p):")
        if not all(spec.kind.is_fixed for spec in found.plain):
            self.line(1, "s = len(d)")
        for fixed, group in groupby(found.plain, lambda spec: spec.kind.is_fixed):
            if fixed:
                self._read_fixed(1, list(group))
            else:
                for spec in group:
                    self._read(1, spec)
        values = [f"{spec.name}=f_{spec.name}" for spec in found.plain]
        if not self.flexible:
            self.line(1, f"return cls({', '.join(values)}), p")
            return
        self.line(1, "count = d[p]; p += 1")
        if self.is_declared:
            # A field that is absent has the default of the class.
            self.line(1, f"if count == 0: return cls({', '.join(values)}), p")
        self.line(1, "s = len(d)")
        self.line(1, "unknown = []")
        for spec in found.tagged:
            self.line(1, f"f_{spec.name} = {self.name(spec.default)}")
        self.line(1, "if count > 127: count, p = read_uvarint(d, p - 1)")
        self.line(1, "for _ in range(count):")
        self.line(2, "tag, size = d[p], d[p + 1]; p += 2")
        self.line(2, "if tag > 127 or size > 127:")
        self.line(3, "tag, p = read_uvarint(d, p - 2)")
        self.line(3, "size, p = read_uvarint(d, p)")
        for spec in found.tagged:
            self.line(2, f"if tag == {spec.tag}:")
            self._read(3, spec)
            self.line(3, "continue")
        forbidden = tuple(spec.tag for spec in found.absent if spec.tag is not None)
        if forbidden:
            text = f"{cls.__name__} v{self.version}"
            self.line(2, f"if tag in {forbidden!r}: refuse_tag({text!r}, tag)")
        self.line(2, "if size > s - p: refuse(size, s - p)")
        self.line(2, "unknown.append((tag, d[p:p + size])); p += size")
        values += [f"{spec.name}=f_{spec.name}" for spec in found.tagged]
        if self.is_declared:
            values.append("unknown_tags=tuple(unknown)")
        self.line(1, f"return cls({', '.join(values)}), p")

    def _read_fixed(self, indent: int, group: list[FieldSpec]) -> None:
        packed = struct.Struct(">" + "".join(spec.kind.code for spec in group))
        targets = ", ".join(f"f_{spec.name}" for spec in group)
        self.line(indent, f"{targets}, = {self.name(packed.unpack_from)}(d, p); p += {packed.size}")
        for spec in group:
            if spec.kind.unpacked is not None:
                made = self.name(spec.kind.unpacked)
                self.line(indent, f"f_{spec.name} = {made}(f_{spec.name})")

    def _read(self, indent: int, spec: FieldSpec) -> None:
        kind, name = spec.kind, f"f_{spec.name}"
        if kind.is_fixed:
            self._read_fixed(indent, [spec])
        elif kind.form is Form.STRUCT:
            read = f"{name}, p = {self._nested(kind)}(d, p)"
            if not kind.nullable:
                self.line(indent, read)
                return
            self.line(indent, f"{name} = None; n = d[p]; p += 1")
            self.line(indent, f"if n == 1: {read}")
            null = NULL if spec.tag is None else ZERO
            self.line(indent, f"elif n != {null[0]}: refuse_presence(n)")
        else:
            self.length(indent, kind)
            if kind.nullable:
                self.line(indent, f"if n < 0: {name} = None")
                self.line(indent, "else:")
            else:
                self.line(indent, "if n < 0: refuse_null()")
            self._read_sized(indent + kind.nullable, kind, name)

    def _read_sized(self, indent: int, kind: Kind, name: str) -> None:
        """Read what has `n` bytes or elements."""
        if kind.form is Form.BYTES:
            self.line(indent, f"{name} = d[p:p + n]; p += n")
        elif kind.form is Form.STRING:
            if self.is_declared:
                self.line(indent, f"if n > {STRING_BYTES_MAX}: refuse_string(n)")
            self.line(indent, f"{name} = d[p:p + n].decode(); p += n")
        else:
            assert kind.element is not None
            self._read_elements(indent, kind.element, name)

    def _read_elements(self, indent: int, element: Kind, name: str) -> None:
        if element.is_fixed:
            size = struct.calcsize(f">{element.code}")
            made = element.unpacked and self.name(element.unpacked)
            if element.form is Form.UUID:
                self.line(indent, f"if {size} * n > s - p: refuse({size} * n, s - p)")
                ids = f"{made}(d[i:i + {size}]) for i in range(p, p + {size} * n, {size})"
                self.line(indent, f"{name} = tuple([{ids}])")
            else:
                numbers = f"unpack_from(f'>{{n}}{element.code}', d, p)"
                self.line(
                    indent, f"{name} = {f'tuple(map({made}, {numbers}))' if made else numbers}"
                )
            self.line(indent, f"p += {size} * n")
            return
        self.line(indent, "items = []")
        self.line(indent, "for _ in range(n):")
        if element.form is Form.STRUCT:
            self.line(indent + 1, f"item, p = {self._nested(element)}(d, p)")
        else:
            self.length(indent + 1, element)
            self.line(indent + 1, "if n < 0: refuse_null()")
            self._read_sized(indent + 1, element, "item")
        self.line(indent + 1, "items.append(item)")
        self.line(indent, f"{name} = tuple(items)")

    def _nested(self, kind: Kind) -> str:
        assert kind.struct is not None
        return self.name(decoder(kind.struct, self.version, self.flexible))


def _tag_section(tags: Sequence[tuple[int, bytes]]) -> bytes:
    parts = [UVARINTS[len(tags)]]
    for tag, data in tags:
        parts += (UVARINTS[tag], UVARINTS[len(data)], data)
    return b"".join(parts)


class _Packers(dict[int, Callable[..., bytes]]):
    """For a count: the function that packs as many numbers of one type."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, count: int) -> Callable[..., bytes]:
        pack = struct.Struct(f">{count}{self._code}").pack
        if len(self) < PACKERS_MAX:
            self[count] = pack
        return pack


_packers = cache(_Packers)


def _string(value: str, flexible: bool, is_limited: bool) -> bytes:
    raw = value.encode()
    if is_limited and len(raw) > STRING_BYTES_MAX:
        _refuse_string(len(raw))
    return (uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def _refuse_string(size: int) -> None:
    raise EncodeError(f"string of {size} bytes, expected at most {STRING_BYTES_MAX}")


def _refuse_long_string(size: int) -> None:
    raise DecodeError(f"string of {size} bytes, expected at most {STRING_BYTES_MAX}")


def _refuse_presence(number: int) -> None:
    raise DecodeError(f"struct with presence {number}")


def _refuse_tag(what: str, tag: int) -> None:
    raise DecodeError(f"{what} has no tag {tag}")
