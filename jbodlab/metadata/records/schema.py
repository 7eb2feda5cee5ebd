"""How a record is declared.

A record is a frozen dataclass whose fields are made by `wire`, in Kafka's declaration order:

    leader_recovery_state: int = wire(INT8, tag=0)
    directories: tuple[DirectoryId, ...] = wire(array(DIRECTORY_ID), since=1)
    expire_timestamp: int = wire(INT64, since=1, until=1)

Declaration order is the order on the wire for untagged fields, and the order of keys in JSON for
all of them; tagged fields stand on the wire in the order of their tags. Encoder and decoder are
made from the declaration by `jbodlab.metadata.records.codec`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, TypeVar, cast

from jbodlab.metadata.records.json_form import JsonValue, json_value
from jbodlab.metadata.records.kinds import Kind
from jbodlab.vocabulary.errors import JbodlabError

T = TypeVar("T")

_MISSING = object()


class EncodeError(JbodlabError):
    """A value that the schema cannot hold in the version asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Base of records and of the structs nested in them."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 0
    """Versions below have sizes of fixed width and no tagged section."""

    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields that this schema does not know, as (tag, data); written back as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Struct):
    """Base of what stands in the data batches of the metadata log."""

    API_KEY: ClassVar[int] = -1
    NAME: ClassVar[str] = ""
    HIGHEST_VERSION: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field as declared; ``tag`` is None for an untagged field."""

    name: str
    kind: Kind[object]
    since: int
    until: int | None
    tag: int | None
    default: object
    omitted: object
    """With a tag: the value that has none."""

    def is_in(self, version: int) -> bool:
        """Return whether a schema version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def json_key(self) -> str:
        """Kafka's name of the field with a lower-case first letter."""
        head, *rest = self.name.split("_")
        return head + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class _Wire:
    kind: Kind[object]
    since: int
    until: int | None
    tag: int | None
    omitted: object


_SPECS: dict[type[Struct], tuple[FieldSpec, ...]] = {}


def wire(
    kind: Kind[T],
    *,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    default: object = _MISSING,
    omitted: object = _MISSING,
) -> T:
    """Declare a field of a record.

    Args:
        kind: Its type on the wire, from `jbodlab.metadata.records.kinds`.
        since: First schema version that has it; in older ones it has its default.
        until: Last schema version that has it; None for all that follow.
        tag: Tag number if it stands in the tagged section, where it is left out at its default.
        default: Value when absent, if it differs from the default of the kind.
        omitted: Value that is left out of the tagged section, if that is not the default.
    """
    value = kind.default if default is _MISSING else default
    left_out = value if omitted is _MISSING else omitted
    declared = field(default=value, metadata={"wire": _Wire(kind, since, until, tag, left_out)})
    return cast("T", declared)


def field_specs(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a record or struct, in declaration order."""
    if cls not in _SPECS:
        _SPECS[cls] = tuple(
            FieldSpec(
                item.name,
                declared.kind,
                declared.since,
                declared.until,
                declared.tag,
                item.default,
                declared.omitted,
            )
            for item in fields(cls)
            if (declared := cast("_Wire | None", item.metadata.get("wire"))) is not None
        )
    return _SPECS[cls]


def to_json(
    record: Struct, version: int, *, with_unknown_tags: bool = False
) -> dict[str, JsonValue]:
    """Return the fields as Kafka's dump tool prints them.

    Keys are Kafka's names with a lower-case first letter in declaration order. Untagged fields are
    always present, tagged ones only when they differ from their default. Ids are text, bytes are
    base64 with padding, infinite and undefined doubles are strings.

    Args:
        record: A record, or a struct in one.
        version: Schema version whose fields are wanted.
        with_unknown_tags: Add `unknownTaggedFields`, a list of tag and data, to each struct that
            has some; the dump tool does not show them.
    """
    result: dict[str, JsonValue] = {}
    for spec in field_specs(type(record)):
        if not spec.is_in(version):
            continue
        value: object = getattr(record, spec.name)
        if spec.tag is None or value != spec.omitted:
            result[spec.json_key] = json_value(
                value,
                lambda inner: to_json(inner, version, with_unknown_tags=with_unknown_tags),
            )
    if with_unknown_tags and record.unknown_tags:
        result["unknownTaggedFields"] = [
            {"tag": tag, "data": json_value(data, lambda _: None)}
            for tag, data in record.unknown_tags
        ]
    return result
