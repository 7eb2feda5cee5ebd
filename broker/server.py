"""Builds a broker from its parts; starts them in order of dependency, stops them backwards.

Start: directories, registration and metadata at the same time, logs, replicas, upkeep; then the
controller is asked to unfence this broker, and only then clients are served.

Stop: leadership is handed over, clients are sent away, followers stop, the directories are flushed,
marked as clean and unlocked.

Source: `kafka.server.BrokerServer`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from uuid import UUID

from broker.api.handlers import BrokerParts, ClientApis
from broker.config import BrokerConfig
from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.channel import ControllerChannel
from broker.controller_link.heartbeat import BrokerIdentity, BrokerLifecycle
from broker.controller_link.lifecycle import DirectoriesDegraded, LifecycleSettings
from broker.controller_link.metadata_feed import MetadataFeed
from broker.controller_link.registration_check import RegistrationCheck
from broker.dynamic_config import DynamicConfig
from broker.logdirs.checkpoints import CheckpointWriter
from broker.logdirs.condition import DegradedLogDirs
from broker.logdirs.condition_monitor import ConditionMonitor, ConditionSettings
from broker.logdirs.cordon import Cordon
from broker.logdirs.loading import close_log_dirs, load_logs
from broker.logdirs.log_dir import LogDir
from broker.logdirs.probe import LogDirProbe
from broker.logdirs.retention import DirectoryRemover, RetentionTask
from broker.logdirs.revival import LoadingRules, LogDirRevival
from broker.logdirs.slowness import SlowSettings
from broker.logdirs.startup import OpenedLogDirs, open_log_dirs
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.metrics import BrokerMetrics
from broker.network.listener import Listener
from broker.network.malloc import tune_malloc
from broker.replication import found_replicas
from broker.replication.directory_reports import DirectoryReports
from broker.replication.fetch_lane import Address, FetcherSettings
from broker.replication.fetcher import FetcherManager
from broker.replication.isr_updates import IsrUpdates
from broker.replication.quota import ReplicationQuotas
from broker.replication.replica_manager import ReplicaManager, ReplicationSettings
from broker.replication.topic_settings import SettingsOfTopics
from jbodlab.config_dynamic import (
    CORDONED_LOG_DIRS,
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVE_RATE,
)
from jbodlab.config_table import Values
from jbodlab.errors import JbodlabError
from jbodlab.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId, TopicPartition
from jbodlab.log.replica_log import LogConfig
from jbodlab.metadata_log.settings import metadata_log_settings
from jbodlab.metrics_endpoint import MetricsEndpoint, metrics_address
from jbodlab.records.metadata_version import CORDONED_DIRECTORIES_LEVEL
from jbodlab.requests import AlterPartitionRequest, AlterPartitionResponse

CONTROLLED_SHUTDOWN_TIMEOUT_S = 8.0
"""A container engine kills after ten seconds; Kafka waits five minutes."""
CLOSE_TIMEOUT_S = 30.0
LAST_WORD_TIMEOUT_S = 1.0

logger = logging.getLogger(__name__)


class BrokerStoppedError(JbodlabError):
    """The broker cannot go on; the text is the one line for the operator."""


class BrokerServer:
    """One broker process, from its configuration to its port."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._failed = asyncio.Event()
        self._failure: str | None = None
        self._is_last_word_wanted = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            BrokerStoppedError: a directory without which no broker can be is gone, or the
                controller could not be told of one in time.
            JbodlabError: the directories cannot be used.
            OSError: a listener cannot be bound.
        """
        opened = open_log_dirs(
            node_id=self._config.node_id,
            log_dirs=self._config.log_dirs,
            metadata_log_dir=self._config.metadata_log_dir,
            on_fatal=self._fatal,
        )
        self._build(opened)
        starting = asyncio.create_task(self._start(), name="start")
        ending = [
            asyncio.create_task(_wait(stop), name="stop"),
            asyncio.create_task(_wait(self._failed), name="failure"),
        ]
        try:
            await asyncio.wait([starting, *ending], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, *ending):
                task.cancel()
            await asyncio.gather(starting, *ending, return_exceptions=True)
            if self._is_last_word_wanted:
                await self._lifecycle.leave_at_once(LAST_WORD_TIMEOUT_S)
            else:
                await self._stop()
        if self._failure is not None:
            raise BrokerStoppedError(self._failure)

    def _build(self, opened: OpenedLogDirs) -> None:
        """Make all parts, those first that others need; nothing runs yet."""
        config = self._config
        node_id = config.node_id
        self._opened = opened
        self._log_dirs = opened.log_dirs
        self._cache = MetadataCache(node_id, config.inter_broker_listener_name)
        self._dynamic = DynamicConfig(node_id, config.values, config.log_dirs)
        self._channel = ControllerChannel(config.controller_address)
        self._lifecycle = BrokerLifecycle(
            identity=BrokerIdentity(
                broker_id=node_id,
                cluster_id=opened.cluster_id,
                listeners=config.advertised_listeners,
                rack=config.rack,
            ),
            settings=LifecycleSettings(
                heartbeat_interval_ms=config.heartbeat_interval_ms,
                session_timeout_ms=config.session_timeout_ms,
                initial_registration_timeout_ms=config.initial_registration_timeout_ms,
                log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
            ),
            channel=self._channel,
            online_directories=self._log_dirs.online_ids,
            applied_offset=lambda: self._feed.applied_offset,
            leads_in=self._leads_in,
            previous_broker_epoch=opened.previous_broker_epoch,
            on_shutdown_required=self._shutdown_required,
        )
        self._assignments = AssignmentSender(
            channel=self._channel,
            broker_id=node_id,
            broker_epoch=self._broker_epoch,
            is_replica=self._cache.is_replica,
        )
        self._remover = DirectoryRemover(self._log_dirs)
        self._reports = DirectoryReports(node_id, self._log_dirs, self._assignments)
        self._replicas = self._build_replicas()
        self._reports.watch(self._replicas)
        self._cordon = Cordon(lambda: self._log_dirs.all, self._lifecycle.directories_cordoned)
        self._dynamic.add_listener(self._settings_changed)
        self._conditions = self._build_conditions()
        # The controller is told of the directory first, and then of what else follows.
        for listener in (self._replicas, self._lifecycle, self._reports, self._conditions):
            self._log_dirs.add_failure_listener(listener)
        registration = RegistrationCheck(
            node_id,
            broker_epoch=self._broker_epoch,
            directory_count=len(config.log_dirs),
            online_directories=self._log_dirs.online_ids,
            register_again=self._lifecycle.register_again,
        )
        self._feed = MetadataFeed(
            channel=self._channel,
            metadata_dir=self._log_dirs.metadata_dir,
            broker_id=node_id,
            cluster_id=opened.cluster_id,
            listener=MetadataPublisher(
                self._replicas,
                self._cache,
                [self._reports, registration],
                settings=[self._dynamic],
            ),
            on_fatal=self._fatal,
            settings=metadata_log_settings(config.values),
        )
        address = metrics_address(config.values)
        self._metrics = (
            None if address is None else MetricsEndpoint(address, self._broker_metrics())
        )
        self._checkpoints = CheckpointWriter(
            self._log_dirs,
            self._replicas,
            high_watermark_interval_ms=config.high_watermark_checkpoint_interval_ms,
            recovery_point_interval_ms=config.recovery_point_checkpoint_interval_ms,
            log_start_interval_ms=config.log_start_checkpoint_interval_ms,
            initial_delay_ms=config.initial_task_delay_ms,
        )
        self._replicas.mover.swap.on_swapped = self._replica_moved
        self._retention = RetentionTask(
            self._log_dirs,
            self._replicas,
            check_interval_ms=config.retention_check_interval_ms,
            initial_delay_ms=config.initial_task_delay_ms,
        )
        self._probe = LogDirProbe(
            self._log_dirs,
            interval_ms=config.probe_interval_ms,
            deadline_ms=config.probe_deadline_ms,
            looked=self._conditions.looked,
        )
        self._revival = LogDirRevival(
            opened,
            self._replicas,
            rules=self._loading_rules,
            schedule_leftovers=self._schedule_leftovers,
        )
        # The replicas first: what follows depends on where they are now.
        for back in (
            self._cordon,
            self._replicas,
            self._conditions,
            self._probe,
            self._lifecycle,
            self._reports,
        ):
            self._log_dirs.add_return_listener(back)
        self._apis = ClientApis(
            BrokerParts(
                broker_id=node_id,
                cluster_id=opened.cluster_id,
                cache=self._cache,
                replicas=self._replicas,
                controller=self._channel,
                revival=self._revival,
                broker_epoch=self._broker_epoch,
                configs=self._dynamic,
                is_settled=self._cordon_is_registered,
                auto_create_topics=config.auto_create_topics_enable,
                log_dirs=lambda: self._log_dirs.all,
            )
        )
        self._listeners = [
            Listener(
                listener.name,
                listener.host,
                listener.port,
                self._apis.dispatcher,
                max_connections=config.max_connections,
                max_request_bytes=config.socket_request_max_bytes,
            )
            for listener in config.listeners
        ]

    def _broker_metrics(self) -> BrokerMetrics:
        return BrokerMetrics(
            log_dirs=self._log_dirs,
            replicas=self._replicas,
            assignments=self._assignments,
            lifecycle=self._lifecycle,
            feed=self._feed,
            conditions=self._conditions,
        )

    def _build_conditions(self) -> ConditionMonitor:
        config = self._config
        conditions = ConditionMonitor(
            self._log_dirs,
            ConditionSettings(
                reserved_bytes=config.log_dir_reserved_bytes,
                slow=SlowSettings(
                    threshold_ms=config.log_dir_slow_threshold_ms,
                    outlier_factor=config.log_dir_slow_outlier_factor,
                    min_ms=config.log_dir_slow_min_ms,
                    window_ms=config.log_dir_slow_window_ms,
                    moves_leaders=config.log_dir_slow_policy == "move",
                ),
            ),
            on_degraded=self._tell_degraded,
        )
        conditions.add_listener(self._replicas)
        return conditions

    def _build_replicas(self) -> ReplicaManager:
        config = self._config
        self._topics = SettingsOfTopics(self._dynamic.values)
        self._isr_updates = IsrUpdates(
            config.node_id,
            send=self._alter_partition,
            broker_epoch=self._broker_epoch,
            registered_epoch=self._registered_epoch,
        )
        loop = asyncio.get_running_loop()
        self._quotas = ReplicationQuotas.unlimited(lambda: int(loop.time() * 1000))
        self._fetchers = FetcherManager(
            FetcherSettings(
                broker_id=config.node_id,
                wait_max_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                partition_max_bytes=config.replica_fetch_max_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                backoff_ms=config.replica_fetch_backoff_ms,
                socket_timeout_ms=config.replica_socket_timeout_ms,
            ),
            address_of=self._address_of,
            broker_epoch=self._broker_epoch,
            quota=self._quotas.follower,
        )
        return ReplicaManager(
            ReplicationSettings(
                broker_id=config.node_id,
                lag_time_max_ms=config.replica_lag_time_max_ms,
                producer_id_expiration_ms=config.producer_id_expiration_ms,
                move_threads=config.move_threads,
            ),
            topics=self._topics,
            log_dirs=self._log_dirs,
            fetchers=self._fetchers,
            isr_proposer=self._isr_updates,
            assigner=self._reports,
            remove_later=self._remover.schedule,
            leader_quota=self._quotas.leader,
        )

    async def _start(self) -> None:
        if self._metrics is not None:
            await self._metrics.start()
        # The controller may have to be waited for; the copy of the metadata is read meanwhile.
        self._lifecycle.start()
        await self._feed.start()
        self._replicas.placement.note_earlier(self._feed.image, self._config.node_id)
        await self._lifecycle.wait_caught_up()
        # Before anything is loaded or placed by them.
        self._dynamic.update(self._feed.image)
        await self._load_logs()
        # Before anything is placed in a directory or appended there.
        await self._conditions.first_look(self._config.probe_deadline_ms)
        self._conditions.start()
        self._replicas.start()
        self._feed.begin_publishing()
        self._checkpoints.start()
        self._retention.start()
        self._probe.start()
        self._reports.start()
        await self._remover.schedule_leftovers(self._config.file_delete_delay_ms)
        self._revival.start()
        await self._reports.all_known()
        self._lifecycle.ready_to_unfence()
        await self._lifecycle.wait_unfenced()
        # What exists now lives as long as the process: collections need not look at it again. The
        # allocator is tuned only now, or it would keep what the imports needed and gave back.
        gc.collect()
        gc.freeze()
        tune_malloc()
        for listener in self._listeners:
            await listener.start()
        logger.info("broker %d serves clients", self._config.node_id)

    async def _load_logs(self) -> None:
        """Load the logs as the metadata wants them; see `ReplicaPlacement.add_loaded`."""
        rules = self._loading_rules()
        loaded = await load_logs(
            self._log_dirs, rules.is_stray, rules.log_config_of, is_ours=rules.is_ours
        )
        found = await found_replicas.settle(
            loaded,
            self._feed.image,
            self._config.node_id,
            any_offline=self._log_dirs.any_offline,
        )
        placement, mover = self._replicas.placement, self._replicas.mover
        placement.note_copies(found.copies, found.waiting)
        for each in found.replicas:
            placement.add_loaded(each.log, each.log_dir, each.high_watermark)
        for each in found.futures:
            mover.add_found(each.log, each.log_dir)

    def _loading_rules(self) -> LoadingRules:
        """Return what the metadata of this moment says of logs that may be found."""
        image = self._feed.image
        node_id = self._config.node_id

        def is_stray(topic_partition: TopicPartition, topic_id: UUID | None) -> bool:
            if topic_id is None:
                return True
            topic = image.topics.by_id.get(TopicId(topic_id))
            if topic is None or topic.name != topic_partition.topic:
                return True
            found = topic.partitions.get(topic_partition.partition)
            return found is None or node_id not in found.replicas

        def is_ours(topic_partition: TopicPartition) -> bool:
            topic = image.topics.by_name.get(topic_partition.topic)
            found = None if topic is None else topic.partitions.get(topic_partition.partition)
            return found is not None and node_id in found.replicas

        def log_config(topic: str) -> LogConfig:
            return self._topics.of_topic(image.configs.topic(topic)).log

        return LoadingRules(is_stray=is_stray, is_ours=is_ours, log_config_of=log_config)

    def _replica_moved(self, source: LogDir, target: LogDir) -> None:
        """Let the checkpoints follow a replica, where it is now first."""
        self._checkpoints.write_all(target)
        self._checkpoints.write_all(source)

    async def _schedule_leftovers(self, log_dir: LogDir) -> None:
        await self._remover.schedule_leftovers_in(log_dir, self._config.file_delete_delay_ms)

    async def _stop(self) -> None:
        """Stop in an orderly way; parts that were not started have nothing to stop."""
        if self._config.controlled_shutdown_enable and self._failure is None:
            await self._lifecycle.controlled_shutdown(CONTROLLED_SHUTDOWN_TIMEOUT_S)
        for listener in self._listeners:
            await listener.close()
        await self._apis.close()
        if self._metrics is not None:
            await self._metrics.close()
        # A directory that is not back by now comes back with the next start.
        await self._revival.stop()
        await self._probe.stop()
        await self._conditions.stop()
        # Before the logs are closed: none of these may meet a closed file.
        await self._retention.stop()
        await self._checkpoints.stop()
        await self._reports.stop()
        self._remover.stop()
        await self._feed.stop()
        await self._replicas.stop()
        await self._isr_updates.close()
        await self._assignments.stop()
        await close_log_dirs(
            self._log_dirs, self._replicas, self._broker_epoch(), timeout_s=CLOSE_TIMEOUT_S
        )
        await self._lifecycle.stop()
        await self._channel.close()
        await self._opened.release_locks(CLOSE_TIMEOUT_S)
        self._log_dirs.stop()

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._channel.alter_partition(request, self._config.request_timeout_ms / 1000)

    def _leads_in(self, directory: DirectoryId) -> bool:
        """Return whether this broker leads something in a directory that has failed."""
        leads = self._cache.leads
        return self._cache.leads_in(directory) or any(
            # The controller has not heard yet that the replica was in there.
            map(leads, self._assignments.pending_in(directory))
        )

    def _settings_changed(self, values: Values) -> None:
        """Put changed settings into force; the replicas take theirs with the metadata."""
        self._topics.use(values)
        self._quotas.leader.set_rate(values.integer(LEADER_RATE))
        self._quotas.follower.set_rate(values.integer(FOLLOWER_RATE))
        self._replicas.mover.set_rate(values.integer(MOVE_RATE))
        self._replicas.placement.by_bytes = values.text("log.dir.placement").lower() == "bytes"
        if self._cordon.apply(values.text(CORDONED_LOG_DIRS)):
            self._replicas.directories_opened()

    def _cordon_is_registered(self) -> bool:
        """Return whether the controller knows the cordoned directories, as the metadata shows."""
        image = self._cache.image
        registered = image.cluster.brokers.get(self._config.node_id)
        if registered is None or (image.features.metadata_version < CORDONED_DIRECTORIES_LEVEL):
            return True
        return set(registered.cordoned_directories or ()) == set(self._cordon.ids or ())

    def _tell_degraded(self, degraded: DegradedLogDirs) -> None:
        self._lifecycle.directories_degraded(
            DirectoriesDegraded(
                degraded=degraded.degraded, full=degraded.full, tolerated=degraded.tolerated
            )
        )

    def _broker_epoch(self) -> BrokerEpoch:
        return self._lifecycle.broker_epoch

    def _registered_epoch(self, broker_id: BrokerId) -> int | None:
        return self._replicas.registered_epoch(broker_id)

    def _address_of(self, broker_id: BrokerId) -> Address | None:
        """Return where a broker is reached by others."""
        broker = self._replicas.image.cluster.brokers.get(broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.name == self._config.inter_broker_listener_name:
                return endpoint.host, endpoint.port
        return None

    def _fatal(self, line: str) -> None:
        """End the process: it lost what it cannot be without."""
        self._is_last_word_wanted = True
        self._shutdown_required(line)

    def _shutdown_required(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            self._failed.set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
