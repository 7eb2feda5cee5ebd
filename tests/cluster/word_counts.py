"""The word count of Kafka Streams on a cluster of tests, and what it has counted."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from jbodlab.vocabulary import properties
from lab.applications import word_count
from lab.machine import processes
from lab.machine.kafka_jars import NoKafkaError
from tests.clients.members import ProgramProcess
from tests.cluster.harness import Cluster, wait_for

STARTS_S = 300.0
ENDS_S = 120.0
CLOSED = 128 + signal.SIGTERM
"""Exit code of a JVM that SIGTERM has ended."""


def line(number: int) -> str:
    """The line of a number: a word of its own, and one that others have as well."""
    return f"{number} w{number % 50}"


def words_of(numbers: Iterable[int]) -> Counter[str]:
    """How often each word is in the lines of some numbers."""
    return Counter(word for number in numbers for word in line(number).split())


class WordCount:
    """One instance of the application, which may be started again and again.

    Attributes:
        counts: Its output topic.
    """

    def __init__(
        self,
        cluster: Cluster,
        lines: str,
        counts: str,
        application_id: str,
        state_dir: Path,
        running: ExitStack,
        *,
        release: str = word_count.RELEASE,
        **settings: str,
    ) -> None:
        """Find its jars, or skip the test with the reason.

        Args:
            cluster: Where it runs.
            lines: Its input topic.
            counts: Its output topic.
            application_id: Its name.
            state_dir: Where it keeps its store.
            running: Ends it at last.
            release: Of Kafka Streams.
            settings: Of Kafka Streams, with _ for the dots of their names.
        """
        try:
            self._command = word_count.command(release)
        except NoKafkaError as error:
            pytest.skip(str(error))
        file = state_dir.with_suffix(".properties")
        wanted = {
            "bootstrap.servers": cluster.bootstrap,
            "application.id": application_id,
            "state.dir": str(state_dir),
            "commit.interval.ms": "200",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        file.write_text(properties.render(wanted), "utf-8")
        self._command += [str(file), lines, counts]
        self._running = running
        self._process: ProgramProcess | None = None

    def __repr__(self) -> str:
        return repr(self._process)

    @property
    def process(self) -> ProgramProcess:
        """The process that was started last."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it and wait until it counts."""
        program = self._process = ProgramProcess(processes.ending_with_us(self._command))
        self._running.callback(program.close)
        wait_for("its state RUNNING", self._counts, STARTS_S, last_seen=lambda: program)

    def _counts(self) -> bool:
        self.process.assert_runs()
        return {"event": "state", "state": "RUNNING"} in self.process.events

    @property
    def restored(self) -> int:
        """How many records came back from the changelog."""
        found = (event for event in self.process.events if event["event"] == "restored")
        return sum(int(str(event["records"])) for event in found)

    def assert_well(self) -> None:
        """Assert that nothing has ended it, and that no error will."""
        self.process.assert_runs()
        assert {"event": "state", "state": "ERROR"} not in self.process.events, self

    def stop(self) -> None:
        """Close it as a service manager does."""
        self.process.terminate(ENDS_S)
        assert self.process.ends(ENDS_S) == CLOSED, self

    def pause(self) -> None:
        """Let it sleep, as a long collection of garbage does."""
        self.process.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake it up."""
        self.process.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        self.process.close()


class Counts:
    """Counts that a reader of the output topic finds, from its beginning to what was read last.

    Attributes:
        latest: The last count of each word.
        falls: Where a count did not rise: word, count before, count.
    """

    def __init__(self, cluster: Cluster, topic: str, isolation: str = "read_committed") -> None:
        self._topic, self._partitions = topic, sorted(cluster.partitions(topic))
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "reads-counts",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "log_level": 0,
            }
        )
        self._at = dict.fromkeys(self._partitions, 0)
        self._consumer.assign([TopicPartition(topic, index, 0) for index in self._partitions])
        self.latest: dict[str, int] = {}
        self.falls: list[tuple[str, int, int]] = []

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def read(self) -> Counter[str]:
        """Read what is new; returns the last count of each word."""
        for message in self._consumer.consume(100_000, timeout=0.2):
            if message.error() is None:
                self._take(message.key().decode(), int(message.value()))
        return Counter(self.latest)

    def _take(self, word: str, count: int) -> None:
        before = self.latest.get(word, 0)
        if count <= before:
            self.falls.append((word, before, count))
        self.latest[word] = count
