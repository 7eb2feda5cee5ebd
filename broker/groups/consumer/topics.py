"""Topics as groups see them: their ids, and a number that changes when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from broker.groups.consumer.group import Target
from broker.groups.topics import Topics
from jbodlab.group_records.consumer_protocol import TopicPartitions
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition

NO_TOPICS_HASH = 0
"""Of a group that has subscribed to no topic that exists."""

_HASH_BYTES = 8


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """Return a signed 64-bit number that differs when anything of these topics differs.

    That is their ids, their numbers of partitions, and the racks of these. Names without a topic
    count for nothing. The number is not Kafka's: a coordinator of the other kind that takes a group
    over finds it changed, and computes one assignment.
    """
    digest = blake2b(digest_size=_HASH_BYTES)
    is_empty = True
    for name in sorted(set(names)):
        topic_id = topics.topic_id(name)
        if topic_id is None:
            continue
        is_empty = False
        count = topics.partition_count(name)
        racks = [sorted(topics.racks(name, number)) for number in range(count)]
        digest.update(repr((name, topic_id.hex, count, racks if any(racks) else None)).encode())
    if is_empty:
        return NO_TOPICS_HASH
    return int.from_bytes(digest.digest(), "big", signed=True)


def topic_ids(topics: Topics, names: Iterable[str]) -> frozenset[TopicId]:
    """Return the ids of those topics that exist."""
    found = (topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def partitions_of(topics: Topics, named: Iterable[TopicPartitions]) -> Target:
    """Return partitions by the ids of their topics; a topic that does not exist has none."""
    found = set()
    for each in named:
        topic_id = topics.topic_id(each.topic)
        if topic_id is not None:
            found |= {TopicIdPartition(topic_id, number) for number in each.partitions}
    return frozenset(found)


def named(topics: Topics, partitions: Iterable[TopicIdPartition]) -> Mapping[str, list[int]]:
    """Return the numbers of partitions by the names of their topics; deleted ones have none."""
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(partitions):
        name = topics.topic_name(topic_id)
        if name is not None:
            found.setdefault(name, []).append(number)
    return found
