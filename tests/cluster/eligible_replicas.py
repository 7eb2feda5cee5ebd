"""Plays the stories of `eligible_replicas.txt` on a cluster, whatever engine its nodes run.

A story is a row of faults that several topics share. Each topic is a situation of its own. Below a
step stands what the controller has written because of it, by topic, broker or cluster: the records,
parted by `;`, and behind `->` what a partition is after them. A field that is not named gets no
record.

    == TITLE
    topic NAME replicas BROKER,BROKER minimum N [KEY=VALUE ...]
    stop|kill|freeze|thaw|start BROKER
    fail BROKER              its first disk, by permissions; all replicas of the topics are there
    repair BROKER            the disk is as before, and the broker is stopped and started
    empty BROKER             the files of a stopped broker's replicas are removed
    replace BROKER           a stopped broker gets a new first disk
    elect TOPIC              an unclean election by hand
    minimum TOPIC N          `min.insync.replicas` of a topic
    lower|raise              the level of eligible.leader.replicas.version
    records                  how many of the acknowledged records can be read, by topic
        SUBJECT: WHAT
        kafka SUBJECT [REASON]: WHAT

Where Apache Kafka has it otherwise, the line of `kafka` says what it writes; the reason is a row of
`docs/differences-from-kafka.md`. `nothing` is what somebody has who has no such line.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary.ids import BrokerId
from lab.cluster.faults import Fault
from tests.cluster import moving
from tests.cluster.harness import Cluster, assigned, directory_id, wait_for
from tests.cluster.metadata_changes import CLUSTER, MetadataChanges, listed
from tests.kafka.tools import CONFIGS, FEATURES, LEADER_ELECTION, TOPICS, KafkaTools

STORIES_FILE = Path(__file__).with_name("eligible_replicas.txt")
FEATURE = "eligible.leader.replicas.version"
NOTHING = "nothing"
RECORDS = 20
DEADLINE_S = 120.0
"""Of one thing that somebody is asked to do."""
QUIET_S, QUIET_OF_KAFKA_S = 5.0, 10.0
"""After that nothing more comes of a step."""

LINE = re.compile(
    r"    (?P<kafka>kafka )?(?P<subject>[^:\[]+?)(?: \[(?P<reason>[^]]*)\])?: (?P<what>.*)"
)

Written = dict[str, str]
"""Records that were written in one step, by what they are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A topic of one partition.

    Attributes:
        topic: Its name in the story.
        replicas: Its brokers, in the order of assignment.
        configs: Its settings.
    """

    topic: str
    replicas: tuple[int, ...]
    configs: Mapping[str, str]

    @classmethod
    def parse(cls, line: str) -> Self:
        _, topic, _, replicas, _, minimum, *configs = line.split()
        return cls(
            topic=topic,
            replicas=tuple(map(int, replicas.split(","))),
            configs={
                "min.insync.replicas": minimum,
                **dict(config.split("=", 1) for config in configs),
            },
        )

    def __str__(self) -> str:
        more = [f"{key}={value}" for key, value in self.configs.items()][1:]
        minimum = self.configs["min.insync.replicas"]
        words = ["topic", self.topic, "replicas", listed(self.replicas), "minimum", minimum]
        return " ".join([*words, *more])


@dataclass(slots=True)
class Step:
    """A command, and what is written because of it.

    Attributes:
        ours: By subject.
        kafkas: The same of Kafka, where that is something else.
        reasons: Why it is, by subject.
    """

    command: str
    ours: Written = field(default_factory=dict)
    kafkas: Written = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def expected(self, *, is_kafka: bool) -> Written:
        """Return what one of the engines writes."""
        both = {**self.ours, **self.kafkas} if is_kafka else self.ours
        return {subject: _ordered(what) for subject, what in both.items() if what != NOTHING}

    def take(self, written: Written, *, is_kafka: bool) -> None:
        """Expect from now on what was written."""
        if not is_kafka:
            self.ours = dict(written)
            return
        subjects = self.ours.keys() | written.keys()
        self.kafkas = {
            subject: written.get(subject, NOTHING)
            for subject in sorted(subjects)
            if written.get(subject) != self.ours.get(subject)
        }

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        yield self.command
        for subject in sorted(self.ours.keys() | self.kafkas.keys()):
            if subject in self.ours:
                yield f"    {subject}: {self.ours[subject]}"
            if subject in self.kafkas:
                reason = self.reasons.get(subject, "?")
                yield f"    kafka {subject} [{reason}]: {self.kafkas[subject]}"


@dataclass(frozen=True, slots=True)
class Story:
    """Situations that share a row of steps."""

    title: str
    situations: tuple[Situation, ...]
    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        title, *lines = text.strip().split("\n")
        situations, steps = [], []
        for line in lines:
            if line.startswith("topic "):
                situations.append(Situation.parse(line))
            elif not line.startswith(" "):
                steps.append(Step(line))
            else:
                match = LINE.fullmatch(line)
                assert match is not None, line
                step, subject = steps[-1], match["subject"]
                (step.kafkas if match["kafka"] else step.ours)[subject] = match["what"]
                if match["kafka"]:
                    step.reasons[subject] = match["reason"] or ""
        return cls(title, tuple(situations), tuple(steps))

    def __str__(self) -> str:
        return self.title

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        yield f"== {self.title}"
        yield from map(str, self.situations)
        for step in self.steps:
            yield from step.lines()


def read_stories(path: Path = STORIES_FILE) -> list[Story]:
    """Return the stories of a file."""
    return [Story.parse(part) for part in path.read_text("utf-8").split("== ")[1:]]


def rewrite_story(
    title: str, written: Sequence[Written], *, is_kafka: bool, path: Path = STORIES_FILE
) -> None:
    """Have a story expect from now on what was written in its first steps."""
    stories = read_stories(path)
    (story,) = (each for each in stories if each.title == title)
    for step, what in zip(story.steps, written, strict=False):
        step.take(what, is_kafka=is_kafka)
    path.write_text("\n\n".join("\n".join(each.lines()) for each in stories) + "\n", "utf-8")


class Player:
    """Plays one story on a cluster, whose brokers all run before and after it.

    Args:
        cluster: A cluster with two disks in each broker.
        story: Events that are played.
        tools: Kafka's own tools, for what is asked by them, and to look at what they show; None
            for a story that asks for nothing, and then nobody looks.
    """

    def __init__(self, cluster: Cluster, story: Story, tools: KafkaTools | None) -> None:
        self._cluster, self._story, self._tools = cluster, story, tools
        self._is_kafka = cluster.engine.is_kafka
        slug = re.sub(r"[^a-z0-9]+", "-", story.title.lower()).strip("-")
        self._names = {each.topic: f"{slug}.{each.topic}" for each in story.situations}
        folder = cluster.controller.metadata_dir / METADATA_DIR_NAME
        self._changes = MetadataChanges(cluster.brokers, folder)
        self._written: dict[str, list[str]] = defaultdict(list)
        self._states: dict[str, str] = {}
        self._faults: dict[int, Fault] = {}
        self._quiet_s = QUIET_OF_KAFKA_S if self._is_kafka else QUIET_S

    def play(self) -> Iterator[tuple[Step, Written]]:
        """Yield each step with what was written because of it."""
        try:
            self._create()
            self._note()
            self._end_step()
            for step in self._story.steps:
                yield step, self._play(step)
        finally:
            self._restore()

    # Before and after

    def _create(self) -> None:
        asked = self._cluster.admin().create_topics(
            [
                NewTopic(
                    self._names[each.topic],
                    num_partitions=1,
                    replica_assignment=[list(each.replicas)],
                    config=dict(each.configs),
                )
                for each in self._story.situations
            ]
        )
        for one in asked.values():
            one.result(DEADLINE_S)
        for topic in self._names.values():
            wait_for(f"{topic} in the log", lambda topic=topic: self._partition(topic), DEADLINE_S)
            self._cluster.wait_leaders(topic, DEADLINE_S)
        self._produce()
        self._put_on_first_disks()
        for each in self._story.situations:
            topic = self._names[each.topic]
            wait_for(
                f"all replicas of {topic} in sync",
                lambda topic=topic, each=each: set(self._state(topic).isr) == set(each.replicas),
                DEADLINE_S,
                last_seen=lambda topic=topic: _told(self._state(topic)),
            )

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "acks": "all", "log_level": 0}
        )
        failures: list[object] = []
        for topic in self._names.values():
            for number in range(RECORDS):
                producer.produce(
                    topic,
                    str(number),
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
        assert producer.flush(DEADLINE_S) == 0
        assert not failures, failures[0]

    def _put_on_first_disks(self) -> None:
        for broker in self._cluster.brokers:
            first = broker.log_dir(1)
            topics = [
                self._names[each.topic]
                for each in self._story.situations
                if broker.id in each.replicas
            ]
            elsewhere = {
                (topic, 0): first.path
                for topic in topics
                if broker.log_dir_of(topic, 0).path != first.path
            }
            if elsewhere:
                moving.alter(self._cluster, broker.id, elsewhere)
            for topic in topics:
                wait_for(
                    f"{topic} on the first disk of {broker}",
                    lambda broker=broker, topic=topic, first=first: (
                        set(assigned(self._cluster, broker.id, topic).values()) == {first.id}
                        and moving.settled(self._cluster, broker.id, topic)
                    ),
                    DEADLINE_S,
                )

    def _restore(self) -> None:
        for fault in self._faults.values():
            fault.heal()
        for broker in self._cluster.brokers:
            broker.thaw()
            if broker.id in self._faults and broker.is_running:
                broker.stop(DEADLINE_S)
            if not broker.is_running:
                broker.start()
        self._cluster.wait_served(deadline_s=DEADLINE_S)
        if self._cluster.image().features.levels.get(FEATURE, 0) == 0:
            self._set_level(1)
        for one in self._cluster.admin().delete_topics(list(self._names.values())).values():
            one.result(DEADLINE_S)

    # Steps

    def _play(self, step: Step) -> Written:
        expected = step.expected(is_kafka=self._is_kafka)
        verb, *words = step.command.split()
        if verb == "records":
            return self._readable(expected)
        said = self._do(verb, *words)
        quiet_since, count = time.monotonic(), -1
        while True:
            self._note()
            found = self._found()
            if said:
                found["tool"] = said
            if found == expected:
                break
            now = time.monotonic()
            lines = sum(map(len, self._written.values()))
            if lines != count:
                quiet_since, count = now, lines
            if now > quiet_since + self._quiet_s:
                break
            time.sleep(0.2)
        self._end_step()
        if self._tools is not None:
            self._compare_with_tool()
        return found

    def _end_step(self) -> None:
        self._written.clear()
        self._states = {name: _told(self._state(name)) for name in self._names.values()}

    def _do(self, verb: str, *words: str) -> str:
        """Carry out a command; returns what a tool says that could not do its work."""
        match verb:
            case "elect":
                what = ["--election-type", "unclean", "--partition", "0", "--topic"]
                return self._run(LEADER_ELECTION, *what, self._names[words[0]])
            case "minimum":
                topic, value = self._names[words[0]], words[1]
                what = ["--alter", "--entity-type", "topics", "--entity-name", topic]
                return self._run(CONFIGS, *what, "--add-config", f"min.insync.replicas={value}")
            case "lower" | "raise":
                return self._set_level(int(verb == "raise"))
        self._do_to_broker(verb, int(words[0]))
        return ""

    def _do_to_broker(self, verb: str, number: int) -> None:
        broker = self._cluster.broker(number)
        first = broker.log_dir(1)
        match verb:
            case "stop" | "kill" | "freeze":
                if verb == "stop":
                    broker.stop(DEADLINE_S)
                elif verb == "kill":
                    broker.kill()
                else:
                    broker.freeze()
                self._wait(number, "fenced", lambda found: found.fenced)
            case "start" | "thaw":
                before = self._registration(number).epoch
                if verb == "thaw":
                    broker.thaw()
                else:
                    broker.start()
                self._wait(
                    number,
                    "unfenced",
                    lambda found: found.active and (verb == "thaw" or found.epoch != before),
                )
            case "fail":
                failed = first.id
                self._faults[number] = first.fails("permission")
                self._wait(number, "one less", lambda found: failed not in found.directories)
            case "repair":
                self._faults.pop(number).heal()
                broker.stop(DEADLINE_S)
                self._do_to_broker("start", number)
            case "empty":
                for topic in self._names.values():
                    shutil.rmtree(first.path / f"{topic}-0", ignore_errors=True)
            case "replace":
                for entry in first.path.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                self._cluster.format([broker])
                assert directory_id(first.path)
            case _:
                raise AssertionError(verb)

    def _wait(
        self, number: int, what: str, condition: Callable[[BrokerRegistration], bool]
    ) -> None:
        wait_for(
            f"broker {number} {what}",
            lambda: condition(self._registration(number)),
            DEADLINE_S,
            last_seen=lambda: self._registration(number),
        )

    def _registration(self, number: int) -> BrokerRegistration:
        return self._cluster.image().cluster.brokers[BrokerId(number)]

    def _set_level(self, level: int) -> str:
        verb = "upgrade" if level else "downgrade"
        return self._run(FEATURES, verb, "--feature", f"{FEATURE}={level}")

    def _run(self, main: str, *arguments: str) -> str:
        assert self._tools is not None, main
        done = self._tools.run(main, *self._bootstrap(), *arguments)
        return f"exit code {done.code}" if done.code else ""

    def _bootstrap(self) -> tuple[str, str]:
        running = [broker.address for broker in self._cluster.brokers if self._serves(broker.id)]
        return "--bootstrap-server", ",".join(running)

    def _serves(self, number: int) -> bool:
        # A frozen broker is running, and fenced.
        return self._cluster.broker(number).is_running and not self._registration(number).fenced

    # Existing

    def _note(self) -> None:
        for subject, line in self._changes.read_on():
            self._written[subject].append(line)

    def _found(self) -> Written:
        found = {
            subject: "; ".join(lines)
            for subject, lines in self._written.items()
            if subject == CLUSTER or subject.startswith("broker ")
        }
        for topic, name in self._names.items():
            state = _told(self._state(name))
            # One record can clear the eligible replicas of all topics.
            if name in self._written or state != self._states[name]:
                found[topic] = _ordered(f"{'; '.join(self._written[name])} -> {state}".strip())
        return found

    def _partition(self, topic: str) -> PartitionRegistration | None:
        image = self._cluster.image().topics.by_name.get(topic)
        return None if image is None else image.partitions.get(0)

    def _state(self, topic: str) -> PartitionRegistration:
        found = self._partition(topic)
        assert found is not None, topic
        return found

    def _readable(self, expected: Written) -> Written:
        def ask() -> Written:
            asked = self._cluster.admin().list_offsets(
                {TopicPartition(name, 0): OffsetSpec.latest() for name in self._names.values()},
                request_timeout=10,
            )
            offsets = {key.topic: one.result(DEADLINE_S).offset for key, one in asked.items()}
            return {short: str(offsets[name]) for short, name in self._names.items()}

        end, found = time.monotonic() + self._quiet_s, ask()
        while found != expected and time.monotonic() < end:
            time.sleep(0.5)
            found = ask()
        return found

    def _compare_with_tool(self) -> None:
        """Compare the controller's decisions with what Kafka's own tool says of the topics."""
        if not any(self._serves(broker.id) for broker in self._cluster.brokers):
            return
        wanted = {name: _told(self._state(name)) for name in self._names.values()}

        def told() -> dict[str, str]:
            pattern = "|".join(map(re.escape, self._names.values()))
            assert self._tools is not None
            done = self._tools.run(TOPICS, *self._bootstrap(), "--describe", "--topic", pattern)
            return dict(map(_told_by_tool, re.findall(r"Topic: .*Partition: 0.*", done.out)))

        wait_for("the tool to say so", lambda: told() == wanted, DEADLINE_S, last_seen=told)


def _ordered(what: str) -> str:
    """Put the records of assignments last: brokers report directories when they come to it."""
    written, arrow, state = what.partition(" -> ")
    records = sorted(written.split("; "), key=lambda record: record.startswith("assigned "))
    return f"{'; '.join(records)}{arrow}{state}"


def _told(found: PartitionRegistration) -> str:
    lists = (("isr", found.isr), ("elr", found.elr), ("last", found.last_known_elr))
    return " ".join(
        [f"leader {found.leader}", *(f"{name} {listed(members)}" for name, members in lists)]
    )


def _told_by_tool(line: str) -> tuple[str, str]:
    fields = dict(re.findall(r"(\w+): ([^\s]*)", line))
    lists = (("isr", "Isr"), ("elr", "Elr"), ("last", "LastKnownElr"))
    leader = "-1" if fields["Leader"] == "none" else fields["Leader"]
    words = [f"leader {leader}"]
    for name, column in lists:
        members = [int(each) for each in fields.get(column, "").split(",") if each]
        words.append(f"{name} {listed(members)}")
    return fields["Topic"], " ".join(words)
