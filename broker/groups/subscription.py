"""What members of groups of type `consumer` say in the metadata of their protocols."""

from __future__ import annotations

import msgspec

from jbodlab.group_records import consumer_protocol
from jbodlab.group_records.consumer_protocol import ConsumerProtocolSubscription


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
    found, version = consumer_protocol.decode(ConsumerProtocolSubscription, data)
    return Subscription(
        version=version,
        topics=found.topics,
        user_data=found.user_data,
        owned_partitions=tuple((owned.topic, owned.partitions) for owned in found.owned_partitions),
        generation_id=found.generation_id,
        rack_id=found.rack_id,
    )
