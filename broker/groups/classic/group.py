"""A classic group and its members, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.requests import JoinProtocol
from broker.groups.responses import JoinedMember
from jbodlab.group_records.consumer_protocol import ConsumerProtocolSubscription, decode
from jbodlab.group_records.keys import GroupMetadataKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import GroupMetadataMember, GroupMetadataValue
from jbodlab.vocabulary.errors import DecodeError

CONSUMER = "consumer"
"""Protocol type of groups whose metadata are subscriptions."""


class ClassicGroupState(Enum):
    """States of a group; the values are the names that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


PREDECESSORS: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = MappingProxyType(
    {
        ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
        ClassicGroupState.PREPARING_REBALANCE: frozenset(
            {
                ClassicGroupState.EMPTY,
                ClassicGroupState.COMPLETING_REBALANCE,
                ClassicGroupState.STABLE,
            }
        ),
        ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
        ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    }
)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member; what it prefers comes first in `protocols`.

    Attributes:
        join, sync: Requests of it that are parked.
        is_new: Whether it joined for the first time and was not answered yet.
        awaits_sync: Whether it did not ask for its assignment in this generation yet.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    assignment: bytes = b""
    join: Ticket | None = None
    sync: Ticket | None = None
    is_new: bool = False
    awaits_sync: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol; empty if the member does not support it."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str | None:
        """Return the candidate that the member prefers."""
        return next((name for name, _ in self.protocols if name in candidates), None)


class ClassicGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group; `members` are in the order in which they joined.

    Attributes:
        protocol_type: None as long as no member ever joined: a simple group.
        protocol, leader: Of this generation; None without members.
        state_timestamp: When the state changed last.
        pending_joins: Ids that were given to clients that are to join with them (KIP-394).
        delay_remaining_ms: Time that may still pass in waiting for more members of a group that was
            empty; None unless the group waits so.
        has_new_member: Whether a member came during the present part of that wait.
    """

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp: int = -1
    members: Mapping[str, Member] = msgspec.field(default_factory=dict)
    pending_joins: tuple[str, ...] = ()
    delay_remaining_ms: int | None = None
    has_new_member: bool = False

    @property
    def tickets(self) -> tuple[Ticket, ...]:
        """Requests that are parked here."""
        return tuple(
            ticket
            for member in self.members.values()
            for ticket in (member.join, member.sync)
            if ticket is not None
        )

    @property
    def is_worth_keeping(self) -> bool:
        """Whether there is more to know than the record says."""
        return self.state is not ClassicGroupState.EMPTY or bool(self.pending_joins)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member wants to have for a rebalance."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member(self, group_instance_id: str) -> Member | None:
        """Return the member that has an instance id."""
        return next(
            (
                member
                for member in self.members.values()
                if member.group_instance_id == group_instance_id
            ),
            None,
        )


def common_protocols(members: Iterable[Member]) -> frozenset[str]:
    """Return the names of the protocols that all members support."""
    names = [frozenset(name for name, _ in member.protocols) for member in members]
    return frozenset.intersection(*names) if names else frozenset()


def choose_protocol(members: Mapping[str, Member]) -> str | None:
    """Return the protocol with the most votes; the earliest voter's where there is a tie."""
    candidates = common_protocols(members.values())
    votes: dict[str | None, int] = {}
    for member in members.values():
        vote = member.vote(candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=lambda name: votes[name], default=None)


def joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    """Return what the leader is told of all members."""
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(group.protocol))
        for member in group.members.values()
    )


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Return the topics of all members; None where they cannot be known.

    They can be known of groups of type `consumer`, if the metadata of every member are a
    subscription.
    """
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = member.metadata(group.protocol) or member.protocols[0].metadata
        try:
            subscription, _ = decode(ConsumerProtocolSubscription, metadata)
        except DecodeError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)


def to_record(group: ClassicGroup) -> GroupRecord:
    """Return the record that keeps a group."""
    return GroupRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp=group.state_timestamp,
            members=tuple(
                GroupMetadataMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol),
                    assignment=member.assignment,
                )
                for member in group.members.values()
            ),
        ),
    )


def from_record(group_id: str, value: GroupMetadataValue | None) -> ClassicGroup:
    """Return the group that a record keeps: Stable with members, else Empty.

    Args:
        group_id: Id of the group.
        value: None for a group that has offsets alone.
    """
    if value is None:
        return ClassicGroup(group_id=group_id)
    group = ClassicGroup(
        group_id=group_id,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        state_timestamp=value.current_state_timestamp,
    )
    if not value.members:
        return group
    members = {each.member_id: _member(value, each) for each in value.members}
    return replace(
        group,
        state=ClassicGroupState.STABLE,
        protocol=value.protocol,
        leader=value.leader,
        members=members,
    )


def _member(value: GroupMetadataValue, stored: GroupMetadataMember) -> Member:
    # Version 0 has no rebalance timeout.
    rebalance = stored.rebalance_timeout
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.session_timeout if rebalance == -1 else rebalance,
        session_timeout_ms=stored.session_timeout,
        protocols=(JoinProtocol(value.protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )
