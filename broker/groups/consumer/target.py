"""The target assignment of a group: computed for a group epoch, written where it differs."""

from __future__ import annotations

from collections import Counter

from broker.groups.consumer.assignors import ASSIGNORS
from broker.groups.consumer.assignors.question import Question, Subscriber, Topic
from broker.groups.consumer.draft import Context, Draft
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.topics import topic_ids
from broker.groups.settings import GroupSettings
from broker.groups.topics import Topics
from jbodlab.ids import TopicId


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings) -> str:
    """Return the assignor that most members want; the first of the broker's where none is."""
    votes = Counter(
        member.server_assignor
        for member in group.members.values()
        if member.server_assignor in settings.consumer_assignors
    )
    order = settings.consumer_assignors
    ranked = sorted(votes, key=lambda name: (-votes[name], order.index(name or "")))
    return (ranked[0] if ranked else None) or order[0]


def target_is_due(group: ConsumerGroup, context: Context) -> bool:
    """Whether a target is to be computed now.

    That is not done more often than `group.consumer.assignment.interval.ms` says, so that many
    members which come together cost few computations.
    """
    if group.epoch <= group.assignment_epoch:
        return False
    age_ms = context.now_ms - group.assignment_timestamp_ms
    # A clock that was set back must not stop the group.
    is_young = 0 <= age_ms < context.settings.consumer_assignment_interval_ms
    return group.assignment_epoch == 0 or not is_young


def renew_target(draft: Draft) -> None:
    """Compute the target for the group's epoch if it is due."""
    group, context = draft.group, draft.context
    if not target_is_due(group, context):
        return
    assign = ASSIGNORS[preferred_assignor(group, context.settings)]
    targets = assign(_question(group, context.topics))
    assert targets.keys() == group.members.keys()
    for member_id in sorted(targets):
        if member_id not in group.targets or targets[member_id] != group.targets[member_id]:
            draft.write_target(member_id, targets[member_id])
    draft.write_target_epoch(group.epoch, context.now_ms)


def _question(group: ConsumerGroup, topics: Topics) -> Question:
    wanted: dict[frozenset[str], frozenset[TopicId]] = {}
    subscribers = []
    for member_id, member in group.members.items():
        names = group.topics_of(member)
        if names not in wanted:
            wanted[names] = topic_ids(topics, names)
        subscribers.append(
            Subscriber(
                member_id=member_id,
                instance_id=member.instance_id,
                rack=member.rack_id,
                topics=wanted[names],
                previous=group.target_of(member_id),
            )
        )
    found: dict[TopicId, Topic] = {}
    for name in sorted(frozenset().union(*wanted)):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            racks = tuple(topics.racks(name, p) for p in range(topics.partition_count(name)))
            found[topic_id] = Topic(topic_id=topic_id, racks=racks)
    return Question(subscribers=tuple(subscribers), topics=found)
