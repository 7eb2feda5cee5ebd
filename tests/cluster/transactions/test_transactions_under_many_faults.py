"""Ten transactional clients while many directories fail and many processes are killed.

Each client keeps a journal of what it was told, and a reader of committed records follows them. In
the end everything is healed, and all records are read again.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from lab.cluster.faults import Fault
from tests.cluster.harness import CONTROLLER_ID, Cluster, made, wait_for
from tests.cluster.scenes import SETTINGS, Scene
from tests.cluster.transactional_commands import told
from tests.cluster.transactional_load import (
    Records,
    TransactionalLoad,
    check,
    committed_consumer,
    committed_records,
    take,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(7_200)]

TOPIC, PARTITIONS = "orders", 6
CLIENTS, PAUSE_S = 10, 0.02
COORDINATORS = 5
TOPICS = {TRANSACTION_STATE_TOPIC: COORDINATORS, TOPIC: PARTITIONS}
KINDS = ("permission", "eio", "full", "hang")
KILLS_PER_FAULT = 4
LONGEST_S, LONGEST_HANG_S = 1.0, 3.0
"""How long a fault lasts; a call that hangs for 2 s is a failure of its directory."""
CLIENT_TIMEOUT_MS = 600_000
"""Of the transactions: whoever takes longer is fenced, and a busy machine may stand still."""
TIMEOUT_MS = 5_000
"""Of the transaction whose client has gone."""
GO_ON_S = 120.0


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    """Three brokers with three directories each, of which all calls may be broken."""
    settings = {
        **SETTINGS,
        "transaction.state.log.num.partitions": str(COORDINATORS),
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "min.insync.replicas": "1",
    }
    cluster = made(cluster_root, settings=settings)
    try:
        for broker in cluster.brokers:
            broker.preload()
        cluster.start()
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replicas=3)
        yield cluster
    finally:
        cluster.close()


@contextmanager
def reading(cluster: Cluster) -> Iterator[Records]:
    """Read what is committed, as it comes, until the end of the block."""
    found: Records = {}
    failures: list[BaseException] = []
    stop = threading.Event()

    def run() -> None:
        consumer = committed_consumer(cluster.bootstrap, TOPIC, PARTITIONS)
        try:
            while not stop.is_set():
                take(consumer, found)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)
        finally:
            consumer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(30)
    if failures:
        raise failures[0]


class Troubles:
    """Breaks directories and ends processes, and heals them, as a seed says."""

    def __init__(self, cluster: Cluster, load: TransactionalLoad, seed: int) -> None:
        self._cluster, self._load = cluster, load
        self._random = random.Random(seed)
        self._scene = Scene(cluster)
        self._broken: set[int] = set()
        self.done: list[str] = []

    def run(self, faults: int, kills: int) -> None:
        """Do all of it, in some order; each kind of fault is as often at each kind of directory."""
        subjects = list(islice(cycle(product(TOPICS, KINDS)), faults))
        steps = [partial(self.fault, *each) for each in subjects] + [self.kill] * kills
        self._random.shuffle(steps)
        while steps:
            # Sometimes a second one begins before the first one is healed.
            count = min(len(steps), 1 if self._random.random() < 0.7 else 2)
            with ExitStack() as open_faults:
                for step in [steps.pop() for _ in range(count)]:
                    step(open_faults)
            self._broken.clear()
            self._scene.make_whole()
            self._goes_on()

    def fault(self, topic: str, kind: str, stack: ExitStack) -> None:
        """Break a directory with a leader of a topic, on a broker where all is well."""

        def broken() -> Fault | None:
            partition = self._random.randrange(TOPICS[topic])
            leader = self._cluster.leaders(topic).get(partition, -1)
            if leader < 0 or leader in self._broken or not self._cluster.node(leader).is_running:
                return None
            log_dir = self._cluster.broker(leader).log_dir_of(topic, partition)
            self.done.append(f"{kind} of {topic}-{partition} in {log_dir.path}")
            self._broken.add(leader)
            return log_dir.fails(kind)

        stack.callback(wait_for(f"a leader of {topic} to break", broken, GO_ON_S).heal)
        self._last(LONGEST_HANG_S if kind == "hang" else LONGEST_S)

    def kill(self, stack: ExitStack) -> None:
        """Kill a broker or the controller."""
        node = self._cluster.node(self._random.choice((CONTROLLER_ID, *self._cluster.broker_ids)))
        if node.is_running:
            self.done.append(f"kill {node}")
            node.kill()
            self._last(LONGEST_S)

    def _last(self, longest_s: float) -> None:
        time.sleep(self._random.uniform(0, longest_s))

    def _goes_on(self) -> None:
        before = {number: len(self._load.commits_of[number]) for number in range(CLIENTS)}

        def all_commit() -> bool:
            now = self._load.commits_of
            return bool(self._load.fatal) or all(len(now[n]) > before[n] for n in before)

        wait_for("commits of every client", all_commit, GO_ON_S, last_seen=lambda: self.done[-3:])
        assert not self._load.fatal, self._load.fatal


def leave_open(cluster: Cluster) -> Callable[[], None]:
    """Begin a transaction of which nothing is heard again; returns what frees its client."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "gone",
            "transaction.timeout.ms": TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"-1:0:0", partition=partition)
    assert producer.flush(30) == 0
    return producer.purge


def unfinished(cluster: Cluster) -> list[object]:
    """The transactions that a coordinator has not completed."""
    done = {"Empty", "CompleteCommit", "CompleteAbort"}
    return [each for each in told(cluster, "list") if each["state"] not in done]


@pytest.mark.parametrize(
    "faults",
    [8, pytest.param(int(os.environ.get("JBODLAB_TEST_FAULTS", "200")), marks=pytest.mark.soak)],
)
def test_transactions_are_whole_and_settled_whatever_failed_meanwhile(
    cluster: Cluster, faults: int
) -> None:
    seed = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
    load = TransactionalLoad(
        cluster.bootstrap, TOPIC, PARTITIONS, CLIENTS, PAUSE_S, CLIENT_TIMEOUT_MS
    )
    troubles = Troubles(cluster, load, seed)
    with reading(cluster) as seen:
        with load.running():
            wait_for("commits", lambda: len(load.commits) > CLIENTS or load.fatal, GO_ON_S)
            try:
                troubles.run(faults, -(-faults // KILLS_PER_FAULT))
            except BaseException as error:
                error.add_note(f"seed {seed}: " + "\n".join(troubles.done))
                raise
            free = leave_open(cluster)
        assert not load.fatal, load.fatal
        wait_for("the end of the last transaction", lambda: not unfinished(cluster), GO_ON_S)
        found = committed_records(cluster.bootstrap, TOPIC, PARTITIONS, GO_ON_S)
        wait_for("the reader", lambda: len(seen) >= len(found), GO_ON_S)
    free()

    check(load, found)
    assert seen == found, "what a reader has got changes no more"
    assert told(cluster, "find-hanging", "--longer-than", "0s") == []
