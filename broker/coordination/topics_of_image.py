"""The cluster's topics, as groups need to know them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.metadata_cache import MetadataCache
from jbodlab.vocabulary.ids import TopicId, TopicPartition


class CachedTopics:
    """Answers from the metadata that clients are told; see `broker.groups.topics.Topics`."""

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
