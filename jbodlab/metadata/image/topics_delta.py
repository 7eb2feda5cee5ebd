"""Changes to topics and partitions.

Each topic that is touched has one `TopicDelta`; the maps of all topics are copied once, at the end,
and the partitions of a topic only if some of them changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.topics_image import TopicImage, TopicsImage
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition


class TopicDelta:
    """Changes to one topic; ``changed`` holds the new states by partition index."""

    __slots__ = ("changed", "image")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.changed: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration:
        """Return the state of a partition after the changes so far."""
        state = self.changed.get(index) or self.image.partitions.get(index)
        if state is None:
            raise ReplayError(f"record for unknown partition {self.image.name}-{index}")
        return state

    def clear_elr(self) -> None:
        """Forget the eligible leader replicas of all partitions."""
        for index in self.image.partitions.keys() | self.changed.keys():
            old = self.partition(index)
            new = old.without_elr()
            if new is not old:
                self.changed[index] = new

    def apply(self) -> TopicImage:
        """Return the topic after the changes."""
        return TopicImage(
            name=self.image.name,
            topic_id=self.image.topic_id,
            partitions={**self.image.partitions, **self.changed},
        )


class TopicsDelta:
    """Changes to a TopicsImage."""

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.deleted: dict[TopicId, TopicImage] = {}
        """Topics of the old image that were deleted."""
        self.created: dict[TopicId, str] = {}
        """Names of topics that the old image lacks and that still exist."""
        self._changed: dict[TopicId, TopicDelta] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the delta has no change."""
        return not self._changed and not self.deleted

    @property
    def changed_partitions(self) -> Mapping[TopicIdPartition, PartitionRegistration]:
        """New states of created and changed partitions of topics that still exist."""
        return {
            TopicIdPartition(topic_id, index): state
            for topic_id, topic in self._changed.items()
            for index, state in topic.changed.items()
        }

    def create_topic(self, record: TopicRecord) -> None:
        """Begin a topic without partitions."""
        self._changed[record.topic_id] = TopicDelta(
            TopicImage(name=record.name, topic_id=record.topic_id)
        )
        self.created[record.topic_id] = record.name

    def put_partition(self, record: PartitionRecord) -> None:
        """Create a partition, or replace its whole state."""
        state = PartitionRegistration.from_record(record)
        self._topic(record.topic_id).changed[record.partition_id] = state

    def change_partition(self, record: PartitionChangeRecord) -> None:
        """Merge a change into a partition."""
        topic = self._changed.get(record.topic_id) or self._topic(record.topic_id)
        index = record.partition_id
        topic.changed[index] = topic.partition(index).merge(record)

    def remove_topic(self, topic_id: TopicId) -> str:
        """Remove a topic with its partitions; returns its name."""
        topic = self._topic(topic_id).image
        del self._changed[topic_id]
        self.created.pop(topic_id, None)
        old = self.image.by_id.get(topic_id)
        if old is not None:
            self.deleted[topic_id] = old
        return topic.name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Forget the eligible leader replicas of one topic, or of all without a name."""
        for topic_id in list(self._topic_ids(record.topic_name)):
            topic = self._topic(topic_id)
            topic.clear_elr()
            if not topic.changed and topic_id not in self.created:
                del self._changed[topic_id]

    def become(self, target: TopicsImage) -> None:
        """Change all parts that differ from a given image."""
        for topic_id, old in self.image.by_id.items():
            if topic_id not in target.by_id:
                self.deleted[topic_id] = old
        for topic_id, new in target.by_id.items():
            base = self.image.by_id.get(topic_id)
            if base is None:
                base = TopicImage(name=new.name, topic_id=topic_id)
                self.created[topic_id] = new.name
            delta = TopicDelta(base)
            delta.changed = {
                index: state
                for index, state in new.partitions.items()
                if base.partitions.get(index) != state
            }
            if delta.changed or topic_id in self.created:
                self._changed[topic_id] = delta

    def apply(self) -> TopicsImage:
        """Return the image after the changes."""
        if self.is_empty:
            return self.image
        by_id = dict(self.image.by_id)
        by_name = dict(self.image.by_name)
        for topic_id, deleted in self.deleted.items():
            by_id.pop(topic_id, None)
            by_name.pop(deleted.name, None)
        # After the deletions, because a deleted name may have been used again.
        for topic_id, delta in self._changed.items():
            topic = delta.apply()
            by_id[topic_id] = topic
            by_name[topic.name] = topic
        return TopicsImage(by_id=by_id, by_name=by_name)

    def _topic(self, topic_id: TopicId) -> TopicDelta:
        delta = self._changed.get(topic_id)
        if delta is None:
            image = self.image.by_id.get(topic_id)
            if image is None or topic_id in self.deleted:
                raise ReplayError(f"record for topic {topic_id}, which does not exist")
            delta = self._changed[topic_id] = TopicDelta(image)
        return delta

    def _topic_ids(self, name: str) -> Iterable[TopicId]:
        if not name:
            existing = self.image.by_id.keys() - self.deleted.keys()
            return existing | self._changed.keys()
        for topic_id, created_name in self.created.items():
            if created_name == name:
                return (topic_id,)
        topic = self.image.by_name.get(name)
        if topic is None or topic.topic_id in self.deleted:
            raise ReplayError(f"record for topic {name!r}, which does not exist")
        return (topic.topic_id,)
