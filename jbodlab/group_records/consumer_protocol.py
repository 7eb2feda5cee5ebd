"""Descriptions of classic members of type `consumer` by themselves, and their assignments.

Their clients write and read it; for the classic protocol it is bytes. Both begin with an int16, the
version, and are never flexible. The messages are Kafka's of the same names.
"""

import struct
from typing import TypeVar

from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.kafka_wire.kinds import Int32
from jbodlab.kafka_wire.schema import NEVER_FLEXIBLE, Struct, field
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

HIGHEST_VERSION = 3
_VERSION = struct.Struct(">h")


class ConsumerProtocol(Struct, first_flexible_version=NEVER_FLEXIBLE):
    """Base of both."""


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = field("name of the topic")
    partitions: tuple[Int32, ...] = field("numbers of the partitions")


class ConsumerProtocolSubscription(ConsumerProtocol):
    """Topics that a member wants, and partitions that it has."""

    topics: tuple[str, ...] = field("names of the topics that the member wants")
    user_data: bytes | None = field("bytes of the assignor, or null", default=None)
    owned_partitions: tuple[TopicPartitions, ...] = field("partitions that the member has", since=1)
    generation_id: Int32 = field(
        "generation in which the member got them; -1: not known", since=2, default=-1
    )
    rack_id: str | None = field("rack of the member, or null", since=3, default=None)


class ConsumerProtocolAssignment(ConsumerProtocol):
    """Partitions that a member was given."""

    assigned_partitions: tuple[TopicPartitions, ...] = field("partitions that the member gets")
    user_data: bytes | None = field("bytes of the assignor, or null", default=None)


ProtocolT = TypeVar("ProtocolT", bound=ConsumerProtocol)


def encode(message: ConsumerProtocol, version: int) -> bytes:
    """Return the bytes of a message.

    Raises:
        EncodeError: a value does not fit its type.
    """
    return _VERSION.pack(version) + encode_body(message, version)


def decode(cls: type[ProtocolT], data: bytes) -> tuple[ProtocolT, int]:
    """Return a message and its version.

    A version above those known is read as the newest known, as Kafka does: what follows the fields
    known here is left out.

    Raises:
        DecodeError: the bytes do not follow the message's schema.
    """
    if len(data) < _VERSION.size:
        raise BufferUnderflowError(f"{cls.__name__} is cut short")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"unsupported version {version} of {cls.__name__}")
    message, _ = decode_body(cls, min(version, HIGHEST_VERSION), data, _VERSION.size)
    return message, version
