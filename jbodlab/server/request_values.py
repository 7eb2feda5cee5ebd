"""Requests of clients as values of our own types, by the names of their fields."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any

import msgspec

from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.server.answer import milliseconds

Given = Mapping[str, Any]
"""Fields of a request or response that have no counterpart of the same name."""

Read = Callable[[Any], Any]


def value_of(kind: Any, entity: Any, given: Given) -> Any:
    """Return a value made of a request of a client, or of a part of it.

    Args:
        kind: Its type, a struct or a named tuple. A field that ends with `_ms` is a duration in
            kio, where the name ends before that.
        entity: Has fields of the same names, in a version of kio; the others have their defaults.
        given: Fields that take precedence.
    """
    entity_class: EntityClass = type(entity)
    found = {
        name: read(getattr(entity, source))
        for name, source, read in _readers(kind, entity_class)
        if name not in given
    }
    return kind(**found, **given)


@cache
def _readers(kind: Any, entity_class: EntityClass) -> tuple[tuple[str, str, Read], ...]:
    """Return the fields of a type, each with that of an entity that it is made of, and how."""
    # A field that newer versions have in an array of theirs, kio prefixes as `v3_and_below_name`.
    sources = {each.name.split("_and_below_")[-1]: each.name for each in fields(entity_class)}
    found = []
    for name, hint in typing.get_type_hints(kind).items():
        if name in sources:
            found.append((name, sources[name], _reader(hint)))
        elif (source := name.removesuffix("_ms")) in sources:
            found.append((name, sources[source], milliseconds))
    return tuple(found)


def _reader(hint: Any) -> Read:
    """Return what makes a value of a type from what kio has in its place.

    Where a value has a tuple, kio may have a struct with the same fields, or with that one field.
    """
    arguments = typing.get_args(hint)
    if NoneType in arguments:
        (inner,) = (each for each in arguments if each is not NoneType)
        read = _reader(inner)
        return lambda found: None if found is None else read(found)
    if arguments[1:] == (Ellipsis,):
        element = _reader(arguments[0])
        return lambda found: tuple(map(element, _only_field(found)))
    if typing.get_origin(hint) is tuple:
        elements = [_reader(each) for each in arguments]
        return lambda found: tuple(
            [
                read(getattr(found, name))
                for read, name in zip(elements, found.__slots__, strict=True)
            ]
        )
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or hasattr(hint, "_fields")):
        return lambda found: value_of(hint, found, {})
    return lambda found: found


def _only_field(found: Any) -> Any:
    return found if isinstance(found, tuple) else getattr(found, found.__slots__[0])
