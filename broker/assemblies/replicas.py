"""The replicas with what fetches, moves and reports them, and the settings they go by."""

from __future__ import annotations

import asyncio
from functools import partial
from uuid import UUID

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.disks import Disks
from broker.config import BrokerConfig
from broker.disk.life.loading import load_logs
from broker.disk.life.revival import LoadingRules
from broker.following.fetcher import FetcherManager
from broker.following.lane_replicas import FetcherSettings
from broker.following.quota import ReplicationQuotas
from broker.placement import found_replicas
from broker.placement.directory_reports import DirectoryReports
from broker.replica.isr_updates import IsrUpdates
from broker.replica.registry import ReplicaRegistry
from broker.replica.topic_settings import SettingsOfTopics
from broker.replica_manager import ReplicaManager, ReplicationSettings
from broker.traffic import Traffic
from jbodlab.config.dynamic_keys import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE
from jbodlab.config.key_table import Values
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.peers.peer_pool import Address
from jbodlab.runtime.loop_clock import loop_ms
from jbodlab.runtime.outside import Outside
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicPartition


class Replicas:
    """The replicas of one broker.

    Args:
        config: The broker's.
        values: The settings in force.
        disks: The directories.
        link: To the controller.
        outside: Clocks and ids.
    """

    def __init__(
        self,
        config: BrokerConfig,
        values: Values,
        disks: Disks,
        link: ControllerLink,
        outside: Outside,
    ) -> None:
        self._config = config
        self._disks = disks
        self.registry = ReplicaRegistry(config.node_id)
        self.traffic = Traffic(outside.monotonic_s)
        self._topics = SettingsOfTopics(values)
        self._isr_updates = IsrUpdates(
            config.node_id,
            send=link.alter_partition,
            broker_epoch=link.broker_epoch,
            registered_epoch=self.registry.registered_epoch,
        )
        self._quotas = ReplicationQuotas.unlimited(partial(loop_ms, asyncio.get_running_loop()))
        fetchers = FetcherManager(
            _fetcher_settings(config),
            address_of=self._address_of,
            broker_epoch=link.broker_epoch,
            quota=self._quotas.follower,
            traffic=self.traffic,
        )
        self.reports = DirectoryReports(
            self.registry, disks.log_dirs, link.assignments, link.feed.is_new
        )
        self.manager = ReplicaManager(
            self.registry,
            ReplicationSettings(
                broker_id=config.node_id,
                lag_time_max_ms=config.replica_lag_time_max_ms,
                producer_id_expiration_ms=config.producer_id_expiration_ms,
                move_threads=config.move_threads,
                sends_consumers_away=config.sends_consumers_away,
            ),
            outside=outside,
            topics=self._topics,
            log_dirs=disks.log_dirs,
            fetchers=fetchers,
            isr_proposer=self._isr_updates,
            assigner=self.reports,
            remove_later=disks.remover.schedule,
            on_moved=disks.replica_moved,
            write_checkpoints=disks.lower_checkpoints,
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

    def put_strays_aside(self, image: MetadataImage) -> None:
        """Put logs aside whose replicas have left this broker while they were loaded."""
        self.manager.placement.put_strays_aside(self.loading_rules(image).replica_of)

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


def _fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    return FetcherSettings(
        broker_id=config.node_id,
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        partition_max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )
