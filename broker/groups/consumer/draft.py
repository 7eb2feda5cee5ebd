"""A decision in the making: what is written is replayed at once, so that the next step sees it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from broker.coordination.core import Answer, Ticket, Timer, Work
from broker.groups.consumer.group import (
    ConsumerGroup,
    CurrentAssignment,
    Member,
    MemberState,
    Target,
)
from broker.groups.consumer.replay import current_value, target_value, with_row
from broker.groups.consumer.topics import NO_TOPICS_HASH, metadata_hash
from broker.groups.decision import GroupDecision, SoftChange
from broker.groups.settings import GroupSettings
from broker.groups.tables import Row
from broker.groups.topics import Topics
from jbodlab.group_records.keys import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import (
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupValue,
)

SoftKey = tuple[Hashable, ...]

CONSUMER = "consumer"
"""First part of the keys of timers and of soft state in this package."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a decision.

    Attributes:
        now_ms: Wall clock.
        topics: Topics of the cluster.
        settings: Those that hold for this group.
        soft: State that has no record, by key.
    """

    now_ms: int
    topics: Topics
    settings: GroupSettings = msgspec.field(default_factory=GroupSettings)
    soft: Mapping[SoftKey, Any] = msgspec.field(default_factory=lambda: MappingProxyType({}))


def session_timer(group_id: str, member_id: str) -> SoftKey:
    """Return the key of the timer that ends a member's session."""
    return (CONSUMER, "session", group_id, member_id)


def rebalance_timer(group_id: str, member_id: str) -> SoftKey:
    """Return the key of the timer that ends a member's time to give partitions up."""
    return (CONSUMER, "rebalance", group_id, member_id)


def classic_timer(group_id: str, member_id: str) -> SoftKey:
    """Return the key of the timer that ends a classic member's time to join or to sync.

    Under the same key stands beside the tables when that is, so that it is not put off.
    """
    return (CONSUMER, "classic", group_id, member_id)


def regex_timer(group_id: str) -> SoftKey:
    """Return the key of the timer on which a group's expressions are resolved."""
    return (CONSUMER, "regex", group_id, "")


def hashed_topics(group_id: str) -> SoftKey:
    """Return the key of the `HashedTopics` of a group."""
    return (CONSUMER, "hashed", group_id, "")


def target_in_work(group_id: str) -> SoftKey:
    """Return the key of the group whose target is being computed, as it was when that began."""
    return (CONSUMER, "target", group_id, "")


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """An event: members are to give partitions up, and cannot hear of it before it is committed.

    Attributes:
        group_id: Their group.
        member_ids: Whose time begins then.
    """

    group_id: str
    member_ids: tuple[str, ...]


class HashedTopics(NamedTuple):
    """The hash of topics as of a version of the metadata: many partitions take long to hash."""

    version: int
    names: frozenset[str]
    hash: int


_MEMBER_TIMERS = (session_timer, rebalance_timer, classic_timer)


