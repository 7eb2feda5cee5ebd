"""Kafka Streams with `exactly_once_v2`: every word is counted once, whatever dies.

Each line of the input has a word of its own and one that others have as well. A reader of committed
records sees the count of every word rise, and at last it is how often the word is in the input.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tests.cluster.configs import alter, client
from tests.cluster.group_stage import COORDINATORS, GROUP_SETTINGS
from tests.cluster.harness import Load, read_all, wait_for
from tests.cluster.scenes import Scene, Stage, Stages
from tests.cluster.word_counts import Counts, WordCount, line, words_of
from tests.kafka.jars import LINE_3, RELEASE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    # The jars are fetched and the program is compiled, once.
    pytest.mark.timeout(900),
]

PARTITIONS = 4
GOES_ON_S = 120.0
"""For all that is written in between: what a fault costs is printed."""
RATE = 200
CHANGELOG, REPARTITION = "counts-changelog", "counts-repartition"


@pytest.fixture
def transaction_stage(stages: Stages) -> Stage:
    """Brokers that are not fenced while a JVM starts; one partition has all transactions."""
    return stages.of(
        settings={
            **GROUP_SETTINGS,
            "broker.session.timeout.ms": "9000",
            "broker.heartbeat.interval.ms": "500",
            "transaction.state.log.num.partitions": "1",
            # Two of three replicas may die.
            "transaction.state.log.min.isr": "1",
        }
    )


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Ends the programs of a test, whatever happened."""
    with ExitStack() as stack:
        yield stack


class Story:
    """An application on a cluster, its input and its output.

    Attributes:
        words: The instance that has to be well.
        other: A second one, which runs where a test starts it.
    """

    def __init__(
        self,
        scene: Scene,
        folder: Path,
        running: ExitStack,
        release: str = RELEASE,
        **settings: str,
    ) -> None:
        self.scene, self.application = scene, f"words-{release}"
        self.lines = scene.topic(PARTITIONS, records=0)
        self.counts = scene.topic(PARTITIONS, records=0).topic
        self.state = folder / "state"
        settings = {
            "processing_guarantee": "exactly_once_v2",
            "replication_factor": "3",
            "topic_min_insync_replicas": "1",
            # Of a member that was killed.
            "session_timeout_ms": "6000",
            **settings,
        }

        def words(state: Path) -> WordCount:
            where = (self.lines.topic, self.counts, self.application, state)
            return WordCount(scene.cluster, *where, running, release=release, **settings)

        self.words, self.other = words(self.state), words(folder / "other")
        self.reader = Counts(scene.cluster, self.counts)
        running.callback(self.reader.close)

    def load(self) -> Load:
        """The process that writes the lines."""
        return Load(self.scene.cluster.bootstrap, self.lines.topic, rate=RATE, value=line)

    def start(self) -> None:
        """Start the application; two of three replicas of its offsets may die from then on."""
        self.words.start()
        alter(
            client(self.scene.cluster),
            ResourceType.TOPIC,
            GROUP_METADATA_TOPIC,
            min_insync_replicas="1",
        )

    def arrives(self, *loads: Load) -> None:
        """Wait until all that was acknowledged until now is counted."""
        since_s = time.monotonic()
        sent = set(words_of(number for load in loads for number in list(load.acknowledged)))

        def is_counted() -> bool:
            self.words.assert_well()
            return sent <= set(self.reader.read())

        wait_for("all words", is_counted, GOES_ON_S, last_seen=lambda: self.words)
        print(f"all arrived {time.monotonic() - since_s:.2f} s later")

    def is_exact(self, *loads: Load) -> None:
        """Wait until every word is counted as often as it is in the input, and never more."""
        found = read_all(self.scene.cluster.bootstrap, self.lines.topic, PARTITIONS)
        for load in loads:
            assert not load.errors
        numbers = [int(value.split()[0]) for each in found.values() for _, value in each]
        assert sorted(numbers) == sorted(n for load in loads for n in load.acknowledged)
        expected = words_of(numbers)

        def is_all() -> bool:
            self.words.assert_well()
            counted = self.reader.read()
            assert counted <= expected, counted - expected
            return counted == expected

        wait_for("all words", is_all, GOES_ON_S, last_seen=lambda: self.words)
        assert not self.reader.falls

    def place(self, what: str) -> tuple[int, Path]:
        """Where the leader of a partition is that the application needs."""
        match what:
            case "transactions":
                return self._leader(TRANSACTION_STATE_TOPIC)
            case "offsets":
                index = coordinator_partition(self.application, COORDINATORS)
                return self._leader(GROUP_METADATA_TOPIC, index)
            case "lines":
                return self._leader(self.lines.topic)
            case "counts":
                return self._leader(self.counts)
        return self._leader(f"{self.application}-{what}")

    def _leader(self, topic: str, index: int = 0) -> tuple[int, Path]:
        # As the controller has it: a broker may not have heard yet of the one before it.
        leader = self.scene.cluster.image().topics.by_name[topic].partitions[index].leader
        return leader, self.scene.cluster.broker(leader).log_dir_of(topic, index).path

    def lose(self, what: str, kind: str = "chmod000") -> None:
        """Let the directory of a leader die."""
        print(f"directory of {what} lost")
        self.scene.break_and_wait(kind, *self.place(what))

    def close(self) -> None:
        self.words.stop()
        made = self.scene.cluster.image().topics.by_name
        self.scene.delete(*(name for name in made if name.startswith(self.application)))


