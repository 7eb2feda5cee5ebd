"""All replicas of this broker: builds what looks after them, and answers the handlers.

Source: `kafka.server.ReplicaManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.directory.logs_in_use import LogInUse, OwnedLog
from broker.fetch import offset_queries
from broker.fetch.closest_replica import ClosestReplica
from broker.fetch.fetch_sessions import FetchSessions
from broker.fetch.fetching import FetchService
from broker.fetch.log_dir_descriptions import describe_log_dirs
from broker.following.fetcher import FetcherManager
from broker.following.quota import ByteQuota
from broker.moves.future_throttle import MoveThrottle
from broker.moves.move_requests import RequestedMoves
from broker.moves.moves import RunningMoves
from broker.placement.directory_reports import DirectoryReports
from broker.placement.former_replicas import FormerReplica
from broker.placement.found_replicas import FoundLogs
from broker.placement.replica_placement import ReplicaPlacement
from broker.produce import record_deletion
from broker.produce.appends import AppendService
from broker.replica.client_requests import (
    READ_COMMITTED,
    AppendEntry,
    AppendResult,
    DeletedRecords,
    EpochAnswer,
    EpochQuery,
    FetchEntry,
    FetchParams,
    FetchResult,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
    RecordDeletion,
    SessionFetched,
    SessionRequest,
)
from broker.replica.clock import Clock
from broker.replica.directory_writer import WriteCheckpoints
from broker.replica.in_sync import IsrChanges
from broker.replica.leadership import NOBODY, LeadershipListener
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.topic_settings import SettingsOfTopics
from broker.replica_roles import ReplicaRoles
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.runtime.loop_clock import loop_ms
from jbodlab.runtime.outside import Outside
from jbodlab.storage.log.producer_state import ProducerEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicPartition

PRODUCER_EXPIRATION_CHECK_S = 600.0


class ReplicationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of this broker; times in ms."""

    broker_id: BrokerId
    lag_time_max_ms: int = 30_000
    producer_id_expiration_ms: int = 86_400_000
    move_threads: int | None = None
    """Moves between directories that copy at the same time; None: as many as directories."""
    sends_consumers_away: bool = False
    """Whether consumers read from a replica in their rack (KIP-392)."""
    move_rate: int | None = None
    """Bytes in a second that all of them may copy; None: without limit."""


class IsrProposer(Protocol):
    """Carries proposed ISRs to the controller."""

    def propose_isr(self, partition: Partition, new_isr: tuple[BrokerId, ...]) -> None:
        """Ask for a new ISR; the answer comes back through `Partition.in_sync`."""


