"""The coordinators of this broker, and the topics in which they keep their state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.replicas import Replicas
from broker.config import BrokerConfig
from broker.coordination.coordinator_service import CoordinatorService
from broker.coordination.internal_topics import internal_topic
from broker.coordination.shard import ShardContext
from broker.groups.group_core import APPEND_ERRORS, GroupCore
from broker.metadata_cache import MetadataCache
from broker.produce.marker_appends import MarkerAppends
from jbodlab.controller_api.requests import NewTopic
from jbodlab.group_records import records
from jbodlab.group_records.records import GroupRecord
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.config_records import GROUP_RESOURCE
from jbodlab.runtime.environment import Environment
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TopicId, TopicPartition


class GroupCoordinator(CoordinatorService[GroupCore, GroupRecord]):
    """The group coordinators of one broker."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the offsets of deleted topics away."""
        if delta.deleted_topics:
            names = [topic.name for topic in delta.deleted_topics.values()]
            self.run(lambda core: core.topics_deleted(names))


class Coordinators:
    """The coordinators of one broker.

    Attributes:
        groups: The coordinators of groups.
        markers: Ends transactions in the partitions that this broker leads.

    Args:
        config: Settings of the broker.
        replicas: Replicas of the broker; each leader of an internal topic has a coordinator.
        link: The broker's link to the controller.
        environment: Clocks and ids.
    """

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        link: ControllerLink,
        environment: Environment,
    ) -> None:
        self._cache = link.cache
        self._settings = config.groups
        topics = CachedTopics(link.cache)
        self.groups = GroupCoordinator(
            GROUP_METADATA_TOPIC,
            replicas.registry,
            link.cache,
            ShardContext(
                new_core=lambda: GroupCore(
                    self._settings, topics, lambda: str(environment.new_id()), self._configs_of
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

    def stop(self) -> None:
        """Answer everybody who waits; coordinators end with the leadership of replicas anyway."""
        self.groups.stop()

    def internal_topic(self, name: str) -> NewTopic | None:
        """Return how a topic of the brokers' own is to be created; None for one not used."""
        if name != GROUP_METADATA_TOPIC:
            return None
        return internal_topic(
            name,
            num_partitions=self._settings.offsets_topic_num_partitions,
            replication_factor=self._settings.offsets_topic_replication_factor,
            segment_bytes=self._settings.offsets_topic_segment_bytes,
            registered_brokers=len(self._cache.image.cluster.brokers),
        )

    def _configs_of(self, group_id: str) -> Mapping[str, str]:
        return self._cache.image.configs.resource(GROUP_RESOURCE, group_id)


class CachedTopics:
    """Answers from the metadata that clients get; see `broker.groups.topics.Topics`."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._ids: frozenset[TopicId] = frozenset()
        self._names_version = -1
        self._topics: object = None

    def frozen(self) -> CachedTopics:
        """Return what stays as it is now, and may be read on another thread."""
        return CachedTopics(self._cache.frozen())

    @property
    def version(self) -> int:
        """Offset of the metadata."""
        return self._cache.image.offset

    @property
    def names_version(self) -> int:
        """The version at which it was last noticed that a topic had been created or deleted."""
        image = self._cache.image
        if image.topics is not self._topics:
            self._topics = image.topics
            ids = frozenset(image.topics.by_id)
            if ids != self._ids:
                self._ids, self._names_version = ids, image.offset
        return self._names_version

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self._cache.image.topics.by_name.keys()

    def topic_id(self, name: str) -> TopicId | None:
        """Return the id of a topic."""
        return self._cache.topic_id(name)

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic."""
        return self._cache.topic_name(topic_id)

    def partition_count(self, name: str) -> int:
        """Return how many partitions a topic has."""
        topic = self._cache.image.topics.by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def racks(self, name: str, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas."""
        image = self._cache.image
        found = self._cache.partition(TopicPartition(name, partition))
        brokers = () if found is None else map(image.cluster.brokers.get, found.replicas)
        return frozenset(
            broker.rack for broker in brokers if broker is not None and broker.rack is not None
        )
