"""What members of groups of type `consumer` say in the metadata of their protocols.

    int16   version
    array   topics: strings
    bytes   user data, or null
    array   owned partitions (version 1 and above): string topic, array of int32
    int32   generation (2 and above)
    string  rack, or null (3 and above)

A version above those known is read as the newest known, as Kafka does. Source: Kafka's message
`ConsumerProtocolSubscription`.
"""

from __future__ import annotations

import struct

import msgspec

from jbodlab.metadata.records import wire
from jbodlab.vocabulary.errors import DecodeError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a member wants, and has."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[tuple[str, tuple[int, ...]], ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


def decode_subscription(data: bytes) -> Subscription:
    """Return what metadata say.

    Raises:
        DecodeError: the bytes are no subscription.
    """
    try:
        return _decode(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError("cannot decode a member's subscription") from error


def _decode(data: bytes) -> Subscription:
    (version,) = _INT16.unpack_from(data, 0)
    if version < 0:
        raise DecodeError(f"unsupported subscription version {version}")
    count, position = wire.read_wide_count(data, _INT16.size)
    topics = []
    for _ in range(count):
        topic, position = wire.read_wide_string(data, position)
        topics.append(topic)
    user_data, position = wire.read_wide_nullable_bytes(data, position)
    owned = []
    generation_id = -1
    rack_id = None
    if version >= 1:
        count, position = wire.read_wide_count(data, position)
        for _ in range(count):
            topic, position = wire.read_wide_string(data, position)
            size, position = wire.read_wide_count(data, position)
            partitions = struct.unpack_from(f">{size}i", data, position)
            position += size * _INT32.size
            owned.append((topic, partitions))
    if version >= 2:
        (generation_id,) = _INT32.unpack_from(data, position)
        position += _INT32.size
    if version >= 3:
        rack_id, position = wire.read_wide_nullable_string(data, position)
    return Subscription(
        version=version,
        topics=tuple(topics),
        user_data=user_data,
        owned_partitions=tuple(owned),
        generation_id=generation_id,
        rack_id=rack_id,
    )
