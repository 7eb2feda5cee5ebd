"""The groups of KIP-848 of one shard: finds the group that an event is about, decides on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import cast

from msgspec.structs import replace

from broker.coordination.core import Ticket, Timer
from broker.groups.classic.groups import ClassicGroups
from broker.groups.consumer import classic_members, offsets
from broker.groups.consumer.checks import check_request
from broker.groups.consumer.describe import describe, status_of
from broker.groups.consumer.draft import (
    Context,
    Draft,
    Ordered,
    rebalance_timer,
    session_timer,
    target_in_work,
)
from broker.groups.consumer.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    Member,
    MemberState,
    Target,
)
from broker.groups.consumer.group_configs import settings_of_group
from broker.groups.consumer.heartbeat import heartbeat, leave
from broker.groups.consumer.migration import downgrade, may_downgrade, upgrade
from broker.groups.consumer.regexes import resolve
from broker.groups.consumer.replay import GroupIndex
from broker.groups.consumer.responses import ConsumerGroupDescribeResponse
from broker.groups.consumer.target import TargetWork, take_target
from broker.groups.decision import NOTHING, GroupDecision, SoftChange, TimerRefused
from broker.groups.requests import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
)
from broker.groups.settings import GroupSettings
from broker.groups.state import GroupState
from broker.groups.tables import Row
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

Configs = Mapping[str, str]


class ConsumerGroups:
    """Decides on what concerns groups of KIP-848; changes nothing itself.

    Args:
        state: Of the shard.
        configs: Returns what a group sets for itself, resource type GROUP of the metadata.
    """

    def __init__(self, state: GroupState, configs: Callable[[str], Configs]) -> None:
        self._state = state
        self._configs = configs
        self._index = GroupIndex(state.written)
        self._classic = ClassicGroups(state)

    def heartbeat(
        self, request: ConsumerGroupHeartbeat, ticket: Ticket, now_ms: int
    ) -> GroupDecision:
        """Decide on everything that a member says, also for a group that is classic, or none.

        Raises:
            KafkaError: nothing is changed.
        """
        check_request(request, self._settings(request.group_id))
        if not request.member_id:
            request = replace(request, member_id=self._state.new_id())
        draft = self._joined(request, now_ms)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            draft.answer(ticket, leave(draft, request))
            return _ended(draft)
        draft.answer(ticket, heartbeat(draft, request))
        return draft.decision()

    def _joined(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Draft:
        """Return a draft of the group, which a join may make or make one of this kind."""
        group_id = request.group_id
        group = self._index.get(group_id)
        if group is not None:
            return self._draft(group, now_ms)
        if request.member_epoch != JOIN_EPOCH:
            raise _not_found(group_id)
        draft = self._draft(ConsumerGroup(group_id=group_id), now_ms)
        classic = self._classic.find(group_id)
        if classic is not None:
            upgrade(draft, classic, self._state.written.get(Row.CLASSIC, group_id))
        return draft

    def describe(self, request: ConsumerGroupDescribe) -> ConsumerGroupDescribeResponse:
        """Return the response from what is committed."""
        return ConsumerGroupDescribeResponse(
            groups=tuple(
                describe(self._state.committed, group_id, self._state.topics, self._state.settings)
                for group_id in request.group_ids
            )
        )

    def classic_join(self, request: JoinGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a join of a classic member to a group that has members."""
        draft = self._known(request.group_id, now_ms)
        classic_members.join(draft, request, ticket, self._state.new_id())
        return draft.decision()

    def classic_sync(self, request: SyncGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a classic member's request for its assignment.

        Raises:
            KafkaError: the member is not in this generation, or there is a newer one.
        """
        draft = self._known(request.group_id, now_ms)
        draft.answer(ticket, classic_members.sync(draft, request))
        return draft.decision()

    def classic_heartbeat(self, request: Heartbeat, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a classic member's sign of life.

        Raises:
            KafkaError: the member is not in this generation.
        """
        draft = self._known(request.group_id, now_ms)
        draft.answer(ticket, classic_members.heartbeat(draft, request))
        return draft.decision()

    def classic_leave(self, request: LeaveGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on members that leave."""
        draft = self._known(request.group_id, now_ms)
        classic_members.leave(draft, request, ticket)
        return _ended(draft)

    def refused_partitions(self, request: OffsetCommit) -> Mapping[tuple[str, int], ErrorCode]:
        """Return those partitions of a commit that its member may not commit now.

        Raises:
            KafkaError: the member may commit nothing.
        """
        group = self._group(request.group_id)
        return offsets.refused_partitions(group, request, self._state.topics)

    def check_fetch(self, request: OffsetFetch) -> None:
        """Refuse a fetch of somebody who is not the member that it says.

        Raises:
            KafkaError: it is not.
        """
        offsets.check_fetch(self._group(request.group_id), request)

    def is_empty(self, group_id: str) -> bool:
        """Return whether a group has no members."""
        return not self._state.written.rows(Row.MEMBER, group_id)

    def subscribed_topics(self, group_id: str) -> frozenset[str]:
        """Return the names of all topics that members subscribed to."""
        return self._group(group_id).subscribed_topics()

    def committed_state(self, group_id: str, now_ms: int) -> str:
        """Return the name of a group's state, from what is committed."""
        return status_of(self._state.committed, group_id).value

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> GroupDecision:
        """Decide on what happens when a time is over."""
        _, kind, group_id, member_id = cast("tuple[str, str, str, str]", key)
        group = self._index.get(group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now_ms)
        match kind:
            case "session":
                _session_is_over(draft, member_id)
            case "rebalance" if not self._is_told(group_id, member_id):
                return self.ordered(Ordered(group_id=group_id, member_ids=(member_id,)), now_ms)
            case "rebalance":
                _rebalance_time_is_over(draft, member_id)
            case "classic":
                classic_members.wait_is_over(draft, member_id)
            case "regex":
                resolve(draft)
            case _:
                raise AssertionError(key)
        decision = _ended(draft)
        if not decision.records:
            return decision
        return replace(decision, event=TimerRefused(key=key))

    def ordered(self, event: Ordered, now_ms: int) -> GroupDecision:
        """Let the time begin in which members are to give partitions up, once they can be told.

        Kafka lets it begin with the write: a member that could not be told in time is removed, and
        may then hear that it keeps what others get.
        """
        group = self._index.get(event.group_id)
        if group is None:
            return NOTHING
        still = [
            member_id
            for member_id in event.member_ids
            if group.current_of(member_id).state == MemberState.UNREVOKED
        ]
        untold = tuple(each for each in still if not self._is_told(group.group_id, each))
        return GroupDecision(
            timers=tuple(
                Timer(
                    rebalance_timer(group.group_id, each),
                    now_ms + group.members[each].rebalance_timeout_ms,
                )
                for each in still
                if each not in untold
            ),
            event=Ordered(group_id=group.group_id, member_ids=untold) if untold else None,
        )

    def worked(
        self, event: TargetWork, result: Mapping[str, Target] | None, now_ms: int
    ) -> GroupDecision:
        """Decide on a target that was computed beside the event loop; None if that failed."""
        group = self._index.get(event.group.group_id)
        if group is None:
            return self.target_refused(event)
        draft = self._draft(group, now_ms)
        take_target(draft, event, result)
        return draft.decision()

    def target_refused(self, event: TargetWork) -> GroupDecision:
        """Let the target of a group be computed again."""
        key = target_in_work(event.group.group_id)
        if self._state.soft.get(key) is not event.group:
            return NOTHING
        return GroupDecision(soft=(SoftChange(key, None),))

    def loaded(self, now_ms: int) -> Iterator[GroupDecision]:
        """Let sessions begin with their full timeouts, and times to give partitions up.

        State that has no record is looked for at the next heartbeats: changed topics, expressions
        that are not resolved.
        """
        written = self._state.written
        for group_id in written.groups(Row.MEMBER):
            timeout_ms = self._settings(group_id).consumer_session_timeout_ms
            current = written.rows(Row.CURRENT, group_id)
            timers = []
            for rest, value in written.rows(Row.MEMBER, group_id).items():
                member = cast("Member", value)
                classic, (member_id,) = member.classic_member_metadata, rest
                session_ms = timeout_ms if classic is None else classic.session_timeout_ms
                timers.append(Timer(session_timer(group_id, member_id), now_ms + session_ms))
                has = current.get(rest)
                if has is not None and has.state == MemberState.UNREVOKED:
                    due_ms = now_ms + member.rebalance_timeout_ms
                    timers.append(Timer(rebalance_timer(group_id, member_id), due_ms))
            yield GroupDecision(timers=tuple(timers))

    def _is_told(self, group_id: str, member_id: str) -> bool:
        """Whether what a member has is committed, so that it may have heard of it."""
        tables = (self._state.written, self._state.committed)
        written, committed = (each.get(Row.CURRENT, group_id, member_id) for each in tables)
        return written is committed

    def _settings(self, group_id: str) -> GroupSettings:
        return settings_of_group(self._state.settings, self._configs(group_id))

    def _draft(self, group: ConsumerGroup, now_ms: int) -> Draft:
        context = Context(
            now_ms=now_ms,
            topics=self._state.topics,
            settings=self._settings(group.group_id),
            soft=self._state.soft,
        )
        return Draft(context, group)

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._index.get(group_id)
        if group is None:
            raise _not_found(group_id)
        return group

    def _known(self, group_id: str, now_ms: int) -> Draft:
        return self._draft(self._group(group_id), now_ms)


def _ended(draft: Draft) -> GroupDecision:
    """Return a decision after which the group may be one of classic members alone."""
    if may_downgrade(draft) and draft.has_records:
        draft.add(downgrade(draft).decision())
    return draft.decision()


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"unknown consumer group {group_id}")


def _session_is_over(draft: Draft, member_id: str) -> None:
    """Remove a member that was silent for its whole session; it hears of that if it comes back."""
    if member_id in draft.group.members:
        draft.remove_members((member_id,))


def _rebalance_time_is_over(draft: Draft, member_id: str) -> None:
    """Remove a member that does not give up what others wait for.

    The timer begins anew as each order to give something up is committed and ends with the
    confirmation, so that it finds the member in the state in which it was set.
    """
    if draft.group.current_of(member_id).state == MemberState.UNREVOKED:
        _session_is_over(draft, member_id)
