"""Fields of a declared record, as rows for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jbodlab.kafka_wire.kinds import KINDS, FieldSpec, Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs

_NAMES = {(kind.form, kind.code): name for name, kind in KINDS.items()}


class FieldRow(NamedTuple):
    """One field; `tag` and `default` are empty where it has no tag, and its type's zero value."""

    field: str
    """Key in JSON; a field of a nested struct stands behind the field that holds it."""
    type: str
    versions: str
    """Such as `1+` for version 1 and all that follow."""
    tag: str
    default: str
    meaning: str


def field_rows(cls: type[Struct], prefix: str = "") -> Iterator[FieldRow]:
    """Yield the fields of a record in the order of its JSON, nested ones behind their holder."""
    for spec in field_specs(cls):
        key, kind = prefix + spec.json_key, spec.kind
        tag = "" if spec.tag is None else str(spec.tag)
        yield FieldRow(key, _type(kind), _versions(spec), tag, _default(spec), spec.meaning)
        nested = kind.element or kind
        if nested.struct is not None:
            yield from field_rows(nested.struct, f"{key}[]." if kind.element else f"{key}.")


def _type(kind: Kind) -> str:
    if kind.nullable:
        return f"{_plain_type(kind)} or null"
    return _plain_type(kind)


def _plain_type(kind: Kind) -> str:
    if kind.element is not None:
        return f"[]{_plain_type(kind.element)}"
    return "struct" if kind.form is Form.STRUCT else _NAMES[kind.form, kind.code]


def _versions(spec: FieldSpec) -> str:
    if spec.until is None:
        return f"{spec.since}+"
    return str(spec.since) if spec.until == spec.since else f"{spec.since}-{spec.until}"


def _default(spec: FieldSpec) -> str:
    if spec.default == spec.kind.default:
        return ""
    return "null" if spec.default is None else str(spec.default).lower()
