"""An unmodified client goes on with its transactions when Kafka's brokers take our directories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from tests.cluster.harness import wait_for
from tests.cluster.lab_cluster import Cluster
from tests.cluster.shared_directories import Directories
from tests.cluster.shared_transactions import GROUP, TOPIC, read
from tests.command_lines import CommandLines
from tests.kafka.tools import DUMP_LOG, TRANSACTIONS, KafkaTools
from tests.storage_tool.dumping import dump

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

LONG_S = 60.0
DECODER = "--transaction-log-decoder"


@pytest.fixture
def directories(cluster_root: Path, kafka_tools: KafkaTools) -> Iterator[Directories]:
    found = Directories(cluster_root, kafka_tools)
    yield found
    found.close()


def producer(cluster: Cluster, name: str) -> Producer:
    found = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0}
    )
    found.init_transactions(LONG_S)
    return found


def write(one: Producer, text: str) -> None:
    one.begin_transaction()
    for partition in range(2):
        one.produce(TOPIC, text, partition=partition)
    assert one.flush(LONG_S) == 0


def send_offset(cluster: Cluster, one: Producer, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0})
    where = [TopicPartition(TOPIC, 0, offset)]
    one.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), LONG_S)
    consumer.close()


def offset_of(cluster: Cluster) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], LONG_S)
    consumer.close()
    return found.offset


def states(cluster: Cluster) -> dict[str, str]:
    done = CommandLines(cluster.bootstrap).run("transactions list --output json")
    assert done.code == 0, done
    found: list[dict[str, Any]] = json.loads(done.out)
    return {one["transactional_id"]: one["state"] for one in found}


# Kafka does not begin here: librdkafka may wait for its single broker for ever in
# `send_offsets_to_transaction`, past the deadline that it is given.
def test_transactions_change_hands_and_come_back(
    directories: Directories, kafka_tools: KafkaTools, cluster_root: Path
) -> None:
    with directories.served(by_kafka=False) as cluster:
        cluster.create_topic(TOPIC, 2, 1)
        first = producer(cluster, "committed")
        write(first, "one")
        send_offset(cluster, first, 1)
        first.commit_transaction(LONG_S)
        aborted = producer(cluster, "aborted")
        write(aborted, "none")
        aborted.abort_transaction(LONG_S)
        begun = producer(cluster, "open")
        write(begun, "open")
        send_offset(cluster, begun, 9)
        before = {"committed": "CompleteCommit", "aborted": "CompleteAbort", "open": "Ongoing"}
        wait_for(
            "both ends", lambda: states(cluster) == before, 30, last_seen=lambda: states(cluster)
        )
    assert_dumped_alike(kafka_tools, cluster_root)

    with directories.served(by_kafka=True) as cluster:
        wait_for("the same states", lambda: states(cluster) == before, 60)
        # The same client goes on, in the transaction that it began with the other broker.
        begun.commit_transaction(LONG_S)
        wait_for("its offsets", lambda: offset_of(cluster) == 9, 30)
        second = producer(cluster, "committed")
        write(second, "two")
        second.commit_transaction(LONG_S)
        assert read(cluster, "two") == ["one"] * 2 + ["open"] * 2 + ["two"] * 2
        again = producer(cluster, "open")
        write(again, "fenced")
    assert_dumped_alike(kafka_tools, cluster_root)

    with directories.served(by_kafka=False) as cluster:
        # The next producer fences this one and aborts what it has begun.
        third = producer(cluster, "open")
        write(third, "three")
        third.commit_transaction(LONG_S)
        assert read(cluster, "three") == sorted(["one", "open", "two", "three"] * 2)
        done = kafka_tools.run(
            *(TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, "find-hanging"),
            *("--topic", TOPIC),
        )
        assert done.code == 0, done


def assert_dumped_alike(tools: KafkaTools, root: Path) -> None:
    """Both dump tools print the same of the transactions."""
    found = sorted(root.glob(f"broker-*/disk-*/data/{TRANSACTION_STATE_TOPIC}-0/*.log"))
    assert found
    theirs = tools.run(DUMP_LOG, DECODER, "--files", ",".join(map(str, found))).lines
    assert dump(DECODER, *found).lines == theirs
