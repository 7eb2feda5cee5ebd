"""Frameworks that people run on Kafka, unchanged, while disks die below what they read and commit.

Kafka Streams, Kafka Connect with its file connectors, Spark's Kafka source and sink. Their programs
are in `tests/clients`. Times are measured and printed, and judged by nobody: pytest -s.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from lab.machine import kafka_jars
from tests.clients.members import ProgramProcess
from tests.clients.programs import FOLDER
from tests.cluster.group_stage import GROUP_SETTINGS, coordinator
from tests.cluster.harness import Load, read_all, wait_for
from tests.cluster.scenes import Scene, Stage, Stages
from tests.cluster.transactional_load import TransactionalLoad, check
from tests.cluster.word_counts import Counts, WordCount, line, words_of
from tests.kafka.jars import FILE_CONNECTORS, LINE_3, RELEASE, NoKafkaError, fetched
from tests.kafka.tools import OPTIONS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]

PARTITIONS = 4
STARTS_S = 300.0
GOES_ON_S = 120.0
"""For all that is written in between: what a fault costs is printed."""
RATE = 100
SPARK_KAFKA = "4.2.0"
"""The last of PySpark's line that can be had."""


@pytest.fixture
def roomy_stage(stages: Stages) -> Stage:
    """Brokers that are not fenced while frameworks start, each with two JVMs on all cores."""
    patient = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "500"}
    return stages.of(settings={**GROUP_SETTINGS, **patient})


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Ends the programs of a test, whatever happened."""
    with ExitStack() as stack:
        yield stack


def lose_directory(scene: Scene, what: str, place: tuple[int, Path], goes_on: Any) -> None:
    """Break a directory; what was written until then has to arrive; then bring it back."""
    since_s = time.monotonic()
    scene.break_and_wait("chmod000", *place)
    goes_on()
    print(f"directory of {what} lost: all arrived {time.monotonic() - since_s:.2f} s later")
    scene.make_whole()


def drop_topics(scene: Scene, prefix: str) -> None:
    """Delete what a framework has created for itself."""
    made = [name for name in scene.cluster.image().topics.by_name if name.startswith(prefix)]
    scene.delete(*made)


# Kafka Streams


@pytest.mark.parametrize("release", [RELEASE, LINE_3])
def test_streams_count_words_over_dead_directories_and_a_lost_store(
    release: str, roomy_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    application, state = f"words-of-{release}", tmp_path / "state"
    with roomy_stage.scene() as scene:
        lines = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
        counts = scene.topic(PARTITIONS, records=0, min_insync_replicas="2").topic
        words = WordCount(
            scene.cluster,
            *(lines.topic, counts, application, state, running),
            release=release,
            replication_factor="3",
            topic_min_insync_replicas="2",
            num_stream_threads="2",
        )
        reader = Counts(scene.cluster, counts)
        running.callback(reader.close)
        words.start()
        with Load(scene.cluster.bootstrap, lines.topic, rate=RATE, value=line) as load:

            def arrives() -> None:
                sent = set(words_of(list(load.acknowledged)))

                def is_counted() -> bool:
                    words.assert_well()
                    return sent <= set(reader.read())

                wait_for("all words", is_counted, GOES_ON_S, last_seen=lambda: words)

            arrives()
            place = coordinator(scene, application)
            lose_directory(scene, f"{application}'s coordinator", place, arrives)
            lose_directory(scene, "a partition that it reads", scene.leader(lines, 0), arrives)
            changelog = type(lines)(scene.cluster, f"{application}-counts-changelog", PARTITIONS)
            lose_directory(scene, "its changelog", scene.leader(changelog, 0), arrives)
        assert not load.errors
        arrives()
        assert reader.read() == words_of(range(load.sent))
        words.stop()

        # State that it knew is in the changelog, and nowhere else.
        shutil.rmtree(state)
        words.start()
        assert words.restored >= load.sent
        with Load(scene.cluster.bootstrap, lines.topic, rate=RATE, value=line) as more:
            wait_for("as many words again", lambda: more.sent >= RATE)
        expected = words_of(range(load.sent)) + words_of(range(more.sent))
        wait_for(
            "the words of both",
            lambda: words.assert_well() is None and reader.read() == expected,
            GOES_ON_S,
            last_seen=lambda: words,
        )
        words.stop()
        drop_topics(scene, application)


# Kafka Connect


class Connect:
    """Workers of one Connect cluster, each a process of Kafka's own main."""

    def __init__(self, scene: Scene, folder: Path, running: ExitStack, **settings: str) -> None:
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}
        self._jars = f"{fetched(FILE_CONNECTORS)}/*:{fetched(RELEASE)}/*"
        self._scene = scene
        self._folder = folder
        self._running = running
        self._ports = itertools.count()
        self.workers: list[tuple[int, ProgramProcess]] = []

    def start_worker(self) -> None:
        """Start one more, and wait until it answers."""
        (port,) = self._scene.cluster.more_ports(1)
        settings = {
            "bootstrap.servers": self._scene.cluster.bootstrap,
            "group.id": "connect-workers",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **{
                f"{kind}.storage.{key}": value
                for kind in ("config", "offset", "status")
                for key, value in (("topic", f"connect-{kind}"), ("replication.factor", "3"))
            },
            "offset.storage.partitions": "3",
            "status.storage.partitions": "3",
            "offset.flush.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "consumer.auto.offset.reset": "earliest",
            "plugin.discovery": "service_load",
            "listeners": f"http://127.0.0.1:{port}",
            **self._settings,
        }
        file = self._folder / f"worker-{port}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        worker = ProgramProcess(["java", *OPTIONS, "-cp", self._jars, main, str(file)])
        self._running.callback(worker.close)
        self.workers.append((port, worker))
        wait_for(
            "a worker that answers",
            lambda: worker.assert_runs() is None and self._answers(port),
            STARTS_S,
            last_seen=lambda: worker,
        )

    def stop_worker(self) -> None:
        """Stop the first one as a service manager does."""
        _, worker = self.workers.pop(0)
        worker.terminate(GOES_ON_S)

    def kill_worker(self) -> None:
        """End the first one with SIGKILL."""
        _, worker = self.workers.pop(0)
        worker.close()

    def put(self, name: str, **config: str) -> None:
        """Create a connector, or change it."""
        body = json.dumps({key.replace("_", "."): value for key, value in config.items()})

        def is_taken() -> bool:
            # While its workers share their work anew it says 409.
            return self._ask(f"connectors/{name}/config", body) is not None

        wait_for(f"the connector {name}", is_taken, STARTS_S)

    def wait_running(self, *names: str) -> None:
        """Wait until connectors and their tasks run."""

        def states() -> set[str]:
            found: set[str] = set()
            for name in names:
                status = self._ask(f"connectors/{name}/status")
                parts = [] if status is None else [status["connector"], *status["tasks"]]
                found |= {part["state"] for part in parts} if len(parts) > 1 else {"none"}
            return found

        wait_for(f"{names} run", lambda: states() == {"RUNNING"}, STARTS_S, last_seen=states)

    def _answers(self, port: int) -> bool:
        return self._ask("connectors", port=port) is not None

    def _ask(self, path: str, body: str | None = None, port: int | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.workers[0][0]}/{path}",
            data=None if body is None else body.encode(),
            headers={"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            return None


class Writer:
    """Appends numbered lines to a file, at a steady rate."""

    def __init__(self, path: Path) -> None:
        self.lines: list[str] = []
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _write(self) -> None:
        with self._path.open("a") as file:
            while not self._stop.wait(1 / RATE):
                file.write(f"line {len(self.lines)}\n")
                file.flush()
                self.lines.append(f"line {len(self.lines)}")


def test_connect_carries_every_line_from_file_to_file_over_dead_directories(
    roomy_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.touch()
    with roomy_stage.scene() as scene:
        try:
            connect = Connect(scene, tmp_path, running)
        except NoKafkaError as error:
            pytest.skip(str(error))
        carried = scene.topic(1, records=0, min_insync_replicas="2")
        for _ in range(2):
            connect.start_worker()
        kinds = "org.apache.kafka.connect.file.FileStream"
        files = {"tasks_max": "1", "topic": carried.topic, "topics": carried.topic}
        connect.put("reads", connector_class=f"{kinds}SourceConnector", file=str(source), **files)
        connect.put("writes", connector_class=f"{kinds}SinkConnector", file=str(sink), **files)
        connect.wait_running("reads", "writes")
        with Writer(source) as writer:

            def arrives() -> None:
                wanted = set(writer.lines)

                def is_there() -> bool:
                    for _, worker in connect.workers:
                        worker.assert_runs()
                    return sink.exists() and wanted <= set(sink.read_text().splitlines())

                seen = lambda: (connect.workers, len(wanted), sink.exists())  # noqa: E731
                wait_for("all lines", is_there, GOES_ON_S, last_seen=seen)

            arrives()
            for group in ("connect-workers", "connect-writes"):
                lose_directory(scene, f"{group}'s coordinator", coordinator(scene, group), arrives)
            lose_directory(scene, "the topic", scene.leader(carried), arrives)
            connect.stop_worker()
            arrives()
            connect.wait_running("reads", "writes")
        arrives()
        # In their order; what is there twice was sent twice, which Connect may.
        read = sink.read_text().splitlines()
        assert list(dict.fromkeys(read)) == writer.lines
        print(f"{len(read) - len(writer.lines)} of {len(read)} lines are there twice")
        connect.stop_worker()
        drop_topics(scene, "connect-")


def test_connect_reads_each_line_exactly_once_over_dead_directories_and_a_killed_worker(
    roomy_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    source = tmp_path / "source"
    source.touch()
    with roomy_stage.scene() as scene:
        exactly_once = {"exactly_once_source_support": "enabled", "session_timeout_ms": "6000"}
        try:
            connect = Connect(scene, tmp_path, running, **exactly_once)
        except NoKafkaError as error:
            pytest.skip(str(error))
        read = scene.topic(1, records=0, min_insync_replicas="2")
        connect.start_worker()
        kind = "org.apache.kafka.connect.file.FileStreamSourceConnector"
        files = {"connector_class": kind, "file": str(source), "topic": read.topic}
        connect.put("reads", **files, tasks_max="1", exactly_once_support="required")
        connect.wait_running("reads")

        def committed() -> list[str]:
            # librdkafka reads committed records, unless told otherwise.
            found = read_all(scene.cluster.bootstrap, read.topic, 1)
            return [value.decode() for _, value in found[0]]

        with Writer(source) as writer:

            def arrives() -> None:
                wanted = len(writer.lines)

                def is_there() -> bool:
                    connect.workers[0][1].assert_runs()
                    return len(committed()) >= wanted

                wait_for("all lines", is_there, GOES_ON_S, last_seen=lambda: connect.workers)

            arrives()
            place = coordinator(scene, "connect-workers-reads-0", TRANSACTION_STATE_TOPIC)
            lose_directory(scene, "the task's transactions", place, arrives)
            lose_directory(scene, "the topic", scene.leader(read), arrives)
            offsets = type(read)(scene.cluster, "connect-offset", 3)
            connect.kill_worker()
            lose_directory(
                scene, "a partition of source offsets", scene.leader(offsets), lambda: None
            )
            connect.start_worker()
            arrives()
        arrives()
        connect.stop_worker()
        assert committed() == writer.lines
        drop_topics(scene, "connect-")


# Spark


def spark_jars() -> str:
    """The jars of Spark's Kafka source that PySpark has not."""
    found = util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    there = {_name(path) for path in (Path(found.origin).parent / "jars").glob("*.jar")}
    artifact = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_KAFKA}"
    folder = kafka_jars.fetched(f"spark-kafka-{SPARK_KAFKA}", artifacts=[artifact])
    return ",".join(str(path) for path in folder.glob("*.jar") if _name(path) not in there)


def _name(jar: Path) -> str:
    return jar.name.rpartition("-")[0]


def numbers(value: str) -> tuple[int, ...]:
    """The numbers in a record of a `TransactionalLoad`."""
    return tuple(map(int, value.split(":")))


def written_by_spark(files: Path) -> list[tuple[int, int, str]]:
    """The records in those files that were committed, as the log beside them has it."""
    paths = {
        Path(json.loads(line)["path"].removeprefix("file://"))
        for log in (files / "_spark_metadata").glob("[0-9]*")
        for line in log.read_text().splitlines()[1:]
    }
    rows = (json.loads(line) for path in paths for line in path.read_text().splitlines())
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def test_spark_copies_committed_records_once_over_dead_directories_and_a_restart(
    roomy_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    if metadata.version("pyspark").rpartition(".")[0] != SPARK_KAFKA.rpartition(".")[0]:
        pytest.skip(f"PySpark is not of the line of {SPARK_KAFKA}")
    try:
        jars = spark_jars()
    except NoKafkaError as error:
        pytest.skip(str(error))
    files, checkpoints = tmp_path / "files", tmp_path / "checkpoints"
    command = [sys.executable, str(FOLDER / "spark" / "follow.py")]
    with roomy_stage.scene() as scene:
        bootstrap = scene.cluster.bootstrap
        copied = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
        copies = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")

        def start() -> ProgramProcess:
            topics = (copied.topic, copies.topic)
            program = ProgramProcess(
                command, bootstrap, *topics, str(files), str(checkpoints), jars
            )
            running.callback(program.close)
            wait_for(
                "queries that run",
                lambda: program.assert_runs() is None and bool(program.events),
                STARTS_S,
                last_seen=lambda: program,
            )
            return program

        def in_copies() -> set[str]:
            read = read_all(bootstrap, copies.topic, PARTITIONS)
            return {value.decode() for records in read.values() for _, value in records}

        program = start()
        load = TransactionalLoad(bootstrap, copied.topic, PARTITIONS, producers=1, pause_s=0.1)
        with load.running():

            def arrives() -> None:
                wanted = wait_for("a commit", load.committed)

                def is_there() -> bool:
                    program.assert_runs()
                    there = written_by_spark(files) if files.exists() else []
                    return wanted <= {value for _, _, value in there} and wanted <= in_copies()

                wait_for("all records", is_there, GOES_ON_S, last_seen=lambda: program)

            arrives()
            place = coordinator(scene, f"{copied.topic}-0", TRANSACTION_STATE_TOPIC)
            lose_directory(scene, "the producer's transactions", place, arrives)
            lose_directory(scene, "a partition", scene.leader(copied, 0), arrives)
            lose_directory(scene, "a partition of the copies", scene.leader(copies, 1), arrives)
            program.leave(GOES_ON_S)
            program = start()
            arrives()
        assert not load.fatal
        arrives()
        program.leave(GOES_ON_S)
        read = read_all(bootstrap, copied.topic, PARTITIONS)
        written = written_by_spark(files)
        assert written == sorted(
            (partition, offset, value.decode())
            for partition, records in read.items()
            for offset, value in records
        )
        check(load, {(at, offset): numbers(value) for at, offset, value in written})
        # Spark's sink may write a record twice.
        assert in_copies() == {value for _, _, value in written}