class ReplicaManager:
    """The replicas of this broker by partition; lives on the event loop.

    Args:
        registry: Where the replicas are found.
        settings: This broker's.
        outside: Clocks, ids and locks.
        topics: Settings of topics.
        log_dirs: The directories.
        fetchers: Fetch for followers.
        isr_proposer: Carries ISR changes to the controller.
        assigner: Reports directories to the controller.
        on_moved: Called with source and target when a replica has changed its directory.
        remove_later: Has a `-delete` directory removed after a delay in ms.
        leader_quota: Of throttled replicas that are led here; None is without limit.

    Attributes:
        roles: Listens to the metadata and to the directories.
        moves: Between directories.
        placement: The logs in the directories.
        isr_changes: How often the ISR of led partitions changed.
        leaderships: Who follows the leaders of a topic's partitions, by its name.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        settings: ReplicationSettings,
        *,
        outside: Outside,
        topics: SettingsOfTopics,
        log_dirs: LogDirs,
        fetchers: FetcherManager,
        isr_proposer: IsrProposer,
        assigner: DirectoryReports,
        remove_later: Callable[[LogDir, Path, int], None],
        on_moved: Callable[[LogDir, LogDir], None],
        write_checkpoints: WriteCheckpoints,
        leader_quota: ByteQuota | None = None,
    ) -> None:
        self.registry = registry
        self._settings = settings
        self._topics = topics
        self._log_dirs = log_dirs
        self._fetchers = fetchers
        self._isr_proposer = isr_proposer
        self._loop = asyncio.get_running_loop()
        self._clock = Clock(now_ms=partial(loop_ms, self._loop), wall_ms=outside.wall_ms)
        self._timers: list[asyncio.TimerHandle] = []
        self.isr_changes = IsrChanges()
        self.leaderships: dict[str, LeadershipListener] = {}
        self._appends = AppendService(registry, self._loop, outside)
        closest = ClosestReplica(registry.rack_of) if settings.sends_consumers_away else None
        self._fetches = FetchService(registry, self._loop, leader_quota, closest)
        self._sessions = FetchSessions(
            self._fetches, self._loop, self._clock.now_ms, outside.random_bytes
        )
        self.placement = ReplicaPlacement(log_dirs, remove_later, write_checkpoints)
        self.moves = RunningMoves(
            log_dirs,
            self.placement,
            fetchers,
            assigner,
            asks_controller=lambda: registry.image.features.metadata_version >= JBOD_LEVEL,
            threads=settings.move_threads or len(log_dirs.all),
            throttle=MoveThrottle(
                settings.move_rate, clock=outside.monotonic_s, lock=outside.threads.lock()
            ),
            on_moved=on_moved,
        )
        self._requested_moves = RequestedMoves(registry, log_dirs, self.placement, self.moves)
        self.roles = ReplicaRoles(
            registry,
            new_partition=self._new_partition,
            topics=topics,
            log_dirs=log_dirs,
            placement=self.placement,
            fetchers=fetchers,
            moves=self.moves,
            assigner=assigner,
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
        await self.moves.stop()
        await self.placement.close()
        await self._fetchers.close()
        self._appends.close()

    def take_found(self, found: FoundLogs) -> None:
        """Take in the logs that were found at the start; replicas take them with the metadata."""
        self.placement.note_copies(found.copies, found.waiting)
        for each in found.replicas:
            self.placement.add_loaded(each.log, each.log_dir, each.high_watermark)
        for each in found.futures:
            self.moves.add_found(each.log, each.log_dir)
        for each in found.formers:
            former = FormerReplica.of(each.log, each.log_dir)
            self.moves.formers.keep(each.log.topic_partition, former)

    # What handlers ask

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append a client's batches; see `AppendService`."""
        return self._appends.append(entries, acks, timeout_ms)

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
        """Look offsets up; isolation 1 sees committed records only."""
        return self._loop.create_task(
            offset_queries.list_offsets(
                self.registry, entries, replica_id, read_committed=isolation == READ_COMMITTED
            )
        )

    def epoch_end_offset(self, query: EpochQuery) -> EpochAnswer:
        """Say where a leader epoch ends."""
        return offset_queries.epoch_end_offset(self.registry, query)

    def delete_records(
        self, deletions: Sequence[RecordDeletion], timeout_ms: int
    ) -> asyncio.Future[list[DeletedRecords]]:
        """Let logs that are led here begin later; see `record_deletion`."""
        return self._loop.create_task(
            record_deletion.delete_records(self.registry, deletions, timeout_ms)
        )

    def producers(self, topic_partition: TopicPartition) -> Sequence[tuple[int, ProducerEntry]]:
        """Return the producers that a replica remembers; raises KafkaError if there is none."""
        return self.registry.usable_log(topic_partition).producers.entries

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> asyncio.Future[list[LogDirDescription]]:
        """Describe every configured directory, with all replicas or those asked for."""
        return self._loop.create_task(
            describe_log_dirs(
                self._log_dirs, self.registry.online_replicas, self.moves.moves, topics
            )
        )

    def alter_log_dir(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Begin, redirect or cancel a move between directories; see `RequestedMoves`."""
        return self._requested_moves.alter(topic_partition, path)

    # What upkeep asks

    def logs_in(self, log_dir: LogDir) -> Sequence[LogInUse]:
        """Return the logs in a directory."""
        return [
            *self.registry.logs_in(log_dir),
            *self.placement.unused_in(log_dir),
            *self.moves.futures_in(log_dir),
        ]

    def all_in_sync(self, topic_partition: TopicPartition) -> bool:
        """Return whether every replica of a partition is known to be in the ISR."""
        return self.registry.all_in_sync(topic_partition)

    def log_start_moved(self, log: OwnedLog) -> None:
        """Take notice that retention let a log begin at a later offset."""
        self.registry.log_start_moved(log)

    # Inside

    def _new_partition(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        registration: PartitionRegistration,
    ) -> Partition:
        name = topic_partition.topic
        return Partition(
            broker_id=self._settings.broker_id,
            topic_partition=topic_partition,
            topic_id=topic_id,
            registration=registration,
            settings=self._topics.of_topic(self.registry.image.configs.topic(name)),
            lag_time_max_ms=self._settings.lag_time_max_ms,
            clock=self._clock,
            propose_isr=self._isr_proposer.propose_isr,
            isr_changes=self.isr_changes,
            on_failed=self.roles.log_failed,
            leadership=self.leaderships.get(name, NOBODY),
        )

    def _check_lag(self) -> None:
        for partition in self.registry.partitions():
            partition.in_sync.shrink()
            # A follower that is not in the ISR holds it back only as long as it is caught up.
            partition.advance_high_watermark()

    def _expire_producers(self) -> None:
        now_ms, expiration_ms = self._clock.wall_ms(), self._topics.producer_id_expiration_ms
        for _, log in self.registry.online_replicas():
            log.producers.expire(now_ms, expiration_ms)

    def _every(self, seconds: float, function: Callable[[], None]) -> None:
        position = len(self._timers)

        def fire() -> None:
            self._timers[position] = self._loop.call_later(seconds, fire)
            function()

        self._timers.append(self._loop.call_later(seconds, fire))
