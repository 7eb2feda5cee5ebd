"""Requests from names and values, in whichever version they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin

from jbodlab.kafka_wire.api_table import request_class
from jbodlab.kafka_wire.layout import EntityClass, default_of, is_struct, unwrap
from jbodlab.vocabulary.errors import UnsupportedVersionError

Fields = Mapping[str, Any]
"""Values by the names of their fields; a struct is a mapping again, an array any sequence."""


def request(api_key: int, versions: range, values: Fields) -> tuple[int, Any] | None:
    """Return the newest version of a request that can hold all values, and the request; pure.

    Args:
        api_key: Which API.
        versions: Those that the broker serves.
        values: Fields of the request; others have their defaults.

    Returns:
        None where no version is known here, or none has all these fields.
    """
    for version in reversed(versions):
        for entity_class in _classes(api_key, version):
            if values.keys() <= {each.name for each in fields(entity_class)}:
                return version, made(entity_class, values)
    return None


def _classes(api_key: int, version: int) -> Iterator[EntityClass]:
    try:
        yield request_class(api_key, version)
    except UnsupportedVersionError:
        return


def made(entity_class: EntityClass, values: Fields) -> Any:
    """Return a message or struct with those of the values that it has fields for; pure."""
    return entity_class(
        **{
            name: take(values[name]) if name in values else default
            for name, take, default in _fields_of(entity_class)
        }
    )


@cache
def _fields_of(entity_class: EntityClass) -> tuple[tuple[str, Callable[[Any], Any], Any], ...]:
    """Return name, the function that takes a value in, and default of each field."""
    return tuple((each.name, _taker(each.type), default_of(each)) for each in fields(entity_class))


def _taker(annotation: Any) -> Callable[[Any], Any]:
    inner, _ = unwrap(annotation)
    if is_struct(inner):
        return lambda value: None if value is None else made(inner, value)
    if get_origin(inner) is tuple:
        take = _taker(get_args(inner)[0])
        return lambda values: None if values is None else tuple(map(take, values))
    return lambda value: value
