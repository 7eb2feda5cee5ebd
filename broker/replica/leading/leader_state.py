"""The state of a replica while it leads: followers, ISR, high watermark.

The ISR has two forms. The *committed* ISR is what the controller wrote; `acks=all` relies on it.
While a proposed change is in flight, the high watermark waits for the *maximal* ISR: the committed
one and the proposed new member. The controller may already have accepted that member, and could
elect it before this broker learns of it.

The high watermark also waits for followers that have caught up and are about to join, because they
would otherwise never reach it. It does not wait for a follower that cannot join: its broker is
fenced or stopping, or its directory is offline. Apache Kafka ignores the directory here, so healthy
leaders wait up to 30 seconds for a dead disk (`replica.lag.time.max.ms`).

Source: `kafka.cluster.Partition`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.replica.leading import isr as rules
from broker.replica.leading.isr import FollowerState
from broker.replica.leading.refused_batches import RefusedBatches
from broker.replica.leading.transaction_guards import TransactionGuards
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, PartitionEpoch


class LeaderState(msgspec.Struct, kw_only=True):
    """State of one leadership; made anew for each leader epoch.

    Attributes:
        broker_id: This broker, the leader.
        leader_epoch_start: First offset of this leader epoch.
        isr: The committed ISR, in the controller's order.
        proposed_isr: The ISR that the controller was asked for; None while nothing is asked.
        followers: State of each other replica.
        joinable: Brokers that may be in the ISR, with their registered epochs: registered, not
            fenced, not stopping, their directory online.
        refused: The batches that producers are expected to send again.
        guards: The transactions that are known to have this partition.
    """

    broker_id: BrokerId
    leader_epoch: LeaderEpoch
    leader_epoch_start: int
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    proposed_isr: tuple[BrokerId, ...] | None = None
    followers: dict[BrokerId, FollowerState] = msgspec.field(default_factory=dict)
    joinable: Mapping[BrokerId, int] = msgspec.field(default_factory=dict)
    refused: RefusedBatches = msgspec.field(default_factory=RefusedBatches)
    guards: TransactionGuards = msgspec.field(default_factory=TransactionGuards)

    @property
    def has_successor(self) -> bool:
        """Whether another replica can be elected: in sync, alive, its directory online."""
        return any(each in self.joinable for each in self.isr if each != self.broker_id)

    @classmethod
    def begin(
        cls,
        broker_id: BrokerId,
        registration: PartitionRegistration,
        leader_epoch_start: int,
        now_ms: int,
    ) -> LeaderState:
        """Begin to lead: members of the ISR get the benefit of the doubt, others none."""
        state = cls(
            broker_id=broker_id,
            leader_epoch=registration.leader_epoch,
            leader_epoch_start=leader_epoch_start,
            partition_epoch=registration.partition_epoch,
            isr=registration.isr,
        )
        state.set_replicas(registration.replicas, now_ms)
        return state

    def set_replicas(self, replicas: tuple[BrokerId, ...], now_ms: int) -> None:
        """Take over the replicas of the partition; what is known of those that stay is kept."""
        self.followers = {
            broker: self.followers.get(broker)
            or FollowerState(caught_up_ms=now_ms if broker in self.isr else 0)
            for broker in replicas
            if broker != self.broker_id
        }

    def committed(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> bool:
        """Take over what the controller wrote; whatever was proposed before is settled by it.

        Returns:
            Whether it was news: an older or the known partition epoch changes nothing.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.proposed_isr = None
        return True

    def put_out(self, before: tuple[BrokerId, ...]) -> None:
        """Wait no longer for those who were in the ISR before, or may not join it.

        A follower in a full directory has stopped to fetch, and the controller has taken it out.
        It was caught up until just now; the high watermark would wait for it all the same. It
        counts again from its next fetch on.
        """
        for broker in before:
            known = self.followers.get(broker)
            if known is not None and broker not in self.maximal_isr():
                self.followers[broker] = rules.put_out(known)

    def maximal_isr(self) -> frozenset[BrokerId]:
        """Return everybody who may be in the ISR as the controller has it."""
        return frozenset(self.isr + (self.proposed_isr or ()))

    def is_held_at(self, high_watermark: int) -> bool:
        """Return whether a member of the ISR has nothing beyond the high watermark."""
        followers = self.followers
        for broker in self.isr:
            state = followers.get(broker)
            if state is not None and state.end_offset <= high_watermark:
                return True
        return False

    def high_watermark(
        self, current: int, *, leader_end: int, min_isr: int, now_ms: int, lag_time_max_ms: int
    ) -> int:
        """Return the high watermark; it stands while the ISR is smaller than the minimum."""
        if len(self.isr) < min_isr:
            return current
        joining = rules.caught_up(self.followers, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms)
        waits_for = self.maximal_isr() | (joining & self.joinable.keys())
        return rules.high_watermark(
            current, leader_end=leader_end, followers=self.followers, waits_for=waits_for
        )

    def shrunk_isr(
        self, *, leader_end: int, now_ms: int, lag_time_max_ms: int
    ) -> tuple[BrokerId, ...] | None:
        """Return the ISR without members that lag too long; None if there is nothing to ask."""
        if self.proposed_isr is not None:
            return None
        out = rules.lagging(
            self.isr,
            self.followers,
            leader_end=leader_end,
            now_ms=now_ms,
            lag_time_max_ms=lag_time_max_ms,
        )
        return tuple(broker for broker in self.isr if broker not in out) if out else None

    def usable_isr(self) -> tuple[BrokerId, ...] | None:
        """Return the ISR without members that cannot be in it; None if there is nothing to ask.

        Usually the controller has already removed the replicas of a failed broker or directory. A
        member that is still in the ISR would stay for the whole lag time.
        """
        usable = tuple(
            broker for broker in self.isr if broker == self.broker_id or broker in self.joinable
        )
        return usable if self.proposed_isr is None and usable != self.isr else None

    def expanded_isr(self, follower: BrokerId, high_watermark: int) -> tuple[BrokerId, ...] | None:
        """Return the ISR with a follower that just fetched; None if it may not join now."""
        registered_epoch = self.joinable.get(follower)
        if self.proposed_isr is not None or follower in self.isr or registered_epoch is None:
            return None
        if not rules.may_join(
            self.followers[follower],
            high_watermark=high_watermark,
            leader_epoch_start=self.leader_epoch_start,
            registered_epoch=registered_epoch,
        ):
            return None
        return (*self.isr, follower)
