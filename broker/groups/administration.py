"""DescribeGroups, ListGroups and DeleteGroups.

Readers hear of groups that are committed. The state of a classic group has no record between two
generations; there its present one is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import msgspec

from broker.bounds.limits import EXPIRED_AT_ONCE
from broker.coordination.core import Answer, Ticket, Timer
from broker.groups.classic.change import soft_key
from broker.groups.classic.group import ClassicGroup, ClassicGroupState
from broker.groups.classic.groups import ClassicGroups, timers_of
from broker.groups.consumer.groups import ConsumerGroups
from broker.groups.decision import GroupDecision, SoftChange
from broker.groups.requests import DeleteGroups, DescribeGroups, ListGroups
from broker.groups.responses import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsResponse,
    ListedGroup,
)
from broker.groups.state import GroupKind, GroupState, kind_of
from broker.groups.tables import Row
from broker.groups.tombstones import group_tombstones, offset_tombstones
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.large_dict import LargeDict

NOT_FOUND_FROM = 6
"""Version of DescribeGroups from which an unknown group is an error."""

DEAD = "Dead"
CONSUMER_PROTOCOL_TYPE = "consumer"


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """An event: groups are deleted, and the log has taken the step before the next one.

    Attributes:
        ticket: Ticket of the client that gets the answer.
        left: The groups that are not done.
        results: Of those that are.
        is_begun: Whether something of the first that is left is gone.
    """

    ticket: Ticket
    left: tuple[str, ...]
    results: tuple[DeletableGroupResult, ...] = ()
    is_begun: bool = False


class GroupAdministration:
    """Answers what tools ask about groups; changes nothing itself."""

    def __init__(self, state: GroupState, classic: ClassicGroups, consumer: ConsumerGroups) -> None:
        self._state = state
        self._classic = classic
        self._consumer = consumer

    def describe(self, request: DescribeGroups, ticket: Ticket) -> GroupDecision:
        """Describe classic groups; others are as good as unknown."""
        groups = tuple(self._described(each, request.version) for each in request.groups)
        response = DescribeGroupsResponse(groups=groups)
        return GroupDecision(answers=(Answer(ticket, response),), at_once=True)

    def list(self, request: ListGroups, ticket: Ticket, now_ms: int) -> GroupDecision:
        """List the groups that pass the filters, which know no upper and lower case.

        The answer tells of each group as it is when the iterator comes to it. There is None for
        each that does not pass: to look at a million takes seconds.
        """
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        groups = (
            group
            if group is not None
            and (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types)
            else None
            for group in self._listed(now_ms)
        )
        return GroupDecision(answers=(Answer(ticket, groups),), at_once=True)

    def delete(self, request: DeleteGroups, ticket: Ticket) -> GroupDecision:
        """Delete those groups that have no members."""
        return self.go_on(Deletion(ticket=ticket, left=tuple(dict.fromkeys(request.groups_names))))

    def go_on(self, deletion: Deletion) -> GroupDecision:
        """Take the next step of a deletion, in which as much goes as a batch holds.

        A group that got members between two steps stays, without the offsets that are gone.
        """
        written = self._state.written
        records: list[GroupRecord] = []
        soft: list[SoftChange] = []
        timers: list[Timer] = []
        results = list(deletion.results)
        rest = None
        for done, group_id in enumerate(deletion.left):
            error = self._why_not_deleted(group_id)
            if error is ErrorCode.NONE:
                room = EXPIRED_AT_ONCE - len(records)
                tombstones = chain(
                    offset_tombstones(written, group_id), group_tombstones(written, group_id)
                )
                fitting = list(islice(tombstones, room + 1))
                records += fitting[:room]
                if len(fitting) > room:
                    rest = Deletion(
                        ticket=deletion.ticket,
                        left=deletion.left[done:],
                        results=tuple(results),
                        is_begun=room > 0,
                    )
                    break
                group = self._classic.find(group_id)
                if group is not None:
                    soft.append(SoftChange(soft_key(group_id), None))
                    timers += (Timer(key, None) for key in timers_of(group))
            elif error is ErrorCode.GROUP_ID_NOT_FOUND and done == 0 and deletion.is_begun:
                # The rest of the group has expired since the last step.
                error = ErrorCode.NONE
            results.append(DeletableGroupResult(group_id, error))
        response = DeleteGroupsResponse(results=tuple(results))
        return GroupDecision(
            records=tuple(records),
            answers=() if rest else (Answer(deletion.ticket, response),),
            soft=tuple(soft),
            timers=tuple(timers),
            event=rest,
        )

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        group = self._classic.described(group_id)
        if group is not None:
            return _description(group)
        if version < NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        is_other = kind_of(self._state.committed, group_id) is GroupKind.CONSUMER
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"group {group_id} "
            f"{'is not a classic group' if is_other else 'does not exist'}",
            group_id=group_id,
            group_state=DEAD,
        )

    def _names(self) -> Iterator[str | None]:
        """Yield each group once, and None where it is met again."""
        committed = self._state.committed
        seen: LargeDict[str, None] = LargeDict()
        for row in (Row.CLASSIC, Row.EPOCH, Row.MEMBER, Row.OFFSET, Row.PENDING):
            for number in range(committed.parts(row)):
                for group_id in committed.groups_of_part(row, number):
                    yield None if group_id in seen else group_id
                    seen[group_id] = None

    def _listed(self, now_ms: int) -> Iterator[ListedGroup | None]:
        for group_id in self._names():
            if group_id is None:
                yield None
                continue
            group = self._classic.described(group_id)
            if group is not None:
                kind = GroupKind.CLASSIC.value
                yield ListedGroup(group_id, group.protocol_type or "", group.state.value, kind)
            elif kind_of(self._state.committed, group_id) is GroupKind.CONSUMER:
                state = self._consumer.committed_state(group_id, now_ms)
                yield ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, state, GroupKind.CONSUMER.value)
            else:
                yield None

    def _why_not_deleted(self, group_id: str) -> ErrorCode:
        if kind_of(self._state.written, group_id) is GroupKind.CONSUMER:
            is_empty = self._consumer.is_empty(group_id)
        else:
            group = self._classic.find(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            is_empty = group.state is ClassicGroupState.EMPTY
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP


def _description(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ),
    )
