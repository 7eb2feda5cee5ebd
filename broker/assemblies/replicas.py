"""The replicas with what fetches, moves and reports them, and the settings they go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.disks import Disks
from broker.clients.traffic import Traffic
from broker.config import BrokerConfig
from broker.disk.directory import LogDir, LogDirs, LogInUse, OwnedLog
from broker.disk.life import LoadingRules, load_logs
from broker.fetch.closest_replica import ClosestReplica
from broker.fetch.fetch_requests import LogDirDescription
from broker.fetch.fetch_sessions import FetchSessions
from broker.fetch.fetching import FetchService
from broker.fetch.log_dir_descriptions import describe_log_dirs
from broker.fetch.offset_queries import OffsetQueries
from broker.following.fetcher import FetcherManager
from broker.following.lane_replicas import FetcherSettings
from broker.following.quota import ByteQuota, ReplicationQuotas
from broker.metadata.replica_roles import ReplicaRoles
from broker.moves.future_throttle import MoveThrottle
from broker.moves.move_requests import RequestedMoves
from broker.moves.moves import RunningMoves
from broker.placement import found_replicas
from broker.placement.directory_reports import DirectoryReports
from broker.placement.former_replicas import FormerReplica
from broker.placement.found_replicas import FoundLogs
from broker.placement.replica_placement import ReplicaPlacement
from broker.produce.appends import AppendService
from broker.produce.record_deletion import delete_records
from broker.replica.leading import IsrChanges
from broker.replica.log import WriteCheckpoints
from broker.replica.partition import NOBODY, Clock, LeadershipListener, Partition, SettingsOfTopics
from broker.replica.registry import IsrUpdates, ReplicaRegistry
from jbodlab.config.dynamic_keys import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE
from jbodlab.config.key_table import Values
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import Address
from jbodlab.runtime.environment import Environment
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicPartition
from jbodlab.vocabulary.loop_clock import loop_ms

PRODUCER_EXPIRATION_CHECK_S = 600.0


class ReplicationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of this broker; times in ms."""

    broker_id: BrokerId
    lag_time_max_ms: int = 30_000
    num_replica_alter_log_dirs_threads: int | None = None
    """Moves between directories that copy at the same time; None: as many as directories."""
    selector_class: str | None = None
    """If not None, consumers read from a replica in their rack (KIP-392)."""


class ReplicaManager:
    """Cares for the replicas of a broker, and answers requests about them.

    Args:
        registry: Where the replicas are found.
        settings: This broker's.
        environment: Clocks, ids and locks.
        topics: Settings of topics.
        log_dirs: The directories.
        fetchers: Fetch for followers.
        propose_isr: Asks the controller for a new ISR; the answer comes back through
            `Partition.in_sync`.
        assigner: Reports directories to the controller.
        on_moved: Called with source and target when a replica has changed its directory.
        remove_later: Has a `-delete` directory removed after a delay in ms.
        leader_quota: Of throttled replicas that are led here; None is without limit.

    Attributes:
        appends: Of clients.
        fetches: Of consumers, and of followers without a session.
        sessions: Fetches of followers.
        offsets: Looks offsets up.
        delete_records: Lets logs that are led here begin later.
        move_requests: Moves between directories that were asked for.
        roles: Listens to the metadata and to the directories.
        moves: Between directories.
        placement: The logs in the directories.
        isr_changes: How often the ISR of led partitions changed.
        leaderships: Listeners to the leadership of a topic's partitions, by its name.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        settings: ReplicationSettings,
        *,
        environment: Environment,
        topics: SettingsOfTopics,
        log_dirs: LogDirs,
        fetchers: FetcherManager,
        propose_isr: Callable[[Partition, tuple[BrokerId, ...]], None],
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
        self._propose_isr = propose_isr
        self._loop = asyncio.get_running_loop()
        self._clock = Clock(now_ms=partial(loop_ms, self._loop), wall_ms=environment.wall_ms)
        self._timers: list[asyncio.TimerHandle] = []
        self.isr_changes = IsrChanges()
        self.leaderships: dict[str, LeadershipListener[Partition]] = {}
        self.appends = AppendService(registry, self._loop, environment)
        closest = ClosestReplica(registry.rack_of) if settings.selector_class is not None else None
        self.fetches = FetchService(registry, self._loop, leader_quota, closest)
        self.sessions = FetchSessions(
            self.fetches, self._loop, self._clock.now_ms, environment.random_bytes
        )
        self.offsets = OffsetQueries(registry)
        self.delete_records = partial(delete_records, registry)
        self.placement = ReplicaPlacement(log_dirs, remove_later, write_checkpoints)
        self.moves = RunningMoves(
            log_dirs,
            self.placement,
            fetchers,
            assigner,
            asks_controller=lambda: registry.image.features.metadata_version >= JBOD_LEVEL,
            threads=settings.num_replica_alter_log_dirs_threads or len(log_dirs.all),
            throttle=MoveThrottle(clock=environment.monotonic_s, lock=environment.threads.lock()),
            on_moved=on_moved,
        )
        self.move_requests = RequestedMoves(registry, log_dirs, self.placement, self.moves)
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
        """Stop fetchers, moves and creations; refuse the batches that are still being checked."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        await self.moves.stop()
        await self.placement.close()
        await self._fetchers.close()
        self.appends.close()

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

    # Questions

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> Coroutine[Any, Any, list[LogDirDescription]]:
        """Describe every configured directory, with all replicas or those asked for."""
        return describe_log_dirs(
            self._log_dirs, self.registry.online_replicas, self.moves.moves, topics
        )

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
            propose_isr=self._propose_isr,
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


