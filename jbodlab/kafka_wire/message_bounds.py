"""Walks a message before it is decoded and proves that its lengths stay inside it.

kio's native decoder reserves memory for an array before it reads the items. A request of thirty
bytes that announces 2^31 items makes it reserve 16 GiB, and where that fails the process aborts.
A broker must survive any bytes, so every length is compared with what is left of the message
first. As the encoder, the walk is one generated function for each class; it builds no objects.

The walk counts too: the items of all arrays together, nested ones and tagged fields included. A
few megabytes may hold a million, and decoding and answering these would take many seconds; a
message with more items than its reader wants is refused where the count shows it, mostly at its
first array.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin

from jbodlab.kafka_wire.layout import (
    FIXED_SIZES,
    EntityClass,
    is_struct,
    primitive_kind,
    read_uvarint,
    tag_of,
    unwrap,
)
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

Walk = Callable[[bytes | memoryview, int, int], tuple[int, int]]
"""(message, position, items allowed) -> position after the entity, items still allowed.

Raises DecodeError, or IndexError and struct.error where the message ends too early.
"""

Check = Callable[[bytes | memoryview, int], None]
"""(message, position): raises DecodeError and nothing else."""

ANY_NUMBER = 1 << 62

NULL_STRUCT = 0xFF
PRESENT_STRUCT = 1


def bounds_check(entity_class: EntityClass, max_items: int = ANY_NUMBER) -> Check:
    """Return what raises unless every length in a message is one that the message can hold.

    The check raises DecodeError: a length reaches beyond the message, or is no length, or the
    arrays have more than `max_items` items together.
    """
    walk = walker(entity_class)

    def check(data: bytes | memoryview, position: int) -> None:
        try:
            end, left = walk(data, position, max_items)
        except (IndexError, struct.error) as error:
            raise BufferUnderflowError(f"{entity_class.__name__} is truncated") from error
        if end > len(data):
            raise BufferUnderflowError(f"{entity_class.__name__} reaches beyond the message")
        assert left >= 0

    return check


@cache
def walker(entity_class: EntityClass) -> Walk:
    """Return the generated walk over one entity class."""
    generator = _Generator()
    generator.entity(entity_class)
    return generator.compiled(entity_class.__module__)


def refuse_length(length: int, left: int) -> None:
    """Raise for a length that the rest of the message cannot hold."""
    raise BufferUnderflowError(f"length {length} with {left} bytes left in the message")


def refuse_count(excess: int) -> None:
    """Raise for more items than are wanted."""
    raise DecodeError(f"{excess} items more than allowed")


def refuse_null() -> None:
    """Raise for an array that must be there."""
    raise DecodeError("an array that must be present is null")


class _Generator:
    """Source text of one walk: `d` the message, `p` the position, `s` the message's size.

    `a` is the number of items that are still allowed.
    """

    def __init__(self) -> None:
        self._source = ["def walk(d, p, a):", "    s = len(d)"]
        self._indent = 1
        self._skip = 0
        """Bytes of fixed-size fields not yet stepped over."""
        self._names: dict[str, Any] = {
            "refuse": refuse_length,
            "refuse_count": refuse_count,
            "refuse_null": refuse_null,
            "read_uvarint": read_uvarint,
            "int16": struct.Struct(">h").unpack_from,
            "int32": struct.Struct(">i").unpack_from,
        }

    def compiled(self, name: str) -> Walk:
        self._step()
        self._line("return p, a")
        exec(compile("\n".join(self._source), f"<bounds of {name}>", "exec"), self._names)
        walk: Walk = self._names["walk"]
        return walk

    def entity(self, entity_class: EntityClass) -> None:
        flexible = entity_class.__flexible__
        tagged: dict[int, Walk] = {}
        for field in fields(entity_class):
            tag = tag_of(field)
            if tag is None:
                self.field(field.type, field.metadata.get("kafka_type"), flexible)
                continue
            generator = _Generator()
            # The struct in a tagged field has no null mark: the tag is absent instead.
            annotation, _ = unwrap(field.type)
            bare = annotation if is_struct(annotation) else field.type
            generator.field(bare, field.metadata.get("kafka_type"), flexible)
            tagged[tag] = generator.compiled(field.name)
        if flexible:
            self._step()
            self._line("t = d[p]; p += 1")
            self._line(f"if t: p, a = {self._name(_tag_walk(tagged))}(d, p - 1, a)")

    def field(self, annotation: Any, kind: str | None, flexible: bool) -> None:
        annotation, optional = unwrap(annotation)
        if get_origin(annotation) is tuple:
            self._array(unwrap(get_args(annotation)[0])[0], kind, flexible, optional)
        elif is_struct(annotation):
            self._struct(annotation, optional)
        elif primitive_kind(kind) in FIXED_SIZES:
            self._skip += FIXED_SIZES[primitive_kind(kind)]
        else:
            self._step()
            self._length(flexible, short=kind == "string")
            self._line("if n > 0: p += n")

    def _struct(self, entity_class: EntityClass, optional: bool) -> None:
        if not optional:
            self.entity(entity_class)
            return
        self._step()
        self._line("n = d[p]; p += 1")
        self._line(f"if n not in ({NULL_STRUCT}, {PRESENT_STRUCT}): refuse(n, s - p)")
        self._line(f"if n == {PRESENT_STRUCT}:")
        self._nested(entity_class)

    def _array(self, item: EntityClass, kind: str | None, flexible: bool, optional: bool) -> None:
        self._step()
        self._length(flexible, short=False)
        if not optional:
            # kio reads None there, which nobody expects.
            self._line("if n < 0: refuse_null()")
        self._line("if n > 0: a -= n")
        self._line("if a < 0: refuse_count(-a)")
        size = None if is_struct(item) else FIXED_SIZES.get(primitive_kind(kind))
        if size is not None:
            self._line(f"if n > 0: p += n * {size}")
            return
        self._line("for _ in range(n):")
        if is_struct(item):
            self._nested(item)
        else:
            self._indent += 1
            self._length(flexible, short=kind == "string")
            self._line("if n > 0: p += n")
            self._indent -= 1

    def _nested(self, entity_class: EntityClass) -> None:
        self._indent += 1
        self._line("pass")
        self.entity(entity_class)
        self._step()
        self._indent -= 1

    def _length(self, flexible: bool, *, short: bool) -> None:
        """Read a length into `n`: -1 for null, at most what is left of the message."""
        if flexible:
            self._line("n = d[p] - 1; p += 1")
            self._line("if n > 126: n, p = read_uvarint(d, p - 1); n -= 1")
        else:
            self._line(f"n = {'int16' if short else 'int32'}(d, p)[0]; p += {2 if short else 4}")
        self._line("if n > s - p or n < -1: refuse(n, s - p)")

    def _step(self) -> None:
        if self._skip:
            self._line(f"p += {self._skip}")
            self._skip = 0

    def _line(self, text: str) -> None:
        self._source.append("    " * self._indent + text)

    def _name(self, referred: Any) -> str:
        name = f"_{len(self._names)}"
        self._names[name] = referred
        return name


def _tag_walk(tagged: dict[int, Walk]) -> Walk:
    def walk(data: bytes | memoryview, position: int, allowed: int) -> tuple[int, int]:
        count, position = read_uvarint(data, position)
        allowed -= count
        if allowed < 0:
            refuse_count(-allowed)
        for _ in range(count):
            tag, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            end = position + size
            if end > len(data):
                refuse_length(size, len(data) - position)
            if tag in tagged:
                filled, allowed = tagged[tag](data, position, allowed)
                if filled != end:
                    raise DecodeError(f"tag {tag} does not fill its {size} bytes")
            position = end
        return position, allowed

    return walk
