"""Clusters for consumer groups, and what an administrator is told of a group there."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.harness import Cluster, wait_for
from tests.cluster.scenes import SETTINGS, Scene

COORDINATORS = 10
GROUP_SETTINGS = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": str(COORDINATORS),
}
ASKED_AGAIN = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    # The broker was fenced meanwhile.
    KafkaError._DESTROY_BROKER,
)
"""Errors of a coordinator that begins or ends; librdkafka's administrators give up at once."""
GOES_ON_S = 30.0
"""Within which a group goes on; shorter than the session timeout of its members."""


def coordinator(scene: Scene, name: str, topic: str = GROUP_METADATA_TOPIC) -> tuple[int, Path]:
    """The coordinator of a group or a transactional id, and the directory in which it has it."""
    leaders = scene.cluster.leaders(topic)
    index = coordinator_partition(name, len(leaders))
    return leaders[index], scene.cluster.broker(leaders[index]).log_dir_of(topic, index).path


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """The committed offsets of a group, as an administrator is told."""
    partitions = [TopicPartition(topic, index) for index in cluster.partitions(topic)]

    def answer() -> dict[int, int] | None:
        # A client for each question: librdkafka remembers coordinators, also those whose brokers
        # it has given up since, and then waits for them in vain.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        if not _is_coordinated(admin, group):
            return None
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        (future,) = admin.list_consumer_group_offsets(asked).values()
        try:
            found = future.result(30).topic_partitions
        except KafkaException as error:
            if error.args[0].code() not in ASKED_AGAIN:
                raise
            return None
        return {each.partition: each.offset for each in found}

    return wait_for(f"the committed offsets of {group}", answer)


def _is_coordinated(admin: AdminClient, group: str) -> bool:
    """Return whether the coordinator of a group answers.

    librdkafka 2.16 dereferences NULL, and ends the process, where an administrator asks for the
    offsets of a group whose coordinator still loads (`rd_kafka_cgrp_op` below
    `rd_kafka_ListConsumerGroupOffsetsResponse_parse`). A description is only refused then.
    """
    try:
        admin.describe_consumer_groups([group])[group].result(30)
    except KafkaException as error:
        return error.args[0].code() not in ASKED_AGAIN
    return True


def state_of(cluster: Cluster, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    future = admin.describe_consumer_groups([group])[group]
    return str(future.result(30).state.name)
