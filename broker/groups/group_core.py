"""The groups of one partition of `__consumer_offsets`, as pure decisions and what becomes of them.

`broker.coordination.core.Core` is its contract. Nothing here waits, reads a clock or knows a
socket. Only this class changes its state.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, assert_never

from broker.coordination import core
from broker.coordination.core import Answer, Ticket, Timer
from broker.groups.administration import Deletion, GroupAdministration
from broker.groups.classic.groups import CLASSIC_TIMERS, ClassicGroups
from broker.groups.classic.joining import GroupCreated
from broker.groups.classic.syncing import AssignmentsStored
from broker.groups.consumer.draft import Ordered
from broker.groups.consumer.groups import Configs, ConsumerGroups
from broker.groups.consumer.target import TargetWork
from broker.groups.decision import NOTHING, GroupDecision, TimerRefused
from broker.groups.expiry import OFFSETS_TIMER, OffsetExpiry
from broker.groups.offsets import GroupOffsets, StableFetch
from broker.groups.replay import changes_of, changes_of_end
from broker.groups.requests import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
    TxnOffsetCommit,
)
from broker.groups.settings import GroupSettings
from broker.groups.state import GroupKind, GroupState, kind_of
from broker.groups.tables import Tables
from broker.groups.tombstones import group_tombstones
from broker.groups.topics import Topics
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer

APPEND_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **core.APPEND_ERRORS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Errors of a failed append, as members and administrators of groups get them."""

_WITH_GROUP_ID = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetDelete
"""Requests for which an empty group id is none; offsets may be committed under it."""


