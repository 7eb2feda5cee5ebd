"""The question to an assignor."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.groups.consumer.group import NO_TARGET, Target
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to be handed out.

    Attributes:
        topic_id: Its id.
        racks: For each partition the racks of its replicas, empty where brokers have none.
    """

    topic_id: TopicId
    racks: tuple[frozenset[str], ...]

    def partitions(self) -> tuple[TopicIdPartition, ...]:
        """Return all partitions in order."""
        return tuple(TopicIdPartition(self.topic_id, number) for number in range(len(self.racks)))


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """A member to be given partitions.

    Attributes:
        member_id: Its id.
        instance_id: Of a static member.
        rack: Where it runs; None if it did not say.
        topics: Ids of the topics it wants; empty if it wants none that exists.
        previous: Partitions that were its target until now.
    """

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    topics: frozenset[TopicId] = frozenset()
    previous: Target = NO_TARGET


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Members, and all topics that any of them wants."""

    subscribers: tuple[Subscriber, ...]
    topics: Mapping[TopicId, Topic]