class Replicas:
    """The replicas of one broker.

    Args:
        config: The broker's.
        values: The settings in force.
        disks: The directories.
        link: To the controller.
        environment: Clocks and ids.
        peers: How other brokers are reached.
    """

    def __init__(
        self,
        config: BrokerConfig,
        values: Values,
        disks: Disks,
        link: ControllerLink,
        environment: Environment,
        peers: ClientSecurity | None,
    ) -> None:
        self._config = config
        self._disks = disks
        self.registry = ReplicaRegistry(config.node_id)
        self.traffic = Traffic(environment.monotonic_s)
        self._topics = SettingsOfTopics(values)
        self._isr_updates = IsrUpdates(
            config.node_id,
            send=link.alter_partition,
            broker_epoch=link.broker_epoch,
            registered_epoch=self.registry.registered_epoch,
        )
        self._quotas = ReplicationQuotas.unlimited(partial(loop_ms, asyncio.get_running_loop()))
        fetchers = FetcherManager(
            config.values.settings(FetcherSettings, "replica.fetch.", broker_id=config.node_id),
            address_of=self._address_of,
            broker_epoch=link.broker_epoch,
            quota=self._quotas.follower,
            traffic=self.traffic,
            security=peers,
        )
        self.reports = DirectoryReports(
            self.registry, disks.log_dirs, link.assignments, link.feed.is_new
        )
        self.manager = ReplicaManager(
            self.registry,
            config.values.settings(ReplicationSettings, "replica.", broker_id=config.node_id),
            environment=environment,
            topics=self._topics,
            log_dirs=disks.log_dirs,
            fetchers=fetchers,
            propose_isr=self._isr_updates.propose_isr,
            assigner=self.reports,
            remove_later=disks.remover.schedule,
            on_moved=disks.replica_moved,
            write_checkpoints=lambda log_dir: disks.checkpoints.lower(log_dir),
            leader_quota=self._quotas.leader,
        )

    async def load(self, image: MetadataImage) -> None:
        """Load the logs as the metadata wants them; see `ReplicaPlacement.add_loaded`."""
        rules = self.loading_rules(image)
        log_dirs = self._disks.log_dirs
        loaded = await load_logs(
            log_dirs, rules.replica_of, rules.log_config_of, is_ours=rules.is_ours
        )
        self.manager.take_found(
            await found_replicas.settle(
                loaded, image, self._config.node_id, any_offline=log_dirs.any_offline
            )
        )

    def start(self) -> None:
        """Begin to look after the replicas; they come with the metadata."""
        self.manager.start()
        self.reports.start()

    async def stop(self) -> None:
        """Stop to follow, to move, to create and to report."""
        await self.reports.stop()
        await self.manager.stop()
        await self._isr_updates.close()

    def use_settings(self, values: Values) -> None:
        """Put changed settings into force; the replicas take theirs with the metadata."""
        self._topics.use(values)
        self._quotas.leader.set_rate(values.integer(LEADER_RATE))
        self._quotas.follower.set_rate(values.integer(FOLLOWER_RATE))
        self.manager.moves.set_rate(values.integer(MOVE_RATE))
        by_bytes = values.text("log.dir.placement").lower() == "bytes"
        self.manager.placement.spread_by_bytes(by_bytes)

    def loading_rules(self, image: MetadataImage) -> LoadingRules:
        """Return what an image of the metadata says of logs that may be found."""
        node_id = self._config.node_id

        def replica_of(topic_id: UUID | None, partition: int) -> TopicPartition | None:
            topic = None if topic_id is None else image.topics.by_id.get(TopicId(topic_id))
            found = None if topic is None else topic.partitions.get(partition)
            if topic is None or found is None or node_id not in found.replicas:
                return None
            return TopicPartition(topic.name, partition)

        def is_ours(topic_partition: TopicPartition) -> bool:
            topic = image.topics.by_name.get(topic_partition.topic)
            found = None if topic is None else topic.partitions.get(topic_partition.partition)
            return found is not None and node_id in found.replicas

        def log_config(topic: str) -> LogConfig:
            return self._topics.of_topic(image.configs.topic(topic)).log

        return LoadingRules(replica_of=replica_of, is_ours=is_ours, log_config_of=log_config)

    def _address_of(self, broker_id: BrokerId) -> Address | None:
        """Return where a broker is reached by others."""
        broker = self.registry.image.cluster.brokers.get(broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.name == self._config.inter_broker_listener_name:
                return endpoint.host, endpoint.port
        return None