class Draft:
    """Records, timers and soft changes of one decision about one group.

    Attributes:
        context: Surroundings of the decision.
        group: The group as it is after the records so far.
    """

    def __init__(self, context: Context, group: ConsumerGroup) -> None:
        self.context = context
        self.group = group
        self._records: list[GroupRecord] = []
        self._timers: dict[SoftKey, int | None] = {}
        self._soft: dict[SoftKey, Any] = {}
        self._answers: list[Answer] = []
        self._event: Any = None
        self._ordered: list[str] = []
        self._work: Work | None = None

    @property
    def has_records(self) -> bool:
        """Whether anything changes that has a record."""
        return bool(self._records)

    def write_member(self, member_id: str, member: Member | None) -> None:
        """Write what a member says about itself."""
        key = ConsumerGroupMemberMetadataKey(group_id=self.group.group_id, member_id=member_id)
        self._write(Row.MEMBER, key, member, member_id)

    def write_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """Write what a member has.

        Its time to give partitions up ends with that, or begins when that is committed.
        """
        before = self.group.current_of(member_id)
        value = None if current is None else current_value(current)
        key = ConsumerGroupCurrentMemberAssignmentKey(
            group_id=self.group.group_id, member_id=member_id
        )
        self._write(Row.CURRENT, key, value, member_id)
        if current is not None and current.state == MemberState.UNREVOKED:
            self._ordered.append(member_id)
        elif before.state == MemberState.UNREVOKED:
            self.set_timer(rebalance_timer(self.group.group_id, member_id), None)

    def write_target(self, member_id: str, target: Target | None) -> None:
        """Write what a member shall have."""
        key = ConsumerGroupTargetAssignmentMemberKey(
            group_id=self.group.group_id, member_id=member_id
        )
        value = None if target is None else target_value(target)
        self._write(Row.TARGET, key, value, member_id)

    def write_target_epoch(self, epoch: int, computed_ms: int) -> None:
        """Write that the target is that of a group epoch, and when it was computed."""
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=computed_ms
        )
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group.group_id)
        self._write(Row.TARGET_EPOCH, key, value)

    def write_epoch(self, epoch: int) -> None:
        """Write a group epoch, with the hash of the topics that are subscribed now."""
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=self.hash_topics())
        self._write(Row.EPOCH, ConsumerGroupMetadataKey(group_id=self.group.group_id), value)

    def hash_topics(self) -> int:
        """Return the hash of the topics that are subscribed now."""
        key, topics = hashed_topics(self.group.group_id), self.context.topics
        names = self.group.subscribed_topics()
        if not names:
            # Nothing may stay of a group that nobody is in: there is no end to their ids.
            self.set_soft(key, None)
            return NO_TOPICS_HASH
        known: HashedTopics | None = self.soft(key)
        if known is None or (known.version, known.names) != (topics.version, names):
            known = HashedTopics(topics.version, names, metadata_hash(topics, names))
            self.set_soft(key, known)
        return known.hash

    def write_regex(self, regex: str, value: GroupValue | None) -> None:
        """Write what an expression matches."""
        key = ConsumerGroupRegularExpressionKey(
            group_id=self.group.group_id, regular_expression=regex
        )
        self._write(Row.REGEX, key, value, regex)

    def _write(self, row: Row, key: ConsumerGroupKey, value: GroupValue | None, *rest: str) -> None:
        self._records.append(GroupRecord(key, value))
        self.group = with_row(self.group, row, rest, value)

    def remove_member(self, member_id: str) -> None:
        """Write that a member is gone, and take its timers away."""
        self.write_current(member_id, None)
        self.write_target(member_id, None)
        self.write_member(member_id, None)
        self.stop_timers(member_id)

    def stop_timers(self, member_id: str) -> None:
        """Take the timers of a member away."""
        for timer in _MEMBER_TIMERS:
            self.set_timer(timer(self.group.group_id, member_id), None)
        self.set_soft(classic_timer(self.group.group_id, member_id), None)

    def remove_members(self, member_ids: Iterable[str]) -> None:
        """Remove members; the others get their partitions at their next heartbeats."""
        for member_id in member_ids:
            self.remove_member(member_id)
        self.forget_unused_regexes()
        self.write_epoch(self.group.epoch + 1)

    def forget_unused_regexes(self) -> None:
        """Write that expressions which no member has any longer are gone."""
        if self.group.regexes:
            for regex in sorted(self.group.regexes.keys() - self.group.subscribed_regexes()):
                self.write_regex(regex, None)

    def remove_group(self) -> None:
        """Write that all of the group is gone, in the order of `GroupMetadataManager`."""
        group, group_id = self.group, self.group.group_id
        members = sorted({*group.members, *group.current, *group.targets})
        for member_id in members:
            self.write_current(member_id, None)
        for member_id in members:
            self.write_target(member_id, None)
        self._write(
            Row.TARGET_EPOCH, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None
        )
        for member_id in members:
            self.write_member(member_id, None)
            self.stop_timers(member_id)
        for regex in sorted(group.regexes):
            self.write_regex(regex, None)
        self._write(Row.EPOCH, ConsumerGroupMetadataKey(group_id=group_id), None)
        self.set_timer(regex_timer(group_id), None)
        self.set_soft(hashed_topics(group_id), None)

    def start_session(self, member_id: str) -> None:
        """Give a member its full session from now on."""
        member = self.group.members[member_id]
        timeout_ms = self.context.settings.consumer_session_timeout_ms
        if member.classic_member_metadata is not None:
            timeout_ms = member.classic_member_metadata.session_timeout_ms
        timer = session_timer(self.group.group_id, member_id)
        self.set_timer(timer, self.context.now_ms + timeout_ms)

    def set_timer(self, key: SoftKey, at_ms: int | None) -> None:
        """Set a timer, or take it away."""
        self._timers[key] = at_ms

    def set_soft(self, key: SoftKey, value: Any) -> None:
        """Change what has no record."""
        self._soft[key] = value

    def soft(self, key: SoftKey) -> Any:
        """Return what has no record, as it is after the changes so far."""
        return self._soft[key] if key in self._soft else self.context.soft.get(key)

    def answer(self, ticket: Ticket, response: Any) -> None:
        """Say what is to be told when the records are committed."""
        self._answers.append(Answer(ticket, response))

    def begin(self, work: Work) -> None:
        """Have something computed beside the event loop."""
        self._work = work

    def happened(self, event: Any) -> None:
        """Say what is handed back when the records are committed or refused."""
        self._event = event

    def add(self, decision: GroupDecision) -> None:
        """Add what was decided on the group as one of the other kind."""
        self._records += decision.records
        self._answers += decision.answers
        self._soft.update({change.key: change.value for change in decision.soft})
        self._timers.update({timer.key: timer.at_ms for timer in decision.timers})
        self._event = decision.event or self._event

    def decision(self) -> GroupDecision:
        """Return the decision."""
        event = self._event
        if self._ordered:
            assert event is None, "what else is handed back gives no orders"
            event = Ordered(group_id=self.group.group_id, member_ids=tuple(self._ordered))
        return GroupDecision(
            records=tuple(self._records),
            answers=tuple(self._answers),
            soft=tuple(SoftChange(key, value) for key, value in self._soft.items()),
            timers=tuple(Timer(key, at_ms) for key, at_ms in self._timers.items()),
            event=event,
            work=self._work,
        )
