"""Makes the two functions between a value and its protobuf message, from the types of both.

As `dataclasses` does, it writes the source of a function and compiles it, once for each message: a
heartbeat and an assignment of ten thousand replicas are too frequent for a walk over type hints.

How a field is translated follows from its type and from the field of the message:

    id (UUID)               16 bytes; None is no bytes, or zeros
    error code              its number
    number, text, bytes     itself; absent, where the message knows that, is None or the default
    struct                  the message with its fields
    tuple of fixed length   the message with its elements, in the order of the field numbers
    anything else           on a message with a single field, that field
    tuple of any length     a list of these, or grouped by keys: see `wire_table`

Lists are grouped by *neighbours*, so that the order of the value survives the journey.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import count, groupby
from typing import Any, NamedTuple

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api import codecs, type_hints, wire_table
from jbodlab.controller_api.codecs import ITSELF, Codec, FieldCodec, Source
from jbodlab.controller_api.type_hints import Path

Given = Mapping[Path, Source]
"""Parts of a value that are keys of the groups it is in, and the variables that hold them."""
Functions = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def is_repeated(field: Any) -> bool:
    """Return whether a field of a descriptor is a list, in any version of protobuf."""
    # `is_repeated` came with 6.31; the label, which says the same, went with 7.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def make_functions(kind: type, descriptor: Descriptor) -> Functions:
    """Return `to_proto` and `from_proto` of a struct and its message.

    Raises:
        AssertionError: one has a field that has no counterpart in the other.
    """
    writer = _Writer()
    codec = writer.struct(kind, descriptor, "", {})
    source = (
        f"def to_proto(value):\n    return {codec.encode('value')}\n"
        f"def from_proto(message):\n    return {codec.decode('message')}\n"
    )
    exec(compile(source, f"<{kind.__name__}>", "exec"), writer.names)
    return writer.names["to_proto"], writer.names["from_proto"]


class _Level(NamedTuple):
    """A list of groups; `path` is where in a row the key of its group is."""

    messages: str
    message: Source
    key: str
    path: Path
    codec: Codec
    variable: Source
    getter: Source


class _Writer:
    """Writes the expressions of one message; `where` leads to their field in error texts."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "groupby": groupby,
            "to_uuid": codecs.to_uuid,
            "to_optional_uuid": codecs.to_optional_uuid,
            "to_error_code": codecs.to_error_code,
        }
        """What the expressions speak of."""
        self._numbers = count()

    def struct(self, kind: type, descriptor: Descriptor, where: str, given: Given) -> Codec:
        """Return the codec of a struct."""
        parts = self._fields(kind, descriptor, where, given, "")
        return self._codec(descriptor, parts, lambda sources: self._call(kind, sources))

    def _tuple(self, hint: Any, descriptor: Descriptor, where: str, given: Given) -> Codec:
        """Return the codec of a tuple of fixed length.

        A struct in it has its fields in the same message, and comes first.
        """
        elements = [(f"[{number}]", each) for number, each in enumerate(typing.get_args(hint))]
        parts: dict[Path, FieldCodec] = {}
        for path, element in elements:
            if path in given:
                parts[path] = codecs.known_from(given[path])
            elif type_hints.is_struct(element):
                parts |= self._fields(element, descriptor, where, given, path)
            else:
                parts[path] = self._part(element, next(_not_in(descriptor, parts)), where)

        def build(sources: Mapping[Path, Source]) -> Source:
            built = ""
            for path, element in elements:
                below = {
                    each.removeprefix(path): source
                    for each, source in sources.items()
                    if each.startswith(path)
                }
                built += f"{below.get('') or self._call(element, below)}, "
            return f"({built})"

        return self._codec(descriptor, parts, build)

    def _codec(
        self,
        descriptor: Descriptor,
        parts: Mapping[Path, FieldCodec],
        build: Callable[[Mapping[Path, Source]], Source],
    ) -> Codec:
        """Return the codec of a value whose parts make up a message."""
        left = {each.name for each in _not_in(descriptor, parts)} - wire_table.NOT_IN_VALUES
        assert not left, f"{descriptor.full_name} has {left}, which no value has"
        kind = self._name(GetMessageClass(descriptor))

        def encode(value: Source) -> Source:
            content: dict[str, Source] = {}
            for path, part in parts.items():
                for name, source in part.encode(value + path).items():
                    # Groups with rows, then those without.
                    content[name] = f"{content[name]} + {source}" if name in content else source
            return f"{kind}({', '.join(f'{name}={each}' for name, each in content.items())})"

        def decode(message: Source) -> Source:
            return build({path: part.decode(message) for path, part in parts.items()})

        return Codec(encode, decode)

    def _fields(
        self, kind: type, descriptor: Descriptor, where: str, given: Given, prefix: Path
    ) -> dict[Path, FieldCodec]:
        """Return the codecs of the fields of a struct."""
        parts: dict[Path, FieldCodec] = {}
        for field in msgspec.structs.fields(kind):
            path, place, hint = f"{prefix}.{field.name}", (kind, field.name), field.type
            if path in given:
                parts[path] = codecs.known_from(given[path])
            elif place in wire_table.WITHOUT_ROWS:
                grouped = wire_table.GROUPED[kind, wire_table.WITHOUT_ROWS[place]]
                parts[path] = self._keys_without_rows(descriptor, grouped)
            elif place in wire_table.GROUPED:
                grouped = wire_table.GROUPED[place]
                name, row = grouped.levels[0].messages, type_hints.element(hint)
                items = self._groups(row, grouped, descriptor, where)
                parts[path] = _list_field(hint, name, items, place)
            elif (wire := _wire_field(descriptor, field.name)) is not None:
                parts[path] = self._part(hint, wire, where, place, field.default)
        return parts

    def _part(
        self,
        hint: Any,
        wire: FieldDescriptor,
        where: str,
        place: tuple[type, str] | None = None,
        default: object = msgspec.NODEFAULT,
    ) -> FieldCodec:
        """Return the codec of what one field of a message holds."""
        is_optional, inner = type_hints.is_optional(hint), type_hints.without_none(hint)
        if is_repeated(wire):
            return _list_field(hint, wire.name, self._list(inner, wire, where), place)
        item = self._item(inner, wire, where)
        if wire.has_presence:
            absent = None if is_optional else wire_table.ABSENT.get(hint, default)
            assert absent is not msgspec.NODEFAULT, f"no default for {wire.full_name}"
            return codecs.optional_field(wire.name, item, is_optional, self._name(absent))
        if is_optional:
            assert type_hints.is_id(inner), f"{wire.full_name} cannot be None"
            item = codecs.optional_id(where + wire.name)
        return codecs.field_codec(wire.name, item)

    def _item(self, hint: Any, wire: FieldDescriptor, where: str) -> Codec:
        """Return the codec of what a field holds, or of one element of a list."""
        if wire.message_type is None:
            return codecs.scalar(hint, where + wire.name)
        return self._message(hint, wire.message_type, f"{where}{wire.name}.", {})

    def _message(self, hint: Any, descriptor: Descriptor, where: str, given: Given) -> Codec:
        if type_hints.is_struct(hint):
            return self.struct(hint, descriptor, where, given)
        if typing.get_origin(hint) is tuple and not type_hints.is_list(hint):
            return self._tuple(hint, descriptor, where, given)
        (wire,) = descriptor.fields
        part = self._part(hint, wire, where)
        return self._codec(descriptor, {"": part}, lambda sources: sources[""])

    def _list(self, hint: Any, wire: FieldDescriptor, where: str) -> Codec:
        """Return the codec of a tuple of any length."""
        item = self._item(type_hints.element(hint), wire, where)
        if item is ITSELF:
            return Codec(lambda value: value, lambda raw: f"tuple({raw})")
        each = self._variable()
        return Codec(
            lambda value: f"[{item.encode(each)} for {each} in {value}]",
            lambda raw: f"tuple([{item.decode(each)} for {each} in {raw}])",
        )

    def _groups(
        self, hint: Any, grouped: wire_table.Grouped, descriptor: Descriptor, where: str
    ) -> Codec:
        """Return the codec of a tuple of rows that are grouped by keys in the message."""
        levels: list[_Level] = []
        for level in grouped.levels:
            descriptor = _message_type(descriptor.fields_by_name[level.messages])
            where += f"{level.messages}."
            path, key_hint = type_hints.find(hint, level.member)
            levels.append(
                _Level(
                    messages=level.messages,
                    message=self._name(GetMessageClass(descriptor)),
                    key=level.key,
                    path=path,
                    codec=self._item(key_hint, descriptor.fields_by_name[level.key], where),
                    variable=self._variable(),
                    getter=self._name(type_hints.getter(path)),
                )
            )
        rows = descriptor.fields_by_name[grouped.rows]
        given = {level.path: level.variable for level in levels}
        if rows.message_type is None:
            row = _scalar_row(hint, rows, given, where)
        else:
            row = self._message(hint, rows.message_type, f"{where}{grouped.rows}.", given)
        return self._nested(levels, grouped.rows, row)

    def _nested(self, levels: list[_Level], rows: str, row: Codec) -> Codec:
        """Return the codec of a flat tuple that is a list of lists in the message."""
        each = self._variable()
        groups = [self._variable() for _ in levels]
        lists = [*(level.messages for level in levels[1:]), rows]

        def encode(value: Source) -> Source:
            source = f"[{row.encode(each)} for {each} in {groups[-1]}]"
            for level, whole, group, below in reversed(
                list(zip(levels, [value, *groups], groups, lists, strict=False))
            ):
                key = level.codec.encode(level.variable)
                source = (
                    f"[{level.message}({level.key}={key}, {below}={source}) "
                    f"for {level.variable}, {group} in groupby({whole}, {level.getter})]"
                )
            return source

        def decode(raw: Source) -> Source:
            loops = ""
            for level, group, below in zip(levels, groups, lists, strict=True):
                key = level.codec.decode(f"{group}.{level.key}")
                # A loop over a single thing is an assignment.
                loops += f" for {group} in {raw} for {level.variable} in ({key},)"
                raw = f"{group}.{below}"
            return f"tuple([{row.decode(each)}{loops} for {each} in {raw}])"

        return Codec(encode, decode)

    def _keys_without_rows(self, descriptor: Descriptor, grouped: wire_table.Grouped) -> FieldCodec:
        """Return the codec of the keys of groups that are empty."""
        (level,) = grouped.levels
        name, each = level.messages, self._variable()
        message = self._name(GetMessageClass(_message_type(descriptor.fields_by_name[name])))
        return FieldCodec(
            lambda value: {name: f"[{message}({level.key}={each}) for {each} in {value}]"},
            lambda source: (
                f"tuple([{each}.{level.key} for {each} in {source}.{name} "
                f"if not {each}.{grouped.rows}])"
            ),
        )

    def _call(self, kind: type, sources: Mapping[Path, Source]) -> Source:
        arguments = (f"{path.removeprefix('.')}={each}" for path, each in sources.items())
        return f"{self._name(kind)}({', '.join(arguments)})"

    def _name(self, it: object) -> Source:
        """Return a name by which an expression can speak of something."""
        name = f"constant_{next(self._numbers)}"
        self.names[name] = it
        return name

    def _variable(self) -> Source:
        return f"each_{next(self._numbers)}"


