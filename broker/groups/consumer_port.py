"""What a shard asks of its groups of KIP-848, apart from their own requests."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

from broker.groups.decision import Decision, Ticket
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
from jbodlab.vocabulary.error_code import ErrorCode


class ConsumerGroupsPort(Protocol):
    """The groups of KIP-848 of one shard.

    What decides raises a `KafkaError` that is the whole answer. Keys of timers are its own where
    no other part of the shard knows them; so are events.
    """

    def heartbeat(self, request: ConsumerGroupHeartbeat, ticket: Ticket, now_ms: int) -> Decision:
        """Decide on everything that a member says, also for a group that is classic, or none."""
        ...

    def describe(self, request: ConsumerGroupDescribe) -> Any:
        """Return the response from what is committed."""
        ...

    def classic_join(self, request: JoinGroup, ticket: Ticket, now_ms: int) -> Decision:
        """Decide on a join of a classic member to a group that has members."""
        ...

    def classic_sync(self, request: SyncGroup, ticket: Ticket, now_ms: int) -> Decision:
        """Decide on a classic member's request for its assignment."""
        ...

    def classic_heartbeat(self, request: Heartbeat, ticket: Ticket, now_ms: int) -> Decision:
        """Decide on a classic member's sign of life."""
        ...

    def classic_leave(self, request: LeaveGroup, ticket: Ticket, now_ms: int) -> Decision:
        """Decide on members that leave."""
        ...

    def refused_partitions(self, request: OffsetCommit) -> Mapping[tuple[str, int], ErrorCode]:
        """Return those partitions of a commit that its member may not commit now."""
        ...

    def check_fetch(self, request: OffsetFetch) -> None:
        """Refuse a fetch of somebody who is not the member that it says."""
        ...

    def is_empty(self, group_id: str) -> bool:
        """Return whether a group has no members."""
        ...

    def subscribed_topics(self, group_id: str) -> frozenset[str]:
        """Return the names of all topics that members subscribed to."""
        ...

    def committed_state(self, group_id: str, now_ms: int) -> str:
        """Return the name of a group's state, from what is committed."""
        ...

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> Decision:
        """Decide on what happens when a time is over."""
        ...

    def ordered(self, event: Any, now_ms: int) -> Decision:
        """Let members' time to give partitions up begin, once they can be told."""
        ...

    def worked(self, event: Any, result: Any, now_ms: int) -> Decision:
        """Decide on what was computed beside the event loop; the result is None if that failed."""
        ...

    def target_refused(self, event: Any) -> Decision:
        """Decide on a target that the log did not take."""
        ...

    def loaded(self, now_ms: int) -> Iterable[Decision]:
        """Let sessions and other times begin."""
        ...

    def parked(self) -> tuple[Ticket, ...]:
        """Return the tickets of all parked requests."""
        ...
