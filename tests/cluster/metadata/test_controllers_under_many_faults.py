"""Controllers are killed and lose their directories while everything else goes on.

Topics are created, changed and deleted, replicas move between directories and brokers,
transactions are committed, and disks of brokers die. Each round is a fault of controllers that
depends on the seed and its number alone, often with one of a broker beside it. After each
everything is healed, and has to be whole: nothing that was acknowledged is missing at any
controller, their logs are the same bytes, and at no time did two of them answer for the quorum.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from jbodlab.kafka_admin import client
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import alter_replica_log_dirs
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_admin.reassignments import alter_reassignments
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster.faults import Fault
from lab.cluster.node import Node
from tests.cluster.harness import Cluster, made, wait_for
from tests.cluster.leading_controllers import WRONG, Leaders, watched
from tests.cluster.mixed_quorum import Batch, MetadataDir
from tests.cluster.scenes import SETTINGS, Scene
from tests.cluster.transactional_load import TransactionalLoad, check, committed_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ORDERS, MOVING, PARTITIONS = "orders", "moving", 4
CLIENTS, PAUSE_S = 3, 0.1
CLIENT_TIMEOUT_MS = 600_000
KEPT = 20
"""Topics that are there at a time; older ones are deleted."""
SETTING = "file.delete.delay.ms"
CHANGE_S = 5.0
PATIENCE = AdminProperties(request_timeout_ms=2_000, patience_s=0)
PAUSE_S_MAX = 2.0
"""Between two steps of a round."""
DEADLINE_S = 120.0
SHORT_FAULTS, LONG_FAULTS = 3, 500
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "metadata.log.segment.ms": "20000",
    "metadata.max.retention.bytes": "400000",
}
KINDS: dict[str, dict[str, Any]] = {
    "eio": {},
    "full": {},
    "permission": {},
    "deleted": {},
    "replaced": {},
    "emptied": {},
    "hang": {"calls": "sync"},
    "slow": {"calls": "sync", "delay": "1500ms"},
}
OF_BROKERS = ("eio", "permission", "full", "hang", "kill")


class Background:
    """A thread that takes one step after the other, and rests while somebody holds it."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._steps = threading.Lock()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def step(self) -> None:
        """Do something."""
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go on until the end of the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self.check()

    def held(self) -> threading.Lock:
        """Let no step begin inside of a `with` block."""
        return self._steps

    def check(self) -> None:
        """Raise what has ended the thread."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._pause_s):
                with self._steps:
                    self.step()
        except BaseException as error:  # noqa: BLE001 - raised by `check`
            self._failure = error


class Changes(Background):
    """Creates, changes and deletes topics, and keeps what was acknowledged.

    Attributes:
        present: Topics that are there.
        absent: Topics that were there.
        value, tried: The setting that was acknowledged last, and the one that was last asked for.
        count: Changes that were acknowledged.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(0.05)
        self._admin = AdminClient({**cluster.client_config, "log_level": 0})
        self._numbers = itertools.count(1)
        self.present: list[str] = []
        self.absent: set[str] = set()
        self.value = self.tried = self.count = 0

    def step(self) -> None:
        """Make the next change."""
        number = next(self._numbers)
        name = f"topic-{number}"
        if number % 2:
            self.tried = number
            wanted = ConfigEntry(SETTING, str(number), incremental_operation=AlterConfigOpType.SET)
            topic = ConfigResource(ResourceType.TOPIC, MOVING, incremental_configs=[wanted])
            asked = self._admin.incremental_alter_configs([topic], request_timeout=CHANGE_S)
            if self._is_done(asked[topic]):
                self.value = number
        elif len(self.present) < KEPT:
            new = NewTopic(name, num_partitions=2, replication_factor=2)
            if self._is_done(self._admin.create_topics([new], request_timeout=CHANGE_S)[name]):
                self.present.append(name)
        else:
            # One whose deletion is not answered may be there or not.
            gone = self.present.pop(0)
            if self._is_done(self._admin.delete_topics([gone], request_timeout=CHANGE_S)[gone]):
                self.absent.add(gone)

    def _is_done(self, future: Any) -> bool:
        with suppress(KafkaException):
            future.result()
            self.count += 1
            return True
        return False


class Moves(Background):
    """Asks for replicas in other directories and on other brokers, answered or not."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(1.0)
        self._cluster = cluster
        self._random = random.Random(f"moves/{seed}")

    def step(self) -> None:
        """Ask for the next move."""
        broker = self._cluster.broker(self._random.choice(self._cluster.broker_ids))
        path = str(self._random.choice(broker.paths))
        partition = self._random.randrange(PARTITIONS)
        brokers = self._random.sample(self._cluster.broker_ids, 2)
        elsewhere = TopicPartition(MOVING, partition)
        moved = TopicPartition(ORDERS, partition)
        addresses = [(one.state.host, one.port) for one in self._cluster.brokers]

        async def move() -> None:
            async with client.opened(addresses, PATIENCE) as connected:
                if self._random.random() < 0.5:
                    await alter_reassignments(connected, {elsewhere: brokers})
                else:
                    await alter_replica_log_dirs(connected, broker.id, {moved: path})

        with suppress(AdminError, OSError, TimeoutError):
            asyncio.run(move())


class Rounds:
    """Faults of controllers by number, and what has to hold after each."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._seed = cluster, seed
        self._scene = Scene(cluster)
        self._random = random.Random()
        self.load = TransactionalLoad(
            cluster.bootstrap, ORDERS, PARTITIONS, CLIENTS, PAUSE_S, CLIENT_TIMEOUT_MS
        )
        self.changes, self.moves = Changes(cluster), Moves(cluster, seed)
        self.leaders = cluster.root / "leaders"

    def run(self, count: int) -> None:
        """Make so many faults, one round after the other."""
        for number in range(count):
            self._random = random.Random(f"{self._seed}/{number}")
            began = time.monotonic()
            told: list[str] = []
            try:
                with ExitStack() as stack:
                    self._fault(stack, told)
                with self.changes.held(), self.moves.held():
                    self._make_whole()
                    self._look()
                self.go_on()
            except BaseException as error:
                error.add_note(f"seed {self._seed}, round {number}: {'; '.join(told)}")
                raise
            finally:
                print(f"round {number}: {'; '.join(told)}: {time.monotonic() - began:.1f} s")

    def _fault(self, stack: ExitStack, told: list[str]) -> None:
        """Break controllers one after the other, and heal them in another order."""
        active = self._cluster.active_controller()
        nodes = [node for node in self._cluster.controllers if node is not active]
        self._random.shuffle(nodes)
        nodes.insert(self._random.choice((0, 0, 1, 2)), active)
        heals: list[Callable[[], object]] = []
        for node in nodes[: self._random.choice((1, 2, 3, 3))]:
            kind = "kill" if self._random.random() < 0.5 else self._random.choice(list(KINDS))
            if kind == "emptied" and any("emptied" in each for each in told):
                # Of a majority that is emptied at once nobody would have what it acknowledged.
                kind = "kill"
            told.append(f"{kind} of {node}")
            if kind == "kill":
                node.kill()
                heals.append(node.start)
            else:
                fault = node.log_dir(1).fails(kind, **KINDS[kind])
                # Should a later step fail.
                stack.callback(fault.heal)
                heals.append(partial(self._heal, node, fault))
            self._pause()
        if self._random.random() < 0.4:
            self._of_broker(stack, told)
        self._pause()
        self._random.shuffle(heals)
        for heal in heals:
            heal()
            self._pause()

    def _heal(self, node: Node, fault: Fault) -> None:
        fault.heal()
        if not node.is_running:
            node.start()

    def _pause(self) -> None:
        time.sleep(self._random.uniform(0, PAUSE_S_MAX))

    def _of_broker(self, stack: ExitStack, told: list[str]) -> None:
        broker = self._cluster.broker(self._random.choice(self._cluster.broker_ids))
        kind, log_dir = self._random.choice(OF_BROKERS), self._random.choice(broker.log_dirs)
        told.append(f"{kind} of {broker if kind == 'kill' else log_dir}")
        if kind == "kill":
            broker.kill()
        else:
            stack.callback(log_dir.fails(kind).heal)

    def _make_whole(self) -> None:
        nodes = self._cluster.controllers

        def are_heard() -> bool:
            for node in nodes:
                if not node.is_running:
                    node.start()
            found = self._cluster.quorum()
            return found is not None and all(
                found.end_offsets.get(node.id, -1) >= found.high_watermark for node in nodes
            )

        wait_for("three controllers with all that is committed", are_heard, DEADLINE_S)
        self._scene.make_whole()

    def _look(self) -> None:
        """Compare the logs as far as they are committed, and look for what was acknowledged."""
        committed = wait_for("an active controller", self._cluster.quorum).high_watermark
        for node in self._cluster.controllers:
            wait_for(f"the log of {node}", lambda node=node: self._is_kept(node))  # type: ignore[misc]
        logs = [
            [each for each in MetadataDir(node).batches() if each.next_offset <= committed]
            for node in self._cluster.controllers
        ]
        for node, log in zip(self._cluster.controllers, logs, strict=True):
            difference = _difference(logs[0], log)
            assert not difference, f"{node} differs from the first one: {difference}"
        seen = self.leaders.read_text()
        assert "leads in epoch" in seen
        assert WRONG not in seen, seen

    def _is_kept(self, node: Node) -> bool:
        try:
            image = MetadataDir(node).image()
        except OSError:
            # A snapshot or a segment was removed in the middle of the look.
            return False
        names = set(image.topics.by_name)
        changes = self.changes
        assert not set(changes.present) - names, set(changes.present) - names
        assert not changes.absent & names, changes.absent & names
        value = int(image.configs.topic(MOVING).get(SETTING, 0))
        assert changes.value <= value <= changes.tried, (changes.value, value, changes.tried)
        return True

    def go_on(self) -> None:
        """Wait until changes are acknowledged, and every client has committed."""
        commits = {number: len(self.load.commits_of[number]) for number in range(CLIENTS)}
        count = self.changes.count

        def all_go_on() -> bool:
            for each in (self.changes, self.moves):
                each.check()
            now = self.load.commits_of
            return bool(self.load.fatal) or (
                self.changes.count > count + 1 and all(len(now[n]) > commits[n] for n in commits)
            )

        wait_for("changes, and commits of every client", all_go_on, DEADLINE_S)
        assert not self.load.fatal, self.load.fatal


