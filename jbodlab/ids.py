"""The numbers and names of the field, each with a type of its own."""

from __future__ import annotations

from typing import NamedTuple, NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
Offset = NewType("Offset", int)

TopicId = NewType("TopicId", UUID)
DirectoryId = NewType("DirectoryId", UUID)

NO_LEADER = BrokerId(-1)
"""The leader of a partition that has none."""

UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
UNKNOWN_LEADER_EPOCH = LeaderEpoch(-1)

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = TopicId(UUID(int=1))


class TopicPartition(NamedTuple):
    """One partition, named by its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition, named by its topic's id."""

    topic_id: TopicId
    partition: int
