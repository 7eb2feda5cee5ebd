"""A cluster of real processes on real directories, and clients that keep accounts of every record.

The processes are the installed console scripts of the environment that runs the tests, started as
an unprivileged user (uid 1500 where the tests run as root), because permission faults bite no one
else. Everything listens on free ports of the loopback interface.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from jbodlab.ids import BrokerId, DirectoryId
from jbodlab.image.loader import MetadataLoader
from jbodlab.image.metadata_image import MetadataImage
from jbodlab.log import meta_properties
from jbodlab.log.filesystem import PosixFileSystem
from jbodlab.metadata_log.batches import read_batches

BIN = Path(sys.prefix).resolve() / "bin"
SERVER_UID = 1500
CONTROLLER_ID = 100
START_DEADLINE_S = 60.0


def as_server_user(command: list[str]) -> list[str]:
    """The command line that runs as the user that the servers run as."""
    if os.geteuid() != 0:
        return command
    return [
        "setpriv",
        f"--reuid={SERVER_UID}",
        f"--regid={SERVER_UID}",
        "--clear-groups",
        *command,
    ]


def wait_for(what: str, condition: Callable[[], Any], deadline_s: float = 30.0) -> Any:
    """Wait until the condition holds and return its value; fail loudly at the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {deadline_s} s")
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Cluster:
    """One controller and some brokers below one folder."""

    def __init__(
        self, root: Path, *, brokers: int = 3, dirs: int = 3, settings: dict[str, str] | None = None
    ) -> None:
        self.root = root
        self.brokers = list(range(1, brokers + 1))
        self.dirs = dirs
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(brokers + 1)
        self.ports = dict(zip([*self.brokers, CONTROLLER_ID], ports, strict=True))
        self.settings = settings or {}
        self._admin: AdminClient | None = None
        self.cluster_id = self._tool("jbod-storage", "random-uuid").stdout.strip()
        for node in [CONTROLLER_ID, *self.brokers]:
            self._write_node(node)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[broker]}" for broker in self.brokers)

    def home(self, node: int) -> Path:
        return self.root / f"node-{node}"

    def properties(self, node: int) -> Path:
        return self.home(node) / "server.properties"

    def log_dirs(self, broker: int) -> list[Path]:
        return [self.home(broker) / f"disk-{k}" / "data" for k in range(1, self.dirs + 1)]

    def metadata_dir(self, node: int) -> Path:
        return self.home(node) / "metadata"

    def journal(self) -> Path:
        return self.root / "faults.jsonl"

    def _write_node(self, node: int) -> None:
        controller = node == CONTROLLER_ID
        home = self.home(node)
        dirs = [] if controller else self.log_dirs(node)
        for path in [*dirs, self.metadata_dir(node)]:
            path.mkdir(parents=True)
        listener = "CONTROLLER" if controller else "PLAINTEXT"
        settings = {
            "process.roles": "controller" if controller else "broker",
            "node.id": str(node),
            "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{self.ports[CONTROLLER_ID]}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listener}://127.0.0.1:{self.ports[node]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": ",".join(map(str, dirs or [self.metadata_dir(node)])),
            "metadata.log.dir": str(self.metadata_dir(node)),
            **self.settings,
        }
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        self.properties(node).write_text(lines)
        self.own(home)
        self._tool(
            "jbod-storage", "format", "-t", self.cluster_id, "-c", str(self.properties(node))
        )

    @staticmethod
    def own(path: Path) -> None:
        """Give a tree to the server user."""
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{SERVER_UID}:{SERVER_UID}", str(path)], check=True)

    def _tool(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            as_server_user([str(BIN / name), *arguments]),
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=60,
        )

    def set_property(self, node: int, key: str, value: str) -> None:
        """Change a setting; it counts from the node's next start."""
        lines = [
            line
            for line in self.properties(node).read_text().splitlines()
            if not line.startswith(f"{key}=")
        ]
        self.properties(node).write_text("\n".join([*lines, f"{key}={value}"]) + "\n")

    def format(self, node: int) -> None:
        """Format the directories of a node that are not formatted yet."""
        self._tool(
            "jbod-storage",
            "format",
            "--ignore-formatted",
            "-t",
            self.cluster_id,
            "-c",
            str(self.properties(node)),
        )

    def image(self) -> MetadataImage:
        """The metadata as the controller's log has it."""
        loader = MetadataLoader()
        for path in sorted(self.metadata_dir(CONTROLLER_ID).glob("__cluster_metadata-0/*.log")):
            for batch in read_batches(path.read_bytes()):
                loader.load(batch)
        return loader.image

    def assigned(self, broker: int, topic: str) -> dict[int, DirectoryId]:
        """The directories of a broker's replicas, as the metadata has them."""
        found = self.image().topics.by_name[topic].partitions.items()
        return {
            index: state.directory(BrokerId(broker))
            for index, state in found
            if broker in state.replicas
        }

    def on_disk(self, broker: int, topic: str) -> dict[int, DirectoryId]:
        """The directories of a broker's replicas, as the file system has them."""
        found: dict[int, DirectoryId] = {}
        for path in self.log_dirs(broker):
            partitions = self.partitions_in(path, topic)
            assert not partitions & set(found), "two copies on one broker"
            found.update(dict.fromkeys(partitions, directory_id(path)))
        return found

    def run_to_end(self, node: int, deadline_s: float = 30.0) -> tuple[int, str]:
        """Start a node that cannot run; returns its exit code and its last line."""
        before = len(self.output(node)) if (self.home(node) / "out.log").exists() else 0
        self.start_node(node)
        code = self.processes.pop(node).wait(deadline_s)
        lines = [line for line in self.output(node)[before:].splitlines() if line.strip()]
        return code, lines[-1] if lines else ""

    def start(self) -> None:
        for node in [CONTROLLER_ID, *self.brokers]:
            self.start_node(node)
        self.wait_ready()

    def start_node(self, node: int) -> None:
        program = "jbod-controller" if node == CONTROLLER_ID else "jbod-broker"
        command = [str(BIN / program), "-c", str(self.properties(node))]
        with (self.home(node) / "out.log").open("ab") as out:
            self.processes[node] = subprocess.Popen(
                as_server_user(command), stdout=out, stderr=out, start_new_session=True, cwd="/"
            )

    def output(self, node: int) -> str:
        return (self.home(node) / "out.log").read_text(errors="replace")

    def wait_ready(self, brokers: list[int] | None = None) -> None:
        """Wait until each of these brokers lists them all."""
        wanted = set(brokers or self.brokers)
        for broker in sorted(wanted):
            admin = AdminClient(
                {"bootstrap.servers": f"127.0.0.1:{self.ports[broker]}", "log_level": 0}
            )
            wait_for(
                f"broker {broker} serving (its output: {self.output(broker)[-2000:]})",
                lambda admin=admin: wanted <= self._listed(admin),
                START_DEADLINE_S,
            )

    @staticmethod
    def _listed(admin: AdminClient) -> set[int]:
        try:
            return set(admin.list_topics(timeout=2).brokers)
        except Exception:  # noqa: BLE001 - not up yet, whatever the client calls it
            return set()

    def signal(self, node: int, number: signal.Signals) -> None:
        self.processes[node].send_signal(number)

    def kill(self, node: int) -> None:
        """As a power switch: kill -9."""
        self.signal(node, signal.SIGKILL)
        self.processes.pop(node).wait(10)

    def stop_node(self, node: int, deadline_s: float = 30.0) -> int:
        self.signal(node, signal.SIGTERM)
        return self.processes.pop(node).wait(deadline_s)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait(10)
        self.processes.clear()
        for path in self.root.rglob("data"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)

    def admin(self) -> AdminClient:
        """One client for the life of the cluster; futures of a collected one would fail."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(self, name: str, partitions: int = 6, factor: int = 3, **config: str) -> None:
        topic = NewTopic(
            name, partitions, factor, config={k.replace("_", "."): v for k, v in config.items()}
        )
        for future in self.admin().create_topics([topic]).values():
            future.result(30)
        wait_for(
            f"leaders of {name}",
            lambda: all(leader > 0 for leader in self.leaders(name).values() or [-1]),
        )

    def leaders(self, topic: str) -> dict[int, int]:
        found = self.admin().list_topics(topic, timeout=10).topics[topic]
        return {p.id: p.leader for p in found.partitions.values()}

    def isr(self, topic: str) -> dict[int, set[int]]:
        found = self.admin().list_topics(topic, timeout=10).topics[topic]
        return {p.id: set(p.isrs) for p in found.partitions.values()}

    def directory_of(self, broker: int, topic: str, partition: int) -> Path:
        """The directory of this broker that holds the replica, as the file system shows it."""

        def holding() -> Path | None:
            name = f"{topic}-{partition}"
            return next((path for path in self.log_dirs(broker) if (path / name).is_dir()), None)

        # Clients hear of a leader as soon as it is elected; its files follow a moment later.
        found: Path = wait_for(f"{topic}-{partition} at broker {broker}", holding)
        return found

    def partitions_in(self, directory: Path, topic: str) -> set[int]:
        return {
            int(path.name.rpartition("-")[2])
            for path in directory.iterdir()
            if path.name.rpartition("-")[0] == topic
        }

    def inject(self, kind: str, path: Path) -> str:
        """Break a directory with the product's own tool; returns the fault's id."""
        done = subprocess.run(
            [str(BIN / "jbod-fault"), "inject", "--journal", str(self.journal()), kind, str(path)],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout
        entries = [json.loads(line) for line in self.journal().read_text().splitlines()]
        return str(entries[-1]["id"])

    def heal(self, fault: str) -> None:
        subprocess.run(
            [str(BIN / "jbod-fault"), "heal", "--journal", str(self.journal()), fault],
            check=True,
            capture_output=True,
            timeout=60,
        )


def directory_id(path: Path) -> DirectoryId:
    """The id in the `meta.properties` of a directory."""
    found = meta_properties.read(PosixFileSystem(), path).directory_id
    assert found is not None
    return found


@contextmanager
def running(root: Path, **options: Any) -> Iterator[Cluster]:
    """A started cluster that is gone afterwards, whatever happened."""
    cluster = Cluster(root, **options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


class Load:
    """An idempotent acks=all producer at a steady rate that keeps accounts of what it sent."""

    def __init__(
        self, bootstrap: str, topic: str, *, rate: int = 500, partition: int | None = None
    ) -> None:
        self.topic = topic
        self.rate = rate
        self.partition = partition
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
        self._producer.produce(
            self.topic,
            key=str(number),
            value=str(number),
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


def assert_nothing_lost(load: Load, found: dict[int, list[tuple[int, bytes]]]) -> None:
    """Every acknowledged record is there once, where it was acknowledged, and in order."""
    assert not load.errors
    numbers = [int(value) for records in found.values() for _, value in records]
    assert len(numbers) == len(set(numbers)), "duplicated records"
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