def _difference(one: list[Batch], other: list[Batch]) -> str:
    start = max(log[0].base_offset for log in (one, other))
    pairs = itertools.zip_longest(
        *([batch for batch in log if batch.base_offset >= start] for log in (one, other))
    )
    return next((f"{a} {b}" for a, b in pairs if a != b), "")


def run_rounds(root: Path, faults: int) -> None:
    """Make faults; the seed and their number are settings of the environment."""
    seed = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
    print(f"seed {seed}")
    cluster = made(root, dirs=2, controllers=3, settings={**SETTINGS, **SNAPSHOTS})
    try:
        for node in cluster.nodes.values():
            node.preload()
        cluster.start()
        cluster.create_topic(ORDERS, PARTITIONS, 3, min_insync_replicas="1")
        cluster.create_topic(MOVING, PARTITIONS, 2, min_insync_replicas="1")
        rounds = Rounds(cluster, seed)
        with (
            watched(cluster.controllers, rounds.leaders),
            rounds.changes.running(),
            rounds.moves.running(),
            rounds.load.running(),
        ):
            rounds.go_on()
            rounds.run(faults)
        found = committed_records(cluster.bootstrap, ORDERS, PARTITIONS, DEADLINE_S)
        check(rounds.load, found)
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("seen", "is_wrong"),
    [
        ([("100", 3), ("100", 3), ("101", 4), ("100", 6)], False),
        ([("100", 3), ("101", 3)], True),
        ([("100", 3), ("101", 4), ("100", 3)], True),
    ],
)
def test_two_that_answer_are_seen(seen: list[tuple[str, int]], is_wrong: bool) -> None:
    leaders = Leaders()
    said = [leaders.seen(*each) for each in seen]

    assert any(line.startswith(WRONG) for line in said) == is_wrong


def test_nothing_is_lost_by_a_few_faults(cluster_root: Path) -> None:
    run_rounds(cluster_root, SHORT_FAULTS)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_nothing_is_lost_by_many_faults(cluster_root: Path) -> None:
    run_rounds(cluster_root, int(os.environ.get("JBODLAB_TEST_FAULTS", LONG_FAULTS)))
