"""Helpers that tests need beside the cluster itself: clients that keep accounts of every record."""

from __future__ import annotations

import subprocess
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import BrokerId, DirectoryId
from lab.cluster import ClusterSpec, wait_for
from lab.cluster.spec import CONTROLLER_ID, SETTINGS
from lab.machine import processes, programs
from tests.cluster.lab_cluster import Cluster, Disk

__all__ = ["CONTROLLER_ID", "Cluster", "wait_for"]

TREE = Path(__file__).parents[2]
DEFAULTS = {"default.replication.factor": "1", "min.insync.replicas": "1"}
"""Kafka's own, where the lab's clusters have what people run."""


@contextmanager
def running(root: Path, **options: Any) -> Iterator[Cluster]:
    """A started cluster, with the options of `made`, that is gone afterwards, whatever happened."""
    cluster = made(root, **options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def made(
    root: Path,
    *,
    brokers: int = 3,
    dirs: int = 3,
    settings: Mapping[str, str] | None = None,
    disk: Callable[[Path], Disk] | None = None,
    **options: Any,
) -> Cluster:
    """A formatted cluster that does not run; whoever asks closes it."""
    said = {name: options.pop(name) for name in SETTINGS if name in options}
    spec = ClusterSpec(brokers=brokers, disks=dirs, **said)
    cluster = Cluster.plan(root, spec, **options)
    try:
        return cluster.make({**DEFAULTS, **(settings or {})}, disk=disk)
    except BaseException:
        cluster.close()
        raise


@cache
def _scripts() -> dict[str, str]:
    with (TREE / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["project"]["scripts"])


def script(name: str) -> list[str]:
    """The command of a console script, run from the sources beside the tests."""
    module, function = _scripts()[name].split(":")
    return [
        programs.python(),
        "-c",
        f"import sys; from {module} import {function}; sys.exit({function}())",
    ]


def as_servers(
    cluster: Cluster, command: list[str], timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a command as the user that the servers run as."""
    return processes.run(
        command, user=cluster.user, environment=cluster.environment(), timeout_s=timeout_s
    )


def assigned(cluster: Cluster, broker: int, topic: str) -> dict[int, DirectoryId]:
    """The directories of a broker's replicas, as the metadata has them."""
    found = cluster.image().topics.by_name[topic].partitions.items()
    return {
        index: state.directory(BrokerId(broker))
        for index, state in found
        if broker in state.replicas
    }


def on_disk(cluster: Cluster, broker: int, topic: str) -> dict[int, DirectoryId]:
    """The directories of a broker's replicas, as the file system has them."""
    found: dict[int, DirectoryId] = {}
    for path in cluster.broker(broker).paths:
        partitions = partitions_in(path, topic)
        assert not partitions & set(found), "two copies on one broker"
        found.update(dict.fromkeys(partitions, directory_id(path)))
    return found


def partitions_in(directory: Path, topic: str) -> set[int]:
    """The partitions of a topic in a directory, by the names of its folders alone."""
    return {
        int(path.name.rpartition("-")[2])
        for path in directory.iterdir()
        if path.name.rpartition("-")[0] == topic
    }


def directory_id(path: Path) -> DirectoryId:
    """The id in the `meta.properties` of a directory."""
    found = meta_properties.read(PosixFileSystem(), path).directory_id
    assert found is not None
    return found


class Load:
    """An idempotent acks=all producer at a steady rate that keeps accounts of what it sent."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        rate: int = 500,
        partition: int | None = None,
        in_turn: Sequence[int] = (),
        value: Callable[[int], str] = str,
    ) -> None:
        self.topic = topic
        self.rate = rate
        self.partition = partition
        self.in_turn = in_turn
        """The partitions that get the messages in turn; none to leave it to the client."""
        self.value = value
        """The text of a message, by its number."""
        self.acknowledged: dict[int, tuple[int, int]] = {}
        """Sequence number of the message to (partition, offset)."""
        self.times: list[float] = []
        self.times_of: dict[int, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.sent = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        wait_for("the first acknowledgement", lambda: self.acknowledged)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(150)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) * self.rate)
            while self.sent < due:
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0.002)
        self._producer.flush(120)

    def _send(self, number: int) -> None:
        options = {} if self.partition is None else {"partition": self.partition}
        if self.in_turn:
            options["partition"] = self.in_turn[number % len(self.in_turn)]
        self._producer.produce(
            self.topic,
            key=str(number),
            value=self.value(number),
            on_delivery=lambda error, message: self._delivered(number, error, message),
            **options,
        )

    def _delivered(self, number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        now = time.monotonic()
        self.acknowledged[number] = (message.partition(), message.offset())
        self.times.append(now)
        self.times_of[message.partition()].append(now)

    def acknowledged_after(self, moment: float, partition: int) -> bool:
        times = self.times_of[partition]
        return bool(times) and times[-1] > moment

    def longest_gap_s(self) -> float:
        return max(b - a for a, b in zip(self.times, self.times[1:], strict=False))


def read_all(
    bootstrap: str, topic: str, partitions: int, deadline_s: float = 60.0
) -> dict[int, list[tuple[int, bytes]]]:
    """Everything in a topic by assignment from the beginning: partition to (offset, value)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "accounts",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            # The end of a partition is known from an answer without records.
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(partitions)}
    ended: set[int] = set()
    end = time.monotonic() + deadline_s
    while len(ended) < partitions:
        assert time.monotonic() < end, f"partitions {set(found) - ended} were not read to their end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.partition()].append((message.offset(), message.value()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        elif not error.retriable():
            raise AssertionError(str(error))
    consumer.close()
    return found


def _twice(found: dict[int, list[tuple[int, bytes]]]) -> dict[bytes, list[tuple[int, int]]]:
    """Where the first values are that stand more than once: partition and offset."""
    places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for partition, records in found.items():
        for offset, value in records:
            places[value].append((partition, offset))
    return dict(islice(((v, p) for v, p in places.items() if len(p) > 1), 20))


def assert_nothing_lost(load: Load, found: dict[int, list[tuple[int, bytes]]]) -> None:
    """Every acknowledged record is there once, where it was acknowledged, and in order."""
    assert not load.errors, f"{len(load.errors)} errors, such as {sorted(set(load.errors))[:3]}"
    numbers = [int(value) for records in found.values() for _, value in records]
    assert len(numbers) == len(set(numbers)), f"duplicated records: {_twice(found)}"
    places = {
        int(value): (partition, offset)
        for partition, records in found.items()
        for offset, value in records
    }
    lost = {n: place for n, place in load.acknowledged.items() if places.get(n) != place}
    assert not lost, f"{len(lost)} acknowledged records are lost or elsewhere: {sorted(lost)[:5]}"
    for records in found.values():
        values = [int(value) for _, value in records]
        assert values == sorted(values), "records out of order"
