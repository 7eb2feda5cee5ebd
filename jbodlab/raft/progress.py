"""A leader's knowledge of the other replicas: how far they are, and when each was heard.

The high watermark is the highest offset that a majority of the voters has on disk, and it begins
with the first record of the leader's own epoch: a record of a former epoch may sit on a majority
and still be lost to a later leader (Raft, section 5.4.2). Each of the voters' offsets, the leader's
among them, means that all below it survives a loss of power. It never falls: a majority had what is
below it, and a set of voters that is counted anew does not change that.

Invariants:

* An offset is set by a Fetch in this epoch whose position is valid: the replica's log is the same.
* A voter whose offset falls has lost records that it had acknowledged. It does not count until it
  is again as far as it ever was.

Source: `org.apache.kafka.raft.LeaderState`; KIP-595, KIP-836. Kafka counts the end of the leader's
own log before it is synced, and a voter that has lost records.
"""

from __future__ import annotations

from collections import deque
from statistics import median

import msgspec

from jbodlab.raft.voters import ReplicaKey, VoterSet
from jbodlab.vocabulary.ids import Offset

SYNCS = 20
"""How many times a replica's disk is measured by."""


class ReplicaProgress(msgspec.Struct, kw_only=True):
    """One replica that fetches.

    Attributes:
        end_offset: Of its log.
        highest: The highest end offset so far.
        last_fetch_ms: Of the driver's clock.
        last_caught_up_ms: When it was last known to have all that the leader had; -1: never.
        leader_end_offset: Of the leader, at its last Fetch.
        sent_ms: When it was sent the records that it has not acknowledged; None: it has all.
        syncs_ms: How long it took to acknowledge records, the last times.
    """

    end_offset: Offset
    highest: Offset
    last_fetch_ms: int
    last_caught_up_ms: int = -1
    leader_end_offset: Offset
    sent_ms: int | None = None
    syncs_ms: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=SYNCS))

    @property
    def counts(self) -> bool:
        """Whether it has all that it ever acknowledged."""
        return self.end_offset >= self.highest


class Progress:
    """The replicas of one leader in one epoch.

    Args:
        me: The leader.
        start_offset: Of the epoch.
        now_ms: Of the driver's clock.
    """

    def __init__(self, me: ReplicaKey, start_offset: Offset, now_ms: int) -> None:
        self.high_watermark: Offset | None = None
        """In this epoch; None until the first record of the epoch is committed."""
        self.majority_heard_ms = now_ms
        """When a majority of voters was last complete."""
        self.replicas: dict[ReplicaKey, ReplicaProgress] = {}
        """By the key that the voter set has for a voter, by its own for an observer."""
        self._me = me
        self._start_offset = start_offset
        self._heard: set[int] = set()
        """Node ids of voters that were heard since then."""

    def highest(self, replica: ReplicaKey) -> Offset:
        """Return the highest offset that a replica has acknowledged."""
        known = self.replicas.get(replica)
        return Offset(0) if known is None else known.highest

    def fetched(
        self, replica: ReplicaKey, end_offset: Offset, leader_end_offset: Offset, now_ms: int
    ) -> bool:
        """Take note of a valid Fetch; returns whether the replica lost what it acknowledged."""
        known = self.replicas.get(replica)
        if known is None:
            known = self.replicas[replica] = ReplicaProgress(
                end_offset=end_offset,
                highest=end_offset,
                last_fetch_ms=now_ms,
                leader_end_offset=leader_end_offset,
            )
        if end_offset >= leader_end_offset:
            known.last_caught_up_ms = now_ms
        elif end_offset >= known.leader_end_offset and known.last_fetch_ms < now_ms:
            # It has what the leader had when it asked the last time (KIP-836).
            known.last_caught_up_ms = known.last_fetch_ms
        if known.sent_ms is not None:
            known.syncs_ms.append(now_ms - known.sent_ms)
            known.sent_ms = None
        has_lost = end_offset < known.end_offset
        known.end_offset = end_offset
        known.highest = max(known.highest, end_offset)
        known.last_fetch_ms = now_ms
        known.leader_end_offset = leader_end_offset
        return has_lost

    def sent_records(self, replica: ReplicaKey, now_ms: int) -> None:
        """Take note that records are on the way to a replica, which asks again once it has them."""
        if replica in self.replicas:
            self.replicas[replica].sent_ms = now_ms

    def sync_ms(self, replica: ReplicaKey) -> int:
        """Return the median time in which a replica has records on its disk; 0 if unknown."""
        known = self.replicas.get(replica)
        return 0 if known is None or not known.syncs_ms else int(median(known.syncs_ms))

    def heard(self, voter: ReplicaKey, voters: VoterSet, now_ms: int) -> None:
        """Take note that a voter follows this leader; a complete majority counts as of now."""
        self._heard.add(voter.node_id)
        others = voters.majority - voters.has(self._me)
        if len(self._heard.intersection(voters.ids)) >= others:
            self._heard.clear()
            self.majority_heard_ms = now_ms

    def voters_changed(self, now_ms: int) -> None:
        """Give the voters of a new set time to be heard."""
        self._heard.clear()
        self.majority_heard_ms = now_ms

    def advance(self, voters: VoterSet, own_synced: Offset) -> bool:
        """Compute the high watermark; returns whether it rose.

        Args:
            voters: The last set, committed or not.
            own_synced: Up to where the leader's own log survives a loss of power.
        """
        own = voters.key_of(self._me)
        offsets = sorted(own_synced if key == own else self._counted(key) for key in voters.keys)
        candidate = offsets[-voters.majority] if offsets else -1
        if candidate <= max(self._start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = Offset(candidate)
        return True

    def silent(self, voters: VoterSet, since_ms: int) -> tuple[ReplicaKey, ...]:
        """Return the voters, without the leader, that have not fetched since a time."""
        return tuple(
            key
            for key in voters.others(self._me)
            if (known := self.replicas.get(key)) is None or known.last_fetch_ms < since_ms
        )

    def successors(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """Return the voters that may follow this leader: those with the longest logs first."""
        known = self.replicas
        return tuple(
            sorted(
                voters.others(self._me),
                key=lambda key: (-known[key].end_offset if key in known else 1, key),
            )
        )

    def forget_observers(self, voters: VoterSet, since_ms: int) -> None:
        """Forget the observers that have not fetched since a time."""
        silent = [key for key, known in self.replicas.items() if known.last_fetch_ms < since_ms]
        for key in silent:
            if key not in voters.keys:
                del self.replicas[key]

    def _counted(self, voter: ReplicaKey) -> int:
        known = self.replicas.get(voter)
        return known.end_offset if known is not None and known.counts else -1
