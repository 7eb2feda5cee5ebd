"""The classic groups of a shard: finds the group that an event is about, and decides on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import cast

from msgspec.structs import replace

from broker.coordination.core import Answer, Ticket
from broker.groups.classic.change import (
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    GroupChange,
    soft_key,
)
from broker.groups.classic.group import ClassicGroup, ClassicGroupState, from_record
from broker.groups.classic.joining import GroupCreated, join
from broker.groups.classic.membership import (
    connection_closed,
    heartbeat,
    leave,
    leave_response,
    session_is_over,
)
from broker.groups.classic.rebalance import join_time_is_over, prepare_rebalance, sync_time_is_over
from broker.groups.classic.syncing import AssignmentsStored, not_stored, stored, sync
from broker.groups.decision import NOTHING, GroupDecision, TimerRefused
from broker.groups.requests import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from broker.groups.responses import JoinGroupResponse, MemberResponse
from broker.groups.state import GroupKind, GroupState, kind_of
from broker.groups.tables import Row
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

ClassicEvent = GroupCreated | AssignmentsStored
CLASSIC_TIMERS = frozenset({SESSION_TIMER, JOIN_TIMER, SYNC_TIMER})


class ClassicGroups:
    """Decides on what concerns classic groups; changes nothing itself."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def find(self, group_id: str) -> ClassicGroup | None:
        """Return a group as it is now; None if there is no such classic group."""
        soft = self._state.soft.get(soft_key(group_id))
        if soft is not None:
            return cast("ClassicGroup", soft)
        if kind_of(self._state.written, group_id) is not GroupKind.CLASSIC:
            return None
        return from_record(group_id, self._state.written.get(Row.CLASSIC, group_id))

    def described(self, group_id: str) -> ClassicGroup | None:
        """Return a group as readers may see it: what is not committed, they do not hear of."""
        if kind_of(self._state.committed, group_id) is not GroupKind.CLASSIC:
            return None
        soft = self._state.soft.get(soft_key(group_id))
        if soft is not None:
            return cast("ClassicGroup", soft)
        return from_record(group_id, self._state.committed.get(Row.CLASSIC, group_id))

    def change(self, group: ClassicGroup, now_ms: int) -> GroupChange:
        """Begin to change a group."""
        return GroupChange(group, self._state.settings, now_ms)

    def join(
        self,
        request: JoinGroup,
        ticket: Ticket,
        now_ms: int,
        before: tuple[GroupRecord, ...] = (),
    ) -> GroupDecision:
        """Decide on a join.

        Args:
            request: For a group that is a classic one, or not there.
            ticket: Of the request.
            now_ms: Wall clock.
            before: Records that take away what the group was.
        """
        settings = self._state.settings
        lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        group = self.find(request.group_id)
        if not lowest <= request.session_timeout_ms <= highest:
            return _refused_join(request, ticket, ErrorCode.INVALID_SESSION_TIMEOUT)
        if group is None and request.member_id:
            return _refused_join(request, ticket, ErrorCode.UNKNOWN_MEMBER_ID)
        change = self.change(group or ClassicGroup(group_id=request.group_id), now_ms)
        join(change, request, ticket, self._state.new_id())
        if group is None and change.group.is_worth_keeping:
            # So that those who read the log know of the group before it has a generation.
            empty = ClassicGroup(group_id=request.group_id, state_timestamp=now_ms)
            created = self.change(empty, now_ms)
            created.write()
            change.records = [*before, *created.records]
            if change.state is not ClassicGroupState.EMPTY:
                change.event = GroupCreated(group_id=request.group_id, ticket=ticket)
        return change.decision()

    def sync(self, request: SyncGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a request for an assignment.

        Raises:
            KafkaError: the request is not of a member of this generation.
        """
        change = self.change(self._known(request.group_id), now_ms)
        sync(change, request, ticket)
        return change.decision()

    def heartbeat(self, request: Heartbeat, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a sign of life.

        Raises:
            KafkaError: the request is not of a member of this generation.
        """
        return heartbeat(self._known(request.group_id), request, ticket, now_ms)

    def leave(self, request: LeaveGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on members that leave."""
        group = self.find(request.group_id)
        if group is None:
            results = tuple(
                MemberResponse(each.member_id, each.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
                for each in request.members
            )
            return GroupDecision(
                answers=(Answer(ticket, leave_response(request.version, results)),)
            )
        change = self.change(group, now_ms)
        leave(change, request, ticket)
        return change.decision()

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> GroupDecision:
        """Decide on what happens when a time is over."""
        name, group_id, *rest = cast("tuple[str, ...]", key)
        group = self.find(group_id)
        if group is None:
            return NOTHING
        change = self.change(group, now_ms)
        if name == SESSION_TIMER:
            session_is_over(change, rest[0])
        elif name == JOIN_TIMER:
            join_time_is_over(change)
        else:
            sync_time_is_over(change)
        decision = change.decision()
        return replace(decision, event=TimerRefused(key=key)) if decision.records else decision

    def connection_closed(self, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a client that hung up while its join was parked."""
        for group in self._soft_groups():
            if ticket in group.tickets:
                change = self.change(group, now_ms)
                connection_closed(change, ticket)
                return change.decision()
        return NOTHING

    def committed(self, event: ClassicEvent, now_ms: int) -> GroupDecision:
        """Decide on what follows when records are committed."""
        if not isinstance(event, AssignmentsStored):
            return NOTHING
        return self._changed(event.group_id, now_ms, lambda change: stored(change, event))

    def refused(self, event: ClassicEvent, error: KafkaError, now_ms: int) -> GroupDecision:
        """Decide on what follows when records are not written, or not committed in time."""
        match event:
            case GroupCreated(group_id=group_id, ticket=ticket):
                group = self.find(group_id)
                if group is not None and ticket in group.tickets:
                    return NOTHING
                response = JoinGroupResponse(error_code=error.code)
                return GroupDecision(answers=(Answer(ticket, response),))
            case AssignmentsStored(group_id=group_id):
                return self._changed(
                    group_id, now_ms, lambda change: not_stored(change, event, error.code)
                )

    def loaded(self, now_ms: int) -> Iterator[GroupDecision]:
        """Let the sessions of all members begin, with their full timeouts."""
        written = self._state.written
        for group_id in written.groups(Row.CLASSIC):
            group = from_record(group_id, written.get(Row.CLASSIC, group_id))
            if group.state is ClassicGroupState.EMPTY:
                continue
            change = self.change(group, now_ms)
            for member in group.members.values():
                change.start_session(member)
            if len(group.members) > self._state.settings.max_size:
                prepare_rebalance(change)
            yield change.decision()

    def parked(self) -> tuple[Ticket, ...]:
        """Return the tickets of all parked requests."""
        return tuple(ticket for group in self._soft_groups() for ticket in group.tickets)

    def _soft_groups(self) -> Iterator[ClassicGroup]:
        return (each for each in self._state.soft.values() if isinstance(each, ClassicGroup))

    def _known(self, group_id: str) -> ClassicGroup:
        group = self.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _changed(
        self, group_id: str, now_ms: int, apply: Callable[[GroupChange], None]
    ) -> GroupDecision:
        group = self.find(group_id)
        if group is None:
            return NOTHING
        change = self.change(group, now_ms)
        apply(change)
        return change.decision()


def _refused_join(request: JoinGroup, ticket: Ticket, error: ErrorCode) -> GroupDecision:
    response = JoinGroupResponse(error_code=error, member_id=request.member_id)
    return GroupDecision(answers=(Answer(ticket, response),))


def timers_of(group: ClassicGroup) -> tuple[tuple[Hashable, ...], ...]:
    """Return the keys of all timers that a group may have."""
    sessions = (*group.members, *group.pending_joins)
    return (
        (JOIN_TIMER, group.group_id),
        (SYNC_TIMER, group.group_id),
        *((SESSION_TIMER, group.group_id, member_id) for member_id in sessions),
    )
