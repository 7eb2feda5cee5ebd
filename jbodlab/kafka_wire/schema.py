"""How a record is declared, and the fields that a class has in one version.

Two families of classes follow Kafka's message language. Client messages are those of kio, with a
class for each version. Records have one class for all versions, a frozen dataclass whose fields
are made by `wire`, in Kafka's declaration order:

    leader_recovery_state: int = wire(INT8, tag=0)
    directories: tuple[DirectoryId, ...] = wire(array(DIRECTORY_ID), since=1)
    expire_timestamp: int = wire(INT64, since=1, until=1)

Declaration order is the order on the wire for untagged fields, and the order of keys in JSON for
all of them; tagged fields stand on the wire in the order of their tags. `field_specs` says of both
families what `jbodlab.kafka_wire.codec` makes encoders and decoders from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from jbodlab.kafka_wire.kinds import FieldSpec, Kind
from jbodlab.kafka_wire.layout import spec_of
from jbodlab.vocabulary.errors import JbodlabError

T = TypeVar("T")

_MISSING = object()

NEVER_FLEXIBLE = 1 << 15
"""First flexible version of a class that has none."""


class EncodeError(JbodlabError):
    """A value that the schema cannot hold in the version asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Base of records and of the structs nested in them."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 0
    """Versions below have sizes of fixed width and no tagged section, what is nested included."""

    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields that this schema does not know, as (tag, data); written back as they are."""


class VersionFields(NamedTuple):
    """The fields of a class in one version, in the order of their bytes."""

    plain: tuple[FieldSpec, ...]
    tagged: tuple[FieldSpec, ...]
    absent: tuple[FieldSpec, ...]
    """Fields of other versions."""


@dataclass(frozen=True, slots=True)
class _Wire:
    kind: Kind[object]
    since: int
    until: int | None
    tag: int | None
    omitted: object


_SPECS: dict[type[Any], tuple[FieldSpec, ...]] = {}


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
        kind: Its type on the wire.
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


def field_specs(cls: type[Any]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a record, or those of a class of kio, in declaration order."""
    found = _SPECS.get(cls)
    if found is None:
        found = _SPECS[cls] = tuple(_specs(cls))
    return found


def _specs(cls: type[Any]) -> Iterator[FieldSpec]:
    if not issubclass(cls, Struct):
        yield from map(spec_of, fields(cls))
        return
    for item in fields(cls):
        stated = cast("_Wire | None", item.metadata.get("wire"))
        if stated is not None:
            yield FieldSpec(
                item.name,
                stated.kind,
                stated.since,
                stated.until,
                stated.tag,
                item.default,
                stated.omitted,
            )


def fields_in(cls: type[Any], version: int) -> VersionFields:
    """Return the fields of a class; `version` is of a record."""
    specs = field_specs(cls)
    present = [spec for spec in specs if spec.is_in(version)]
    tagged = sorted(
        (spec for spec in present if spec.tag is not None), key=lambda spec: spec.tag or 0
    )
    return VersionFields(
        tuple(spec for spec in present if spec.tag is None),
        tuple(tagged),
        tuple(spec for spec in specs if not spec.is_in(version)),
    )


def is_flexible(cls: type[Any], version: int) -> bool:
    """Return whether sizes are varints and structs end with tags."""
    if issubclass(cls, Struct):
        return version >= cls.FIRST_FLEXIBLE_VERSION
    return bool(cls.__flexible__)
