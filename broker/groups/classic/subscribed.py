"""What topics the members of a classic group subscribed to."""

from __future__ import annotations

from broker.groups.classic.group import CONSUMER, ClassicGroup
from broker.groups.subscription import decode_subscription
from jbodlab.vocabulary.errors import DecodeError


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Return the topics of all members; None where they cannot be known.

    They can be known of groups of type `consumer`, if the metadata of every member are a
    subscription.
    """
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = member.metadata(group.protocol) or member.protocols[0].metadata
        try:
            topics.update(decode_subscription(metadata).topics)
        except DecodeError:
            return None
    return frozenset(topics)
