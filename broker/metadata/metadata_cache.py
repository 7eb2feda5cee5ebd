"""The metadata that clients are told: the current image, and questions to it.

The image is exchanged as a whole after the replicas have followed a change, so an answer never
mixes two states.

Source: `kafka.server.metadata.KRaftMetadataCache`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.cluster_records import BrokerEndpoint
from jbodlab.runtime.supervised import call_each
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    BrokerId,
    DirectoryId,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)

NO_BROKER = BrokerId(-1)


class BrokerNode(NamedTuple):
    """A broker as clients address it."""

    id: BrokerId
    host: str
    port: int
    rack: str | None


class MetadataCache:
    """Holds the current image; the topics of groups, too (`broker.groups.topics.Topics`).

    Args:
        broker_id: Ours.
        inter_broker_listener_name: A broker that has this listener can be named as controller.
    """

    def __init__(self, broker_id: BrokerId, inter_broker_listener_name: str) -> None:
        self._broker_id = broker_id
        self._listener_name = inter_broker_listener_name
        self.image = EMPTY
        """The state that clients are told; `publish` exchanges it."""
        self.listeners: list[Callable[[], None]] = []
        """Called after each exchange."""
        self._live: dict[str, list[BrokerNode]] = {}
        self._topic_ids: frozenset[TopicId] = frozenset()
        self._names_version = -1
        self._topics: object = None

    def is_for_brokers(self, listener_name: str) -> bool:
        """Return whether brokers find each other at a listener; clients may be there as well."""
        return listener_name == self._listener_name

    def frozen(self) -> MetadataCache:
        """Return what stays as it is now, for an answer that is worked out little by little."""
        return copy.copy(self)

    def publish(self, image: MetadataImage) -> None:
        """Exchange the image."""
        self.image = image
        self._live = {}
        call_each(self.listeners, "changed metadata")

    async def changed(self, within_s: float) -> None:
        """Wait until the image is exchanged, or that time is over."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def happened() -> None:
            if not change.done():
                change.set_result(None)

        self.listeners.append(happened)
        try:
            await asyncio.wait([change], timeout=within_s)
        finally:
            self.listeners.remove(happened)

    @property
    def version(self) -> int:
        """Offset of the image."""
        return self.image.offset

    @property
    def names_version(self) -> int:
        """The version at which it was last noticed that a topic had been created or deleted."""
        topics = self.image.topics
        if topics is not self._topics:
            self._topics = topics
            ids = frozenset(topics.by_id)
            if ids != self._topic_ids:
                self._topic_ids, self._names_version = ids, self.image.offset
        return self._names_version

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self.image.topics.by_name.keys()

    def topic_id(self, name: str) -> TopicId | None:
        """Return the id of a topic."""
        topic = self.image.topics.by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic."""
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic."""
        topic = self.image.topics.by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def racks(self, name: str, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas."""
        found = self.partition(TopicPartition(name, partition))
        brokers = () if found is None else map(self.image.cluster.brokers.get, found.replicas)
        return frozenset(
            broker.rack for broker in brokers if broker is not None and broker.rack is not None
        )

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        """Return the state of a partition."""
        topic = self.image.topics.by_name.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def coordinator(self, topic: str, key: str) -> tuple[TopicPartition, BrokerId] | None:
        """Return the partition of a coordinators' topic that a key belongs to, and its leader.

        None where there is no such topic.
        """
        found = self.image.topics.by_name.get(topic)
        if found is None:
            return None
        index = coordinator_partition(key, len(found.partitions))
        registration = found.partitions.get(index)
        leader = NO_LEADER if registration is None else registration.leader
        return TopicPartition(topic, index), leader

    def live_brokers(self, listener_name: str) -> Sequence[BrokerNode]:
        """Return the brokers that are registered, not fenced and have a listener, by id."""
        live = self._live.get(listener_name)
        if live is None:
            live = self._live[listener_name] = [
                BrokerNode(broker_id, endpoint.host, endpoint.port, registration.rack)
                for broker_id, registration in sorted(self.image.cluster.brokers.items())
                if (endpoint := _endpoint(registration, listener_name)) is not None
            ]
        return live

    def peer(self, broker_id: BrokerId) -> BrokerNode | None:
        """Return a live broker as other brokers address it."""
        live = self.live_brokers(self._listener_name)
        return next((node for node in live if node.id == broker_id), None)

    def offline_replicas(
        self, partition: PartitionRegistration, listener_name: str
    ) -> list[BrokerId]:
        """Return the replicas that clients cannot count on, in replica order.

        That is each one whose broker is not registered, is fenced or lacks the listener, or whose
        directory is offline there.
        """
        return [
            broker_id
            for broker_id, directory in zip(partition.replicas, partition.directories, strict=True)
            if self._is_offline(broker_id, directory, listener_name)
        ]

    def controller_id(self) -> BrokerId:
        """Return the broker that clients send requests for the controller to; -1 if none lives.

        Controllers serve no clients. This broker names itself where it can; every broker forwards.
        """
        live = [node.id for node in self.live_brokers(self._listener_name)]
        if self._broker_id in live:
            return self._broker_id
        return next(iter(live), NO_BROKER)

    def is_replica(self, partition: TopicIdPartition) -> bool:
        """Return whether this broker is a replica of a partition."""
        found = self.image.topics.partition(partition.topic_id, partition.partition)
        return found is not None and self._broker_id in found.replicas

    def leads(self, partition: TopicIdPartition) -> bool:
        """Return whether this broker leads a partition."""
        found = self.image.topics.partition(partition.topic_id, partition.partition)
        return found is not None and found.leader == self._broker_id

    def leads_in(self, directory_id: DirectoryId) -> bool:
        """Return whether this broker leads a partition that the metadata has in a directory."""
        return any(
            partition.leader == self._broker_id
            and partition.directory(self._broker_id) == directory_id
            for topic in self.image.topics.by_id.values()
            for partition in topic.partitions.values()
        )

    def _endpoint(self, broker_id: BrokerId, listener_name: str) -> BrokerEndpoint | None:
        registration = self.image.cluster.brokers.get(broker_id)
        return None if registration is None else _endpoint(registration, listener_name)

    def _is_offline(self, broker_id: BrokerId, directory: DirectoryId, listener_name: str) -> bool:
        registration = self.image.cluster.brokers.get(broker_id)
        return (
            registration is None
            or _endpoint(registration, listener_name) is None
            or not registration.directory_is_online(directory)
        )


def _endpoint(registration: BrokerRegistration, listener_name: str) -> BrokerEndpoint | None:
    """Return a live broker's address at a listener."""
    if registration.fenced:
        return None
    return next((each for each in registration.endpoints if each.name == listener_name), None)
