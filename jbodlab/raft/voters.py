"""Replica keys, voter sets, and the histories of values by the offset that they count from.

A controller counts votes and offsets with the *last* voter set of its own log, committed or not
(KIP-853). Two consecutive sets differ by one replica at most, so each majority of one has a member
in each majority of the other. If the log is truncated, the set of the offsets that are cut is
forgotten.

Source: `org.apache.kafka.raft.VoterSet`, `...internals.KRaftControlRecordStateMachine`; KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import msgspec

from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, Offset

UNKNOWN_DIRECTORY = MIGRATING
"""The zero id: at kraft.version 0 a voter set does not name the directories of its voters."""

Endpoints = tuple[KRaftVoterEndpoint, ...]

VERSIONS = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
"""Levels of kraft.version that this program supports."""


def supports(versions: KRaftVersionFeature, level: int) -> bool:
    """Return whether a level is among others."""
    return versions.min_supported_version <= level <= versions.max_supported_version


class ReplicaKey(NamedTuple):
    """One copy of the log: the node and the directory that hold it."""

    node_id: BrokerId
    directory_id: DirectoryId = UNKNOWN_DIRECTORY

    def __str__(self) -> str:
        return f"{self.node_id}:{self.directory_id}"


NOBODY = ReplicaKey(BrokerId(-1))
"""The replica of a Fetch that is not to be counted; a leader keeps no progress of it."""


class VoterSet(msgspec.Struct, frozen=True, dict=True):
    """The voters of the quorum.

    Attributes:
        voters: Sorted by node id; no id occurs twice.
    """

    voters: tuple[KRaftVoter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[KRaftVoter]) -> VoterSet:
        """Return the set of some voters, in any order."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.voter_id))
        if len({voter.voter_id for voter in ordered}) < len(ordered):
            raise QuorumViolationError(f"a voter set names a node twice: {ordered}")
        return cls(ordered)

    @cached_property
    def ids(self) -> tuple[BrokerId, ...]:
        """Node ids, ascending."""
        return tuple(BrokerId(voter.voter_id) for voter in self.voters)

    @cached_property
    def keys(self) -> tuple[ReplicaKey, ...]:
        """Replica keys as the set has them, by node id."""
        return tuple(key_of(voter) for voter in self.voters)

    @property
    def majority(self) -> int:
        """The number of voters that decide."""
        return len(self.voters) // 2 + 1

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """Return the key that this set has for a replica; None if the replica is no voter.

        A set that does not know the directory of a node takes any directory for its.
        """
        for key in self.keys:
            if key.node_id == replica.node_id:
                known = key.directory_id in (UNKNOWN_DIRECTORY, replica.directory_id)
                return key if known else None
        return None

    def has(self, replica: ReplicaKey) -> bool:
        """Return whether a replica is a voter."""
        return self.key_of(replica) is not None

    def others(self, replica: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """Return the voters that are not this replica."""
        own = self.key_of(replica)
        return tuple(key for key in self.keys if key != own)

    def is_only(self, replica: ReplicaKey) -> bool:
        """Return whether a replica is the sole voter."""
        return len(self.voters) == 1 and self.has(replica)

    def endpoints(self, node_id: int) -> Endpoints:
        """Return where a voter is reached; empty if unknown."""
        voter = self.voter(node_id)
        return () if voter is None else voter.endpoints

    def voter(self, node_id: int) -> KRaftVoter | None:
        """Return all that the set says of a voter; None: the node is none."""
        return next((each for each in self.voters if each.voter_id == node_id), None)

    def with_voter(self, voter: KRaftVoter) -> VoterSet:
        """Return the set with one more voter, or with another one of its id."""
        return VoterSet.of((*self.without(BrokerId(voter.voter_id)).voters, voter))

    def without(self, node_id: BrokerId) -> VoterSet:
        """Return the set without a node."""
        return VoterSet(tuple(each for each in self.voters if each.voter_id != node_id))

    def check_next(self, other: VoterSet) -> None:
        """Check that another set may follow this one.

        Raises:
            QuorumViolationError: more than one replica came, or more than one went.
        """
        before, after = frozenset(self.keys), frozenset(other.keys)
        if len(after - before) > 1 or len(before - after) > 1:
            raise QuorumViolationError(
                f"voter sets without a common majority follow each other: {self.keys}, {other.keys}"
            )


def key_of(voter: KRaftVoter) -> ReplicaKey:
    """Return the replica that a voter is."""
    return ReplicaKey(BrokerId(voter.voter_id), DirectoryId(voter.voter_directory_id))


T = TypeVar("T")


class History(Generic[T]):
    """Values by the offset of the record that set them; the last one counts.

    Args:
        initial: The value without any record.
    """

    __slots__ = ("_entries", "_initial")

    def __init__(self, initial: T) -> None:
        self._initial = initial
        self._entries: list[tuple[int, T]] = []

    @property
    def last(self) -> T:
        """The value that counts."""
        return self._entries[-1][1] if self._entries else self._initial

    @property
    def last_offset(self) -> int | None:
        """Offset of the record of `last`; -1: `0-0.checkpoint`, None: there is no record."""
        return self._entries[-1][0] if self._entries else None

    def at(self, offset: int) -> T:
        """Return the value that counts at an offset, with the record there.

        A snapshot that ends at offset N has the value at N-1 (KAFKA-16207).
        """
        for entry_offset, value in reversed(self._entries):
            if entry_offset <= offset:
                return value
        return self._initial

    def add(self, offset: int, value: T) -> None:
        """Set the value with the record at an offset, which is behind all others."""
        assert not self._entries or offset > self._entries[-1][0], (offset, self._entries)
        self._entries.append((offset, value))

    def truncate_to(self, end_offset: int) -> None:
        """Forget the records at an offset and behind it."""
        while self._entries and self._entries[-1][0] >= end_offset:
            self._entries.pop()

    def trim_to(self, start_offset: Offset) -> None:
        """Forget what no offset from here on needs."""
        while len(self._entries) > 1 and self._entries[1][0] <= start_offset - 1:
            del self._entries[0]

    def restart(self, offset: int, value: T | None) -> None:
        """Begin anew with what a snapshot says, as of its last contained offset."""
        self._entries.clear()
        if value is not None:
            self._entries.append((offset, value))
