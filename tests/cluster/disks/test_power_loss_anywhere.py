"""Brokers that lose their power at random moments, while clients write in every way.

The disks are ext4 on loop devices: of what a broker has not synced nothing is left. One broker at a
time is hit, as the others have what was acknowledged, during transactions, plain records, commits
of a group, moves between directories and compaction.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jbodlab.vocabulary.error_code import ErrorCode
from lab.machine import disks
from lab.machine.disk_kinds import LOOP
from lab.machine.interrupts import Interrupts
from lab.machine.processes import ServerUser
from tests.cluster import moving
from tests.cluster.group_stage import committed
from tests.cluster.harness import Cluster, Load, made, read_all, wait_for
from tests.cluster.invariants import check
from tests.cluster.scenes import SETTINGS, Scene
from tests.cluster.small_disks import require
from tests.cluster.transactional_load import TransactionalLoad, committed_records
from tests.cluster.transactional_load import check as check_transactions

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(7_200)]

LOSSES = int(os.environ.get("JBODLAB_TEST_FAULTS", "100"))
SEED = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
DISK_MB = 256
SMALL_SEGMENTS = {"internal_segment_bytes": "100000"}
BATCH_BYTES = 20_000
TRANSACTIONS, PLAIN, LATEST, PARTITIONS = "transactions", "plain", "latest", 4
GROUP, IDLE_GROUP, KEYS = "readers", "idle", 20
LONGEST_S, DARK_S = 1.0, 0.5
GO_ON_S = 60.0
BROKERS = {
    **SETTINGS,
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "log.cleaner.backoff.ms": "200",
    # A machine that stands still for a while has lost no power.
    "jbodlab.log.dir.probe.deadline.ms": "30000",
    "broker.session.timeout.ms": "6000",
    # A replica is long enough on its way to lose the power there.
    moving.MOVE_RATE: "50000",
}


class LoopDisk:
    """An ext4 file system on a loop device at a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        root = ServerUser(uid=os.geteuid(), gid=os.getegid())
        reason = disks.make([path / "data"], root, DISK_MB, Interrupts(), LOOP)
        assert not reason, reason

    def close(self) -> None:
        assert not disks.unmount_below(self._path)


class Keeper:
    """Writes ever greater numbers for some keys, and commits each of them as an offset.

    Attributes:
        latest: The greatest acknowledged number of each key.
        committed: The greatest acknowledged offset.
    """

    def __init__(self, bootstrap: str) -> None:
        self.latest: dict[int, int] = {}
        self.committed = -1
        common = {"bootstrap.servers": bootstrap, "log_level": 0}
        limits = {"enable.idempotence": True, "batch.size": BATCH_BYTES}
        self._producer = Producer({**common, **limits})
        self._consumer = Consumer({**common, "group.id": GROUP, "enable.auto.commit": False})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the end of the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(GO_ON_S)
        assert not self._thread.is_alive()
        self._consumer.close()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.002):
            number += 1
            key = number % KEYS
            # So long that segments are rolled, and cleaned, all the time.
            self._producer.produce(
                LATEST, f"{key}:{number}:".ljust(500, "x"), str(key), 0, self._acknowledged
            )
            self._producer.poll(0)
            # A commit that fails is followed by a newer one.
            with suppress(KafkaException):
                self._consumer.commit(
                    offsets=[TopicPartition(PLAIN, 0, number)], asynchronous=False
                )
                self.committed = number
        assert self._producer.flush(GO_ON_S) == 0

    def _acknowledged(self, error: object, message: object) -> None:
        assert error is None, error
        key, number, _ = message.value().split(b":")  # type: ignore[attr-defined]
        self.latest[int(key)] = int(number)


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    """Three brokers with two loop disks each, and the topics."""
    require(disks.refusal(LOOP))
    cluster = made(cluster_root, dirs=2, settings=BROKERS, disk=LoopDisk)
    try:
        cluster.start()
        for topic in (TRANSACTIONS, PLAIN):
            cluster.create_topic(topic, PARTITIONS, 3, **SMALL_SEGMENTS)
        always = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
        cluster.create_topic(LATEST, 1, 3, **SMALL_SEGMENTS, **always)
        yield cluster
    finally:
        cluster.close()


