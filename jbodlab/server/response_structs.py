"""The structs of a response, made of those that kio has for one version of an API.

A response is one value for all versions, so its fields are those of the newest one. A struct of
msgspec is made ten times faster than one of kio. Fields that are not given have the default of the
schema, or the zero value of their type.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from functools import cache, cached_property
from typing import Any

import msgspec

from jbodlab.kafka_wire.api_table import ApiKey, response_class
from jbodlab.kafka_wire.layout import EntityClass, default_of, is_struct, unwrap
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode


@cache
def struct_of(entity_class: EntityClass, *bases: type[msgspec.Struct]) -> Callable[..., Any]:
    """Return a type with the fields of a class of kio."""
    names = [(each.name, Any, _default(each)) for each in fields(entity_class)]
    return msgspec.defstruct(entity_class.__name__, names, bases=bases, kw_only=True, frozen=True)


class ResponseStructs:
    """Makes the structs of a response, each an attribute by its name in kio.

    A message is imported when the first of its structs is made, which takes long.

    Args:
        key: The API.
        version: Whose fields they have.
    """

    def __init__(self, key: ApiKey, version: int) -> None:
        self._key = key
        self._version = version

    @cached_property
    def response(self) -> Callable[..., Response]:
        """What makes the response itself."""
        return struct_of(response_class(self._key, self._version), Response)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        for each in _structs_below(response_class(self._key, self._version)):
            setattr(self, each.__name__, struct_of(each))
        found: Callable[..., Any] | None = self.__dict__.get(name)
        if found is None:
            raise AttributeError(f"{self._key.name} {self._version} has no struct {name}")
        return found


def _structs_below(entity_class: EntityClass) -> Iterator[EntityClass]:
    for each in fields(entity_class):
        annotation, _ = unwrap(each.type)
        if typing.get_origin(annotation) is tuple:
            annotation, _ = unwrap(typing.get_args(annotation)[0])
        if is_struct(annotation):
            yield annotation
            yield from _structs_below(annotation)


def _default(field: Field[Any]) -> Any:
    if field.metadata.get("kafka_type") == "error_code":
        return ErrorCode.NONE
    return default_of(field)
