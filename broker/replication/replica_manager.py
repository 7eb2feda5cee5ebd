"""All replicas of this broker: made, turned and ended by the metadata; asked by the handlers.

A metadata delta is applied in the order deletions, leaders, followers, settings, brokers. Each
partition is handled for itself: one that cannot be does not keep the others from it.

Source: `kafka.server.ReplicaManager`, KIP-858.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from broker.logdirs.hosted import HostedLog
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.replication import offset_queries
from broker.replication.delayed import AppendRequest
from broker.replication.describe import describe_log_dirs
from broker.replication.exchange import (
    AppendEntry,
    AppendResult,
    EpochAnswer,
    EpochQuery,
    FetchEntry,
    FetchParams,
    FetchResult,
    LeaderHint,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
    SessionFetched,
    SessionRequest,
)
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.fetcher import FetcherManager
from broker.replication.fetching import HINTED, FetchService
from broker.replication.future_throttle import MoveThrottle
from broker.replication.move_wishes import MoveWishes
from broker.replication.partition import (
    Clock,
    IsrChanges,
    IsrProposer,
    News,
    Partition,
    ReplicaState,
)
from broker.replication.partition_log import PartitionLog
from broker.replication.quota import ByteQuota
from broker.replication.replica_mover import ReplicaMover
from broker.replication.replica_placement import ReplicaPlacement
from broker.replication.returning_replicas import ReturningReplicas, is_last_in_sync
from broker.replication.topic_settings import SettingsOfTopics
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError, LogDirError
from jbodlab.ids import (
    NO_LEADER,
    BrokerId,
    DirectoryId,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from jbodlab.image.metadata_delta import MetadataDelta
from jbodlab.image.metadata_image import EMPTY, MetadataImage
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.log.replica_log import ReplicaLog
from jbodlab.records.config_records import BROKER_RESOURCE, TOPIC_RESOURCE
from jbodlab.records.metadata_version import JBOD_LEVEL

ACKS = (-1, 0, 1)
PRODUCER_EXPIRATION_CHECK_S = 600.0

logger = logging.getLogger(__name__)


class Assigner(Protocol):
    """Tells the controller where replicas are."""

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        """Report the directory of a replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Settings of this broker; times in ms."""

    broker_id: BrokerId
    lag_time_max_ms: int = 30_000
    producer_id_expiration_ms: int = 86_400_000
    move_threads: int | None = None
    """Moves between directories that copy at the same time; None: as many as directories."""
    move_rate: int | None = None
    """Bytes in a second that all of them may copy; None: without limit."""


class ReplicaManager:
    """The replicas of this broker by partition; lives on the event loop.

    Args:
        settings: This broker's.
        topics: Settings of topics.
        log_dirs: The directories; `log_dir_failed` must be called when one fails.
        fetchers: Fetch for followers.
        isr_proposer: Carries ISR changes to the controller.
        assigner: Reports directories to the controller.
        remove_later: Has a `-delete` directory removed after a delay in ms.
        leader_quota: Of throttled replicas that are led here; None is without limit.
    """

    def __init__(
        self,
        settings: ReplicationSettings,
        *,
        topics: SettingsOfTopics,
        log_dirs: LogDirs,
        fetchers: FetcherManager,
        isr_proposer: IsrProposer,
        assigner: Assigner,
        remove_later: Callable[[LogDir, Path, int], None],
        leader_quota: ByteQuota | None = None,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._fetchers = fetchers
        self._isr_proposer = isr_proposer
        self._assigner = assigner
        self._loop = asyncio.get_running_loop()
        self._clock = Clock(
            now_ms=lambda: int(self._loop.time() * 1000), wall_ms=lambda: int(time.time() * 1000)
        )
        self._partitions: dict[TopicPartition, Partition] = {}
        self._image = EMPTY
        self._fetches = FetchService(self, self._loop, leader_quota)
        self._sessions = FetchSessions(self._fetches, self._loop, self._clock.now_ms)
        self._timers: list[asyncio.TimerHandle] = []
        self.isr_changes = IsrChanges()
        self.log_dirs = log_dirs
        self.placement = ReplicaPlacement(log_dirs, remove_later)
        self.mover = ReplicaMover(
            log_dirs,
            self.placement,
            fetchers,
            assigner,
            asks_controller=lambda: self._image.features.metadata_version >= JBOD_LEVEL,
            threads=settings.move_threads or len(log_dirs.all),
            throttle=MoveThrottle(settings.move_rate),
        )
        self._wishes = MoveWishes(self, self.placement, self.mover)
        self._returning = ReturningReplicas(
            settings.broker_id,
            self,
            self.placement,
            open_replica=partial(self._guard, self._open),
            take_offline=self._take_offline,
            take_future=self._take_future,
        )

    # Life

    def start(self) -> None:
        """Begin to look for lagging followers and silent producers, now and then."""
        self._timers = []
        self._every(self._settings.lag_time_max_ms / 2000, self._check_lag)
        self._every(PRODUCER_EXPIRATION_CHECK_S, self._expire_producers)

    async def stop(self) -> None:
        """Stop to follow and to create; who still waits is told that this broker leads no more."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        await self.mover.stop()
        await self.placement.close()
        await self._fetchers.close()

    # What the metadata says

    @property
    def image(self) -> MetadataImage:
        """The metadata that the replicas follow."""
        return self._image

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Bring the replicas to what a new image says."""
        self._image = image
        for topic_id, topic in delta.deleted_topics.items():
            for index in topic.partitions:
                self._guard(self._stop, TopicPartition(topic.name, index), topic_id)
        leaders, followers = [], []
        for key, registration in delta.changed_partitions.items():
            topic_partition = TopicPartition(image.topics.by_id[key.topic_id].name, key.partition)
            if self._settings.broker_id not in registration.replicas:
                self._guard(self._stop, topic_partition, key.topic_id, registration)
            elif registration.leader == self._settings.broker_id:
                leaders.append((topic_partition, key.topic_id, registration))
            else:
                followers.append((topic_partition, key.topic_id, registration))
        for change in (*leaders, *followers):
            self._guard(self._apply, *change)
        self._apply_settings(delta)
        if delta.changed_brokers:
            for partition in self._partitions.values():
                if partition.leader is not None:
                    partition.set_joinable(self._joinable(partition))
        if self._settings.broker_id in delta.changed_brokers:
            self._returning.registration_changed()

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Take all replicas in a directory offline; touches none of its files."""
        failed = 0
        for partition in list(self._partitions.values()):
            log = partition.log
            if log is not None and log.log_dir is log_dir:
                failed += 1
                self._guard(self._take_offline, partition, str(error))
                log_dir.clean_up(log.log.abandon)
        self.mover.log_dir_failed(log_dir)
        logger.warning(
            "%d replicas in log directory %s (%s) are offline",
            failed,
            log_dir.path,
            log_dir.id_text,
            extra=log_dir.log_fields(),
        )

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Let followers stop where a directory is full; with room again they and others go on."""
        self._fetchers.log_dir_condition_changed(log_dir)
        self.mover.log_dir_condition_changed(log_dir)
        if not log_dir.condition.is_full:
            self.directories_opened()

    def directories_opened(self) -> None:
        """Create the replicas that no directory took: one has room again, or is uncordoned."""
        for partition in list(self._partitions.values()):
            if partition.state is ReplicaState.LOADING and not partition.may_become_ready:
                # There may have been no directory with room for it.
                self._guard(self._open, partition)

    def unsettled(self, log_dir: LogDir) -> str:
        """Return why the replicas of a failed directory may not come back; see `LogDirRevival`."""
        return self._returning.unsettled(log_dir)

    def topic_partitions_in_use(self) -> frozenset[TopicPartition]:
        """Return the replicas of which no other copy may come back."""
        return self._returning.topic_partitions_in_use()

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[HostedLog]) -> None:
        """Give the logs of a revived directory to the replicas that miss them."""
        self._returning.log_dir_returned(former, log_dir, logs)

    # What handlers ask

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append a client's batches; offsets are given out before this returns."""
        request = AppendRequest(self._loop, entries)
        for index in range(len(entries)):
            if acks in ACKS:
                self._append_entry(request, index, acks)
            else:
                request.refuse(index, ErrorCode.INVALID_REQUIRED_ACKS)
        request.time_out_after(self._loop, timeout_ms)
        return request.future

    def fetch(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[list[FetchResult]]:
        """Read, waiting for data as long as the parameters allow."""
        return self._fetches.fetch(params, entries)

    def fetch_in_session(
        self, params: FetchParams, session: SessionRequest, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[SessionFetched]:
        """Read for a follower that names only what changed; see `fetch_sessions`.

        Raises:
            KafkaError: there is no such session, or the epoch is not its next one.
        """
        return self._sessions.fetch(params, session, entries)

    def hurry_session(self, session_id: int) -> None:
        """Let the waiting fetch of a session be answered now."""
        self._sessions.hurry(session_id)

    def list_offsets(
        self, entries: Sequence[OffsetQuery], replica_id: BrokerId, isolation: int
    ) -> asyncio.Future[list[OffsetAnswer]]:
        """Look offsets up; without transactions both isolation levels see the same."""
        del isolation
        return self._loop.create_task(offset_queries.list_offsets(self, entries, replica_id))

    def epoch_end_offsets(self, entries: Sequence[EpochQuery]) -> list[EpochAnswer]:
        """Say where leader epochs end."""
        return offset_queries.epoch_end_offsets(self, entries)

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> asyncio.Future[list[LogDirDescription]]:
        """Describe every configured directory, with all replicas or those asked for."""
        return self._loop.create_task(
            describe_log_dirs(
                self.log_dirs, list(self.online_replicas()), list(self.mover.moves()), topics
            )
        )

    def alter_log_dirs(
        self, wanted: Mapping[TopicPartition, str]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Begin, redirect or cancel moves between directories; see `MoveWishes`."""
        return self._wishes.alter(wanted)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the replica that this broker has."""
        return self._partitions.get(topic_partition)

    def refusal(self, topic_partition: TopicPartition) -> tuple[ErrorCode, LeaderHint | None]:
        """Return what clients are told of a partition without a replica here."""
        topic = self._image.topics.by_name.get(topic_partition.topic)
        state = None if topic is None else topic.partitions.get(topic_partition.partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        hint = None
        if state.leader not in (NO_LEADER, self._settings.broker_id):
            hint = LeaderHint(leader=state.leader, leader_epoch=state.leader_epoch)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, hint

    def registered_epoch(self, broker_id: BrokerId) -> int | None:
        """Return the broker epoch of a registered broker."""
        registration = self._image.cluster.brokers.get(broker_id)
        return None if registration is None else registration.epoch

    # What upkeep and shutdown ask

    def online_replicas(self) -> Iterator[tuple[Partition, PartitionLog]]:
        """Return the replicas that have a usable log."""
        for partition in self._partitions.values():
            if partition.log is not None and not partition.log.failed:
                yield partition, partition.log

    def hosted_in(self, log_dir: LogDir) -> Sequence[HostedLog]:
        """Return the logs in a directory; to be used on its thread only."""
        hosted = [
            HostedLog(log.log, partition.high_watermark)
            for partition, log in self.online_replicas()
            if log.log_dir is log_dir
        ]
        return [*hosted, *self.placement.unused_in(log_dir), *self.mover.futures_in(log_dir)]

    def log_start_moved(self, log: ReplicaLog, log_start_offset: int) -> None:
        """Take notice that retention let a log begin at a later offset."""
        partition = self._partitions.get(log.topic_partition)
        if partition is not None and partition.log is not None and partition.log.log is log:
            partition.log.start_moved(log_start_offset)
            partition.tell_sessions(News.LATER)

    def partitions(self) -> Iterator[Partition]:
        """Return all replicas that this broker has or should have."""
        return iter(self._partitions.values())

    @property
    def offline_count(self) -> int:
        """Replicas whose directory or log has failed."""
        return sum(p.state is ReplicaState.OFFLINE for p in self._partitions.values())

    # Inside

    def _append_entry(self, request: AppendRequest, index: int, acks: int) -> None:
        topic_partition = request.entries[index].topic_partition
        partition = self._partitions.get(topic_partition)
        if partition is None:
            code, hint = self.refusal(topic_partition)
            request.refuse(index, code, hint=hint)
            return
        if partition.is_awaited:
            partition.when_ready(partial(self._append_entry, request, index, acks))
            return
        if partition.is_held:
            partition.when_released(partial(self._append_entry, request, index, acks))
            return
        try:
            partition.append(request, index, acks)
        except KafkaError as error:
            hint = partition.hint if error.code in HINTED else None
            request.refuse(index, error.code, message=error.message or None, hint=hint)
        except Exception:
            logger.exception("append to %s failed", topic_partition)
            request.refuse(index, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _apply(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        registration: PartitionRegistration,
    ) -> None:
        partition = self._partitions.get(topic_partition)
        if partition is not None and partition.topic_id != topic_id:
            # A new topic of the same name. What lies in an offline directory stays there.
            self._stop(topic_partition, partition.topic_id)
            partition = None
        if partition is None:
            partition = self._partitions[topic_partition] = self._new_partition(
                topic_partition, topic_id, registration
            )
            self._open(partition)
            return
        turned = partition.apply(registration)
        if partition.state is ReplicaState.LOADING and not partition.may_become_ready:
            self._open(partition)
        if partition.is_online:
            self._role_taken(partition, turned=turned)

    def _new_partition(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        registration: PartitionRegistration,
    ) -> Partition:
        partition = Partition(
            broker_id=self._settings.broker_id,
            topic_partition=topic_partition,
            topic_id=topic_id,
            registration=registration,
            settings=self._topics.of_topic(self._image.configs.topic(topic_partition.topic)),
            lag_time_max_ms=self._settings.lag_time_max_ms,
            clock=self._clock,
            isr_proposer=self._isr_proposer,
        )
        partition.on_failed = self._log_failed
        partition.isr_changes = self.isr_changes
        return partition

    def _open(self, partition: Partition) -> None:
        found = self.placement.find(partition.topic_partition, partition.topic_id)
        if found is not None:
            partition.set_log(*found)
            if self.placement.was_copy(partition.topic_partition):
                # It may lack records that the ISR vouches for.
                partition.is_made_anew = is_last_in_sync(partition)
            self._role_taken(partition, turned=True)
            self.mover.replica_opened(partition)
            return
        assigned = partition.registration.directory(self._settings.broker_id)
        task = self.placement.create(
            partition.topic_partition, partition.topic_id, partition.settings.log, assigned
        )
        if task is None:
            if partition.may_become_ready:
                logger.warning(
                    "no log for %s: it may lie in an offline directory, or none takes new replicas",
                    partition.topic_partition,
                )
            partition.no_log()
            if self.log_dirs.any_offline:
                partition.is_made_anew = is_last_in_sync(partition)
            return
        partition.may_become_ready = True
        task.add_done_callback(partial(self._created, partition))

    def _created(self, partition: Partition, task: asyncio.Task[PartitionLog | None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        log = None if error is not None else task.result()
        if error is not None:
            logger.error("creating %s failed", partition.topic_partition, exc_info=error)
        if log is None:
            self._take_offline(partition, f"no directory for {partition.topic_partition}")
        elif partition.state is ReplicaState.DELETED:
            self.placement.delete(partition.topic_partition, log)
        elif not log.log_dir.is_online:
            # It failed when the log was just there; nobody knew yet that it held this replica.
            log.log_dir.clean_up(log.log.abandon)
            self._take_offline(partition, str(log.log_dir.error()))
            partition.held_in = log.log_dir.path
        else:
            partition.set_log(log, 0)
            self._role_taken(partition, turned=True)
            self.mover.replica_opened(partition)

    def _role_taken(self, partition: Partition, *, turned: bool) -> None:
        """Do what belongs to the role: fetch or not, know who may join, report the directory."""
        assert partition.log is not None
        if partition.leader is not None:
            self._fetchers.unfollow(partition.topic_partition)
            partition.set_joinable(self._joinable(partition))
        elif turned and not partition.is_held:
            self._fetchers.follow(partition)
        actual = partition.log.log_dir.directory_id
        assigned = partition.registration.directory(self._settings.broker_id)
        if (
            actual is not None
            and actual != assigned
            and self._image.features.metadata_version >= JBOD_LEVEL
        ):
            self._assigner.assign(partition.topic_id, partition.topic_partition.partition, actual)

    def _joinable(self, partition: Partition) -> dict[BrokerId, int]:
        """Return the other replicas that may be in the ISR, with their broker epochs."""
        joinable: dict[BrokerId, int] = {}
        registration = partition.registration
        for broker_id, directory in zip(
            registration.replicas, registration.directories, strict=True
        ):
            broker = self._image.cluster.brokers.get(broker_id)
            if broker_id == self._settings.broker_id or broker is None or not broker.active:
                continue
            if broker.directory_is_online(directory):
                joinable[broker_id] = broker.epoch
        return joinable

    def _stop(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        moved: PartitionRegistration | None = None,
    ) -> None:
        partition = self._partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic_id:
            return
        del self._partitions[topic_partition]
        self._fetchers.unfollow(topic_partition)
        log = partition.delete(moved)
        self.mover.cancel(topic_partition)
        if log is not None:
            self.placement.delete(topic_partition, log)

    def _take_offline(self, partition: Partition, message: str) -> None:
        self._fetchers.unfollow(partition.topic_partition)
        partition.go_offline(message)
        self.mover.replica_offline(partition.topic_partition)

    def _take_future(self, log: ReplicaLog, log_dir: LogDir) -> None:
        """Take in a future replica that was found on a disk."""
        partition = self._partitions.get(log.topic_partition)
        if partition is None or partition.topic_id != log.topic_id:
            self.placement.put_aside(log.topic_partition, log, log_dir)
            return
        self.mover.add_found(log, log_dir)
        if partition.is_online:
            self.mover.replica_opened(partition)

    def _log_failed(self, partition: Partition, error: BaseException) -> None:
        """A write failed; the directory's own failure has told everybody already."""
        self._fetchers.unfollow(partition.topic_partition)
        self.mover.replica_offline(partition.topic_partition)
        if not isinstance(error, LogDirError):
            logger.error(
                "log of %s failed, the replica is offline: %s",
                partition.topic_partition,
                error,
                extra={
                    "topic": partition.topic_partition.topic,
                    "partition": partition.topic_partition.partition,
                },
            )

    def _apply_settings(self, delta: MetadataDelta) -> None:
        changed = {name for kind, name in delta.changed_configs if kind == TOPIC_RESOURCE}
        of_us = {(BROKER_RESOURCE, ""), (BROKER_RESOURCE, str(self._settings.broker_id))}
        everywhere = not of_us.isdisjoint(delta.changed_configs)
        if not changed and not everywhere:
            return
        for partition in self._partitions.values():
            name = partition.topic_partition.topic
            if everywhere or name in changed:
                partition.settings = self._topics.of_topic(self._image.configs.topic(name))
                if partition.log is not None:
                    # One reference is replaced by another; the thread sees one or the other.
                    partition.log.log.config = partition.settings.log
                partition.advance_high_watermark()

    def _check_lag(self) -> None:
        for partition in self._partitions.values():
            partition.shrink_isr()
            # A follower that is not in the ISR holds it back only as long as it is caught up.
            partition.advance_high_watermark()

    def _expire_producers(self) -> None:
        now_ms, expiration_ms = self._clock.wall_ms(), self._topics.producer_id_expiration_ms
        for _, log in self.online_replicas():
            log.expire_producers(now_ms, expiration_ms)

    def _every(self, seconds: float, function: Callable[[], None]) -> None:
        position = len(self._timers)

        def fire() -> None:
            self._timers[position] = self._loop.call_later(seconds, fire)
            function()

        self._timers.append(self._loop.call_later(seconds, fire))

    def _guard(self, function: Callable[..., None], *arguments: object) -> None:
        """Do something for one partition; what goes wrong there is logged and stays there."""
        try:
            function(*arguments)
        except Exception:
            logger.exception("%s failed for %s", function.__name__, arguments[0])


def is_replica(image: MetadataImage, broker_id: BrokerId, key: TopicIdPartition) -> bool:
    """Return whether a broker is a replica of a partition."""
    state = image.topics.partition(key.topic_id, key.partition)
    return state is not None and broker_id in state.replicas
