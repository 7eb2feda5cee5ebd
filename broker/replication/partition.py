"""One replica: its role, its log, and everybody who waits for it.

States of a replica and what leads from one to another:

    LOADING   --log there-->  FOLLOWER | LEADER        metadata says which
    FOLLOWER  <--metadata-->  LEADER
    any       --directory or log failed-->  OFFLINE    --directory revived-->  LOADING
    any       --deleted or moved away-->    DELETED

A replica in LOADING knows its role already but has no log yet: the log is being created, or lies in
a directory that is offline and must not be created a second time. Whoever comes meanwhile waits for
the first case and is sent away in the second.

Everything here runs on the event loop and nothing waits, so each method sees and leaves a whole
state. The last thing each of them does is to tell those who wait: a produce request may wait for
records to be written or for the high watermark, a fetch for either or for news of any kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from broker.replication import isr as rules
from broker.replication.delayed import AppendQueue, AppendRequest, FetchQueue, WaitingAppend
from broker.replication.exchange import AppendResult, LeaderHint
from broker.replication.incoming import accept_batch
from broker.replication.leader_state import LeaderState
from broker.replication.partition_log import PartitionLog
from broker.replication.topic_settings import TopicSettings
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import NO_LEADER, BrokerId, DirectoryId, TopicId, TopicPartition
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.requests import IsrChangeResult

ALL_REPLICAS = -1
"""acks=all"""

logger = logging.getLogger(__name__)


class ReplicaState(Enum):
    """See the module's text."""

    LOADING = auto()
    FOLLOWER = auto()
    LEADER = auto()
    OFFLINE = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Monotonic and wall clock, both in ms."""

    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]


@dataclass(slots=True)
class IsrChanges:
    """How often the ISR of led partitions changed since the start, for whoever watches."""

    shrinks: int = 0
    expands: int = 0


class News(Enum):
    """What a fetch session is told of a partition."""

    RECORDS = auto()
    """There is more to read."""
    ROLE = auto()
    """Who waits must be answered: role, epoch or directory changed."""
    LATER = auto()
    """Something that may wait for the next answer."""


class SessionObserver(Protocol):
    """A fetch session that contains a partition."""

    def partition_changed(self, news: News) -> None:
        """Look at the partition again; called in the middle of its change."""


class IsrProposer(Protocol):
    """Carries proposed ISRs to the controller."""

    def propose_isr(self, partition: Partition, new_isr: tuple[BrokerId, ...]) -> None:
        """Ask for a new ISR; the answer comes back through `Partition.isr_answered`."""


class Partition:
    """A replica that this broker has, or should have."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        registration: PartitionRegistration,
        settings: TopicSettings,
        lag_time_max_ms: int,
        clock: Clock,
        isr_proposer: IsrProposer,
    ) -> None:
        self.broker_id = broker_id
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.registration = registration
        self.settings = settings
        self.state = ReplicaState.LOADING
        self.log: PartitionLog | None = None
        self.leader: LeaderState | None = None
        self.high_watermark = 0
        self.on_failed: Callable[[Partition, BaseException], None] | None = None
        self.isr_changes = IsrChanges()
        self.follower_fetches = FetchQueue()
        self.consumer_fetches = FetchQueue()
        self.fetch_sessions: dict[SessionObserver, None] = {}
        self._written_appends = AppendQueue()
        self._replicated_appends = AppendQueue()
        self._when_ready: list[Callable[[], None]] = []
        self._lag_time_max_ms = lag_time_max_ms
        self._clock = clock
        self._isr_proposer = isr_proposer
        self.is_held = False
        """Whether appends wait, for the moment in which the replica changes its directory."""
        self.promised: DirectoryId | None = None
        """The directory that the controller was told as this replica is about to move there."""
        self._when_released: list[Callable[[], None]] = []
        self.may_become_ready = True
        """Whether the log is being created: worth waiting for."""
        self.held_in: Path | None = None
        """Path of the directory that held the log of a replica that is OFFLINE, if it had one."""
        self.is_made_anew = False
        """Whether a log that is created now takes the place of the only one in sync.

        That one may be on a disk that is gone. Over as soon as the ISR names anybody else.
        """
        self.is_empty_heir = False
        """Whether it was made anew in that way, and must not lead; kept by `DirectoryReports`."""

    # What others ask

    @property
    def is_online(self) -> bool:
        """Whether there is a log that can be used."""
        return self.state in (ReplicaState.FOLLOWER, ReplicaState.LEADER)

    @property
    def leads_by_metadata(self) -> bool:
        """Whether the metadata names this broker as leader."""
        return self.registration.leader == self.broker_id

    @property
    def is_awaited(self) -> bool:
        """Whether this replica will lead as soon as its log is there."""
        return (
            self.state is ReplicaState.LOADING and self.may_become_ready and self.leads_by_metadata
        )

    @property
    def hint(self) -> LeaderHint | None:
        """Who leads instead; None if nobody does."""
        if self.registration.leader == NO_LEADER:
            return None
        return LeaderHint(
            leader=self.registration.leader, leader_epoch=self.registration.leader_epoch
        )

    @property
    def min_isr(self) -> int:
        """Size of the ISR that acks=all needs."""
        return rules.effective_min_isr(
            self.settings.min_insync_replicas, len(self.registration.replicas)
        )

    @property
    def waiting_count(self) -> int:
        """How many produce entries and fetches wait here."""
        return (
            len(self._written_appends)
            + len(self._replicated_appends)
            + len(self.follower_fetches)
            + len(self.consumer_fetches)
        )

    def leader_log(self) -> tuple[LeaderState, PartitionLog]:
        """Return what a leader has.

        Raises:
            KafkaError: this replica does not lead, with the code that says why.
        """
        if self.leader is not None and self.log is not None:
            return self.leader, self.log
        raise KafkaError(self.refusal())

    def refusal(self) -> ErrorCode:
        """Return the code for clients that take this replica for the leader."""
        if self.state is ReplicaState.DELETED:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Once the metadata names another leader, the client is better served with that one than
        # with the news that a disk here is dead.
        elsewhere = self.registration.leader not in (NO_LEADER, self.broker_id)
        if self.state is ReplicaState.OFFLINE and not elsewhere:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_epoch(self, leader_epoch: int) -> None:
        """Check the leader epoch that a request names; -1 is not checked.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if leader_epoch == -1 or leader_epoch == self.registration.leader_epoch:
            return
        if leader_epoch < self.registration.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the log is there, or it is clear that it never will be."""
        self._when_ready.append(callback)

    def hold(self) -> None:
        """Let appends wait, and whatever else changes the log."""
        assert self.log is not None
        assert not self.is_held
        self.is_held = True
        self.log.hold()

    def release(self) -> None:
        """Let what was held go on, in the order in which it came."""
        if not self.is_held:
            return
        self.is_held = False
        if self.log is not None:
            self.log.release()
        callbacks, self._when_released = self._when_released, []
        for callback in callbacks:
            callback()

    def when_released(self, callback: Callable[[], None]) -> None:
        """Call back when appends are no longer held."""
        assert self.is_held
        self._when_released.append(callback)

    def tell_sessions(self, news: News) -> None:
        """Have the fetch sessions of followers look at this partition again."""
        for observer in tuple(self.fetch_sessions):
            observer.partition_changed(news)

    # Roles

    def set_log(self, log: PartitionLog, high_watermark: int) -> None:
        """The log is there: take the role that the metadata has given meanwhile."""
        assert self.state is ReplicaState.LOADING
        self.log = log
        log.on_written = self._written
        log.on_failed = self._log_failed
        self.high_watermark = min(max(high_watermark, log.start_offset), log.written_end)
        if self.leads_by_metadata:
            self._begin_to_lead()
        else:
            self.state = ReplicaState.FOLLOWER
        self._ready()

    @property
    def is_without_log(self) -> bool:
        """Whether it has no log, and none is being created."""
        return self.state is ReplicaState.OFFLINE or (
            self.state is ReplicaState.LOADING and not self.may_become_ready
        )

    def reopen(self) -> None:
        """The directory is back, or may be done without: a log is there or will be created."""
        assert self.is_without_log
        self.state = ReplicaState.LOADING
        self.may_become_ready = True
        self.is_made_anew = self.is_empty_heir = False
        self.high_watermark = 0

    def no_log(self) -> None:
        """There will be no log: its directory is offline, though not known to be its own."""
        self.may_become_ready = False
        self._ready()

    def apply(self, registration: PartitionRegistration) -> bool:
        """Take over what the metadata says of this partition.

        Returns:
            Whether role or leader epoch are new; then a follower must turn to its leader.
        """
        old = self.registration
        if registration.partition_epoch < old.partition_epoch:
            return False
        self.registration = registration
        if registration.isr != (self.broker_id,):
            self.is_made_anew = self.is_empty_heir = False
        new_epoch = registration.leader_epoch > old.leader_epoch
        if self.leader is not None and self.leads_by_metadata:
            self._update_leader(registration)
        if not self.is_online:
            if new_epoch:
                self._wake_everybody()
            return new_epoch
        if not new_epoch:
            return False
        if self.leads_by_metadata:
            self._begin_to_lead()
        else:
            self._begin_to_follow()
        return True

    def set_joinable(self, joinable: Mapping[BrokerId, int]) -> None:
        """Take over who may be in the ISR; a change may release the high watermark."""
        leader = self.leader
        if leader is None:
            return
        if leader.joinable != joinable:
            leader.joinable = joinable
            self.advance_high_watermark()
        self._drop_unusable(leader)

    def go_offline(self, message: str) -> None:
        """The directory or the log has failed; nothing of it is touched any more."""
        if self.state in (ReplicaState.OFFLINE, ReplicaState.DELETED):
            return
        self.state = ReplicaState.OFFLINE
        self.held_in = None if self.log is None else self.log.log_dir.path
        self._drop_log()
        self._refuse_appends(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self._wake_everybody()

    def delete(self, moved: PartitionRegistration | None) -> PartitionLog | None:
        """The replica is no longer here; returns the log to be removed.

        Args:
            moved: State of a partition that lives on without this replica; None for a deleted one.
        """
        log = self.log
        self.state = ReplicaState.DELETED
        self._drop_log()
        if moved is None:
            self._refuse_appends(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self.registration = moved
            self._refuse_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_everybody()
        return log

    # Leading

    def append(self, request: AppendRequest, index: int, acks: int) -> None:
        """Append a client's batch, and let the request wait for as much as `acks` asks.

        Raises:
            KafkaError: nothing was appended.
        """
        leader, log = self.leader_log()
        if acks == ALL_REPLICAS and len(leader.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"the size of the current ISR {list(leader.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_isr} for partition {self.topic_partition}",
            )
        now_ms = self._clock.wall_ms()
        batch = accept_batch(request.entries[index].records, self.settings.limits, now_ms)
        duplicate = log.producers.check(batch.header)
        if duplicate is not None:
            # It needs no room, and tells the producer what it could not know.
            base_offset, required = duplicate.base_offset, duplicate.last_offset + 1
        else:
            log.check_room(batch.header.size)
            stored = log.append_as_leader(batch.data, batch.header, leader.leader_epoch)
            base_offset, required = stored.base_offset, stored.next_offset
        success = AppendResult(
            topic_partition=self.topic_partition,
            base_offset=base_offset,
            log_append_time_ms=now_ms if self.settings.limits.log_append_time else -1,
            log_start_offset=log.start_offset,
        )
        reached = self.high_watermark if acks == ALL_REPLICAS else log.written_end
        if reached >= required:
            request.settle(index, success)
            return
        queue = self._replicated_appends if acks == ALL_REPLICAS else self._written_appends
        queue.add(WaitingAppend(required, request, index, success))

    def follower_fetched(self, follower: BrokerId, fetch_offset: int, broker_epoch: int) -> None:
        """A follower asks from this offset: it has everything below.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH, this leader knows no such replica (yet).
        """
        leader, log = self.leader_log()
        known = leader.followers.get(follower)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        leader.followers[follower] = rules.after_fetch(
            known,
            fetch_offset=fetch_offset,
            leader_end=log.written_end,
            now_ms=self._clock.now_ms(),
            broker_epoch=broker_epoch,
        )
        if follower not in leader.isr:
            wanted = leader.expanded_isr(follower, self.high_watermark)
            if wanted is not None:
                self._propose(leader, wanted)
        if fetch_offset != known.end_offset:
            self.advance_high_watermark()

    def follower_had_all(self, follower: BrokerId, fetch_offset: int, at_ms: int) -> None:
        """Take notice that a follower fetched from here, the leader's end, until some time ago."""
        known = None if self.leader is None else self.leader.followers.get(follower)
        if self.leader is not None and known is not None and known.end_offset == fetch_offset:
            self.leader.followers[follower] = rules.had_all(known, at_ms)

    def shrink_isr(self) -> None:
        """Ask for an ISR without the members that lag too long."""
        if self.leader is None or self.log is None:
            return
        wanted = self.leader.shrunk_isr(
            leader_end=self.log.written_end,
            now_ms=self._clock.now_ms(),
            lag_time_max_ms=self._lag_time_max_ms,
        )
        if wanted is not None:
            self._propose(self.leader, wanted)

    def isr_answered(self, leader_epoch: int, result: IsrChangeResult) -> bool:
        """Take over the controller's answer to a proposed ISR; returns whether to ask again."""
        leader = self.leader
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
                self._isr_changed(leader, before)
                self._drop_unusable(leader)
                return False
            case ErrorCode.OPERATION_NOT_ATTEMPTED | ErrorCode.INELIGIBLE_REPLICA:
                leader.proposed_isr = None
                self.advance_high_watermark()
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

    def advance_high_watermark(self) -> None:
        """Compute the high watermark anew, and answer who waited for it."""
        leader, log = self.leader, self.log
        if leader is None or log is None:
            return
        reached = leader.high_watermark(
            self.high_watermark,
            leader_end=log.written_end,
            min_isr=self.min_isr,
            now_ms=self._clock.now_ms(),
            lag_time_max_ms=self._lag_time_max_ms,
        )
        if reached > self.high_watermark:
            self.high_watermark = reached
            self._replicated_appends.reached(reached)
            self.consumer_fetches.wake()
            self.tell_sessions(News.LATER)

    # Following

    def truncated(self) -> None:
        """The log was cut; the high watermark cannot lie beyond its end."""
        if self.log is not None:
            bounded = min(self.high_watermark, self.log.written_end)
            self.high_watermark = max(bounded, self.log.start_offset)

    def leader_says(self, high_watermark: int) -> None:
        """A follower takes over the leader's high watermark, as far as its log goes."""
        if self.log is not None and self.leader is None:
            bounded = min(high_watermark, self.log.written_end)
            self.high_watermark = max(bounded, self.log.start_offset)

    # Inside

    def _begin_to_lead(self) -> None:
        log = self.log
        assert log is not None
        self._refuse_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.state = ReplicaState.LEADER
        start_offset = log.end_offset
        log.assign_epoch(self.registration.leader_epoch)
        joinable = self.leader.joinable if self.leader is not None else {}
        self.leader = LeaderState.begin(
            self.broker_id, self.registration, start_offset, self._clock.now_ms()
        )
        self.leader.joinable = joinable
        logger.info(
            "leads %s in epoch %d from offset %d",
            self.topic_partition,
            self.registration.leader_epoch,
            start_offset,
            extra={
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
            },
        )
        self.advance_high_watermark()
        self._wake_everybody()

    def _begin_to_follow(self) -> None:
        assert self.log is not None
        self.state = ReplicaState.FOLLOWER
        self.leader = None
        self.log.tail.clear()
        self._refuse_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_everybody()

    def _update_leader(self, registration: PartitionRegistration) -> None:
        leader = self.leader
        assert leader is not None
        leader.set_replicas(registration.replicas, self._clock.now_ms())
        before = leader.isr
        if leader.committed(registration.isr, registration.partition_epoch):
            self._isr_changed(leader, before)

    def _isr_changed(self, leader: LeaderState, before: tuple[BrokerId, ...]) -> None:
        self.isr_changes.shrinks += len(leader.isr) < len(before)
        self.isr_changes.expands += len(leader.isr) > len(before)
        leader.put_out(before)
        level = logging.INFO if leader.isr != before else logging.DEBUG
        logger.log(
            level,
            "ISR of %s is now %s, partition epoch %d",
            self.topic_partition,
            list(leader.isr),
            leader.partition_epoch,
            extra={
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
            },
        )
        self.tell_sessions(News.LATER)
        self.advance_high_watermark()
        if len(leader.isr) < self.min_isr:
            self._replicated_appends.refuse_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _drop_unusable(self, leader: LeaderState) -> None:
        usable = leader.usable_isr()
        if usable is not None:
            self._propose(leader, usable)

    def _propose(self, leader: LeaderState, wanted: tuple[BrokerId, ...]) -> None:
        leader.proposed_isr = wanted
        self._isr_proposer.propose_isr(self, wanted)

    def _written(self) -> None:
        log = self.log
        if log is None or self.leader is None:
            return
        self._written_appends.reached(log.written_end)
        self.follower_fetches.wake()
        self.tell_sessions(News.RECORDS)
        self.advance_high_watermark()

    def _log_failed(self, error: BaseException) -> None:
        self.go_offline(str(error))
        if self.on_failed is not None:
            self.on_failed(self, error)

    def _drop_log(self) -> None:
        self.leader = None
        self.may_become_ready = False
        log, self.log = self.log, None
        if log is not None:
            log.fail()
        self.release()
        self._ready()

    def _refuse_appends(self, error_code: ErrorCode, message: str | None = None) -> None:
        hint = self.hint if error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
        for queue in (self._written_appends, self._replicated_appends):
            queue.refuse_all(error_code, message=message, hint=hint)

    def _wake_everybody(self) -> None:
        self.follower_fetches.wake(forced=True)
        self.consumer_fetches.wake(forced=True)
        self.tell_sessions(News.ROLE)

    def _ready(self) -> None:
        callbacks, self._when_ready = self._when_ready, []
        for callback in callbacks:
            callback()
        self._wake_everybody()
