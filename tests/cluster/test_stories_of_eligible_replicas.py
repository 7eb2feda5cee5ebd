"""Eligible leader replicas: the same stories on brokers of Apache Kafka and on these.

`eligible_replicas.txt` tells them. A line is a command, and what the partition is after it; where
Kafka has it otherwise, its state stands behind `kafka:`, and `docs/differences-from-kafka.md` says
why. Leader, ISR, ELR and last known ELR come from the metadata log, and from Kafka's own tool.

    == TITLE: replicas BROKER,BROKER minimum N [KEY=VALUE]
    stop|start|kill|fail|repair BROKER       fail: the directory of its replica, by permissions
    empty BROKER                             the files of a stopped broker's replica are removed
    elect                                    an unclean election by hand
    lower|raise                              the level of eligible.leader.replicas.version
    records                                  how many of the acknowledged records can be read
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jbodlab.vocabulary.ids import BrokerId
from lab.cluster.faults import Fault
from lab.cluster.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, running, wait_for
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import FEATURES, LEADER_ELECTION, TOPICS, KafkaTools

# Each story takes half a minute here and minutes with Kafka.
pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(900)]

STORIES = Path(__file__).with_name("eligible_replicas.txt").read_text().split("\n== ")[1:]
FEATURE = "eligible.leader.replicas.version"
RECORDS = 20
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def cluster_folder() -> Iterator[Path]:
    folder = make_folder()
    yield folder
    remove_folder(folder)


@pytest.fixture(scope="module")
def ours(cluster_folder: Path) -> Iterator[Cluster]:
    with running(cluster_folder / "ours", brokers=3, dirs=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafkas(kafka_tools: KafkaTools, cluster_folder: Path) -> Iterator[Cluster]:
    servers = KafkaServers(kafka_tools, SHORT_LIVED)
    with running(cluster_folder / "kafkas", brokers=3, dirs=2, servers=servers) as cluster:
        yield cluster


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.partition(":")[0])
def test_a_story_as_this_controller_decides_it(
    ours: Cluster, kafka_tools: KafkaTools, story: str
) -> None:
    Story(ours, kafka_tools, story, is_kafka=False).play()


@pytest.mark.kafka
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.partition(":")[0])
def test_a_story_as_kafka_decides_it(kafkas: Cluster, kafka_tools: KafkaTools, story: str) -> None:
    Story(kafkas, kafka_tools, story, is_kafka=True).play()


class Story:
    """One story on one cluster, whose brokers all run before and after it."""

    def __init__(self, cluster: Cluster, tools: KafkaTools, text: str, *, is_kafka: bool) -> None:
        head, *self._lines = text.strip().split("\n")
        self._title, _, options = head.partition(":")
        words = options.split()
        self._replicas = [int(each) for each in words[1].split(",")]
        self._configs = dict(each.split("=") for each in words[4:])
        self._configs["min.insync.replicas"] = words[3]
        self._cluster, self._tools, self._is_kafka = cluster, tools, is_kafka
        self._topic = re.sub(r"[^a-z]+", "-", self._title.lower())[:60].strip("-")
        self._faults: dict[int, Fault] = {}

    def play(self) -> None:
        try:
            self._create()
            for line in self._lines:
                self._play(line)
        finally:
            for fault in self._faults.values():
                fault.heal()
            for number, broker in enumerate(self._cluster.brokers, 1):
                if number in self._faults:
                    broker.stop()
                if not broker.is_running:
                    broker.start()
            self._cluster.wait_served()
            self._set_level(1)

    def _create(self) -> None:
        options = ["--create", "--topic", self._topic, "--replica-assignment"]
        options.append(":".join(map(str, self._replicas)))
        for key, value in self._configs.items():
            options += ["--config", f"{key}={value}"]
        done = self._tools.run(TOPICS, *self._bootstrap(), *options)
        assert done.code == 0, done
        wait_for("the ISR", lambda: self._state().startswith(f"leader {self._replicas[0]} "))
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "acks": "all"})
        failures: list[object] = []
        for number in range(RECORDS):
            producer.produce(
                self._topic,
                str(number),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(DEADLINE_S) == 0
        assert not failures
        wait_for("all replicas in sync", self._has_full_isr, DEADLINE_S, last_seen=self._state)

    def _has_full_isr(self) -> bool:
        return len(self._partition().isr) == len(self._replicas)

    def _play(self, line: str) -> None:
        command, _, expected = line.partition(" -> ")
        common, _, kafkas = expected.partition(" kafka: ")
        wanted = (kafkas if self._is_kafka and kafkas else common).strip()
        verb, *words = command.split()
        if verb == "records":
            wait_for(
                f"{wanted} records",
                lambda: str(self._readable()) == wanted,
                DEADLINE_S,
                last_seen=self._readable,
            )
            return
        self._do(verb, *map(int, words))
        if not wanted:
            return
        wait_for(
            f"{self._title}: {line}",
            lambda: self._state() == wanted,
            DEADLINE_S,
            last_seen=self._state,
        )
        assert self._described() == wanted

    def _do(self, verb: str, number: int = 0) -> None:
        if verb in ("lower", "raise"):
            self._set_level(int(verb == "raise"))
            return
        if verb == "elect":
            what = f"--election-type unclean --topic {self._topic} --partition 0".split()
            done = self._tools.run(LEADER_ELECTION, *self._bootstrap(), *what)
            assert done.code == 0, done
            return
        broker = self._cluster.broker(number)
        match verb:
            case "stop":
                broker.stop()
            case "start":
                broker.start()
            case "kill":
                broker.kill()
            case "fail":
                self._faults[number] = broker.log_dir_of(self._topic, 0).fails("permission")
                # A broker notices when it writes or syncs; Kafka's does nothing else to look.
                self._write_somewhere()
            case "repair":
                self._faults.pop(number).heal()
                broker.stop()
                broker.start()
            case "empty":
                shutil.rmtree(broker.log_dir_of(self._topic, 0).path / f"{self._topic}-0")
            case _:
                raise AssertionError(verb)

    def _write_somewhere(self) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "acks": "1"})
        producer.produce(self._topic, "another")
        producer.flush(5)

    def _set_level(self, level: int) -> None:
        levels = self._cluster.image().features.levels
        if levels.get(FEATURE, 0) == level:
            return
        verb = "upgrade" if level else "downgrade"
        done = self._tools.run(
            FEATURES, *self._bootstrap(), verb, "--feature", f"{FEATURE}={level}"
        )
        assert done.code == 0, done

    def _bootstrap(self) -> tuple[str, str]:
        return "--bootstrap-server", self._cluster.bootstrap

    def _partition(self):  # type: ignore[no-untyped-def]
        return self._cluster.image().topics.by_name[self._topic].partitions[0]

    def _state(self) -> str:
        try:
            found = self._partition()
        except KeyError:
            return "no topic"
        return _told(found.leader, found.isr, found.elr, found.last_known_elr)

    def _described(self) -> str:
        """Return what Kafka's tool says as soon as the brokers know the controller's decision."""
        wanted = self._state()

        def told() -> str:
            done = self._tools.run(TOPICS, *self._bootstrap(), "--describe", "--topic", self._topic)
            fields = dict(re.findall(r"(\w+): ([\w,]*)", done.out.partition("Partition: 0")[2]))
            return _told(
                -1 if fields["Leader"] == "none" else int(fields["Leader"]),
                *(
                    [BrokerId(int(each)) for each in fields[name].split(",") if each]
                    for name in ("Isr", "Elr", "LastKnownElr")
                ),
            )

        wait_for("the tool to say so", lambda: told() == wanted, DEADLINE_S, last_seen=told)
        return wanted

    def _readable(self) -> int:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
            }
        )
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=10)
        except KafkaException:
            return -1
        finally:
            consumer.close()
        return high - low


def _told(leader: int, *lists: object) -> str:
    isr, elr, last = (",".join(map(str, sorted(each))) or "-" for each in lists)  # type: ignore[call-overload]
    return f"leader {leader} isr {isr} elr {elr} last {last}"
