"""Walks a message before it is decoded and proves that its lengths stay inside it.

kio's native decoder reserves memory for an array before it reads the items. A request of thirty
bytes that announces 2^31 items makes it reserve 16 GiB, and where that fails the process aborts.
A broker must survive any bytes, so every length is compared with the rest of the message
first. As the encoder, the walk is one generated function for each class; it builds no objects.

The walk counts too: the items of all arrays together, nested ones and tagged fields included. A
few megabytes may hold a million, and decoding and answering these would take many seconds; a
message with more items than its reader wants is refused where the count shows it, mostly at its
first array.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import cast

from jbodlab.kafka_wire.codec import NULL, PRESENT, READING, Source, refuse_length, refuse_null
from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.kafka_wire.schema import fields_in
from jbodlab.record_batch.varint import read_uvarint
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

Walk = Callable[[bytes | memoryview, int, int], tuple[int, int]]
"""(message, position, items allowed) -> position after the entity, items still allowed.

Raises DecodeError, or IndexError and struct.error where the message ends too early.
"""

Check = Callable[[bytes | memoryview, int], None]
"""(message, position): raises DecodeError and nothing else."""

ANY_NUMBER = 1 << 62


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
    source = _WalkSource(entity_class)
    source.struct(1, entity_class)
    return source.walk()


def refuse_count(excess: int) -> None:
    """Raise for more items than are wanted."""
    raise DecodeError(f"{excess} items more than allowed")


class _WalkSource(Source):
    """Source of `walk(d, p, a)`, where `a` is the number of items that are still allowed."""

    def __init__(self, entity_class: EntityClass) -> None:
        super().__init__(entity_class)
        self.names = {**READING, "refuse_count": refuse_count, "refuse_null": refuse_null}
        self.line(0, "def walk(d, p, a):")
        self.line(1, "s = len(d)")
        self._entity_class = entity_class
        self._skip = 0
        """Bytes of fixed-size fields not yet stepped over."""

    def walk(self) -> Walk:
        """Return the function."""
        self._step(1)
        self.line(1, "return p, a")
        return cast("Walk", self.compiled("walk"))

    def struct(self, indent: int, entity_class: EntityClass) -> None:
        """Walk over the fields of a struct, and step behind it."""
        self.line(indent, "pass")
        plain, tagged, _ = fields_in(entity_class, 0)
        for spec in plain:
            self.field(indent, spec.kind)
        self._step(indent)
        if self.flexible:
            walks = {spec.tag: self._tag_walk(spec.kind) for spec in tagged}
            self.line(indent, "t = d[p]; p += 1")
            self.line(indent, f"if t: p, a = {self.name(_tags_walk(walks))}(d, p - 1, a)")

    def field(self, indent: int, kind: Kind) -> None:
        """Walk over a field; one of fixed size later, together with its neighbours."""
        if kind.is_fixed:
            self._skip += struct.calcsize(f">{kind.code}")
            return
        self._step(indent)
        if kind.form is Form.STRUCT:
            if kind.nullable:
                self.line(indent, "n = d[p]; p += 1")
                self.line(indent, f"if n != {PRESENT[0]} and n != {NULL[0]}: refuse(n, s - p)")
                self.line(indent, f"if n == {PRESENT[0]}:")
            self.struct(indent + kind.nullable, kind.struct)
            return
        if kind.form is not Form.ARRAY:
            self._text(indent, kind)
            return
        self.length(indent, kind)
        assert kind.element is not None
        if kind.nullable:
            self.line(indent, "if n > 0: a -= n")
        else:
            # kio reads None there, which nobody expects.
            self.line(indent, "if n < 0: refuse_null()")
            self.line(indent, "a -= n")
        self.line(indent, "if a < 0: refuse_count(-a)")
        if kind.element.is_fixed:
            self.line(indent, f"if n > 0: p += n * {struct.calcsize(f'>{kind.element.code}')}")
        else:
            self.line(indent, "for _ in range(n):")
            self.field(indent + 1, kind.element)

    def _text(self, indent: int, kind: Kind) -> None:
        """Step over a string or bytes."""
        if self.flexible:
            # As nearly all are; one that reaches beyond the message ends the walk behind it.
            self.line(indent, "n = d[p]")
            self.line(indent, "if n < 0x80: p += n or 1")
            self.line(indent, "else:")
        self.length(indent + self.flexible, kind)
        self.line(indent + self.flexible, "if n > 0: p += n")

    def _tag_walk(self, kind: Kind) -> Walk:
        source = _WalkSource(self._entity_class)
        # The struct in a tagged field has no null mark: the tag is absent instead.
        source.field(1, replace(kind, nullable=False) if kind.form is Form.STRUCT else kind)
        return source.walk()

    def _step(self, indent: int) -> None:
        if self._skip:
            self.line(indent, f"p += {self._skip}")
            self._skip = 0


def _tags_walk(tagged: dict[int | None, Walk]) -> Walk:
    def walk(data: bytes | memoryview, position: int, allowed: int) -> tuple[int, int]:
        count, position = read_uvarint(data, position)
        allowed -= count
        if allowed < 0:
            refuse_count(-allowed)
        for _ in range(count):
            tag, size = data[position], data[position + 1]
            if tag < 0x80 and size < 0x80:
                # As nearly all are.
                position += 2
            else:
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
