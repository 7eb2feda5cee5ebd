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

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
"""Where coordinators keep their state; clients read them, and only brokers write."""


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
