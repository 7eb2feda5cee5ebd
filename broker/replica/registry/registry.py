"""All replicas of this broker by partition, and the metadata that they follow.

Only `broker.metadata.replica_roles` adds and removes replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.disk.directory import LogDir, LogInUse, OwnedLog
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.waiting import LeaderHint, News
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, TopicIdPartition, TopicPartition


class ReplicaRegistry:
    """The replicas of one broker; lives on the event loop.

    Args:
        broker_id: Ours.

    Attributes:
        image: The metadata that the replicas follow.
    """

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.image: MetadataImage = EMPTY
        self._partitions: dict[TopicPartition, Partition] = {}

    def add(self, partition: Partition) -> None:
        """Take a replica in."""
        assert partition.topic_partition not in self._partitions
        self._partitions[partition.topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """Forget a replica that is no longer here."""
        del self._partitions[topic_partition]

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the replica that this broker has, or should have."""
        return self._partitions.get(topic_partition)

    def partitions(self) -> Iterator[Partition]:
        """Return all replicas that this broker has or should have."""
        return iter(self._partitions.values())

    def of_topic_id(self, key: TopicIdPartition) -> Partition | None:
        """Return the replica of this very topic, not of an earlier one of its name."""
        topic = self.image.topics.by_id.get(key.topic_id)
        if topic is None:
            return None
        found = self.partition(TopicPartition(topic.name, key.partition))
        return found if found is not None and found.topic_id == key.topic_id else None

    def online_replicas(self) -> Iterator[tuple[Partition, PartitionLog]]:
        """Return the replicas that have a usable log."""
        for partition in self._partitions.values():
            log = partition.log
            if log is not None and not log.failed:
                yield partition, log

    def usable_log(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the log of a replica.

        Raises:
            KafkaError: there is none here, or none that can be used, with the code that says why.
        """
        partition = self.partition(topic_partition)
        if partition is None:
            raise KafkaError(self.refusal(topic_partition)[0])
        if partition.log is None or partition.log.failed:
            raise KafkaError(partition.refusal())
        return partition.log

    def logs_in(self, log_dir: LogDir) -> Sequence[LogInUse]:
        """Return the logs of replicas in a directory."""
        return [
            LogInUse(log, partition.high_watermark)
            for partition, log in self.online_replicas()
            if log.log_dir is log_dir
        ]

    def all_in_sync(self, topic_partition: TopicPartition) -> bool:
        """Return whether every replica of a partition is known to be in the ISR."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return False
        return set(partition.registration.isr).issuperset(partition.registration.replicas)

    def log_start_moved(self, log: OwnedLog) -> None:
        """Take notice that retention let a log begin at a later offset."""
        partition = self._partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            partition.waiters.tell_sessions(News.LATER)

    # Facts of the metadata beside the replicas

    def refusal(self, topic_partition: TopicPartition) -> tuple[ErrorCode, LeaderHint | None]:
        """Return what clients are told of a partition without a replica here."""
        topic = self.image.topics.by_name.get(topic_partition.topic)
        state = None if topic is None else topic.partitions.get(topic_partition.partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        hint = None
        if state.leader not in (NO_LEADER, self.broker_id):
            hint = LeaderHint(leader=state.leader, leader_epoch=state.leader_epoch)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, hint

    def registered_epoch(self, broker_id: BrokerId) -> int | None:
        """Return the broker epoch of a registered broker."""
        registration = self.image.cluster.brokers.get(broker_id)
        return None if registration is None else registration.epoch

    def rack_of(self, broker_id: BrokerId) -> str | None:
        """Return the rack of a registered broker."""
        registration = self.image.cluster.brokers.get(broker_id)
        return None if registration is None else registration.rack

    def joinable(self, partition: Partition) -> dict[BrokerId, int]:
        """Return the other replicas that may be in the ISR, with their broker epochs."""
        joinable: dict[BrokerId, int] = {}
        registration = partition.registration
        for broker_id, directory in zip(
            registration.replicas, registration.directories, strict=True
        ):
            broker = self.image.cluster.brokers.get(broker_id)
            if broker_id == self.broker_id or broker is None or not broker.active:
                continue
            if broker.directory_is_online(directory):
                joinable[broker_id] = broker.epoch
        return joinable
