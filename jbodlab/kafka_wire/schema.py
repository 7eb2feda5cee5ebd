"""How a record is declared, and the fields that a class has in one version.

Two families of classes follow Kafka's message language. Client messages are those of kio, with a
class for each version. Records have one class for all versions, a frozen dataclass with Kafka's
fields in Kafka's order:

    @dataclass(frozen=True, slots=True, kw_only=True)
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
from dataclasses import dataclass, replace
from inspect import get_annotations
from typing import Any, ClassVar, NamedTuple

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Base of records and of the structs nested in them."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = 0
    """Versions below have sizes of fixed width and no tagged section, what is nested included."""

    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields that this schema does not know, as (tag, data); written back as they are."""

    def __init_subclass__(cls, **constants: int | str) -> None:
        """Set the constants, and make fields of a dataclass from what was declared."""
        for name, value in constants.items():
            assert hasattr(cls, name.upper()), f"{cls.__name__} has no constant {name}"
            setattr(cls, name.upper(), value)
        for name, annotation in get_annotations(cls).items():
            stated = cls.__dict__.get(name)
            if isinstance(stated, FieldSpec):
                kind = kind_of(annotation)
                default = kind.default if stated.default is _MISSING else stated.default
                omitted = default if stated.omitted is _MISSING else stated.omitted
                spec = replace(stated, name=name, kind=kind, default=default, omitted=omitted)
                setattr(cls, name, dataclasses.field(default=default, metadata={"spec": spec}))


_SPECS: dict[type[Any], tuple[FieldSpec, ...]] = {}


def field_specs(cls: type[Any]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a record, or those of a class of kio, in declaration order."""
    found = _SPECS.get(cls)
    if found is None:
        fields = dataclasses.fields(cls)
        if issubclass(cls, Struct):
            found = tuple(each.metadata["spec"] for each in fields if "spec" in each.metadata)
        else:
            found = tuple(map(spec_of, fields))
        _SPECS[cls] = found
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
