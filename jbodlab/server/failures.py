"""The response in which a request fails, derived from the schema of its version.

The error code goes where the schema has a place for it: to the top of the message, or else into
each element that answers an element of the request. Such an element repeats the fields by which the
client identifies it. Every other field has the default of the schema, or the zero of its type; an
offset, an id or an epoch without a default is -1.

Where clients expect another response, the handler defines `failure` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum, auto
from functools import cache
from typing import Any, ClassVar, get_args, get_origin

from jbodlab.kafka_wire.api_table import response_class
from jbodlab.kafka_wire.layout import EntityClass, default_of, is_struct, unwrap
from jbodlab.server.answer import RequestContext
from jbodlab.server.partition_errors import told
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

PARTITION_FIELDS = frozenset({"partition", "partition_id", "partition_index"})
IDENTITY_FIELDS = PARTITION_FIELDS | {
    "allow_replication_factor_change",
    "entity",
    "group_id",
    "key",
    "name",
    "producer_id",
    "resource_name",
    "resource_type",
    "topic",
    "topic_id",
    "transactional_id",
}
NODES = frozenset({"node_id", "port"})
"""A node that is not known has -1 as its id and port."""

UNKNOWN_IS_NEGATIVE = frozenset({"int16", "int64"})
"""Types of offsets, ids and epochs."""

Value = Callable[[Any, KafkaError], Any]
"""(asked, error): the value of one field of the response; `asked` is the request or its element."""


class FailsBySchema:
    """A handler whose failures follow from the schema of the response."""

    TOLD_AS: ClassVar[Mapping[ErrorCode, ErrorCode]] = {}
    """Errors in place of which clients hear of another one."""

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Any:
        """Return the response in which every part of the request fails with an error."""
        error = KafkaError(self.TOLD_AS.get(error.code, error.code), error.message)
        return _failed(_response_class(context), ResponseLocation.TOP)(request, error)


def refused_elements(request: Any, context: RequestContext, error: KafkaError) -> Any:
    """Return a response in which each element of the request fails, and not the whole."""
    return _failed(_response_class(context), ResponseLocation.BELOW)(request, error)


def failed_everywhere(request: Any, context: RequestContext, error: KafkaError) -> Any:
    """Return a response in which the whole request fails, and each element of it is named."""
    return _failed(_response_class(context), ResponseLocation.EVERYWHERE)(request, error)


def _response_class(context: RequestContext) -> EntityClass:
    return response_class(context.header.api_key, context.header.api_version)


class ResponseLocation(Enum):
    """Where in a response a struct is.

    Attributes:
        TOP: The response itself.
        BELOW: The response itself, whose elements fail and not the whole.
        ELEMENT: An element of an array.
        EVERYWHERE: Either, where clients want to find the whole and all elements failed.
    """

    TOP = auto()
    BELOW = auto()
    ELEMENT = auto()
    EVERYWHERE = auto()


@cache
def _failed(entity_class: EntityClass, place: ResponseLocation) -> Value:
    """Return what makes a response, or an element of one."""
    values = {each.name: _value(entity_class, each, place) for each in fields(entity_class)}

    def failed(asked: Any, error: KafkaError) -> Any:
        return entity_class(**{name: value(asked, error) for name, value in values.items()})

    return failed


def _value(entity_class: EntityClass, field: Field[Any], place: ResponseLocation) -> Value:
    has_code = _has_code(entity_class) and place is not ResponseLocation.BELOW
    if field.metadata.get("kafka_type") == "error_code" and has_code:
        is_partition = not PARTITION_FIELDS.isdisjoint(entity_class.__slots__)
        return _code_of_partition if is_partition else _code
    if field.name == "error_message" and place is not ResponseLocation.BELOW:
        return _message
    item = _struct_in_array(field)
    is_everywhere = place is ResponseLocation.EVERYWHERE
    if item is not None and (is_everywhere or (not has_code and _has_code_within(item))):
        failed = _failed(item, place if is_everywhere else ResponseLocation.ELEMENT)
        return lambda asked, error: tuple(failed(each, error) for each in _elements(asked))
    absent = _absent(field)
    is_element = is_everywhere or place is ResponseLocation.ELEMENT
    if is_element and field.name in IDENTITY_FIELDS:
        return lambda asked, _: _identity(asked, field.name, absent)
    return lambda _asked, _error: absent


def _code(_: Any, error: KafkaError) -> int:
    return error.code


def _code_of_partition(_: Any, error: KafkaError) -> int:
    return told(error.code)


def _message(_: Any, error: KafkaError) -> str | None:
    return error.message or None


def _elements(asked: Any) -> Iterable[Any]:
    """Return the first array of a request, or of its element: the things that are asked for."""
    for field in fields(asked):
        if get_origin(unwrap(field.type)[0]) is tuple:
            return getattr(asked, field.name) or ()
    return ()


def _identity(asked: Any, name: str, absent: Any) -> Any:
    """Return a field by which a client identifies an element; simple ones are given alone."""
    return asked if isinstance(asked, str | int) else getattr(asked, name, absent)


def _absent(field: Field[Any]) -> Any:
    if field.metadata.get("kafka_type") == "error_code":
        return ErrorCode.NONE
    if field.default is MISSING:
        if field.name in NODES:
            return -1
        if get_origin(unwrap(field.type)[0]) is tuple:
            return ()
        if field.metadata.get("kafka_type") in UNKNOWN_IS_NEGATIVE:
            return -1
    return default_of(field)


def _struct_in_array(field: Field[Any]) -> EntityClass | None:
    annotation, _ = unwrap(field.type)
    if get_origin(annotation) is not tuple:
        return None
    item, _ = unwrap(get_args(annotation)[0])
    return item if is_struct(item) else None


def _has_code(entity_class: EntityClass) -> bool:
    return any(each.metadata.get("kafka_type") == "error_code" for each in fields(entity_class))


def _has_code_within(entity_class: EntityClass) -> bool:
    """Return whether an element, or one below it, has an error code."""
    items = filter(None, map(_struct_in_array, fields(entity_class)))
    return _has_code(entity_class) or any(map(_has_code_within, items))
