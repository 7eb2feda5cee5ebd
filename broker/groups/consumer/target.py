"""The target assignment of a group: computed for a group epoch, written where it differs.

That of a large group is computed beside the event loop, from the group and the topics as they are
at that moment; the first one, when there is one member, is not. Its members go on with what they
have; when the result is there it is written, if it still fits. Changes that came meanwhile have
their own epoch, and their own target later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from broker.coordination.core import Work
from broker.groups.consumer.assignors import ASSIGNORS
from broker.groups.consumer.assignors.question import Question, Subscriber, Topic
from broker.groups.consumer.draft import Context, Draft, target_in_work
from broker.groups.consumer.group import ConsumerGroup, Target
from broker.groups.consumer.topics import topic_ids
from broker.groups.settings import GroupSettings
from broker.groups.topics import Topics
from jbodlab.vocabulary.ids import TopicId

LARGE_FROM = 1_000
"""Members and partitions from which on a group is large: some 10 ms of work."""


class TargetWork(NamedTuple):
    """An event: the target of a group is computed, or was not written."""

    group: ConsumerGroup
    """As it was when the work began."""


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
    if group.epoch <= group.assignment_epoch or target_in_work(group.group_id) in context.soft:
        return False
    age_ms = context.now_ms - group.assignment_timestamp_ms
    # A clock that was set back must not stop the group.
    is_young = 0 <= age_ms < context.settings.consumer_assignment_interval_ms
    return group.assignment_epoch == 0 or not is_young


def renew_target(draft: Draft) -> None:
    """Compute the target for the group's epoch if it is due, or let that begin."""
    group, context = draft.group, draft.context
    if not target_is_due(group, context):
        return
    assignor = preferred_assignor(group, context.settings)
    if group.assignment_epoch == 0 or _size(group, context.topics) < LARGE_FROM:
        # A member without a first target would have no epoch but that of a join.
        _write(draft, _targets(assignor, group, context.topics), group.epoch)
        return
    run = partial(_targets, assignor, group, context.topics.frozen())
    draft.set_soft(target_in_work(group.group_id), group)
    draft.begin(Work(TargetWork(group), run))


def take_target(draft: Draft, work: TargetWork, targets: Mapping[str, Target] | None) -> None:
    """Write a target that was computed beside the event loop, if it still fits."""
    if not is_in_work(work, draft.context):
        return
    draft.set_soft(target_in_work(work.group.group_id), None)
    epoch = work.group.epoch
    if targets is None or not draft.group.assignment_epoch < epoch <= draft.group.epoch:
        return
    if epoch == draft.group.epoch and targets.keys() != draft.group.members.keys():
        # A static member came back under another id, which changes no epoch.
        return
    _write(draft, targets, epoch)
    draft.happened(work)


def is_in_work(work: TargetWork, context: Context) -> bool:
    """Whether this is the work that the group waits for."""
    return context.soft.get(target_in_work(work.group.group_id)) is work.group


def _size(group: ConsumerGroup, topics: Topics) -> int:
    return len(group.members) + sum(map(topics.partition_count, group.subscribed_topics()))


def _targets(assignor: str, group: ConsumerGroup, topics: Topics) -> Mapping[str, Target]:
    targets = ASSIGNORS[assignor](_question(group, topics))
    assert targets.keys() == group.members.keys()
    return targets


def _write(draft: Draft, targets: Mapping[str, Target], epoch: int) -> None:
    before = draft.group.targets
    for member_id in sorted(targets.keys() & draft.group.members.keys()):
        if member_id not in before or targets[member_id] != before[member_id]:
            draft.write_target(member_id, targets[member_id])
    draft.write_target_epoch(epoch, draft.context.now_ms)


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
