"""Maintains the ISR of a partition that this broker leads.

The rules are in `isr` and `leader_state`. This module applies them when followers fetch or the
controller answers, and proposes changes to the controller. Without a leadership it does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from broker.replica.leading import isr as rules
from broker.replica.leading.isr import UNKNOWN_OFFSET
from broker.replica.leading.leader_state import LeaderState
from broker.replica.log import PartitionLog
from broker.replica.waiting import Waiters
from jbodlab.controller_api.requests import IsrChangeResult
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicPartition

logger = logging.getLogger(__name__)


class IsrChanges(msgspec.Struct):
    """How often the ISR of led partitions changed since the start, for whoever watches."""

    shrinks: int = 0
    expands: int = 0


class LedReplica(Protocol):
    """The replica whose ISR is kept."""

    topic_partition: TopicPartition
    high_watermark: int
    waiters: Waiters

    @property
    def leader(self) -> LeaderState | None:
        """Its state as leader."""

    @property
    def log(self) -> PartitionLog | None:
        """Its log."""

    def leader_log(self) -> tuple[LeaderState, PartitionLog]:
        """Return what a leader has; raises KafkaError if this one does not lead."""

    def advance_high_watermark(self) -> None:
        """Compute the high watermark anew."""

    def isr_changed(self) -> None:
        """Take notice that the committed ISR is another one."""


class InSyncReplicas:
    """The ISR of one replica's partition.

    Args:
        replica: The replica.
        propose: Asks the controller for an ISR; the answer comes to `answered`.
        now_ms: Clock that never goes back.
        lag_time_max_ms: How long a member may lag.
        changes: Counts.
    """

    def __init__(
        self,
        replica: LedReplica,
        *,
        propose: Callable[[tuple[BrokerId, ...]], None],
        now_ms: Callable[[], int],
        lag_time_max_ms: int,
        changes: IsrChanges,
    ) -> None:
        self._replica = replica
        self._propose_isr = propose
        self._now_ms = now_ms
        self._lag_time_max_ms = lag_time_max_ms
        self._changes = changes

    def follower_fetched(
        self,
        follower: BrokerId,
        fetch_offset: int,
        broker_epoch: int,
        start_offset: int = UNKNOWN_OFFSET,
    ) -> None:
        """A follower asks from this offset: it has everything below, from its log's start on.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH, this leader knows no such replica (yet).
        """
        replica = self._replica
        leader, log = replica.leader_log()
        known = leader.followers.get(follower)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        leader.followers[follower] = rules.after_fetch(
            known,
            fetch_offset=fetch_offset,
            start_offset=start_offset,
            leader_end=log.written_end,
            now_ms=self._now_ms(),
            broker_epoch=broker_epoch,
        )
        if follower not in leader.isr:
            wanted = leader.expanded_isr(follower, replica.high_watermark)
            if wanted is not None:
                self._propose(leader, wanted)
        if fetch_offset != known.end_offset:
            replica.advance_high_watermark()
        if start_offset != known.start_offset:
            replica.waiters.deletions.wake()

    def follower_had_all(self, follower: BrokerId, fetch_offset: int, at_ms: int) -> None:
        """Take notice that a follower fetched from here, the leader's end, until some time ago."""
        leader = self._replica.leader
        known = None if leader is None else leader.followers.get(follower)
        if leader is not None and known is not None and known.end_offset == fetch_offset:
            leader.followers[follower] = rules.had_all(known, at_ms)

    def shrink(self) -> None:
        """Ask for an ISR without the members that lag too long."""
        leader, log = self._replica.leader, self._replica.log
        if leader is None or log is None or not leader.followers:
            return
        wanted = leader.shrunk_isr(
            leader_end=log.written_end,
            now_ms=self._now_ms(),
            lag_time_max_ms=self._lag_time_max_ms,
        )
        if wanted is not None:
            self._propose(leader, wanted)

    def set_joinable(self, joinable: Mapping[BrokerId, int]) -> None:
        """Take over who may be in the ISR; a change may release the high watermark."""
        leader = self._replica.leader
        if leader is None:
            return
        if leader.joinable != joinable:
            leader.joinable = joinable
            self._replica.advance_high_watermark()
            self._replica.waiters.deletions.wake()
        self._drop_unusable(leader)

    def metadata_changed(self, registration: PartitionRegistration) -> None:
        """Take over what the metadata says of a partition that goes on to be led here."""
        leader = self._replica.leader
        assert leader is not None
        leader.set_replicas(registration.replicas, self._now_ms())
        before = leader.isr
        if leader.committed(registration.isr, registration.partition_epoch):
            self._changed(leader, before)

    def answered(self, leader_epoch: int, result: IsrChangeResult) -> bool:
        """Take over the controller's answer to a proposed ISR; returns whether to ask again."""
        leader = self._replica.leader
        if leader is None or leader.leader_epoch != leader_epoch or leader.proposed_isr is None:
            return False
        match result.error_code:
            case ErrorCode.NONE:
                # Also where the partition epoch is the known one: the metadata came first.
                before = leader.isr
                if not leader.committed(result.isr, result.partition_epoch):
                    if result.partition_epoch == leader.partition_epoch:
                        leader.proposed_isr = None
                    return False
                self._changed(leader, before)
                self._drop_unusable(leader)
                return False
            case ErrorCode.OPERATION_NOT_ATTEMPTED | ErrorCode.INELIGIBLE_REPLICA:
                refused, leader.proposed_isr = leader.proposed_isr, None
                if result.error_code is ErrorCode.INELIGIBLE_REPLICA:
                    # Such as one whose directory is FULL, which will not fetch any more.
                    leader.put_out(refused)
                self._replica.advance_high_watermark()
                return False
            case (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                | ErrorCode.UNKNOWN_TOPIC_ID
                | ErrorCode.FENCED_LEADER_EPOCH
                | ErrorCode.INVALID_UPDATE_VERSION
                | ErrorCode.INVALID_REQUEST
                | ErrorCode.NEW_LEADER_ELECTED
            ):
                # The metadata that explains it is on its way; until then it stays proposed.
                return False
            case _:
                return True

    def proposal_failed(self) -> None:
        """Take notice that what was proposed never left this broker; it may be proposed anew."""
        leader = self._replica.leader
        if leader is not None:
            leader.proposed_isr = None

    def _changed(self, leader: LeaderState, before: tuple[BrokerId, ...]) -> None:
        self._changes.shrinks += len(leader.isr) < len(before)
        self._changes.expands += len(leader.isr) > len(before)
        leader.put_out(before)
        topic_partition = self._replica.topic_partition
        logger.log(
            logging.INFO if leader.isr != before else logging.DEBUG,
            "ISR of %s is now %s, partition epoch %d",
            topic_partition,
            list(leader.isr),
            leader.partition_epoch,
            extra={"topic": topic_partition.topic, "partition": topic_partition.partition},
        )
        self._replica.isr_changed()

    def _drop_unusable(self, leader: LeaderState) -> None:
        usable = leader.usable_isr()
        if usable is not None:
            self._propose(leader, usable)

    def _propose(self, leader: LeaderState, wanted: tuple[BrokerId, ...]) -> None:
        leader.proposed_isr = wanted
        self._propose_isr(wanted)