def commit_once(cluster: Cluster) -> None:
    """Commit an offset of a group of which nothing more is heard."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": IDLE_GROUP})
    consumer.commit(offsets=[TopicPartition(PLAIN, 0, 1)], asynchronous=False)
    consumer.close()


class Losses:
    """Takes the power of one broker after the other, as a seed says."""

    def __init__(self, cluster: Cluster, keeper: Keeper, seed: int) -> None:
        self._cluster, self._keeper = cluster, keeper
        self._random = random.Random(seed)
        self._scene = Scene(cluster)
        self.done: list[str] = []

    def lose(self) -> None:
        """Take the power of a broker, give it back, and wait until all is in sync."""
        broker = self._random.choice(self._cluster.broker_ids)
        if self._random.random() < 0.5:
            self._move(broker)
        time.sleep(self._random.uniform(0, LONGEST_S))
        before = self._keeper.committed
        self.done.append(f"broker {broker} at commit {before}")
        with self._cluster.broker(broker).fails("power-loss"):
            time.sleep(self._random.uniform(0, DARK_S))
        # Before it has begun to start, the metadata have it in sync.
        self._cluster.wait_served(self._cluster.broker(broker))
        self._scene.make_whole()
        assert committed(self._cluster, GROUP, PLAIN)[0] >= before
        assert committed(self._cluster, IDLE_GROUP, PLAIN)[0] == 1

    def _move(self, broker: int) -> None:
        topic = self._random.choice((TRANSACTIONS, PLAIN, LATEST))
        partition = self._random.randrange(1 if topic == LATEST else PARTITIONS)
        target = moving.other_dir(self._cluster, broker, topic, partition)
        self.done.append(f"{topic}-{partition} to {target}")
        assert moving.alter(self._cluster, broker, {(topic, partition): target}) == {ErrorCode.NONE}


def check_latest(cluster: Cluster, keeper: Keeper) -> None:
    """Check that the last number of each key is there, and no older one behind a newer."""
    found: dict[int, int] = {}
    for _, value in read_all(cluster.bootstrap, LATEST, 1)[0]:
        key, number, _ = value.split(b":")
        assert found.get(int(key), 0) < int(number)
        found[int(key)] = int(number)
    assert found == keeper.latest


@pytest.mark.parametrize("losses", [3, pytest.param(LOSSES, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_whenever_a_broker_loses_its_power(
    cluster: Cluster, losses: int
) -> None:
    transactions = TransactionalLoad(cluster.bootstrap, TRANSACTIONS, PARTITIONS, pause_s=0.02)
    keeper = Keeper(cluster.bootstrap)
    plain = Load(cluster.bootstrap, PLAIN, rate=200)
    with plain, transactions.running(), keeper.running():
        wait_for("a commit of each", lambda: transactions.commits and keeper.committed > 0)
        commit_once(cluster)
        power = Losses(cluster, keeper, SEED)
        try:
            for _ in range(losses):
                power.lose()
        except BaseException as error:
            error.add_note(f"seed {SEED}: " + "\n".join(power.done))
            raise
    wait_for(
        "the end of all moves",
        lambda: (
            not any(
                moving.is_moving(cluster, broker, topic)
                for broker in cluster.broker_ids
                for topic in (TRANSACTIONS, PLAIN, LATEST)
            )
        ),
        GO_ON_S,
    )

    assert not transactions.fatal, transactions.fatal
    assert not plain.errors, plain.errors
    check(cluster, plain)
    check_latest(cluster, keeper)
    check_transactions(
        transactions, committed_records(cluster.bootstrap, TRANSACTIONS, PARTITIONS, GO_ON_S)
    )
