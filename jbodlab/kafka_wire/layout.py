"""What the codec asks of kio's classes: the types, tags and defaults of their fields."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from types import MappingProxyType, NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from jbodlab.kafka_wire.kinds import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    FieldSpec,
    Form,
    Kind,
)

EntityClass = Any
"""A class that kio generated for one version of a message; these classes have no common base."""


def is_struct(annotation: Any) -> bool:
    """Return whether a field or an array item of a class of kio is a struct with its own fields."""
    return is_dataclass(annotation)


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
    return _kind(field.type, field.metadata.get("kafka_type")).default


def spec_of(field: Field[Any]) -> FieldSpec:
    """Return what a field of kio is."""
    kind = _kind(field.type, field.metadata.get("kafka_type"))
    tag = tag_of(field)
    default = default_of(field)
    return FieldSpec(field.name, kind, tag=tag, default=default, omitted=default)


def _kind(annotation: Any, name: str | None) -> Kind[Any]:
    inner, optional = unwrap(annotation)
    if get_origin(inner) is tuple:
        element = _kind(unwrap(get_args(inner)[0])[0], name)
        return Kind(Form.ARRAY, (), element=element, nullable=optional)
    if is_struct(inner):
        return Kind(Form.STRUCT, None, struct=inner, nullable=optional)
    if name == "error_code":
        return Kind(Form.FIXED, 0, "h", packed="{0}.value", unpacked=inner)
    assert name is not None
    kind = _KINDS[name]
    return replace(kind, nullable=optional or name == "records") if not kind.is_fixed else kind


def _milliseconds(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def _timestamp(value: int) -> datetime.datetime | None:
    return None if value < 0 else datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)


_MILLISECONDS = "round({0}.total_seconds() * 1000)"
_KINDS: Mapping[str, Kind[Any]] = MappingProxyType(
    {
        "bool": BOOL,
        "int8": INT8,
        "int16": INT16,
        "uint16": UINT16,
        "int32": INT32,
        "uint32": Kind(Form.FIXED, 0, "I"),
        "int64": INT64,
        "float64": FLOAT64,
        "string": STRING,
        "bytes": BYTES,
        "records": BYTES,
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
"""Kinds by the names that kio has for them."""
