"""Fields of kio's classes and of declared ones: types, tags and defaults."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from types import MappingProxyType, NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

import msgspec

from jbodlab.kafka_wire.kinds import KINDS, TYPES, FieldSpec, Form, Kind

EntityClass = Any
"""A class that kio generated for one version of a message; these classes have no common base."""


def is_struct(annotation: Any) -> bool:
    """Return whether a field or an array item is a struct with its own fields."""
    return is_dataclass(annotation) or (
        isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
    )


def unwrap(annotation: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and True; anything else comes back with False."""
    if get_origin(annotation) is UnionType:
        inner = next(argument for argument in get_args(annotation) if argument is not NoneType)
        return inner, True
    return annotation, False


def tag_of(field: Field[Any]) -> int | None:
    """Return the tag of a tagged field of kio, None for an ordinary one."""
    tag: int | None = field.metadata.get("tag")
    return tag


def default_of(field: Field[Any]) -> Any:
    """Return what a field of kio means where it is absent.

    The zero value of the type where the schema names no default; for a struct, the defaults of
    its fields.
    """
    if field.default is not MISSING:
        return field.default
    annotation, optional = unwrap(field.type)
    if optional:
        return None
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return annotation(**{nested.name: default_of(nested) for nested in fields(annotation)})
    return kind_of(field.type, field.metadata.get("kafka_type")).default


def spec_of(field: Field[Any]) -> FieldSpec:
    """Return what a field of kio is."""
    kind = kind_of(field.type, field.metadata.get("kafka_type"))
    default = default_of(field)
    return FieldSpec(field.name, kind, tag=tag_of(field), default=default, omitted=default)


def kind_of(annotation: Any, kafka_type: str | None = None) -> Kind:
    """Return the kind of a field by its annotation; one of kio has a name for its type, too."""
    inner, optional = unwrap(annotation)
    if get_origin(inner) is tuple:
        element = kind_of(unwrap(get_args(inner)[0])[0], kafka_type)
        return Kind(Form.ARRAY, (), element=element, nullable=optional)
    if is_struct(inner):
        default = None if hasattr(inner, "__flexible__") else inner()
        return Kind(Form.STRUCT, default, struct=inner, nullable=optional)
    if kafka_type == "error_code":
        return Kind(Form.FIXED, 0, "h", packed="{0}.value", unpacked=inner)
    kind = KINDS[TYPES[inner]] if kafka_type is None else _KIO_KINDS[kafka_type]
    return kind if kind.is_fixed else replace(kind, nullable=optional)


def _milliseconds(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def _timestamp(value: int) -> datetime.datetime | None:
    return None if value < 0 else datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)


_MILLISECONDS = "round({0}.total_seconds() * 1000)"
_KIO_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **KINDS,
        "records": KINDS["bytes"],
        # The zero id is None.
        "uuid": Kind(
            Form.UUID,
            None,
            "16s",
            packed="(b'' if {0} is None else {0}.bytes)",
            unpacked=lambda raw: UUID(bytes=raw) if any(raw) else None,
        ),
        "timedelta_i32": Kind(
            Form.FIXED, datetime.timedelta(0), "i", packed=_MILLISECONDS, unpacked=_milliseconds
        ),
        "timedelta_i64": Kind(
            Form.FIXED, datetime.timedelta(0), "q", packed=_MILLISECONDS, unpacked=_milliseconds
        ),
        "datetime_i64": Kind(
            Form.FIXED,
            0,
            "q",
            packed="(-1 if {0} is None else round({0}.timestamp() * 1000))",
            unpacked=_timestamp,
        ),
    }
)
"""Kinds by the names that kio has for them, which has values of Python's types."""
