"""Transactions of librdkafka while directories die: whole or not at all, as clients were told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ResourceType

from tests.cluster.configs import alter, client
from tests.cluster.harness import Cluster, made, wait_for
from tests.cluster.scenes import SETTINGS
from tests.cluster.transactional_load import (
    CALL_S,
    TransactionalLoad,
    by_transaction,
    check,
    committed_records,
    high_watermarks,
)

pytestmark = pytest.mark.cluster

TOPIC, PARTITIONS = "orders", 6
BETWEEN_FAULTS_S = 6.0
GAP_S = 0.5
COORDINATORS, OFFSETS = "__transaction_state", "__consumer_offsets"


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    """Three brokers, of which one coordinates all transactions; what lies on two may die."""
    settings = {
        **SETTINGS,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "3",
    }
    cluster = made(cluster_root, settings=settings)
    try:
        for number in (1, 2, 3):
            cluster.broker(number).preload()
        cluster.start()
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replicas=3)
        yield cluster
    finally:
        cluster.close()


def fail(cluster: Cluster, faults: ExitStack, topic: str, partition: int, kind: str) -> None:
    """Let the directory die that holds the leader of a partition."""
    leader = cluster.leader(topic, partition)
    faults.enter_context(leader.log_dir_of(topic, partition).fails(kind))
    cluster.wait_leaders(topic)


def progressed(load: TransactionalLoad, count: int = 30) -> None:
    """Return when as many commits more were answered."""
    wanted = len(load.commits) + count
    wait_for("commits go on", lambda: len(load.commits) >= wanted or bool(load.fatal), 60)
    assert not load.fatal


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "noticed_s"), [("permission", 0.0), ("eio", 0.0), ("full", 0.0), ("hang", 2.0)]
)
def test_commits_go_on_within_half_a_second(cluster: Cluster, kind: str, noticed_s: float) -> None:
    """From when the failure can be noticed: a call that hangs is one after its deadline.

    Run it alone: it measures time, and the machine has to be able to serve eight producers.
    """
    load = TransactionalLoad(cluster.bootstrap, TOPIC, PARTITIONS, producers=8)
    with ExitStack() as faults, load.running():
        progressed(load, 100)
        for topic in (COORDINATORS, TOPIC):
            since_s = time.monotonic()
            faults.enter_context(cluster.leader(topic, 0).log_dir_of(topic, 0).fails(kind))
            time.sleep(BETWEEN_FAULTS_S)
            gap_s = load.longest_gap_s(since_s, time.monotonic())
            assert gap_s < noticed_s + GAP_S, f"{topic}: {gap_s:.2f} s without a commit"

    assert not load.fatal
    check(load, committed_records(cluster.bootstrap, TOPIC, PARTITIONS))


class Copying(threading.Thread):
    """Consumes, and produces what it consumed with its offsets in the same transaction."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._source, self._target = source, target
        self.stop = threading.Event()
        self.failure: str | None = None
        self.copied = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copying",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 10_000,
                "log_level": 0,
            }
        )

    def has_copied(self, count: float) -> bool:
        """Whether so many are copied, or no more will be."""
        return self.copied >= count or self.failure is not None

    def run(self) -> None:
        try:
            self._producer.init_transactions(CALL_S)
            self._consumer.subscribe([self._source])
            while not self.stop.is_set():
                self._copy()
        except KafkaException as error:
            self.failure = str(error)
        finally:
            self._consumer.close()

    def _committed(self) -> bool:
        try:
            self._producer.commit_transaction(CALL_S)
        except KafkaException as failed:
            if self.stop.is_set() or not failed.args[0].retriable():
                raise
            return False
        return True

    def _copy(self) -> None:
        messages = [each for each in self._consumer.consume(20, timeout=0.2) if not each.error()]
        if not messages:
            return
        self._producer.begin_transaction()
        ends = {each.partition(): each.offset() + 1 for each in messages}
        try:
            for each in messages:
                self._producer.produce(self._target, each.value(), partition=each.partition())
            self._producer.send_offsets_to_transaction(
                [TopicPartition(self._source, number, end) for number, end in ends.items()],
                self._consumer.consumer_group_metadata(),
                CALL_S,
            )
            while not self._committed():
                pass
            self.copied += len(messages)
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(CALL_S)
            for number in ends:
                first = min(each.offset() for each in messages if each.partition() == number)
                self._consumer.seek(TopicPartition(self._source, number, first))


def test_what_is_consumed_and_produced_in_transactions_is_there_once(cluster: Cluster) -> None:
    source, count = "source", 1_500
    cluster.create_topic(source, partitions=PARTITIONS, replicas=3)
    sent = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        sent.produce(source, b"%d:0:0" % number, partition=number % PARTITIONS)
    assert sent.flush(30) == 0
    copying = Copying(cluster.bootstrap, source, TOPIC, "copier")
    copying.start()
    wait_for("copies", partial(copying.has_copied, 1), 60)
    # Two of three replicas may die; the offsets would need two.
    alter(client(cluster), ResourceType.TOPIC, OFFSETS, min_insync_replicas="1")
    with ExitStack() as faults:
        for fraction, topic in ((0.2, COORDINATORS), (0.4, OFFSETS)):
            least = fraction * count
            wait_for("copies", partial(copying.has_copied, least), 60)
            fail(cluster, faults, topic, 0, "permission")
        wait_for("all is copied", partial(copying.has_copied, count), 60)
        copying.stop.set()
        copying.join(60)
    assert copying.failure is None

    found = committed_records(cluster.bootstrap, TOPIC, PARTITIONS)

    assert by_transaction(found) == {(number, 0): [0] for number in range(count)}
    assert sum(high_watermarks(cluster.bootstrap, source, PARTITIONS)) == count
