"""Records about topics and partitions.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-858 for the directories, KIP-966 for eligible leader replicas).
"""

from jbodlab.kafka_wire.kinds import Int8, Int32
from jbodlab.kafka_wire.schema import field
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    UNKNOWN_LEADER_EPOCH,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)

NO_LEADER_CHANGE = BrokerId(-2)
"""PartitionChangeRecord.leader when leader and leader epoch stay."""

NO_RECOVERY_STATE_CHANGE = -1
RECOVERED = 0
RECOVERING = 1

Brokers = tuple[BrokerId, ...]
Directories = tuple[DirectoryId, ...]


class TopicRecord(Record, api_key=2):
    """A topic is created; its partitions follow."""

    name: str = field("name of the topic")
    topic_id: TopicId = field("id of the topic")


class PartitionRecord(Record, api_key=3, highest_version=2):
    """The full state of one partition; `directories` has one entry per replica, or none in v0."""

    partition_id: Int32 = field("number of the partition in its topic", default=-1)
    topic_id: TopicId = field("id of the topic")
    replicas: Brokers = field("all replicas, the preferred leader first")
    isr: Brokers = field("brokers whose replicas are in sync")
    removing_replicas: Brokers = field("replicas that a reassignment removes")
    adding_replicas: Brokers = field("replicas that a reassignment adds")
    leader: BrokerId = field("broker that leads; -1: none", default=NO_LEADER)
    leader_recovery_state: Int8 = field(
        "1 after an unclean election, until the leader has recovered", tag=0
    )
    leader_epoch: LeaderEpoch = field("rises with every election", default=UNKNOWN_LEADER_EPOCH)
    partition_epoch: PartitionEpoch = field(
        "rises with every change of the partition", default=PartitionEpoch(-1)
    )
    directories: Directories = field("log directory of each of the replicas; KIP-858", since=1)
    eligible_leader_replicas: Brokers | None = field(
        "out of sync, but safe to elect; KIP-966", since=2, tag=1, default=None
    )
    last_known_elr: Brokers | None = field(
        "the last eligible ones when none is left; KIP-966", since=2, tag=2, default=None
    )


class PartitionChangeRecord(Record, api_key=5, highest_version=2):
    """A difference to a partition; every default means no change.

    Naming the current leader in `leader` is a deliberate rise of the leader epoch.
    """

    partition_id: Int32 = field("number of the partition in its topic", default=-1)
    topic_id: TopicId = field("id of the topic")
    isr: Brokers | None = field("brokers whose replicas are in sync", tag=0, default=None)
    leader: BrokerId = field(
        "broker that leads; -1: none, -2: no change", tag=1, default=NO_LEADER_CHANGE
    )
    replicas: Brokers | None = field(
        "all replicas, the preferred leader first", tag=2, default=None
    )
    removing_replicas: Brokers | None = field(
        "replicas that a reassignment removes", tag=3, default=None
    )
    adding_replicas: Brokers | None = field(
        "replicas that a reassignment adds", tag=4, default=None
    )
    leader_recovery_state: Int8 = field(
        "0: recovered, 1: recovering, -1: no change", tag=5, default=NO_RECOVERY_STATE_CHANGE
    )
    directories: Directories | None = field(
        "log directory of each of the replicas", since=1, tag=8, default=None
    )
    eligible_leader_replicas: Brokers | None = field(
        "out of sync, but safe to elect", since=2, tag=6, default=None
    )
    last_known_elr: Brokers | None = field(
        "the last eligible ones when none is left", since=2, tag=7, default=None
    )


class RemoveTopicRecord(Record, api_key=9):
    """A topic is deleted, with its partitions and configs."""

    topic_id: TopicId = field("id of the topic")


class ClearElrRecord(Record, api_key=28):
    """Eligible leader replicas of one topic, or of all when the name is empty, are forgotten."""

    topic_name: str = field("name of the topic; empty: all topics")
