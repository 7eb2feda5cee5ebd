"""What a field of a message may be: the types of Kafka's schema language.

In flexible versions:

    bool, int8 ... int64, uint16, float64   fixed size, big-endian
    uuid                                    16 bytes
    string, bytes                           unsigned varint (size + 1), data; null is 0
    array                                   unsigned varint (count + 1), elements; null is 0
    struct                                  its fields, then its own tagged section
    struct that may be null                 1, then the struct; null is -1, one byte, in a tag 0

In older ones a string has a size of 16 bits, bytes and arrays one
of 32; -1 is null. Structs have no tagged section.

Source: `org.apache.kafka.common.protocol.types`, KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Form(Enum):
    """How the bytes of a kind are laid out."""

    FIXED = "fixed"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """Type of a field; ``default`` is what a field of this kind has unless it says otherwise."""

    form: Form
    default: T_co
    code: str = ""
    """Format of `struct`, for fixed sizes."""
    element: Kind[object] | None = None
    struct: type[Any] | None = None
    nullable: bool = False
    packed: str = "{0}"
    """Expression for what is packed of a value of fixed size."""
    unpacked: Callable[[Any], object] | None = None
    """What makes the value of what was unpacked; None where it is the value."""

    @property
    def is_fixed(self) -> bool:
        """Return whether all values have one size."""
        return self.code != ""

    @property
    def is_flat(self) -> bool:
        """Return whether there is no struct in it."""
        return self.struct is None and (self.element is None or self.element.struct is None)


uuid_from_bytes: Callable[[bytes], UUID] = lru_cache(maxsize=1 << 16)(
    lambda raw: UUID(int=int.from_bytes(raw, "big"))
)
"""One object per id: metadata names the same topics and directories again and again."""

_ID = "{0}.bytes"

BOOL = Kind(Form.FIXED, False, "?")
INT8 = Kind(Form.FIXED, 0, "b")
INT16 = Kind(Form.FIXED, 0, "h")
INT32 = Kind(Form.FIXED, 0, "i")
INT64 = Kind(Form.FIXED, 0, "q")
UINT16 = Kind(Form.FIXED, 0, "H")
FLOAT64 = Kind(Form.FIXED, 0.0, "d")
STRING = Kind(Form.STRING, "")
BYTES = Kind(Form.BYTES, b"")
UUID_KIND: Kind[UUID] = Kind(Form.UUID, ZERO_UUID, "16s", packed=_ID, unpacked=uuid_from_bytes)

BROKER_ID = Kind(Form.FIXED, BrokerId(0), "i")
BROKER_EPOCH = Kind(Form.FIXED, BrokerEpoch(0), "q")
LEADER_EPOCH = Kind(Form.FIXED, LeaderEpoch(0), "i")
PARTITION_EPOCH = Kind(Form.FIXED, PartitionEpoch(0), "i")
TOPIC_ID = Kind(Form.UUID, TopicId(ZERO_UUID), "16s", packed=_ID, unpacked=uuid_from_bytes)
DIRECTORY_ID = Kind(Form.UUID, DirectoryId(ZERO_UUID), "16s", packed=_ID, unpacked=uuid_from_bytes)


def array(element: Kind[T]) -> Kind[tuple[T, ...]]:
    """Return the kind of a list, which is a tuple in memory; empty by default."""
    return Kind(Form.ARRAY, (), element=element)


def struct_of(cls: type[T]) -> Kind[T]:
    """Return the kind of a nested struct that stands inline, without a presence byte."""
    return Kind(Form.STRUCT, cls(), struct=cls)


def nullable(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind that also knows null; the default stays the one of the plain kind."""
    return replace(cast("Kind[T | None]", kind), nullable=True)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field as declared; ``tag`` is None for an untagged field."""

    name: str
    kind: Kind[Any]
    since: int = 0
    until: int | None = None
    tag: int | None = None
    default: Any = None
    omitted: Any = None
    """With a tag: the value that has none."""

    def is_in(self, version: int) -> bool:
        """Return whether a schema version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def json_key(self) -> str:
        """Kafka's name of the field with a lower-case first letter."""
        head, *rest = self.name.split("_")
        return head + "".join(word.capitalize() for word in rest)
