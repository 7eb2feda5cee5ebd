"""One replica: its role, its log, and the requests that wait for it.

`replica_state` defines the states and transitions; this module carries them out. It runs on the
event loop and never waits, so each method sees and leaves a consistent state. Each method ends by
notifying waiting requests (`waiters`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from broker.replica.leading import InSyncReplicas, IsrChanges, LeaderState, effective_min_isr
from broker.replica.log import PartitionLog
from broker.replica.partition import refusals
from broker.replica.partition.leadership import NOBODY, LeadershipListener
from broker.replica.partition.succession import Succession
from broker.replica.partition.topic_settings import TopicSettings
from broker.replica.replica_state import (
    Absent,
    Creating,
    DataLoss,
    Deleted,
    Following,
    Leading,
    Offline,
    ReplicaEvent,
    ReplicaState,
    check_transition,
)
from broker.replica.waiting import LeaderHint, Waiters
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    BrokerId,
    DirectoryId,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)

logger = logging.getLogger(__name__)


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """Monotonic and wall clock, both in ms."""

    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]


class Partition:
    """A replica that this broker has, or should have.

    Args:
        broker_id: Ours.
        topic_partition: Its name.
        topic_id: Of its topic; a topic of the same name may come later.
        registration: Its registration in the metadata.
        settings: Of its topic.
        lag_time_max_ms: How long a member of the ISR may lag.
        clock: The broker's clocks.
        propose_isr: Asks the controller for an ISR; the answer goes to `in_sync`.
        isr_changes: Where they are counted.
        on_failed: Called when the log failed by itself, after everybody was told.
        leadership: Hears of this replica's time as leader.
    """

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
        propose_isr: Callable[[Partition, tuple[BrokerId, ...]], None],
        isr_changes: IsrChanges,
        on_failed: Callable[[Partition, BaseException], None],
        leadership: LeadershipListener[Partition] = NOBODY,
    ) -> None:
        self.broker_id = broker_id
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.registration = registration
        self.settings = settings
        self.state: ReplicaState = Creating()
        self.log: PartitionLog | None = None
        """That of the state: the log, where there is one that can be used."""
        self.leader: LeaderState | None = None
        """That of the state: what it knows as leader, while it leads."""
        self.data_loss = DataLoss.NO
        self.high_watermark = 0
        self.waiters = Waiters()
        self.in_sync = InSyncReplicas(
            self,
            propose=partial(propose_isr, self),
            now_ms=clock.now_ms,
            lag_time_max_ms=lag_time_max_ms,
            changes=isr_changes,
        )
        self.promised: DirectoryId | None = None
        """The directory that the controller was told as this replica is about to move there."""
        self.is_held = False
        """Whether appends wait, for the moment in which the replica changes its directory."""
        self.succession = Succession(self._succeeded)
        self._failure = ""  # of the log, for clients
        self._lag_time_max_ms = lag_time_max_ms
        self._clock = clock
        self._on_failed = on_failed
        self._leadership = leadership

    # Questions of other parts

    @property
    def key(self) -> TopicIdPartition:
        """Its name in requests between brokers, and to the controller."""
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)

    @property
    def is_online(self) -> bool:
        """Whether there is a log that can be used."""
        return self.state.log is not None

    @property
    def is_without_log(self) -> bool:
        """Whether it has no log, and none is being created."""
        return isinstance(self.state, Offline | Absent)

    @property
    def held_in(self) -> Path | None:
        """Path of the directory that held the log of a replica that is offline, if it had one."""
        return self.state.held_in if isinstance(self.state, Offline) else None

    @property
    def leads_by_metadata(self) -> bool:
        """Whether the metadata names this broker as leader."""
        return self.registration.leader == self.broker_id

    @property
    def is_awaited(self) -> bool:
        """Whether this replica will lead as soon as its log is there."""
        return isinstance(self.state, Creating) and self.leads_by_metadata

    def leads_and_takes(self) -> tuple[LeaderState, PartitionLog] | None:
        """Return what a leader has that can append now; None of every other replica."""
        state = self.state
        if isinstance(state, Leading) and not (self.is_held or self.waiters.until_ready):
            return state.leader, state.log
        return None

    @property
    def must_wait(self) -> bool:
        """Whether nothing can be appended now, though perhaps soon; see `Waiters.when_ready`."""
        if isinstance(self.state, Leading):
            return self.is_held or bool(self.waiters.until_ready)
        return self.is_held or self.is_awaited or self.succession.is_awaited

    @property
    def is_last_in_sync(self) -> bool:
        """Whether the metadata counts on the records of this replica as on those of no other.

        The ISR consists of it alone, or it is an eligible leader replica, or the last known leader
        of a partition that has neither ISR nor eligible replicas.
        """
        registration = self.registration
        if registration.isr == (self.broker_id,) or self.broker_id in registration.elr:
            return True
        return (
            not registration.isr
            and not registration.elr
            and registration.last_known_elr == (self.broker_id,)
        )

    @property
    def awaits_another_leader(self) -> bool:
        """Whether nobody leads or is in sync, and another replica may have what this one lost.

        An election by hand would choose among them. Whose log is lost as well has nothing more.
        """
        registration = self.registration
        if registration.leader != NO_LEADER or registration.isr:
            return False
        replicas = zip(registration.replicas, registration.directories, strict=True)
        return any(replica != self.broker_id and held_in != LOST for replica, held_in in replicas)

    @property
    def hint(self) -> LeaderHint | None:
        """The leader instead; None if nobody leads."""
        return refusals.leader_hint(self.registration)

    @property
    def min_isr(self) -> int:
        """Size of the ISR that acks=all needs."""
        return effective_min_isr(self.settings.min_insync_replicas, len(self.registration.replicas))

    def leader_log(self) -> tuple[LeaderState, PartitionLog]:
        """Return what a leader has.

        Raises:
            KafkaError: this replica does not lead, with the code that says why.
        """
        state = self.state
        if isinstance(state, Leading):
            return state.leader, state.log
        raise KafkaError(self.refusal())

    def refusal(self) -> ErrorCode:
        """Return the code for clients that take this replica for the leader."""
        return refusals.refusal(self.state, self.registration, self.broker_id)

    def check_epoch(self, leader_epoch: int) -> None:
        """Check the leader epoch that a request names; raises KafkaError, see `refusals`."""
        if leader_epoch != self.registration.leader_epoch:
            refusals.check_epoch(leader_epoch, self.registration.leader_epoch)

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
        self.waiters.call_back()

    # Roles

    def creation_begun(self) -> None:
        """A log is being made: worth waiting for."""
        self._become(ReplicaEvent.CREATION_BEGUN, Creating())

    def set_log(self, log: PartitionLog, high_watermark: int) -> None:
        """The log is there: take the role that the metadata has given meanwhile."""
        log.on_written = self._written
        log.on_failed = self._log_failed
        log.on_blocked = self._log_blocked
        self.high_watermark = min(max(high_watermark, log.start_offset), log.written_end)
        if self.leads_by_metadata:
            self._begin_to_lead(ReplicaEvent.LOG_THERE, log)
        else:
            self._become(ReplicaEvent.LOG_THERE, Following(log))
        self.waiters.ready()

    def reopen(self) -> None:
        """The directory is back, or may be done without: a log is there or will be created."""
        self.succession.give_up()
        self._become(ReplicaEvent.MAY_RETURN, Creating())
        self.data_loss = DataLoss.NO
        self.high_watermark = 0

    def no_log(self) -> None:
        """There will be no log: its directory is offline, though not known to be its own."""
        self._become(ReplicaEvent.NO_DIRECTORY, Absent())
        self.waiters.ready()

    def note_made_anew(self) -> None:
        """The log is new or may lack records; an ISR of this replica alone may have lost some."""
        self.data_loss = DataLoss.SUSPECTED if self.is_last_in_sync else DataLoss.NO

    def must_not_lead(self) -> None:
        """The log replaced one that the ISR relied on; the controller is told that it is lost."""
        self.data_loss = DataLoss.REPORTED

    def apply(self, registration: PartitionRegistration) -> bool:
        """Take over what the metadata says of this partition.

        Returns:
            Whether role or leader epoch are new; then a follower must turn to its leader.
        """
        old = self.registration
        if registration.partition_epoch < old.partition_epoch:
            return False
        self.registration = registration
        is_reported = self.data_loss is DataLoss.REPORTED
        if not (self.is_last_in_sync or (is_reported and self.awaits_another_leader)):
            self.data_loss = DataLoss.NO
        new_epoch = registration.leader_epoch > old.leader_epoch
        if self.leader is not None and self.leads_by_metadata:
            self.in_sync.metadata_changed(registration)
        log = self.log
        if log is None:
            if self.succession.is_awaited and self.leads_by_metadata:
                # The controller has not heard of the failure yet.
                return new_epoch
            if new_epoch and not self.succession.leader_known():
                self.waiters.wake_everybody()
            return new_epoch
        if not new_epoch:
            return False
        if self.leads_by_metadata:
            self._begin_to_lead(ReplicaEvent.ROLE_GIVEN, log)
        else:
            self._begin_to_follow(log)
        return True

    def go_offline(self, message: str, held_in: Path | None = None) -> None:
        """The directory or the log has failed; nothing of it is touched any more.

        Args:
            message: Text for clients.
            held_in: Path of the directory that held the log, where that is not to be seen here.
        """
        if isinstance(self.state, Offline | Deleted):
            return
        if self.log is not None and held_in is None:
            held_in = self.log.log_dir.path
        self._failure = message
        if self.leader is not None and self.leader.has_successor:
            self.succession.begin()
        self._give_log_up(ReplicaEvent.FAILED, Offline(held_in))
        if not self.succession.is_awaited:
            self._succeeded()

    def delete(self, moved: PartitionRegistration | None) -> PartitionLog | None:
        """The replica is no longer here; returns the log to be removed.

        Args:
            moved: State of a partition that lives on without this replica; None for a deleted one.
        """
        log = self.log
        self.succession.cancel()
        self._give_log_up(ReplicaEvent.REMOVED, Deleted())
        if moved is None:
            self.waiters.refuse_appends(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self.registration = moved
            self.waiters.refuse_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=self.hint)
        self.waiters.wake_everybody()
        return log

    # Leading

    def advance_high_watermark(self) -> None:
        """Compute the high watermark anew, and answer who waited for it."""
        state = self.state
        # There is nothing above the end: thousands of quiet partitions are passed over quickly.
        if not isinstance(state, Leading) or self.high_watermark >= state.log.written_end:
            return
        leader, reached = state.leader, state.log.written_end
        if leader.followers:
            if leader.is_held_at(self.high_watermark):
                # As after most events: the next steps take longer.
                return
            reached = self._reached(leader, reached)
        if reached > self.high_watermark:
            self._committed(reached)

    def high_watermark_known(self, offset: int) -> None:
        """Take over what a replica knows to be committed before this leadership began.

        A follower hears of the high watermark later than the clients do, and a leader whose ISR is
        too small cannot find it out again: what was acknowledged could not be read. KIP-1166.
        """
        leader, log = self.leader, self.log
        if leader is None or log is None:
            return
        known = min(offset, leader.leader_epoch_start, log.written_end)
        if known > self.high_watermark:
            self._committed(known)

    def isr_changed(self) -> None:
        """Take notice that the committed ISR is another one."""
        leader = self.leader
        assert leader is not None
        self.waiters.isr_changed()
        self.advance_high_watermark()
        if len(leader.isr) < self.min_isr:
            self.waiters.replicated_appends.refuse_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    # Following

    def truncated(self) -> None:
        """The log was cut; the high watermark cannot lie beyond its end."""
        if (log := self.log) is not None:
            self.waiters.cut(log.end_offset, self.hint)
            bounded = min(self.high_watermark, log.written_end)
            self.high_watermark = max(bounded, log.start_offset)

    def leader_says(self, high_watermark: int) -> None:
        """A follower takes over the leader's high watermark, as far as its log goes."""
        if self.log is not None and self.leader is None:
            known = max(min(high_watermark, self.log.written_end), self.log.start_offset)
            if known != self.high_watermark:
                self.high_watermark = known
                self.waiters.replicated(known)

    # Inside

    def _become(self, event: ReplicaEvent, state: ReplicaState) -> None:
        check_transition(self.state, event, state)
        led = self.leader is not None
        self.state, self.log, self.leader = state, state.log, state.leader
        if led:
            self._leadership.leadership_ended(self)

    def _committed(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.waiters.replicated(high_watermark)
        if self._leadership is not NOBODY:
            self._leadership.committed(self, high_watermark)

    def _begin_to_lead(self, event: ReplicaEvent, log: PartitionLog) -> None:
        if (lost := log.lost_range) is not None:
            logger.error(
                "the leader of %s is missing offsets %d to %d, which its disk lost",
                self.topic_partition,
                *lost,
            )
        # A client that waits goes on to wait: a leader that stays has all that it has appended.
        before = self.leader
        start_offset = log.end_offset
        log.assign_epoch(self.registration.leader_epoch)
        leader = LeaderState.begin(
            self.broker_id, self.registration, start_offset, self._clock.now_ms()
        )
        if before is not None:
            leader.joinable, leader.refused = before.joinable, before.refused
        self._become(event, Leading(log, leader))
        logger.info(
            "leads %s in epoch %d from offset %d",
            self.topic_partition,
            self.registration.leader_epoch,
            start_offset,
            extra=self.topic_partition._asdict(),
        )
        self.advance_high_watermark()
        self._leadership.leadership_began(self, leader.leader_epoch)
        self.waiters.wake_everybody()

    def _begin_to_follow(self, log: PartitionLog) -> None:
        replicated = 0 if self.leader is None else self._reached(self.leader, log.end_offset)
        self.waiters.leadership_lost(replicated, self.hint)
        self._become(ReplicaEvent.ROLE_GIVEN, Following(log))
        if log.is_blocked:
            self._log_blocked()
        # Also what waited for room in the directory.
        self.waiters.call_back()
        log.tail.clear()
        self.waiters.wake_everybody()

    def _reached(self, leader: LeaderState, leader_end: int) -> int:
        """Return the high watermark of a leader whose own log goes so far."""
        if not leader.followers:
            return leader_end
        return leader.high_watermark(
            self.high_watermark,
            leader_end=leader_end,
            min_isr=self.min_isr,
            now_ms=self._clock.now_ms(),
            lag_time_max_ms=self._lag_time_max_ms,
        )

    def _written(self) -> None:
        state = self.state
        if isinstance(state, Leading):
            self.waiters.written(state.log.written_end)
            self.advance_high_watermark()
        elif isinstance(state, Following):
            # Batches that were appended while it led.
            self.waiters.written_appends.reached(state.log.written_end)

    def _log_blocked(self) -> None:
        """Send producers to the next leader if their batches cannot be written here for now."""
        if isinstance(self.state, Following):
            self.waiters.written_appends.refuse_all(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=self.hint
            )

    def _log_failed(self, error: BaseException) -> None:
        self.go_offline(str(error))
        self._on_failed(self, error)

    def _give_log_up(self, event: ReplicaEvent, state: ReplicaState) -> None:
        log = self.log
        self._become(event, state)
        if log is not None:
            log.fail()
        self.is_held = False
        self.waiters.call_back()
        self.waiters.wake_followers()

    def _succeeded(self) -> None:
        """Send the clients of a failed log away, to the next leader if there is one."""
        self.waiters.refuse_appends(self.refusal(), message=self._failure, hint=self.hint)
        self.waiters.ready()
