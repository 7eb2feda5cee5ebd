"""Transactions that nobody will end are found, and ended, by Kafka's tool and by the own one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.record_batch.record_batch import TRANSACTIONAL
from tests.cluster.harness import Cluster, running, wait_for
from tests.cluster.shared_directories import SETTINGS
from tests.cluster.stopped_logs import append
from tests.cluster.transactional_requests import Broker, CoordinatorType, end_of
from tests.command_lines import CommandLines
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import TRANSACTIONS, KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC = "t"
HOUR_MS = 3_600_000
PRODUCERS = (7_001, 7_002)
"""Of partitions 0 and 1; no coordinator knows them."""


@pytest.mark.parametrize("of_kafka", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_hanging_transactions_are_found_and_ended(
    cluster_root: Path, kafka_tools: KafkaTools, of_kafka: bool
) -> None:
    settings = {**SETTINGS, "offsets.topic.replication.factor": "1"}
    options = {"servers": KafkaServers(kafka_tools, SHORT_LIVED)} if of_kafka else {}
    with running(cluster_root, brokers=1, dirs=2, settings=settings, **options) as cluster:
        cluster.create_topic(TOPIC, 2, 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for partition in range(2):
            producer.produce(TOPIC, "x", partition=partition)
        assert producer.flush(30) == 0
        with Broker(cluster.node(1).port) as broker:
            broker.find_coordinator(CoordinatorType.TRANSACTION, "x")
        cluster.node(1).stop()
        starts = [hang(cluster, partition) for partition in range(2)]
        cluster.node(1).start()
        cluster.wait_served()

        with Broker(cluster.node(1).port) as broker:
            assert [end_of(broker, TOPIC, each) for each in range(2)] == starts
            kafkas, own = Kafkas(cluster, kafka_tools), Own(cluster)
            wait_for("both are found", lambda: kafkas.found() == own.found() == {0, 1}, 30)
            kafkas.abort(0, starts[0])
            assert kafkas.found() == own.found() == {1}
            own.abort(1, starts[1])
            assert kafkas.found() == own.found() == set()
            # Behind each of them is its marker.
            assert [end_of(broker, TOPIC, each) for each in range(2)] == [
                start + 2 for start in starts
            ]


def hang(cluster: Cluster, partition: int) -> int:
    """Let a log have the first record of a transaction; returns its offset."""
    return append(
        *(cluster.root, TOPIC, (None, b"nobody ends it")),
        partition=partition,
        timestamp_ms=int(time.time() * 1000) - HOUR_MS,
        attributes=TRANSACTIONAL,
        producer_id=PRODUCERS[partition],
        producer_epoch=0,
        base_sequence=0,
    )


class Kafkas:
    """Kafka's tool."""

    def __init__(self, cluster: Cluster, tools: KafkaTools) -> None:
        self._cluster, self._tools = cluster, tools

    def _run(self, *arguments: object) -> list[str]:
        at = ("--bootstrap-server", self._cluster.bootstrap)
        done = self._tools.run(TRANSACTIONS, *at, *arguments)
        assert done.code == 0, done
        return done.lines

    def found(self) -> set[int]:
        """The partitions of what hangs."""
        head, *rows = (line.split() for line in self._run("find-hanging", "--topic", TOPIC))
        return {int(row[head.index("Partition")]) for row in rows}

    def abort(self, partition: int, start: int) -> None:
        where = ("--topic", TOPIC, "--partition", partition, "--start-offset", start)
        self._run("abort", *where)


class Own:
    """`jbodlab transactions`."""

    def __init__(self, cluster: Cluster) -> None:
        self._lines = CommandLines(cluster.bootstrap)

    def found(self) -> set[int]:
        """The partitions of what hangs."""
        done = self._lines.run("transactions find-hanging --output json")
        assert done.code == 0, done
        return {each["partition"] for each in json.loads(done.out)}

    def abort(self, partition: int, start: int) -> None:
        done = self._lines.run(
            f"transactions abort {TOPIC} {partition} --start-offset {start} --yes"
        )
        assert done.code == 0, done