def test_words_are_counted_once_while_the_disks_of_coordinator_and_data_die(
    transaction_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    with transaction_stage.scene() as scene:
        story = Story(scene, tmp_path, running)
        with story.load() as load:
            story.start()
            story.arrives(load)
            story.lose("transactions")
            story.arrives(load)
            story.lose("lines")
            story.arrives(load)
        story.is_exact(load)
        story.close()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["chmod000", "file"])
@pytest.mark.parametrize("release", [RELEASE, LINE_3])
def test_words_are_counted_once_over_every_directory_that_the_application_needs(
    release: str, kind: str, transaction_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    with transaction_stage.scene() as scene:
        story = Story(scene, tmp_path, running, release, num_stream_threads="2")
        with story.load() as load:
            story.start()
            story.arrives(load)
            for what in ("transactions", "offsets", "lines", REPARTITION, CHANGELOG, "counts"):
                story.lose(what, kind)
                story.arrives(load)
                scene.make_whole()
            for broker in scene.cluster.broker_ids:
                scene.cluster.node(broker).kill()
                story.arrives(load)
                scene.make_whole()
            # Of the coordinator first, of data while it has just moved.
            for what in ("lines", CHANGELOG, REPARTITION):
                story.lose("transactions", kind)
                story.lose(what, kind)
                story.arrives(load)
                scene.make_whole()
        story.is_exact(load)
        story.close()


@pytest.mark.soak
@pytest.mark.parametrize("release", [RELEASE, LINE_3])
def test_words_are_counted_once_by_an_application_that_is_closed_killed_and_without_its_store(
    release: str, transaction_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    with transaction_stage.scene() as scene:
        story = Story(scene, tmp_path, running, release)
        with story.load() as load:
            story.start()
            story.arrives(load)
            story.words.stop()
            story.words.start()
            assert not story.words.restored
            story.arrives(load)

            story.words.stop()
            shutil.rmtree(story.state)
            story.words.start()
            assert story.words.restored
            story.arrives(load)

            # In the middle of transactions: once as it comes back, once as one that nobody knows,
            # so that they end by their time-out.
            for is_lost in (False, True):
                story.lose("transactions")
                story.words.kill()
                if is_lost:
                    shutil.rmtree(story.state)
                story.lose(CHANGELOG)
                story.words.start()
                assert story.words.restored
                story.arrives(load)
                scene.make_whole()
        story.is_exact(load)
        story.close()


@pytest.mark.soak
def test_words_are_counted_once_by_two_of_which_one_sleeps_longer_than_its_session(
    transaction_stage: Stage, tmp_path: Path, running: ExitStack
) -> None:
    with transaction_stage.scene() as scene:
        story = Story(scene, tmp_path, running)
        other = story.other
        with story.load() as load:
            story.start()
            other.start()
            story.arrives(load)
            for what in ("transactions", "lines"):
                other.pause()
                time.sleep(1)
                story.lose(what)
                story.arrives(load)
                other.go_on()
                story.arrives(load)
                scene.make_whole()
            other.kill()
            story.arrives(load)
        story.is_exact(load)
        story.close()
