"""Kinds of fields of a message: the types of Kafka's schema language.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, get_args
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

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
UInt16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]


class Form(Enum):
    """How the bytes of a kind are laid out."""

    FIXED = "fixed"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of a field; ``default`` is what a field of this kind has unless it says otherwise."""

    form: Form
    default: Any
    code: str = ""
    """Format of `struct`, for fixed sizes."""
    element: Kind | None = None
    struct: type[Any] | None = None
    nullable: bool = False
    packed: str = "{0}"
    """Expression for the part of a value of fixed size that is packed."""
    unpacked: Callable[[Any], object] | None = None
    """Converts what was unpacked to the value; None where both are the same."""

    @property
    def is_fixed(self) -> bool:
        """Return whether all values have one size."""
        return self.code != ""

    @property
    def is_flat(self) -> bool:
        """Return whether the kind has no struct in it."""
        return self.struct is None and (self.element is None or self.element.struct is None)


uuid_from_bytes: Callable[[bytes], UUID] = lru_cache(maxsize=1 << 16)(
    lambda raw: UUID(int=int.from_bytes(raw, "big"))
)
"""One object per id: metadata names the same topics and directories again and again."""

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "bool": Kind(Form.FIXED, False, "?"),
        "int8": Kind(Form.FIXED, 0, "b"),
        "int16": Kind(Form.FIXED, 0, "h"),
        "uint16": Kind(Form.FIXED, 0, "H"),
        "int32": Kind(Form.FIXED, 0, "i"),
        "uint32": Kind(Form.FIXED, 0, "I"),
        "int64": Kind(Form.FIXED, 0, "q"),
        "float64": Kind(Form.FIXED, 0.0, "d"),
        "uuid": Kind(Form.UUID, ZERO_UUID, "16s", packed="{0}.bytes", unpacked=uuid_from_bytes),
        "string": Kind(Form.STRING, ""),
        "bytes": Kind(Form.BYTES, b""),
    }
)
"""Kinds by Kafka's names of their types."""

TYPES: Mapping[Any, str] = MappingProxyType(
    {
        bool: "bool",
        float: "float64",
        str: "string",
        bytes: "bytes",
        UUID: "uuid",
        BrokerId: "int32",
        BrokerEpoch: "int64",
        LeaderEpoch: "int32",
        PartitionEpoch: "int32",
        TopicId: "uuid",
        DirectoryId: "uuid",
        **{each: get_args(each)[1] for each in (Int8, Int16, UInt16, Int32, Int64)},
    }
)
"""Kafka's names of the types that annotate the fields of records."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field as declared; ``tag`` is None for an untagged field."""

    name: str
    kind: Kind
    since: int = 0
    until: int | None = None
    tag: int | None = None
    default: Any = None
    omitted: Any = None
    """With a tag: the value that has none."""
    meaning: str = ""

    def is_in(self, version: int) -> bool:
        """Return whether a schema version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def json_key(self) -> str:
        """Kafka's name of the field with a lower-case first letter."""
        head, *rest = self.name.split("_")
        return head + "".join(word.capitalize() for word in rest)
