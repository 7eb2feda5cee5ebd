"""A value of each type of `jbodlab.controller_api.requests` in which no field has its default."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

import msgspec

from jbodlab.vocabulary.error_code import ErrorCode

MADE: dict[type, Callable[[int], Any]] = {
    bool: bool,
    bytes: b"%d".__mod__,
    float: float,
    int: int,
    str: "text {}".format,
    ErrorCode: ErrorCode,
    UUID: lambda number: UUID(int=number << 64),
}


def sample(kind: Any) -> Any:
    """Return a value whose lists have two elements, and whose numbers and texts all differ."""
    return _sample(kind, count(3))


def _sample(hint: Any, numbers: Iterator[int]) -> Any:
    arguments = typing.get_args(hint)
    if types.NoneType in arguments:
        (hint,) = (each for each in arguments if each is not types.NoneType)
        return _sample(hint, numbers)
    if typing.get_origin(hint) is tuple:
        elements = arguments[:1] * 2 if arguments[1:] == (Ellipsis,) else arguments
        return tuple(_sample(each, numbers) for each in elements)
    if isinstance(hint, typing.NewType):
        return _sample(hint.__supertype__, numbers)
    if issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return hint(**{name: _sample(each, numbers) for name, each in hints.items()})
    return MADE[hint](next(numbers))
