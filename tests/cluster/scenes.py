"""One cluster for many scenarios: each leaves it whole, or it is thrown away.

A scene begins on a cluster in which everything is in sync. It ends with every fault healed, every
directory that was lost revived, and everything in sync again, which is a test in itself.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, BrokerId, DirectoryId
from lab.cluster.log_dir_states import ask_to_revive
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.disk_faults import DiskFaults
from tests.cluster.harness import CONTROLLER_ID, Cluster, directory_id, made, wait_for
from tests.cluster.invariants import Accounts, Ledger, assert_kept, settle
from tests.cluster.lab_cluster import set_property

SETTINGS = {
    # A dead broker is noticed soon, and whatever works in the background works all the time.
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "250",
    # A test that had to wait for a follower's time to run out would wait longer than any test does.
    "replica.lag.time.max.ms": "600000",
    "auto.create.topics.enable": "false",
    # Every consumer with a group id asks for its coordinator.
    "offsets.topic.num.partitions": "5",
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
}
OUTPUT_CHARS = 3_000
REVIVAL_TIMEOUT_S = 60.0
METRICS_PORT = "jbodlab.metrics.port"
CALLS = "jbodlab_log_dir_call_seconds_count"

_numbers = itertools.count(1)
_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def some(values: Sequence[str], *now: str) -> list[Any]:
    """Parameters of a test: those named run always, the others only with the marker `soak`."""
    return [pytest.param(value, marks=() if value in now else pytest.mark.soak) for value in values]


class Scene:
    """The actions that a scenario does to the cluster, and what it knows of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.faults = DiskFaults(cluster)
        self.ids = {
            path: directory_id(path)
            for broker in cluster.broker_ids
            for path in cluster.node(broker).configured_dirs
        }
        """Of all directories while they were healthy."""
        self._topics: list[str] = []
        self._dead: set[Path] = set()
        self._offsets = {node.id: len(node.output()) for node in cluster.nodes.values()}

    # Topics

    def topic(
        self, partitions: int = 4, factor: int = 3, *, records: int = 40, **config: str
    ) -> Ledger:
        """A new topic whose replicas are where the metadata say, with some records."""
        name = f"scene-{next(_numbers)}"
        # First: it takes librdkafka half a second to get a producer id.
        ledger = Ledger(self.cluster, name, partitions)
        self.create(name, partitions, factor, **{"min_insync_replicas": "1", **config})
        if records:
            ledger.produce(records)
        return ledger

    def create(self, name: str, partitions: int = 4, factor: int = 3, **config: str) -> None:
        """Create a topic and wait until every broker is in sync that can be."""
        if name not in self._topics:
            self._topics.append(name)
        self.cluster.create_topic(name, partitions, factor, **config)
        settle(self.cluster)

    def topic_at(self, replicas: Sequence[Sequence[int]], **config: str) -> str:
        """A new topic without records, each of whose partitions has these replicas."""
        name = f"scene-{next(_numbers)}"
        self._topics.append(name)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wanted = [list(each) for each in replicas]
        asked = NewTopic(name, len(wanted), replica_assignment=wanted, config=settings)
        self.cluster.admin().create_topics([asked])[name].result(30)
        settle(self.cluster)
        return name

    def forget(self, *names: str) -> None:
        """Name topics that are not there any more at the end of the scene."""
        self._topics = [name for name in self._topics if name not in names]

    def delete(self, *names: str) -> None:
        """Delete topics and wait until the metadata are without them."""
        for future in self.cluster.admin().delete_topics(list(names)).values():
            future.result(30)
        wait_for(f"{names} gone", lambda: not set(names) & set(self.cluster.image().topics.by_name))
        self.forget(*names)

    def leader(self, ledger: Accounts, partition: int = 0) -> tuple[int, Path]:
        """The leader of a partition and the directory in which it has it."""
        leader = self.cluster.leaders(ledger.topic)[partition]
        return leader, self.cluster.broker(leader).log_dir_of(ledger.topic, partition).path

    def follower(self, ledger: Accounts, partition: int = 0) -> tuple[int, Path]:
        """A follower of a partition and the directory in which it has it."""
        leader = self.cluster.leaders(ledger.topic)[partition]
        follower = next(b for b in self.cluster.broker_ids if b != leader)
        return follower, self.cluster.broker(follower).log_dir_of(ledger.topic, partition).path

    # Directories

    def revive(self, broker: int, path: Path) -> ReviveLogDirResponse:
        """Ask a broker to bring a directory back online; its answer, whatever it is."""
        return asyncio.run(ask_to_revive(self.cluster.node(broker).state, str(path)))

    def registered(self, broker: int) -> tuple[DirectoryId, ...]:
        """The directories that the controller takes for online."""
        return self.cluster.image().cluster.brokers[BrokerId(broker)].directories

    def wait_offline(self, broker: int, *paths: Path, deadline_s: float = 20.0) -> None:
        """Wait until the controller knows that directories failed; the others stay."""
        self._dead.update(paths)
        expected = {
            self.ids[path]
            for path in self.cluster.node(broker).configured_dirs
            if path in self.ids and path not in self._dead
        }
        wait_for(
            f"directories {paths} of broker {broker} offline",
            lambda: not {self.ids[path] for path in paths} & set(self.registered(broker)),
            deadline_s,
        )
        assert set(self.registered(broker)) >= expected, "a healthy directory was lost"

    def break_and_wait(self, kind: str, broker: int, path: Path) -> Path:
        """Break a directory and wait until the controller knows."""
        self.faults.make(kind, path)
        self.wait_offline(broker, path)
        return path

    # Processes

    def said(self, node: int) -> str:
        """The lines that a node has printed during this scene."""
        return self.cluster.node(node).output()[self._offsets.get(node, 0) :]

    def restart(self, *brokers: int) -> None:
        """Stop brokers cleanly, together, and start them again."""
        for broker in brokers:
            assert self.cluster.node(broker).stop() == 0
        for broker in brokers:
            self.cluster.node(broker).start()
        self.cluster.wait_served()

    def start(self, broker: int) -> None:
        """Start a broker that does not run, and wait until it serves."""
        self.cluster.node(broker).start()
        self.cluster.wait_served()

    # Chances for what must not happen

    def let_work(self, broker: int, rounds: int = 3) -> None:
        """Wait until a broker has worked so many more times on each of its online directories."""
        online = {
            str(path)
            for path in self.cluster.node(broker).configured_dirs
            if self.ids[path] in self.registered(broker)
        }
        before = self.calls(broker)
        wait_for(
            f"{rounds} more calls to each of {sorted(online)}",
            lambda: all(
                count >= before[path] + rounds
                for path, count in self.calls(broker).items()
                if path in online
            ),
            last_seen=lambda: self.calls(broker),
        )

    def calls(self, broker: int) -> Counter[str]:
        """Calls to its disks that a broker has made so far, by the directory's path."""
        made: Counter[str] = Counter()
        for labels, value in self.metric(broker, CALLS):
            made[labels["logDirectory"]] += int(value)
        return made

    def metric(self, broker: int, name: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each sample that a broker shows of a metric."""
        url = f"http://127.0.0.1:{metrics_port(self.cluster, broker)}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        found = [_SAMPLE.fullmatch(line) for line in lines if not line.startswith("#")]
        return [
            (dict(_LABEL.findall(sample["labels"] or "")), float(sample["value"]))
            for sample in found
            if sample is not None and sample["name"] == name
        ]

    # Ends

    def check(self, *accounts: Accounts, deadline_s: float = 30.0) -> None:
        """Assert the invariants now, in the middle of things."""
        settle(self.cluster, deadline_s)
        for account in accounts:
            assert_kept(self.cluster, account)

    def wait_all_in_sync(self) -> None:
        """Wait until every replica is in its ISR and every partition has a leader."""
        wait_for(
            "everything in sync", lambda: not self._behind(), 60, last_seen=lambda: self._behind()
        )

    def tidy_up(self) -> None:
        """Heal until everything is in sync, then delete the topics."""
        self.make_whole()
        # Made by the first consumer with a group id; the next scene counts its own replicas.
        internal = INTERNAL_TOPICS & set(self.cluster.image().topics.by_name)
        if names := [*self._topics, *internal]:
            self.delete(*names)
            settle(self.cluster)
        for node in self.cluster.nodes:
            assert "Traceback" not in self.said(node), f"node {node} printed a traceback"

    def make_whole(self) -> None:
        """Heal all, start who does not run, revive what was lost; wait for all in sync."""
        self.faults.heal_all()
        cluster = self.cluster
        for node in cluster.nodes.values():
            node.thaw()
        ended = [node for node in cluster.nodes.values() if not node.is_running]
        for node in ended:
            node.start()
        if ended:
            cluster.wait_served()
        refusals: list[str] = []

        def is_whole() -> bool:
            refusals[:] = self._revive_all()
            return not self._lost() and not self._behind()

        wait_for(
            "every directory back and everything in sync",
            is_whole,
            60,
            last_seen=lambda: "\n".join([*refusals, *self._behind()]),
        )
        settle(cluster)

    def _lost(self) -> list[tuple[int, Path]]:
        """Brokers and directories of theirs that the controller takes for offline."""
        image = self.cluster.image()
        return [
            (broker, path)
            for broker in self.cluster.broker_ids
            for path in self.cluster.node(broker).configured_dirs
            if directory_id(path) not in image.cluster.brokers[BrokerId(broker)].directories
        ]

    def _revive_all(self) -> list[str]:
        """Ask for all directories that are lost; returns why some did not come back."""
        lost = self._lost()

        async def ask() -> list[ReviveLogDirResponse]:
            nodes = [(self.cluster.node(broker), path) for broker, path in lost]
            return await asyncio.gather(
                *(ask_to_revive(node.state, str(path)) for node, path in nodes)
            )

        answers = asyncio.run(ask()) if lost else []
        return [
            f"{path} of broker {broker}: {answer.error_message}"
            for (broker, path), answer in zip(lost, answers, strict=True)
            if ErrorCode(answer.error_code.value) is not ErrorCode.NONE
        ]

    def _behind(self) -> list[str]:
        """Partitions that lack a leader or a member of their ISR."""
        return [
            f"{topic.name}-{index}: leader {state.leader}, ISR {state.isr} of {state.replicas}"
            for topic in self.cluster.image().topics.by_name.values()
            for index, state in topic.partitions.items()
            if set(state.isr) != set(state.replicas) or state.leader < 0
        ]


class Stage:
    """Keeps a cluster between scenes; a scene that fails takes its cluster along."""

    def __init__(self, **options: Any) -> None:
        self._options = {"brokers": 3, "dirs": 4, "settings": SETTINGS, **options}
        self._cluster: Cluster | None = None
        self._root: Path | None = None

    @contextmanager
    def scene(self) -> Iterator[Scene]:
        """A scene on the cluster; the invariants hold at its end, after everything was healed."""
        scene = self.begin()
        try:
            yield scene
            scene.tidy_up()
        except BaseException as error:
            self.fail(scene, error)
            raise

    def begin(self) -> Scene:
        """Begin a scene, which ends with `tidy_up` or with `fail`."""
        return Scene(self._cluster or self._start())

    def fail(self, scene: Scene, error: BaseException) -> None:
        """End the cluster of a scene that failed; note what its nodes printed."""
        for node in (CONTROLLER_ID, *scene.cluster.broker_ids):
            if folder := os.environ.get("JBODLAB_TEST_OUTPUT"):
                Path(folder, f"node-{node}.log").write_text(scene.said(node))
            error.add_note(f"--- node {node}\n{scene.said(node)[-OUTPUT_CHARS:]}")
        scene.faults.heal_all()
        self.close()

    def close(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if self._root is not None:
            remove_folder(self._root)
            self._root = None

    def _start(self) -> Cluster:
        self._root = make_folder()
        cluster = self._cluster = made(self._root / "cluster", **self._options)
        ports = cluster.more_ports(len(cluster.nodes))
        for node, port in zip(cluster.nodes.values(), ports, strict=True):
            set_property(node, METRICS_PORT, str(port))
        cluster.start()
        return cluster


class Stages:
    """The stage of one test process: tests that need the same cluster share it.

    There is one at a time: idle, a cluster takes 250 MB and a tenth of a core, which soon is more
    than another start costs.
    """

    def __init__(self) -> None:
        self._needs: dict[str, Any] | None = None
        self._stage: Stage | None = None

    def of(self, **needs: Any) -> Stage:
        """Return the stage of clusters that are made with these options of `made`."""
        if self._stage is None or self._needs != needs:
            self.close()
            self._needs, self._stage = needs, Stage(**needs)
        return self._stage

    def close(self) -> None:
        """End its cluster."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None


def metrics_port(cluster: Cluster, broker: int) -> int:
    """The port at which a broker of a stage shows its metrics."""
    known = properties.parse(cluster.node(broker).properties_file.read_text("utf-8"))
    return int(known[METRICS_PORT])
