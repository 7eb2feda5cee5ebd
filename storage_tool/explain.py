"""`jbodlab storage explain`: the meaning of the fields of records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from jbodlab.cli.output import Output
from jbodlab.group_records.keys import KEY_TYPES
from jbodlab.group_records.values import VALUE_TYPES
from jbodlab.kafka_wire.field_table import field_rows
from jbodlab.kafka_wire.schema import Struct
from jbodlab.metadata.records.registry import BY_NAME
from jbodlab.vocabulary.errors import FormatError

if TYPE_CHECKING:
    from jbodlab.cli.results import RecordField, RecordType


RECORDS: Mapping[str, tuple[type[Struct], ...]] = MappingProxyType(
    {
        **{name: (cls,) for name, cls in BY_NAME.items()},
        **{str(number): (key, VALUE_TYPES[key]) for number, key in sorted(KEY_TYPES.items())},
    }
)
"""Classes by the type that `storage dump` prints; a record of a group has a key and a value."""


def run(record_type: str | None, output: Output) -> None:
    """Print the fields of a record, or the types of all records.

    Raises:
        FormatError: no record has this type.
    """
    if record_type is None:
        output.rows([_summary(name) for name in RECORDS])
        return
    by_class = {cls.__name__: classes for classes in RECORDS.values() for cls in classes}
    classes = RECORDS.get(record_type.upper()) or by_class.get(record_type)
    if classes is None:
        raise FormatError(f"unknown record type {record_type!r}; `storage explain` lists all")
    rows: list[RecordField] = [
        {
            "record": cls.__name__,
            "field": row.field,
            "type": row.type,
            "versions": row.versions,
            "tag": row.tag,
            "default": row.default,
            "meaning": row.meaning,
        }
        for cls in classes
        for row in field_rows(cls)
    ]
    output.rows(rows, "The record has no fields.")


def _summary(name: str) -> RecordType:
    cls = RECORDS[name][0]
    text = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    return {"type": name, "record": cls.__name__, "meaning": text.rstrip(".")}
