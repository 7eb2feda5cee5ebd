"""The structs of a response, made of those that kio has for one version of an API.

A response is one value for all versions, so its fields are those of the newest one, and of older
ones whose fields are gone. A struct of msgspec is made ten times faster than one of kio. Fields
that are not given have the default of the schema, or the zero value of their type.
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

Maker = Callable[..., Any]


@cache
def struct_of(*entity_classes: EntityClass, base: type[msgspec.Struct] | None = None) -> Maker:
    """Return a type with the fields of a class of kio, which has one for each version."""
    found = {each.name: each for one in reversed(entity_classes) for each in fields(one)}
    return msgspec.defstruct(
        entity_classes[0].__name__,
        [(name, Any, _default(each)) for name, each in found.items()],
        bases=None if base is None else (base,),
        kw_only=True,
        frozen=True,
    )


class ResponseStructs:
    """Makes the structs of a response, each an attribute by its name in kio.

    A message is imported when the first of its structs is made, which takes long.

    Args:
        key: The API.
        versions: Whose fields they have, the newest one first.
    """

    def __init__(self, key: ApiKey, *versions: int) -> None:
        self._key = key
        self._versions = versions

    @cached_property
    def response(self) -> Callable[..., Response]:
        """The class of the response itself."""
        return struct_of(*self._classes(), base=Response)

    def __getattr__(self, name: str) -> Maker:
        by_name: dict[str, list[EntityClass]] = {}
        for response in self._classes():
            for each in _structs_below(response):
                by_name.setdefault(each.__name__, []).append(each)
        for each_name, classes in by_name.items():
            setattr(self, each_name, struct_of(*classes))
        found: Maker | None = self.__dict__.get(name)
        if found is None:
            raise AttributeError(f"{self._key.name} {self._versions[0]} has no struct {name}")
        return found

    def _classes(self) -> list[EntityClass]:
        return [response_class(self._key, version) for version in self._versions]


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
