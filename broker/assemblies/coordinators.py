"""The coordinators of this broker, and the topics in which they keep their state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import asdict

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.replicas import Replicas
from broker.config import BrokerConfig
from broker.coordination.coordinator_service import CoordinatorService
from broker.coordination.internal_topics import internal_topic
from broker.coordination.shard import Shard, ShardContext
from broker.groups.group_core import APPEND_ERRORS, GroupCore
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.add_partitions_to_txn import AddPartitionsToTxnManager, Answers
from broker.produce.marker_appends import MarkerAppends
from broker.produce.transaction_admission import Part
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.transaction_markers.marker_sender import MarkerSender
from broker.transactions.decision import MarkersDue
from broker.transactions.requests import AddPartitions, VerifyPartitions
from broker.transactions.settings import TransactionSettings
from broker.transactions.transaction import EPOCH_BUMP_FROM
from broker.transactions.transaction_core import APPEND_ERRORS as TRANSACTION_APPEND_ERRORS
from broker.transactions.transaction_core import COMMIT_TIMEOUT_MS, TransactionCore
from jbodlab.controller_api.requests import NewTopic
from jbodlab.group_records import records
from jbodlab.group_records.records import GroupRecord
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.config_records import GROUP_RESOURCE
from jbodlab.metadata.records.features import TRANSACTION_VERSION
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.runtime.environment import Environment
from jbodlab.transaction_records import records as transaction_records
from jbodlab.transaction_records.records import TransactionRecord
from jbodlab.vocabulary import ids
from jbodlab.vocabulary.ids import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)


class GroupCoordinatorService(CoordinatorService[GroupCore, GroupRecord]):
    """The group coordinators of one broker."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the offsets of deleted topics away."""
        if delta.deleted_topics:
            names = [topic.name for topic in delta.deleted_topics.values()]
            now_ms = self._context.wall_ms()
            self.run(lambda core: core.topics_deleted(names, now_ms))


