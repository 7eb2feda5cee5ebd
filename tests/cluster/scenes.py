"""One cluster for many scenarios: each leaves it whole, or it is thrown away.

A scene begins on a cluster in which everything is in sync. It ends with every fault healed, every
broker restarted that lost a directory, and everything in sync again, which is a test in itself.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from jbodlab.ids import BrokerId, DirectoryId
from tests.cluster.disk_faults import DiskFaults
from tests.cluster.harness import CONTROLLER_ID, Cluster, directory_id, wait_for
from tests.cluster.invariants import (
    Accounts,
    Ledger,
    assert_kept,
    configured_dirs,
    is_running,
    metadata,
    settle,
)

SETTINGS = {
    # A dead broker is noticed soon, and whatever works in the background works all the time.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
}
OUTPUT_CHARS = 3_000

_numbers = itertools.count(1)


def some(values: Sequence[str], *now: str) -> list[Any]:
    """Parameters of a test: those named run always, the others only with the marker `soak`."""
    return [pytest.param(value, marks=() if value in now else pytest.mark.soak) for value in values]


class Scene:
    """What a scenario does to the cluster, and what it knows of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.faults = DiskFaults(cluster)
        self.ids = {
            path: directory_id(path)
            for broker in cluster.brokers
            for path in configured_dirs(cluster, broker)
        }
        """Of all directories while they were healthy."""
        self._topics: list[str] = []
        self._dead: set[Path] = set()
        self._offsets = {node: len(cluster.output(node)) for node in cluster.processes}

    # Topics

    def topic(
        self, partitions: int = 4, factor: int = 3, *, records: int = 40, **config: str
    ) -> Ledger:
        """A new topic whose replicas are where the metadata say, with some records."""
        name = f"scene-{next(_numbers)}"
        self.create(name, partitions, factor, **{"min_insync_replicas": "1", **config})
        ledger = Ledger(self.cluster, name, partitions)
        if records:
            ledger.produce(records)
        return ledger

    def create(self, name: str, partitions: int = 4, factor: int = 3, **config: str) -> None:
        """Create a topic and wait until every broker is in sync that can be."""
        if name not in self._topics:
            self._topics.append(name)
        self.cluster.create_topic(name, partitions, factor, **config)
        settle(self.cluster)

    def new_topics(self, names: list[str], partitions: int = 4, factor: int = 3) -> None:
        """Ask for topics and wait for the controller's word only."""
        self._topics += [name for name in names if name not in self._topics]
        asked = [NewTopic(name, partitions, factor) for name in names]
        for future in self.cluster.admin().create_topics(asked).values():
            future.result(30)

    def forget(self, *names: str) -> None:
        """Name topics that are not there any more at the end of the scene."""
        self._topics = [name for name in self._topics if name not in names]

    def delete(self, *names: str) -> None:
        """Delete topics and wait until the metadata are without them."""
        for future in self.cluster.admin().delete_topics(list(names)).values():
            future.result(30)
        wait_for(
            f"{names} gone", lambda: not set(names) & set(metadata(self.cluster).topics.by_name)
        )
        self.forget(*names)

    def leader(self, ledger: Accounts, partition: int = 0) -> tuple[int, Path]:
        """The leader of a partition and the directory in which it has it."""
        leader = self.cluster.leaders(ledger.topic)[partition]
        return leader, self.cluster.directory_of(leader, ledger.topic, partition)

    def follower(self, ledger: Accounts, partition: int = 0) -> tuple[int, Path]:
        """A follower of a partition and the directory in which it has it."""
        leader = self.cluster.leaders(ledger.topic)[partition]
        follower = next(b for b in self.cluster.brokers if b != leader)
        return follower, self.cluster.directory_of(follower, ledger.topic, partition)

    # Directories

    def registered(self, broker: int) -> tuple[DirectoryId, ...]:
        """The directories that the controller takes for online."""
        return metadata(self.cluster).cluster.brokers[BrokerId(broker)].directories

    def wait_offline(self, broker: int, *paths: Path, deadline_s: float = 20.0) -> None:
        """Wait until the controller knows that directories failed; the others stay."""
        self._dead.update(paths)
        expected = {
            self.ids[path]
            for path in configured_dirs(self.cluster, broker)
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
        """What a node has printed during this scene."""
        return self.cluster.output(node)[self._offsets.get(node, 0) :]

    def restart(self, *brokers: int) -> None:
        """Stop brokers cleanly, together, and start them again."""
        for broker in brokers:
            assert self.cluster.stop_node(broker) == 0
        for broker in brokers:
            self.cluster.start_node(broker)
        self.cluster.wait_ready()

    def start(self, broker: int) -> None:
        """Start a broker that does not run, and wait until it serves."""
        self.cluster.start_node(broker)
        self.cluster.wait_ready()

    def bounce_controller(self, *, kill: bool) -> None:
        """Restart the controller, cleanly or not."""
        if kill:
            self.cluster.kill(CONTROLLER_ID)
        else:
            assert self.cluster.stop_node(CONTROLLER_ID) == 0
        self.cluster.start_node(CONTROLLER_ID)

    # Ends

    def check(self, *accounts: Accounts, deadline_s: float = 30.0) -> None:
        """Assert the invariants now, in the middle of things."""
        settle(self.cluster, deadline_s)
        for account in accounts:
            assert_kept(self.cluster, account)

    def wait_all_in_sync(self) -> None:
        """Wait until every replica is in its ISR and every partition has a leader."""
        wait_for("everything in sync", self._all_in_sync, 60)

    def tidy_up(self) -> None:
        """Heal and restart until everything is in sync, then delete the topics."""
        self.restart_all_healed()
        cluster = self.cluster
        if self._topics:
            self.delete(*self._topics)
        settle(cluster)
        for node in cluster.processes:
            assert "Traceback" not in self.said(node), f"node {node} printed a traceback"

    def restart_all_healed(self) -> None:
        """Heal all, start who does not run, restart who lost a directory; wait for all in sync."""
        self.faults.heal_all()
        cluster = self.cluster
        if not is_running(cluster, CONTROLLER_ID):
            cluster.processes.pop(CONTROLLER_ID, None)
            cluster.start_node(CONTROLLER_ID)
        stopping = [b for b in cluster.brokers if is_running(cluster, b) and not self._is_whole(b)]
        for broker in stopping:
            assert cluster.stop_node(broker) == 0
        for broker in cluster.brokers:
            if not is_running(cluster, broker):
                cluster.processes.pop(broker, None)
                cluster.start_node(broker)
        cluster.wait_ready()
        settle(cluster)
        self.wait_all_in_sync()

    def _is_whole(self, broker: int) -> bool:
        return set(self.registered(broker)) == {
            directory_id(path) for path in configured_dirs(self.cluster, broker)
        }

    def _all_in_sync(self) -> bool:
        return all(
            set(state.isr) == set(state.replicas) and state.leader >= 0
            for topic in metadata(self.cluster).topics.by_name.values()
            for state in topic.partitions.values()
        )


class Stage:
    """Keeps a cluster between scenes; a scene that fails takes its cluster along."""

    def __init__(self, **options: Any) -> None:
        self._options = {"brokers": 3, "dirs": 4, "settings": SETTINGS, **options}
        self._cluster: Cluster | None = None
        self._root: Path | None = None

    @contextmanager
    def scene(self) -> Iterator[Scene]:
        """A scene on the cluster; the invariants hold at its end, after everything was healed."""
        cluster = self._cluster or self._start()
        scene = Scene(cluster)
        try:
            yield scene
            scene.tidy_up()
        except BaseException as error:
            for node in (CONTROLLER_ID, *cluster.brokers):
                if folder := os.environ.get("JBODLAB_TEST_OUTPUT"):
                    Path(folder, f"node-{node}.log").write_text(scene.said(node))
                error.add_note(f"--- node {node}\n{scene.said(node)[-OUTPUT_CHARS:]}")
            scene.faults.heal_all()
            self.close()
            raise

    def close(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def _start(self) -> Cluster:
        self._root = Path(tempfile.mkdtemp(prefix="jbodlab-stage-"))
        self._root.chmod(0o755)
        cluster = self._cluster = Cluster(self._root / "cluster", **self._options)
        cluster.start()
        return cluster


def steadily(what: str, condition: Any, seconds: float = 2.0) -> None:
    """Assert that something stays true for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), what
        time.sleep(0.1)
