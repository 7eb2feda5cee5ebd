"""What a classic member of type `consumer` is assigned, as its client reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jbodlab.group_records import consumer_protocol
from jbodlab.group_records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    TopicPartitions,
)


def encode_assignment(version: int, topics: Mapping[str, Sequence[int]]) -> bytes:
    """Return partitions by topic in the version that the member's subscription had."""
    assigned = tuple(
        TopicPartitions(topic=topic, partitions=tuple(sorted(topics[topic])))
        for topic in sorted(topics)
    )
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return consumer_protocol.encode(message, min(version, HIGHEST_VERSION))


def decode_assignment(data: bytes) -> Mapping[str, tuple[int, ...]]:
    """Return partitions by topic; no bytes are no partitions.

    Raises:
        DecodeError: the bytes are no assignment.
    """
    if not data:
        return {}
    found, _ = consumer_protocol.decode(ConsumerProtocolAssignment, data)
    return {each.topic: each.partitions for each in found.assigned_partitions}
