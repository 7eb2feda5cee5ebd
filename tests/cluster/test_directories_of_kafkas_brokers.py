"""Directories change hands: brokers of Apache Kafka go on where these have stopped, and back.

What a broker finds there is the topic of committed offsets, with groups of both kinds and their
members, and logs that the other one has compacted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster import moving
from tests.cluster.harness import made, wait_for
from tests.cluster.lab_cluster import Cluster
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import DUMP_LOG, GROUPS, KafkaTools
from tests.storage_tool.dumping import dump

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "1000",
}
TOPIC, COMPACTED = "t", "compacted"
COMPACTION = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "16384",
    "min_cleanable_dirty_ratio": "0.01",
}
KEYS = 7
SESSION_MS = 300_000
DESCRIPTIONS = ("--offsets", "--members --verbose", "--state --verbose")


class Directories:
    """One broker and one controller, which are ours or Kafka's, on the same directories."""

    def __init__(self, root: Path, tools: KafkaTools, *, of_kafka: bool = False) -> None:
        """Make them.

        Args:
            root: The folder of everything.
            tools: Kafka's tools, and its jars.
            of_kafka: Whether Kafka's own tool formats the directories.
        """
        theirs = KafkaServers(tools, SHORT_LIVED)
        servers = {"servers": theirs} if of_kafka else {}
        self._formatted = made(root, brokers=1, dirs=2, settings=SETTINGS, **servers)
        state = self._formatted.state
        if of_kafka:
            self._ours, self._theirs = Cluster(state, ports=None), self._formatted
        else:
            self._ours, self._theirs = self._formatted, Cluster(state, servers=theirs, ports=None)
        self._tools = tools

    def close(self) -> None:
        self._formatted.close()

    def levels(self) -> dict[str, int]:
        """The finalized levels of all features, as the controller's disk has them."""
        return dict(self._formatted.image().features.levels)

    @contextmanager
    def served(self, *, by_kafka: bool) -> Iterator[Cluster]:
        """Serve them; in the end all processes have stopped in order."""
        cluster = self._theirs if by_kafka else self._ours
        try:
            for node in cluster.nodes.values():
                node.start()
            cluster.wait_served()
            yield cluster
        finally:
            for node in reversed([*cluster.nodes.values()]):
                node.stop()

    def dumped(self) -> tuple[list[str], list[str]]:
        """What both dump tools print of all segments of the groups: Kafka's, and ours."""
        found = sorted(
            self._formatted.root.glob(f"broker-*/disk-*/data/{GROUP_METADATA_TOPIC}-0/*.log")
        )
        theirs = ("--offsets-decoder", "--files", ",".join(map(str, found)))
        return self._tools.run(DUMP_LOG, *theirs).lines, dump("--offsets-decoder", *found).lines

    def described(self, cluster: Cluster) -> dict[str, list[str]]:
        """What Kafka's tool prints of all groups."""
        printed = {}
        for what in DESCRIPTIONS:
            arguments = f"--describe --all-groups {what}".split()
            done = self._tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap, *arguments)
            assert done.code == 0, done
            printed[what] = sorted(" ".join(line.split()) for line in done.lines if line.strip())
        return printed


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
        # Whoever comes first is the kind of the group.
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