class TransactionCoordinatorService(CoordinatorService[TransactionCore, TransactionRecord]):
    """The transaction coordinators of one broker, and the markers that they have written.

    Args:
        registry: The replicas of this broker.
        cache: The metadata that clients get.
        settings: Of the broker.
        environment: Clocks and threads.
        markers: Brings markers to the leaders of partitions.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        cache: MetadataCache,
        settings: TransactionSettings,
        environment: Environment,
        markers: MarkerSender,
    ) -> None:
        self.markers = markers
        context = ShardContext(
            new_core=lambda: TransactionCore(settings, lambda: _transaction_version(cache)),
            codec=transaction_records,
            append_errors=TRANSACTION_APPEND_ERRORS,
            wall_ms=environment.wall_ms,
            commit_timeout_ms=lambda: COMMIT_TIMEOUT_MS,
            threads=environment.threads,
            bring_about=self._send_markers,
        )
        super().__init__(TRANSACTION_STATE_TOPIC, registry, cache, context)
        self._wall_ms = environment.wall_ms

    def leadership_ended(self, partition: Partition) -> None:
        """End a coordinator; the next one has its markers written anew."""
        super().leadership_ended(partition)
        self.markers.coordinator_ended(partition.topic_partition.partition)

    def answers_leader(self, parts: Sequence[Part]) -> asyncio.Future[Answers]:
        """Say of partitions whether the transaction of one producer has them, or add them.

        Raises:
            KafkaError: as `submit`; the future gets no others either.
        """
        first = parts[0]
        name = first.transaction.transactional_id
        question = VerifyPartitions(
            transactional_id=name,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            partitions=tuple(part.topic_partition for part in parts),
        )
        if not first.transaction.adds_partitions:
            return self.submit(name, question)
        added = AddPartitions(**asdict(question), transaction_version=EPOCH_BUMP_FROM)
        return self.submit(name, added)

    def _send_markers(
        self, shard: Shard[TransactionCore, TransactionRecord], due: MarkersDue
    ) -> None:
        def written(due: MarkersDue, partitions: tuple[TopicPartition, ...]) -> None:
            shard.run(lambda core: core.markers_written(due, partitions, self._wall_ms()))

        index = shard.partition.topic_partition.partition
        self.markers.send(index, shard.leader_epoch, due, written)


def _transaction_version(cache: MetadataCache) -> int:
    return cache.image.features.levels.get(TRANSACTION_VERSION, 0)


class Coordinators:
    """The coordinators of one broker.

    Attributes:
        groups: The coordinators of groups.
        transactions: The coordinators of transactions.
        markers: Ends transactions in the partitions that this broker leads.
        add_partitions: Asks the transaction coordinators of all brokers.

    Args:
        config: Settings of the broker.
        replicas: Replicas of the broker; each leader of an internal topic has a coordinator.
        link: The broker's link to the controller.
        environment: Clocks and ids.
        peers: How other brokers are reached.
    """

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        link: ControllerLink,
        environment: Environment,
        peers: ClientSecurity | None,
    ) -> None:
        self._cache = link.cache
        self._settings = config.groups
        self._transaction_settings = config.transactions
        self.groups = GroupCoordinatorService(
            GROUP_METADATA_TOPIC,
            replicas.registry,
            link.cache,
            ShardContext(
                new_core=lambda: GroupCore(
                    self._settings,
                    link.cache,
                    lambda: str(environment.new_id()),
                    lambda group_id: link.cache.image.configs.resource(GROUP_RESOURCE, group_id),
                ),
                codec=records,
                append_errors=APPEND_ERRORS,
                wall_ms=environment.wall_ms,
                commit_timeout_ms=lambda: self._settings.offsets_commit_timeout_ms,
                threads=environment.threads,
            ),
        )
        replicas.manager.leaderships[GROUP_METADATA_TOPIC] = self.groups
        self.markers = MarkerAppends(
            replicas.registry, self.groups, asyncio.get_running_loop(), environment.wall_ms
        )
        self.transactions = TransactionCoordinatorService(
            replicas.registry,
            link.cache,
            config.transactions,
            environment,
            MarkerSender(link.cache, config.node_id, self.markers, peers),
        )
        replicas.manager.leaderships[TRANSACTION_STATE_TOPIC] = self.transactions
        self.add_partitions = AddPartitionsToTxnManager(
            link.cache, config.node_id, self.transactions.answers_leader, peers
        )
        replicas.manager.appends.admission.coordinators = self.add_partitions.calls

    async def stop(self) -> None:
        """Answer everybody who waits; coordinators end with the leadership of replicas anyway."""
        self.groups.stop()
        self.transactions.stop()
        await self.transactions.markers.close()
        await self.add_partitions.close()

    def internal_topic(self, name: str) -> NewTopic | None:
        """Return how a topic of the brokers' own is to be created; None for one not used."""
        registered = len(self._cache.image.cluster.brokers)
        match name:
            case ids.GROUP_METADATA_TOPIC:
                return internal_topic(
                    name,
                    num_partitions=self._settings.offsets_topic_num_partitions,
                    replication_factor=self._settings.offsets_topic_replication_factor,
                    segment_bytes=self._settings.offsets_topic_segment_bytes,
                    registered_brokers=registered,
                )
            case ids.TRANSACTION_STATE_TOPIC:
                settings = self._transaction_settings
                return internal_topic(
                    name,
                    num_partitions=settings.transaction_state_log_num_partitions,
                    replication_factor=settings.transaction_state_log_replication_factor,
                    segment_bytes=settings.transaction_state_log_segment_bytes,
                    registered_brokers=registered,
                    min_isr=settings.transaction_state_log_min_isr,
                    compression="uncompressed",
                    extra=(("unclean.leader.election.enable", "false"),),
                )
            case _:
                return None