class GroupCore:
    """Groups of every kind with their offsets.

    Args:
        settings: Of the broker.
        topics: As the broker's metadata has them.
        new_id: Makes a text that is in no other member id.
        configs: Returns what a group sets for itself, resource type GROUP of the metadata.
    """

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        new_id: Callable[[], str],
        configs: Callable[[str], Configs],
    ) -> None:
        self._state = GroupState(settings=settings, topics=topics, new_id=new_id)
        self._classic = ClassicGroups(self._state)
        self._consumer = ConsumerGroups(self._state, configs)
        parts = (self._state, self._classic, self._consumer)
        self._offsets = GroupOffsets(*parts)
        self._expiry = OffsetExpiry(*parts)
        self._administration = GroupAdministration(*parts)

    @property
    def tables(self) -> Tables:
        """All written rows, and how much of them is committed."""
        return self._state.tables

    def decide(self, request: Request, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a request; the answer to it may come with another decision."""
        try:
            return self._decide(request, ticket, now_ms)
        except KafkaError as error:
            return GroupDecision(answers=(Answer(ticket, error),))

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> GroupDecision:
        """Decide on what happens when a time is over."""
        if key[0] == OFFSETS_TIMER:
            return self._expiry.look(now_ms)
        if key[0] in CLASSIC_TIMERS:
            return self._classic.timer(key, now_ms)
        return self._consumer.timer(key, now_ms)

    def committed(self, event: Any, now_ms: int) -> GroupDecision:
        """Decide on what follows when the records of an event are committed."""
        match event:
            case StableFetch(request=request, ticket=ticket):
                try:
                    return self._offsets.fetch_now(request, ticket)
                except KafkaError as error:
                    return GroupDecision(answers=(Answer(ticket, error),), at_once=True)
            case GroupCreated() | AssignmentsStored():
                return self._classic.committed(event, now_ms)
            case Deletion():
                return self._administration.go_on(event)
            case Ordered():
                return self._consumer.ordered(event, now_ms)
            case TimerRefused() | TargetWork():
                return NOTHING
            case _:
                raise AssertionError(event)

    def refused(self, event: Any, error: KafkaError, now_ms: int) -> GroupDecision:
        """Decide on what follows when records are not written, or not committed in time."""
        match event:
            case StableFetch(ticket=ticket) | Deletion(ticket=ticket):
                return GroupDecision(answers=(Answer(ticket, error),))
            case TimerRefused(key=key, retry_ms=retry_ms):
                return GroupDecision(timers=(Timer(key, now_ms + retry_ms),))
            case GroupCreated() | AssignmentsStored():
                return self._classic.refused(event, error, now_ms)
            case TargetWork():
                return self._consumer.target_refused(event)
            case Ordered():
                return self._consumer.ordered(event, now_ms)
            case _:
                raise AssertionError(event)

    def worked(self, event: Any, result: Any, now_ms: int) -> GroupDecision:
        """Decide on a target that was computed while the shard went on."""
        return self._consumer.worked(event, result, now_ms)

    def connection_closed(self, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a client that hung up while its request was parked."""
        return self._classic.connection_closed(ticket, now_ms)

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> GroupDecision:
        """Decide on offsets of topics that the metadata have no more, or have anew."""
        return self._expiry.topics_deleted(names, now_ms)

    def loaded(self, now_ms: int) -> GroupDecision:
        """Decide on what begins when the end of the log is reached.

        Classic groups are as their records say, and Stable if they have members.
        """
        self._state.tables.loaded()
        decisions = (
            *self._classic.loaded(now_ms),
            *self._consumer.loaded(now_ms),
            self._expiry.first_look(now_ms),
        )
        return GroupDecision(
            records=tuple(record for each in decisions for record in each.records),
            answers=tuple(answer for each in decisions for answer in each.answers),
            soft=tuple(change for each in decisions for change in each.soft),
            timers=tuple(timer for each in decisions for timer in each.timers),
        )

    def parked(self) -> tuple[Ticket, ...]:
        """Return the tickets of requests that wait for other members."""
        return self._classic.parked()

    def apply(self, decision: GroupDecision, base_offset: int = -1) -> None:
        """Change the tables and what has no record as a decision says."""
        end_offset = base_offset + len(decision.records)
        producer_id = None if decision.producer is None else decision.producer.producer_id
        for offset, record in enumerate(decision.records, base_offset):
            self.replay(record, offset, end_offset, producer_id)
        for key, value in decision.soft:
            if value is None:
                self._state.soft.pop(key, None)
            else:
                self._state.soft[key] = value

    def replay_bytes(self, key: bytes, value: bytes | None) -> bool:
        """Leave every record to `replay`: what expires is looked for as soon as all are there."""
        return False

    def replay(
        self, record: GroupRecord, offset: int, end_offset: int, producer_id: int | None = None
    ) -> None:
        """Change the tables as a record of the log says."""
        changes = changes_of(record, offset, self._state.written, producer_id)
        self._state.tables.write(end_offset, changes)

    def end_transaction(self, producer: Producer, commit: bool, end_offset: int) -> None:
        """Commit or drop the pending offsets of a transaction; its marker is in the log."""
        changes = changes_of_end(producer.producer_id, commit, self._state.written)
        self._state.tables.write(end_offset, changes)

    def committed_up_to(self, offset: int) -> None:
        """Take over how far the high watermark is; readers may hear of what is below."""
        self._state.tables.committed_up_to(offset)

    def _decide(self, request: Request, ticket: Ticket, now_ms: int) -> GroupDecision:
        if isinstance(request, _WITH_GROUP_ID) and not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        match request:
            case JoinGroup():
                return self._join(request, ticket, now_ms)
            case SyncGroup():
                if self._is_consumer(request.group_id):
                    return self._consumer.classic_sync(request, ticket, now_ms)
                return self._classic.sync(request, ticket, now_ms)
            case Heartbeat():
                if self._is_consumer(request.group_id):
                    return self._consumer.classic_heartbeat(request, ticket, now_ms)
                return self._classic.heartbeat(request, ticket, now_ms)
            case LeaveGroup():
                if self._is_consumer(request.group_id):
                    return self._consumer.classic_leave(request, ticket, now_ms)
                return self._classic.leave(request, ticket, now_ms)
            case OffsetCommit():
                return self._offsets.commit(request, ticket, now_ms)
            case TxnOffsetCommit():
                return self._offsets.commit_in_transaction(request, ticket, now_ms)
            case OffsetFetch():
                return self._offsets.fetch(request, ticket)
            case OffsetDelete():
                return self._offsets.delete(request, ticket)
            case DescribeGroups():
                return self._administration.describe(request, ticket)
            case ListGroups():
                return self._administration.list(request, ticket, now_ms)
            case DeleteGroups():
                return self._administration.delete(request, ticket)
            case ConsumerGroupHeartbeat():
                return self._consumer.heartbeat(request, ticket, now_ms)
            case ConsumerGroupDescribe():
                response = self._consumer.describe(request)
                return GroupDecision(answers=(Answer(ticket, response),), at_once=True)
            case _:
                assert_never(request)

    def _join(self, request: JoinGroup, ticket: Ticket, now_ms: int) -> GroupDecision:
        if not self._is_consumer(request.group_id):
            return self._classic.join(request, ticket, now_ms)
        if not self._consumer.is_empty(request.group_id):
            return self._consumer.classic_join(request, ticket, now_ms)
        before = tuple(group_tombstones(self._state.written, request.group_id))
        return self._classic.join(request, ticket, now_ms, before)

    def _is_consumer(self, group_id: str) -> bool:
        return kind_of(self._state.written, group_id) is GroupKind.CONSUMER
