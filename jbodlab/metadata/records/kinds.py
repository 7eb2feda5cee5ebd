"""What a field of a record may be: the types of Kafka's schema language.

In flexible versions, which are all of the metadata log:

    bool, int8 ... int64, uint16, float64   fixed size, big-endian
    uuid                                    16 bytes
    string, bytes                           unsigned varint (size + 1), data; null is 0
    array                                   unsigned varint (count + 1), elements; null is 0
    struct                                  its fields, then its own tagged section
    struct that may be null                 1, then the struct; null is -1, one byte

In older ones a string has a size of 16 bits, bytes and arrays one of 32; -1 is null. Structs have
no tagged section.

Source: `org.apache.kafka.common.protocol.types`, KIP-482.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar, cast
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

if TYPE_CHECKING:
    from jbodlab.metadata.records.schema import Struct

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
StructT = TypeVar("StructT", bound="Struct")


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
    """Format character of `struct`, for fixed sizes."""
    element: Kind[object] | None = None
    struct: type[Struct] | None = None
    nullable: bool = False


BOOL = Kind(Form.FIXED, False, "?")
INT8 = Kind(Form.FIXED, 0, "b")
INT16 = Kind(Form.FIXED, 0, "h")
INT32 = Kind(Form.FIXED, 0, "i")
INT64 = Kind(Form.FIXED, 0, "q")
UINT16 = Kind(Form.FIXED, 0, "H")
FLOAT64 = Kind(Form.FIXED, 0.0, "d")
STRING = Kind(Form.STRING, "")
BYTES = Kind(Form.BYTES, b"")
UUID_KIND: Kind[UUID] = Kind(Form.UUID, ZERO_UUID)

BROKER_ID = Kind(Form.FIXED, BrokerId(0), "i")
BROKER_EPOCH = Kind(Form.FIXED, BrokerEpoch(0), "q")
LEADER_EPOCH = Kind(Form.FIXED, LeaderEpoch(0), "i")
PARTITION_EPOCH = Kind(Form.FIXED, PartitionEpoch(0), "i")
TOPIC_ID = Kind(Form.UUID, TopicId(ZERO_UUID))
DIRECTORY_ID = Kind(Form.UUID, DirectoryId(ZERO_UUID))


def array(element: Kind[T]) -> Kind[tuple[T, ...]]:
    """Return the kind of a list, which is a tuple in memory; empty by default."""
    return Kind(Form.ARRAY, (), element=element)


def struct_of(cls: type[StructT]) -> Kind[StructT]:
    """Return the kind of a nested struct that stands inline, without a presence byte."""
    return Kind(Form.STRUCT, cls(), struct=cls)


def nullable(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind that also knows null; the default stays the one of the plain kind."""
    plain = cast("Kind[T | None]", kind)
    return Kind(plain.form, plain.default, plain.code, plain.element, plain.struct, nullable=True)
