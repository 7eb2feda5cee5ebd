"""Directories change hands: brokers of Apache Kafka go on where these have stopped, and back.

A broker finds there the topic of committed offsets, with groups of both kinds and their members,
and logs that the other one has compacted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

from jbodlab.kafka_wire.api_table import ApiKey
from tests.cluster import moving
from tests.cluster.harness import wait_for
from tests.cluster.lab_cluster import Cluster
from tests.cluster.shared_directories import Directories
from tests.kafka.tools import KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC, COMPACTED = "t", "compacted"
COMPACTION = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "16384",
    "min_cleanable_dirty_ratio": "0.01",
}
KEYS = 7
SESSION_MS = 300_000


def leave_for_a_while(
    cluster: Cluster, group: str, *protocols: str, subscribed: str = TOPIC
) -> None:
    """Be members that commit something, and whose places are kept when they are away."""
    found = [
        Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "group.instance.id": f"{number} of {group}",
                "client.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **({"session.timeout.ms": SESSION_MS} if protocol == "classic" else {}),
            }
        )
        for number, protocol in enumerate(protocols)
    ]

    def shares() -> list[int]:
        for each in found:
            each.poll(0.2)
        return [len(each.assignment()) for each in found]

    for count, each in enumerate(found, 1):
        each.subscribe([subscribed])
        # The first member decides the kind of the group.
        wait_for(
            f"shares of {group}",
            lambda count=count: shares()[:count] == [2 // count] * count,
            60,
            last_seen=shares,
        )
    for each in found:
        each.commit(offsets=[TopicPartition(p.topic, p.partition, 3) for p in each.assignment()])
    for each in found:
        each.close()


def groups_of_every_kind(cluster: Cluster, prefix: str) -> None:
    leave_for_a_while(cluster, f"{prefix} classic", "classic")
    leave_for_a_while(cluster, f"{prefix} consumer", "consumer")
    leave_for_a_while(cluster, f"{prefix} expression", "consumer", subscribed=f"^{TOPIC}.*")
    leave_for_a_while(cluster, f"{prefix} mixed", "consumer", "classic")
    commit_alone(cluster, f"{prefix} alone", 5)


KINDS = {"consumer": [1], "expression": [1], "mixed": [0, 1]}
"""Protocols of their members; 0 is the classic one."""


def protocols_of(cluster: Cluster, prefix: str) -> dict[str, list[int]]:
    """Which protocols the members of consumer groups are said to speak."""
    request = ConsumerGroupDescribeRequest(
        group_ids=tuple(f"{prefix} {kind}" for kind in KINDS), include_authorized_operations=False
    )
    answer = moving.ask(cluster, 1, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)
    return {
        kind: sorted(member.member_type for member in group.members)
        for kind, group in zip(KINDS, answer.groups, strict=True)
    }


def commit_alone(cluster: Cluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def commit_in_transactions(cluster: Cluster, group: str) -> None:
    """Commit an offset in a transaction, and another one in one that is aborted."""
    address = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    consumer = Consumer({**address, "group.id": group})
    producer = Producer({**address, "transactional.id": group})
    producer.init_transactions(60)
    for offset, end in ((9, producer.commit_transaction), (10, producer.abort_transaction)):
        producer.begin_transaction()
        where = [TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()


def write(cluster: Cluster, round_number: int) -> dict[str, str]:
    """Write the compacted topic in many small batches; returns the last value of each key."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "batch.size": 2_000, "log_level": 0}
    )
    last = {}
    for number in range(1_200):
        key, value = f"key {number % KEYS}", f"{round_number}:{number}:" + "x" * 60
        producer.produce(COMPACTED, value, key=key)
        last[key] = value
    assert producer.flush(30) == 0
    return last


def table(cluster: Cluster) -> tuple[dict[str, str], int]:
    """The last value of each key of the compacted topic, and how many records it has."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reads", "log_level": 0}
    )
    where = TopicPartition(COMPACTED, 0, 0)
    consumer.assign([where])
    _, end = consumer.get_watermark_offsets(where, timeout=30)
    found: dict[str, str] = {}
    count = at = 0
    while at < end:
        message = consumer.poll(5.0)
        assert message is not None
        assert message.error() is None, message.error()
        found[message.key().decode()] = message.value().decode()
        at = message.offset() + 1
        count += 1
    consumer.close()
    return found, count


def wait_compacted(cluster: Cluster) -> None:
    wait_for("it is compacted", lambda: table(cluster)[1] < 400, 60)


@pytest.fixture
def directories(cluster_root: Path, kafka_tools: KafkaTools) -> Iterator[Directories]:
    found = Directories(cluster_root, kafka_tools)
    yield found
    found.close()


@pytest.mark.parametrize("of_kafka", [True, False], ids=["formatted by Kafka", "formatted here"])
def test_no_level_of_a_feature_changes_with_the_hands(
    cluster_root: Path, kafka_tools: KafkaTools, of_kafka: bool
) -> None:
    found = Directories(cluster_root, kafka_tools, of_kafka=of_kafka)
    try:
        told = []
        for by_kafka in (of_kafka, not of_kafka, of_kafka):
            with found.served(by_kafka=by_kafka) as cluster:
                topic = f"{TOPIC}{len(told)}"
                cluster.create_topic(topic, 1, 1)
                producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
                for number in range(len(told) + 1):
                    producer.produce(f"{TOPIC}{number}", "x", partition=0)
                assert producer.flush(30) == 0
            told.append(found.levels())
    finally:
        found.close()

    expected = {"eligible.leader.replicas.version": 1, "transaction.version": 2}
    if of_kafka:
        expected |= {"share.version": 1, "streams.version": 1}
    assert expected.items() <= told[0].items()
    assert told[1:] == [told[0], told[0]]


def test_groups_and_compacted_logs_change_hands_and_come_back(directories: Directories) -> None:
    with directories.served(by_kafka=False) as cluster:
        cluster.create_topic(TOPIC, 2, 1)
        cluster.create_topic(COMPACTED, 1, 1, **COMPACTION)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for number in range(20):
            producer.produce(TOPIC, str(number), partition=number % 2)
        assert producer.flush(30) == 0
        groups_of_every_kind(cluster, "first")
        assert protocols_of(cluster, "first") == KINDS
        last = write(cluster, 1)
        wait_compacted(cluster)
        before = directories.described(cluster)

    with directories.served(by_kafka=True) as cluster:
        assert directories.described(cluster) == before
        assert protocols_of(cluster, "first") == KINDS
        assert table(cluster)[0] == last
        commit_alone(cluster, "first alone", 6)
        groups_of_every_kind(cluster, "second")
        commit_in_transactions(cluster, "in transactions")
        last = write(cluster, 2)
        wait_compacted(cluster)
        before = directories.described(cluster)

    with directories.served(by_kafka=False) as cluster:
        assert directories.described(cluster) == before
        assert protocols_of(cluster, "first") == protocols_of(cluster, "second") == KINDS
        assert any(line.startswith(f"in transactions {TOPIC} 0 9 ") for line in before["--offsets"])
        assert table(cluster)[0] == last

    theirs, ours = directories.dumped()
    assert len(theirs) > 50
    assert ours == theirs
