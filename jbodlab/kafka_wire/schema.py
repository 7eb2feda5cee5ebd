"""How a record is declared, and the fields that a class has in one version.

Two families of classes follow Kafka's message language. Client messages are those of kio, with a
class for each version. Records have one class for all versions, a frozen struct with Kafka's fields
in Kafka's order:

    class TopicRecord(Record, api_key=2):
        name: str = field("name of the topic")
        topic_id: TopicId = field("id of the topic", since=1)

Declaration order is the order on the wire for untagged fields, and the order of keys in JSON for
all of them; tagged fields stand on the wire in the order of their tags. The annotation is the type
on the wire, too, so that modules of records do not postpone annotations. Keywords of a class are
its constants. `field_specs` says of both families what `jbodlab.kafka_wire.codec` makes encoders
and decoders from.
"""

import dataclasses
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import msgspec

from jbodlab.kafka_wire.kinds import FieldSpec, Form, Kind
from jbodlab.kafka_wire.layout import kind_of, spec_of
from jbodlab.vocabulary.errors import JbodlabError

NEVER_FLEXIBLE = 1 << 15
"""First flexible version of a class that has none."""

_MISSING = object()
_UNKNOWN = Kind(Form.STRUCT, None)
"""Until the annotation of a field is known."""


class EncodeError(JbodlabError):
    """A value that the schema cannot hold in the version asked for."""


def field(
    meaning: str,
    *,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    default: Any = _MISSING,
    omitted: Any = _MISSING,
) -> Any:
    """Declare a field of a record.

    Args:
        meaning: Meaning of its value, for a reader who knows the record's purpose.
        since: First schema version that has it; in older ones it has its default.
        until: Last schema version that has it; None for all that follow.
        tag: Tag number of a field of the tagged section, which leaves it out at its default.
        default: Value when absent, if it is not the zero of its type.
        omitted: Value that is left out of the tagged section, if that is not the default.
    """
    return FieldSpec("", _UNKNOWN, since, until, tag, default, omitted, meaning)


_SPECS: dict[type[Any], tuple[FieldSpec, ...]] = {}


# Every declared field has a default, so that to a type checker none is a specifier.
@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Declared(msgspec.StructMeta):
    """Makes a struct of msgspec from a class whose fields are declared by `field`.

    Keywords of the class are its constants.
    """

    def __new__(
        cls,
        title: str,
        bases: tuple[type, ...],
        members: dict[str, Any],
        /,
        **constants: int | str,
    ) -> Any:
        for constant, value in constants.items():
            constant = constant.upper()
            assert any(hasattr(base, constant) for base in bases), f"{title} has no {constant}"
            members[constant] = value
        specs = [spec for base in bases for spec in _SPECS.get(base, ())]
        for key, annotation in members.get("__annotations__", {}).items():
            stated = members.get(key)
            if isinstance(stated, FieldSpec):
                kind = kind_of(annotation)
                default = kind.default if stated.default is _MISSING else stated.default
                omitted = default if stated.omitted is _MISSING else stated.omitted
                members[key] = default
                specs.append(replace(stated, name=key, kind=kind, default=default, omitted=omitted))
        # No value is part of a circle, and the collector need not look at a million of them.
        made = super().__new__(cls, title, bases, members, frozen=True, kw_only=True, gc=False)
        _SPECS[made] = tuple(specs)
        return made


class Struct(msgspec.Struct, metaclass=_Declared):
    """Base of records and of the structs nested in them."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 0
    """Versions below have sizes of fixed width and no tagged section, what is nested included."""

    def __init_subclass__(cls, **constants: int | str) -> None:
        """Take the constants, which are set already."""

    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields that this schema does not know, as (tag, data); written back as they are."""


def field_specs(cls: type[Any]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a record, or those of a class of kio, in declaration order."""
    found = _SPECS.get(cls)
    if found is None:
        found = _SPECS[cls] = tuple(map(spec_of, dataclasses.fields(cls)))
    return found


class VersionFields(NamedTuple):
    """The fields of a class in one version, in the order of their bytes."""

    plain: tuple[FieldSpec, ...]
    tagged: tuple[FieldSpec, ...]
    absent: tuple[FieldSpec, ...]
    """Fields of other versions."""


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