def _list_field(hint: Any, name: str, items: Codec, place: tuple[type, str] | None) -> FieldCodec:
    if type_hints.is_optional(hint):
        return codecs.nullable_list(name, items, place)
    return codecs.field_codec(name, items)


def _scalar_row(hint: Any, wire: FieldDescriptor, given: Given, where: str) -> Codec:
    """Return the codec of a row of which, beside its keys, only a scalar is left."""
    elements = {f"[{number}]": each for number, each in enumerate(typing.get_args(hint))}
    ((path, left),) = ((path, each) for path, each in elements.items() if path not in given)
    item = codecs.scalar(left, where + wire.name)
    return Codec(
        lambda value: item.encode(value + path),
        lambda raw: f"({''.join(f'{given.get(each) or item.decode(raw)}, ' for each in elements)})",
    )


def _wire_field(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    """Return the field of a message that holds a field of a value; None if it lacks it."""
    for each in (name, *wire_table.NAMES.get(name, ())):
        if each in descriptor.fields_by_name:
            return descriptor.fields_by_name[each]
    place = (descriptor.full_name.removeprefix(f"{descriptor.file.package}."), name)
    assert place in wire_table.NOT_ON_THE_WIRE, f"{descriptor.full_name} has no field for {name}"
    return None


def _message_type(wire: FieldDescriptor) -> Descriptor:
    assert wire.message_type is not None, wire.full_name
    return wire.message_type


def _not_in(descriptor: Descriptor, parts: Mapping[Path, FieldCodec]) -> Iterator[FieldDescriptor]:
    """Yield the fields of a message that no part is in, in the order of their numbers."""
    seen = {name for part in parts.values() for name in part.encode("")}
    for field in sorted(descriptor.fields, key=lambda each: each.number):
        if field.name not in seen:
            yield field
