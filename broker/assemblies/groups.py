"""The coordinators of groups, and the topic in which they keep their state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.replicas import Replicas
from broker.config import BrokerConfig
from broker.coordination.group_coordinator import GroupCoordinator
from broker.coordination.internal_topics import internal_topic
from broker.coordination.shard import ShardContext
from broker.coordination.topics_of_image import CachedTopics
from broker.groups.consumer.groups import ConsumerGroups
from broker.groups.shard import GroupShard
from jbodlab.controller_api.requests import NewTopic
from jbodlab.metadata.records.config_records import GROUP_RESOURCE
from jbodlab.runtime.outside import Outside
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC


class Groups:
    """The coordinators of one broker.

    Args:
        config: The broker's.
        replicas: Theirs are told of their leaders.
        link: To the controller.
        outside: Clocks and ids.
    """

    def __init__(
        self, config: BrokerConfig, replicas: Replicas, link: ControllerLink, outside: Outside
    ) -> None:
        self._cache = link.cache
        self._settings = config.groups
        self.coordinator = GroupCoordinator(
            replicas.registry,
            link.cache,
            ShardContext(
                new_core=partial(
                    GroupShard,
                    self._settings,
                    CachedTopics(link.cache),
                    lambda: str(outside.new_id()),
                    partial(ConsumerGroups, configs=self._configs_of),
                ),
                wall_ms=outside.wall_ms,
                commit_timeout_ms=lambda: self._settings.offsets_commit_timeout_ms,
                threads=outside.threads,
            ),
        )
        replicas.manager.leaderships[GROUP_METADATA_TOPIC] = self.coordinator

    def _configs_of(self, group_id: str) -> Mapping[str, str]:
        return self._cache.image.configs.resource(GROUP_RESOURCE, group_id)

    def internal_topic(self, name: str) -> NewTopic | None:
        """Return how a topic of the brokers' own is to be created."""
        return internal_topic(name, self._settings, len(self._cache.image.cluster.brokers))
