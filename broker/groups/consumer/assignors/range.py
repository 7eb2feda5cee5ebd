"""Range assignor: each topic in contiguous parts, one for each of its subscribers.

Topics with the same subscribers and the same number of partitions are cut alike, so that a member
has the same partition numbers of each: their records can be joined. Where racks are known, a member
first takes, within its share, partitions that have a replica in its rack in all of those topics.

Source: KIP-848, "range"; KIP-881 for the racks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from broker.groups.consumer.assignors.question import Question, Subscriber, Topic
from broker.groups.consumer.group import Target
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition


def assign_ranges(question: Question) -> Mapping[str, Target]:
    """Return what each member shall have; every member is named."""
    shares: dict[str, list[TopicIdPartition]] = {
        each.member_id: [] for each in question.subscribers
    }
    for topics, subscribers in _alike(question):
        for subscriber, numbers in zip(subscribers, _ranges(topics, subscribers), strict=True):
            shares[subscriber.member_id] += [
                TopicIdPartition(topic.topic_id, number) for topic in topics for number in numbers
            ]
    return {member_id: frozenset(partitions) for member_id, partitions in shares.items()}


def _alike(question: Question) -> list[tuple[list[Topic], list[Subscriber]]]:
    """Return the topics that are cut alike, with their subscribers in order."""
    wanted: dict[TopicId, list[Subscriber]] = defaultdict(list)
    for subscriber in sorted(question.subscribers, key=_order):
        for topic_id in subscriber.topics:
            wanted[topic_id].append(subscriber)
    found: dict[tuple[int, tuple[str, ...]], tuple[list[Topic], list[Subscriber]]] = {}
    for topic_id in sorted(wanted):
        subscribers, topic = wanted[topic_id], question.topics[topic_id]
        key = (len(topic.racks), tuple(each.member_id for each in subscribers))
        found.setdefault(key, ([], subscribers))[0].append(topic)
    return list(found.values())


def _order(subscriber: Subscriber) -> tuple[bool, str, str]:
    """Static members first, by instance id: a restart does not change their place."""
    return (subscriber.instance_id is None, subscriber.instance_id or "", subscriber.member_id)


def _ranges(topics: Sequence[Topic], subscribers: Sequence[Subscriber]) -> list[list[int]]:
    """Return the partition numbers of each subscriber."""
    count = len(topics[0].racks)
    share, more = divmod(count, len(subscribers))
    wanted = [share + (place < more) for place in range(len(subscribers))]
    left = dict.fromkeys(range(count))
    in_rack = _by_rack(topics, count)
    ranges: list[list[int]] = []
    for size, subscriber in zip(wanted, subscribers, strict=True):
        near = [number for number in in_rack.get(subscriber.rack, ()) if number in left][:size]
        ranges.append(near)
        for number in near:
            del left[number]
    rest = iter(left)
    for size, numbers in zip(wanted, ranges, strict=True):
        numbers += [next(rest) for _ in range(size - len(numbers))]
    return ranges


def _by_rack(topics: Sequence[Topic], count: int) -> Mapping[str | None, list[int]]:
    """Return the partition numbers that have a replica in a rack in every one of the topics."""
    in_rack: dict[str | None, list[int]] = defaultdict(list)
    for number in range(count):
        for rack in frozenset.intersection(*(topic.racks[number] for topic in topics)):
            in_rack[rack].append(number)
    return in_rack
