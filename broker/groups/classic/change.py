"""A classic group while one decision is made about it."""

from __future__ import annotations

from collections.abc import Hashable
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from broker.coordination.core import Answer, Ticket, Timer
from broker.groups.classic.group import (
    PREDECESSORS,
    ClassicGroup,
    ClassicGroupState,
    Member,
    to_record,
)
from broker.groups.decision import GroupDecision, SoftChange
from broker.groups.responses import JoinGroupResponse, SyncGroupResponse
from broker.groups.settings import GroupSettings
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode

CLASSIC = "classic"
SESSION_TIMER = "classic session"
JOIN_TIMER = "classic join"
SYNC_TIMER = "classic sync"


def soft_key(group_id: str) -> tuple[Hashable, ...]:
    """Return under which key a classic group stands beside the tables."""
    return (CLASSIC, group_id)


class GroupChange:
    """Collects the changes of one group; `decision` returns them."""

    def __init__(self, group: ClassicGroup, settings: GroupSettings, now_ms: int) -> None:
        self._group = group
        self.members = dict(group.members)
        self.settings = settings
        self.now_ms = now_ms
        self.records: list[GroupRecord] = []
        self.event: Any = None
        self._answers: list[Answer] = []
        self._timers: dict[tuple[Hashable, ...], int | None] = {}

    @property
    def group(self) -> ClassicGroup:
        """The group as it would be now; its members are those of this change."""
        return replace(self._group, members=MappingProxyType(self.members))

    @property
    def state(self) -> ClassicGroupState:
        """State of the group."""
        return self._group.state

    @property
    def leader(self) -> str | None:
        """Id of the leader."""
        return self._group.leader

    def update(self, **fields: Any) -> None:
        """Change fields of the group, members and state excepted."""
        assert not fields.keys() & {"members", "state"}
        self._group = replace(self._group, **fields)

    def move_to(self, state: ClassicGroupState) -> None:
        """Change the state."""
        assert self._group.state in PREDECESSORS[state], (self._group.state, state)
        self._group = replace(self._group, state=state, state_timestamp=self.now_ms)

    def put(self, member: Member) -> None:
        """Add a member, or change one; the first is the leader."""
        self.members[member.member_id] = member
        if self._group.leader is None:
            self.update(leader=member.member_id)

    def take(self, member_id: str, error: ErrorCode) -> Member:
        """Take a member away; requests of it that are parked are answered with an error."""
        member = self.members.pop(member_id)
        self.answer_join(member, error)
        self.answer_sync(member, error)
        self.stop_session(member_id)
        return member

    def substitute(self, old_id: str, member: Member) -> None:
        """Put a member in the place of another, in the order of joining as well."""
        self.stop_session(old_id)
        self.members = {
            member.member_id if each == old_id else each: member if each == old_id else one
            for each, one in self.members.items()
        }
        if self._group.leader == old_id:
            self.update(leader=member.member_id)

    def answer(self, ticket: Ticket, response: Any) -> None:
        """Answer a request."""
        self._answers.append(Answer(ticket, response))

    def answer_join(self, member: Member, error: ErrorCode) -> None:
        """Answer a member's parked join, if there is one, with an error."""
        if member.join is not None:
            self.answer(
                member.join, JoinGroupResponse(error_code=error, member_id=member.member_id)
            )

    def answer_sync(self, member: Member, error: ErrorCode) -> None:
        """Answer a member's parked sync, if there is one, with an error."""
        if member.sync is not None:
            self.answer(member.sync, SyncGroupResponse(error_code=error))

    def start_session(self, member: Member) -> None:
        """Let a member's session begin anew."""
        self.set_timer(
            (SESSION_TIMER, self._group.group_id, member.member_id), member.session_timeout_ms
        )

    def stop_session(self, member_id: str) -> None:
        """Take the session of a member away."""
        self.set_timer((SESSION_TIMER, self._group.group_id, member_id), None)

    def set_join_timer(self, delay_ms: int | None) -> None:
        """Set the end of the time to join."""
        self.set_timer((JOIN_TIMER, self._group.group_id), delay_ms)

    def set_sync_timer(self, delay_ms: int | None) -> None:
        """Set the end of the time to ask for assignments."""
        self.set_timer((SYNC_TIMER, self._group.group_id), delay_ms)

    def set_timer(self, key: tuple[Hashable, ...], delay_ms: int | None) -> None:
        """Set a timer, or take it away."""
        self._timers[key] = None if delay_ms is None else self.now_ms + delay_ms

    def write(self) -> None:
        """Write the group as it is."""
        self.records.append(to_record(self.group))

    def decision(self) -> GroupDecision:
        """Return the decision about the group."""
        group = self.group
        kept = replace(group, members=dict(self.members)) if group.is_worth_keeping else None
        return GroupDecision(
            records=tuple(self.records),
            answers=tuple(self._answers),
            soft=(SoftChange(soft_key(group.group_id), kept),),
            timers=tuple(Timer(key, at_ms) for key, at_ms in self._timers.items()),
            event=self.event,
        )
