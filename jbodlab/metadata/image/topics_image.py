"""Topics by id and by name, with their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; the partitions are keyed by their index."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionRegistration] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """Every topic; never mutated. Both maps hold the same values."""

    by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)

    def partition(self, topic_id: TopicId, index: int) -> PartitionRegistration | None:
        """Return the state of a partition, None if topic or partition do not exist."""
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(index)
