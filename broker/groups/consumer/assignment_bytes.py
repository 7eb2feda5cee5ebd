"""What a classic member of type `consumer` is assigned, as its client reads it.

    int16   version
    array   topics: string topic, array of int32
    bytes   user data, or null

All versions are laid out alike. Source: Kafka's message `ConsumerProtocolAssignment`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from jbodlab.metadata.records import wire
from jbodlab.vocabulary.errors import DecodeError

HIGHEST_VERSION = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL = _INT32.pack(-1)


def encode_assignment(version: int, topics: Mapping[str, Sequence[int]]) -> bytes:
    """Return partitions by topic in the version that the member's subscription had."""
    parts = [_INT16.pack(min(version, HIGHEST_VERSION)), _INT32.pack(len(topics))]
    for topic in sorted(topics):
        name, partitions = topic.encode(), sorted(topics[topic])
        parts += (_INT16.pack(len(name)), name)
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join((*parts, _NULL))


def decode_assignment(data: bytes) -> Mapping[str, tuple[int, ...]]:
    """Return partitions by topic; no bytes are no partitions.

    Raises:
        DecodeError: the bytes are no assignment.
    """
    if not data:
        return {}
    topics: dict[str, tuple[int, ...]] = {}
    try:
        count, position = wire.read_wide_count(data, _INT16.size)
        for _ in range(count):
            topic, position = wire.read_wide_string(data, position)
            size, position = wire.read_wide_count(data, position)
            topics[topic] = struct.unpack_from(f">{size}i", data, position)
            position += size * _INT32.size
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError("cannot decode a member's assignment") from error
    return topics
