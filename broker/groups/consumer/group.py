"""A consumer group as its records tell: members, what each has and shall have, who holds what.

The group is one frozen value; each part of it is the newest record of a key. Nothing is kept that
the records do not say, except two indexes that `replay` derives: `holders`, the members that have a
partition assigned or have not yet given it up, and `static_members`.

At most one member holds a partition: whoever is to get it waits until its holder has confirmed.

Source: KIP-848; `org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType

import msgspec

from jbodlab.group_records.values import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from jbodlab.vocabulary.ids import TopicIdPartition

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member left and will come back: its place is kept until its session ends."""

Member = ConsumerGroupMemberMetadataValue
"""A member's description of itself; the record's own value."""

ResolvedRegex = ConsumerGroupRegularExpressionValue
"""Topics that an expression matches; the record's own value."""

Target = frozenset[TopicIdPartition]
"""Partitions that a member shall have."""

Epochs = Mapping[TopicIdPartition, int]
"""Partitions, and the member epoch in which each was assigned."""

_NOTHING: Mapping[TopicIdPartition, int] = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member is on the way to its target; numbers are those of the record."""

    STABLE = 0
    """Has what it shall have, as far as the others let go of it."""
    UNREVOKED = 1
    """Was told to give partitions up and has not confirmed."""
    UNRELEASED = 2
    """Waits for partitions that others still hold."""
    UNKNOWN = 127


class CurrentAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment that a member has now.

    Attributes:
        epoch: Its member epoch; -2 while a static member is away.
        previous_epoch: The epoch before; a member that lost an answer still names it.
        state: How far it is.
        assigned: Partitions that it may use.
        pending_revocation: Partitions that it was told to give up.
    """

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Epochs = msgspec.field(default_factory=lambda: _NOTHING)
    pending_revocation: Epochs = msgspec.field(default_factory=lambda: _NOTHING)

    def held(self) -> Iterator[TopicIdPartition]:
        """Return all partitions that nobody else may have."""
        yield from self.assigned
        yield from self.pending_revocation


NO_ASSIGNMENT = CurrentAssignment()
NO_TARGET: Target = frozenset()


class ConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group.

    Attributes:
        group_id: Its id.
        epoch: Grows with every change of members, subscriptions or topics.
        metadata_hash: Of the subscribed topics, as of that epoch.
        assignment_epoch: Group epoch that the target was computed for.
        assignment_timestamp_ms: When that was.
        members: Descriptions of the members by themselves.
        current: Assignment that each member has.
        targets: Assignment that each member shall have.
        regexes: Topics that the subscribed expressions match, if that is known.
        holders: The member that holds a partition.
        static_members: Member ids by instance id.
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: Mapping[str, Member] = msgspec.field(default_factory=dict)
    current: Mapping[str, CurrentAssignment] = msgspec.field(default_factory=dict)
    targets: Mapping[str, Target] = msgspec.field(default_factory=dict)
    regexes: Mapping[str, ResolvedRegex] = msgspec.field(default_factory=dict)
    holders: Mapping[TopicIdPartition, str] = msgspec.field(default_factory=dict)
    static_members: Mapping[str, str] = msgspec.field(default_factory=dict)

    def current_of(self, member_id: str) -> CurrentAssignment:
        """Return what a member has."""
        return self.current.get(member_id, NO_ASSIGNMENT)

    def target_of(self, member_id: str) -> Target:
        """Return what a member shall have."""
        return self.targets.get(member_id, NO_TARGET)

    def holder(self, partition: TopicIdPartition) -> str | None:
        """Return the member that holds a partition; None if it is free."""
        member_id = self.holders.get(partition)
        return member_id if member_id in self.members else None

    def topics_of(self, member: Member) -> frozenset[str]:
        """Return the names that a member subscribed to; what is not resolved matches nothing."""
        names = frozenset(member.subscribed_topic_names)
        resolved = self.regexes.get(member.subscribed_topic_regex or "")
        return names if resolved is None else names.union(resolved.topics)

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names that any member subscribed to."""
        seen = {
            (member.subscribed_topic_names, member.subscribed_topic_regex): member
            for member in self.members.values()
        }
        return frozenset().union(*(self.topics_of(member) for member in seen.values()))

    def subscribed_regexes(self) -> frozenset[str]:
        """Return the expressions that any member subscribed to."""
        found = (member.subscribed_topic_regex for member in self.members.values())
        return frozenset(regex for regex in found if regex)


def is_classic(member: Member) -> bool:
    """Whether a member speaks the classic protocol."""
    return member.classic_member_metadata is not None
