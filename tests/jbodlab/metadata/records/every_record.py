"""One record after the other: every type in every version, with telling values in each field."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from jbodlab.kafka_wire.kinds import FieldSpec, Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record

TEXT = 'a"b\\c\n\t\b\f\r\x00\x01\x1f\x7f/ä€\U0001f600\u2028'
UNKNOWN_TAGS = ((50, b"xyz"), (200, b""))

_NUMBERS: dict[str, list[object]] = {
    "?": [True, False],
    "b": [5, -(2**7), 2**7 - 1],
    "h": [7, -(2**15), 2**15 - 1],
    "H": [9092, 0, 2**16 - 1],
    "i": [3, -(2**31), 2**31 - 1],
    "q": [1_234_567_890_123, -(2**63), 2**63 - 1],
    # Without those that Java 17 prints in another way than Java 19 and later.
    "d": [
        *(1024.0, 0.0, -0.0, 1e7, 9.9e-4, float("inf"), float("-inf"), float("nan"), 10_485_760.0),
        *(0.1, 123_456_789.123, 2e-3, 5e-324, 1.7976931348623157e308, 1e21, 9007199254740993.0),
    ],
}
_IDS = [UUID(int=0), UUID(int=1), UUID(int=2**127 + 77), UUID(int=2**126 + 5)]


def values(kind: Kind, version: int) -> list[object]:
    """Return values of a kind: an ordinary one first, null last."""
    found: list[object]
    match kind.form:
        case Form.FIXED:
            found = list(_NUMBERS[kind.code])
        case Form.UUID:
            found = list(_IDS)
        case Form.STRING:
            found = ["abc", "", TEXT]
        case Form.BYTES:
            found = [b"\x01\x02", b"", bytes(range(200))]
        case Form.ARRAY:
            assert kind.element is not None
            items = values(kind.element, version)
            found = [tuple(items), (), (items[0],)]
        case Form.STRUCT:
            assert kind.struct is not None
            found = list(structs(kind.struct, version))[:4]
    return [*found, None] if kind.nullable else found


def structs(cls: type[Struct], version: int) -> Iterator[Struct]:
    """Yield the defaults, every value of every field at least once, and unknown tags."""
    choices = {spec.name: values(spec.kind, version) for spec in _present(cls, version)}
    yield cls()
    for number in range(max(map(len, choices.values()), default=0)):
        yield cls(**{name: found[number % len(found)] for name, found in choices.items()})  # type: ignore[arg-type]
    first = {name: found[0] for name, found in choices.items()}
    yield cls(unknown_tags=UNKNOWN_TAGS, **first)  # type: ignore[arg-type]


def every_record() -> Iterator[tuple[Record, int]]:
    """Yield records and their versions."""
    for cls, version in every_version():
        for record in structs(cls, version):
            assert isinstance(record, Record)
            yield record, version


def every_version() -> Iterator[tuple[type[Record], int]]:
    """Yield every type with each of its versions."""
    for cls in RECORD_TYPES.values():
        for version in range(cls.HIGHEST_VERSION + 1):
            yield cls, version


def tagged(cls: type[Struct], version: int) -> list[FieldSpec]:
    """Return the fields in the tagged section of a version."""
    return [spec for spec in _present(cls, version) if spec.tag is not None]


def _present(cls: type[Struct], version: int) -> list[FieldSpec]:
    return [spec for spec in field_specs(cls) if spec.since <= version]
