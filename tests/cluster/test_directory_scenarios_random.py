"""Long rows of random mishaps, under load: directories, brokers, the controller, topics.

Nothing destroys data, so whatever was acknowledged must be there when everything is healed. A seed
makes a row repeatable in what is done, though not in when; a failure prints the steps.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.cluster.disk_faults import KINDS
from tests.cluster.harness import CONTROLLER_ID, wait_for
from tests.cluster.invariants import Ledger, settle
from tests.cluster.scenes import Scene, Stage

pytestmark = [pytest.mark.cluster, pytest.mark.soak]

STEPS = 30
# A broker with one of these does not start; see test_directory_scenarios_start.
UNSTARTABLE = {"delete", "empty", "dangling", "mount_over"}


class Row:
    """One row of mishaps."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.random = random.Random(seed)
        self.ledgers = [scene.topic(6, min_insync_replicas="1") for _ in range(2)]
        self.broken: dict[Path, str] = {}
        self.steps: list[str] = []
        self.numbers = 0
        self.started: dict[int, int] = {}

    def step(self) -> None:
        """Do one thing."""
        for ledger in self.ledgers:
            ledger.send(20)
        action = self.random.choice(
            [
                self.break_directory,
                self.break_directory,
                self.break_directory,
                self.heal,
                self.heal,
                self.restart_broker,
                self.kill_broker,
                self.restart_controller,
                self.replace_topic,
                self.add_topic,
                self.look,
            ]
        )
        action()
        self.pause()

    def pause(self) -> None:
        """Let the controller write some more records, or none; an idle one writes two a second."""
        wanted = self.cluster.image().offset + self.random.choice([0, 1, 3])
        wait_for("records of the controller", lambda: self.cluster.image().offset >= wanted)

    def note(self, text: str) -> None:
        self.steps.append(text)

    def break_directory(self) -> None:
        broker = self.random.choice(self.cluster.broker_ids)
        healthy = [path for path in self.cluster.broker(broker).paths if path not in self.broken]
        # The last one would end the process.
        if len(healthy) > 1:
            kinds = [k for k in KINDS if k not in UNSTARTABLE or self.serves(broker)]
            path, kind = self.random.choice(healthy), self.random.choice(kinds)
            self.note(f"break {kind} {path}")
            self.broken[self.scene.faults.make(kind, path)] = kind

    def heal(self) -> None:
        if self.broken:
            path = self.random.choice(sorted(self.broken))
            self.note(f"heal {path}")
            self.scene.faults.heal(path)
            del self.broken[path]

    def restart_broker(self) -> None:
        broker = self.random.choice(self.cluster.broker_ids)
        if self.can_start(broker) and self.cluster.node(broker).is_running:
            self.note(f"restart {broker}")
            self.cluster.node(broker).stop()
            self.start(broker)

    def kill_broker(self) -> None:
        broker = self.random.choice(self.cluster.broker_ids)
        if self.can_start(broker) and self.cluster.node(broker).is_running:
            self.note(f"kill {broker}")
            self.cluster.node(broker).kill()
            self.pause()
            self.start(broker)

    def start(self, broker: int) -> None:
        self.started[broker] = len(self.cluster.node(broker).output())
        self.cluster.node(broker).start()

    def serves(self, broker: int) -> bool:
        """Whether a broker has read its directories."""
        return "serves clients" in self.said_since_start(broker)

    def said_since_start(self, node: int) -> str:
        return self.cluster.node(node).output()[self.started.get(node, 0) :]

    def can_start(self, broker: int) -> bool:
        return not any(
            self.broken.get(path) in UNSTARTABLE for path in self.cluster.broker(broker).paths
        )

    def restart_controller(self) -> None:
        self.note("restart the controller")
        # Who is stopped while it starts has not learned yet to stop in order.
        wait_for("it serves", lambda: "serves brokers" in self.said_since_start(CONTROLLER_ID))
        self.started[CONTROLLER_ID] = len(self.cluster.node(CONTROLLER_ID).output())
        self.scene.bounce_controller(kill=self.random.random() < 0.5)

    def add_topic(self) -> None:
        self.numbers += 1
        self.note("add a topic")
        self.create(f"added-{self.numbers}")

    def replace_topic(self) -> None:
        self.note("replace a topic")
        ledger = self.ledgers.pop()
        ledger.finish()
        self.scene.delete(ledger.topic)
        self.create(ledger.topic)

    def create(self, name: str) -> None:
        wait_for("a topic created", lambda: self.is_created(name))
        self.ledgers.append(Ledger(self.cluster, name, 6))

    def is_created(self, name: str) -> bool:
        try:
            self.scene.new_topics([name], 6)
        except KafkaException as error:
            # A broker that is about to stop or to start takes no replicas.
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    def look(self) -> None:
        self.note("look")
        settle(self.cluster, 60)


@pytest.mark.parametrize("seed", range(12))
def test_row_of_mishaps(seed: int, stage: Stage) -> None:
    with stage.scene() as scene:
        row = Row(scene, seed)
        try:
            for _ in range(STEPS):
                row.step()
            row.look()
        except BaseException as error:
            error.add_note("\n".join(row.steps))
            raise
        scene.make_whole()
        for ledger in row.ledgers:
            ledger.finish()
        assert scene.cluster.node(CONTROLLER_ID).is_running
        scene.check(*row.ledgers)
