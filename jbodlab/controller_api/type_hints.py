"""What the types of a struct's fields say, and where in a value a part of it is."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, TypeGuard
from uuid import UUID

import msgspec

Path = str
"""How an expression goes on to a part of a value: `.topic`, `[0]`, `[0].topic`."""


def find(hint: Any, member: str | int) -> tuple[Path, Any]:
    """Return where a key is in a row, and its type."""
    if isinstance(member, int):
        return f"[{member}]", typing.get_args(hint)[member]
    if is_struct(hint):
        return f".{member}", typing.get_type_hints(hint)[member]
    for number, element in enumerate(typing.get_args(hint)):
        if is_struct(element):
            path, found = find(element, member)
            return f"[{number}]{path}", found
    raise AssertionError(f"{hint} has no {member}")


def is_struct(hint: Any) -> TypeGuard[type[msgspec.Struct]]:
    """Return whether a type is one of the values that have named fields."""
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def getter(path: Path) -> Callable[[Any], Any]:
    """Return a function that goes along a path, in C where there is one."""
    if path.startswith("."):
        return attrgetter(path[1:])
    number, _, name = path[1:].partition("]")
    if not name:
        return itemgetter(int(number))
    first, second = itemgetter(int(number)), attrgetter(name[1:])
    return lambda row: second(first(row))


def plain(hint: Any) -> Any:
    """Return the type behind the names that `NewType` gave it."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    return hint


def is_optional(hint: Any) -> bool:
    """Return whether None is among the values of a type."""
    return types.NoneType in typing.get_args(hint)


def without_none(hint: Any) -> Any:
    """Return a type without None."""
    if not is_optional(hint):
        return hint
    (inner,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    return inner


def is_list(hint: Any) -> bool:
    """Return whether a type is a tuple of any length."""
    arguments = typing.get_args(hint)
    return typing.get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis


def element(hint: Any) -> Any:
    """Return the type of what a tuple of any length, or None in its place, has in it."""
    hint = without_none(hint)
    assert is_list(hint), f"{hint} is no tuple of any length"
    return typing.get_args(hint)[0]


def is_id(hint: Any) -> bool:
    """Return whether a type is one of the ids."""
    return plain(hint) is UUID
