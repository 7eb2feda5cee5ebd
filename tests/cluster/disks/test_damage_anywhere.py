"""Files of a controller and a broker that are damaged at random places, one at a time.

A start finds the damage and names the file, repairs it, or the damage does no harm: clients are
never given other records, offsets or answers than before without an error and without a word in
the log of the node.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from jbodlab.storage.directory import names
from lab.cluster import questions
from lab.cluster.node import Node
from tests.cluster.harness import Cluster, made, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3_600)]

PLACES = int(os.environ.get("JBODLAB_TEST_FAULTS", "40"))
SEED = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
SEGMENT_BYTES = "6000"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.index.interval.bytes": "500",
    "log.cleaner.backoff.ms": "100",
    # Stamps of records are of long ago.
    "log.retention.ms": "-1",
    "metadata.log.max.snapshot.interval.ms": "1000",
}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {"compression_type": "lz4"},
    "committed": {},
    "compacted": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"},
}
GROUP = "readers"
FIRST_MS, STEP_MS, RECORDS = 1_700_000_000_000, 1_000, 400
READ_S, START_S = 20.0, 40.0
Change = Callable[[bytearray, int, random.Random], None]


def flip_bit(data: bytearray, at: int, drawn: random.Random) -> None:
    data[at] ^= 1 << drawn.randrange(8)


def zero(data: bytearray, at: int, drawn: random.Random) -> None:
    end = min(len(data), at + drawn.randint(1, 512))
    data[at:end] = bytes(end - at)


def scramble(data: bytearray, at: int, drawn: random.Random) -> None:
    end = min(len(data), at + drawn.randint(1, 64))
    data[at:end] = drawn.randbytes(end - at)


def cut_short(data: bytearray, at: int, _: random.Random) -> None:
    del data[at:]


CHANGES: tuple[Change, ...] = (flip_bit, flip_bit, zero, scramble, cut_short)


class Place(NamedTuple):
    """A byte of a file, by its path in the folder of the cluster."""

    path: Path
    at: int
    change: Change

    def __str__(self) -> str:
        return f"{self.change.__name__} at byte {self.at} of {self.path}"


class Template:
    """A stopped cluster, of which a copy is kept, with the answers that its clients got."""

    def __init__(self, cluster: Cluster, kept: Path, has_stopped: bool) -> None:
        self.cluster = cluster
        self._kept = kept
        fill(cluster)
        self.told = told_to_clients(cluster)
        wrong = [answer for answer in self.told.values() if str(answer).startswith("error")]
        assert not wrong, wrong
        if has_stopped:
            cluster.stop()
        else:
            cluster.kill()
        copy(cluster, cluster.root, kept)

    def place(self, drawn: random.Random) -> Place:
        """Draw a place: any kind of file as likely as any other, then any byte."""
        kinds: dict[str, list[Path]] = {}
        for path in sorted(self._kept.rglob("*")):
            if path.is_file() and path.stat().st_size and is_stored(path):
                folder = path.parent.name.rpartition("-")[0]
                where = folder if folder == "__cluster_metadata" else ""
                kinds.setdefault(f"{where}{kind_of(path)}", []).append(path)
        path = drawn.choice(kinds[drawn.choice(sorted(kinds))])
        at = drawn.randrange(path.stat().st_size)
        return Place(path.relative_to(self._kept), at, drawn.choice(CHANGES))

    def damage(self, place: Place, drawn: random.Random) -> bool:
        """Restore everything, and damage a file; returns whether it differs now."""
        self.cluster.kill()
        copy(self.cluster, self._kept, self.cluster.root)
        path = self.cluster.root / place.path
        before = path.read_bytes()
        data = bytearray(before)
        place.change(data, place.at, drawn)
        path.write_bytes(data)
        return bytes(data) != before


def copy(cluster: Cluster, source: Path, target: Path) -> None:
    """Copy the folders of all nodes with owners and rights, in place of those that are there."""
    target.mkdir(exist_ok=True)
    for node in cluster.nodes.values():
        folder = node.folder.relative_to(cluster.root)
        if (target / folder).exists():
            shutil.rmtree(target / folder)
        subprocess.run(["cp", "-a", source / folder, target / folder], check=True)


def is_stored(path: Path) -> bool:
    """Whether a file is one of a log directory."""
    is_left = path.suffix == names.DELETED_SUFFIX or path.name == names.LOCK_FILE
    return bool({"data", "metadata"} & set(path.parts)) and not is_left


def kind_of(path: Path) -> str:
    return path.suffix if path.stem.partition("-")[0].isdigit() else path.name


def fill(cluster: Cluster) -> None:
    """Records of all kinds in segments of all kinds."""
    for name, config in TOPICS.items():
        cluster.create_topic(
            name, partitions=1, replicas=1, internal_segment_bytes=SEGMENT_BYTES, **config
        )
    common = {"bootstrap.servers": cluster.bootstrap, "batch.size": 1_000, "log_level": 0}
    plain = Producer({**common, "enable.idempotence": True})
    for number in range(RECORDS):
        stamp = FIRST_MS + number * STEP_MS
        plain.produce("plain", str(number) * 20, str(number), timestamp=stamp)
        plain.produce("compacted", str(number) * 20, str(number % 7), timestamp=stamp)
        if number % 10 == 0:
            plain.flush(30)
    assert plain.flush(30) == 0
    sender = Producer({**common, "transactional.id": "sender"})
    sender.init_transactions(30)
    for turn in range(RECORDS // 10):
        sender.begin_transaction()
        for number in range(5):
            stamp = FIRST_MS + (turn * 5 + number) * STEP_MS
            sender.produce("committed", f"{turn}-{number}" * 20, str(number), timestamp=stamp)
        sender.flush(30)
        if turn % 3:
            sender.commit_transaction(30)
        else:
            sender.abort_transaction(30)
        reader = consumer(cluster)
        reader.commit(offsets=[TopicPartition("plain", 0, turn)], asynchronous=False)
        reader.close()


def consumer(cluster: Cluster, isolation: str = "read_uncommitted") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )


def told_to_clients(cluster: Cluster) -> dict[str, Any]:
    """Ask questions of clients; returns the answers, or the text of the error instead of one."""
    told: dict[str, Any] = {}

    def ask(question: str, answer: Callable[[], Any]) -> None:
        try:
            told[question] = answer()
        except (KafkaException, TimeoutError) as error:
            told[question] = f"error: {error}"

    for topic in TOPICS:
        for isolation in ("read_uncommitted", "read_committed"):
            ask(f"{topic} {isolation}", lambda t=topic, i=isolation: read(cluster, t, i))
    reader = consumer(cluster)
    for topic in ("plain", "committed"):
        for number in range(0, RECORDS, 40):
            asked = TopicPartition(topic, 0, FIRST_MS + number * STEP_MS)
            ask(
                f"{topic} at {asked.offset} ms",
                lambda a=asked: reader.offsets_for_times([a], timeout=5)[0].offset,
            )
    ask("group", lambda: reader.committed([TopicPartition("plain", 0)], timeout=10)[0].offset)
    reader.close()
    return told


def read(cluster: Cluster, topic: str, isolation: str) -> Any:
    """All records of a topic, or the last one of each key if it is compacted."""
    reader = consumer(cluster, isolation)
    try:
        first, end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        reader.assign([TopicPartition(topic, 0, first)])
        found: list[tuple[int, int, bytes, bytes]] = []
        end_s = time.monotonic() + READ_S
        while time.monotonic() < end_s:
            message = reader.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                stamp = message.timestamp()[1]
                found.append((message.offset(), stamp, message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise KafkaException(error)
        else:
            raise TimeoutError(f"the end of {topic} was not read")
    finally:
        reader.close()
    if topic == "compacted":
        return {key: (offset, value) for offset, _, key, value in found}, end
    return found, first, end


def started(node: Node, served: Callable[[], object]) -> bool:
    """Start a node; returns whether it serves, or else has ended by itself."""
    node.start()
    wait_for(f"{node} serves or ends", lambda: not node.is_running or served(), START_S)
    return node.is_running


def serves(cluster: Cluster, node: Node) -> bool:
    if node is cluster.controller:
        with contextlib.suppress(OSError):
            socket.create_connection((node.state.host, node.port), 0.2).close()
            return True
        return False
    view = questions.view(node.state, 0.5)
    return view is not None and node.id in view.broker_ids


def names_damage(said: str, place: Place) -> bool:
    """Whether a node has warned of a file, or of its replica."""
    words = {place.path.name, place.path.parent.name}
    return any(
        ("WARN" in line or "ERROR" in line or "jbod-" in line) and any(w in line for w in words)
        for line in said.splitlines()
    )


@pytest.fixture(params=[True, False], ids=["stopped", "killed"])
def template(request: pytest.FixtureRequest, cluster_root: Path) -> Iterator[Template]:
    cluster = made(cluster_root, brokers=1, dirs=2, settings=SETTINGS)
    try:
        cluster.start()
        yield Template(cluster, cluster_root.with_name("kept"), request.param)
    finally:
        cluster.close()


@pytest.mark.parametrize("places", [3, pytest.param(PLACES // 2, marks=pytest.mark.soak)])
def test_damage_at_any_place_is_told_repaired_or_does_no_harm(
    template: Template, places: int
) -> None:
    drawn = random.Random(SEED)
    silent: list[str] = []
    outcomes: Counter[str] = Counter()
    for _ in range(places):
        place = template.place(drawn)
        if not template.damage(place, drawn):
            continue
        outcome = outcome_of(template, place)
        outcomes[outcome.partition(":")[0]] += 1
        print(f"{outcome}: {place}", flush=True)
        if outcome.startswith("silent"):
            silent.append(f"{place}: {outcome}")
    print(dict(outcomes))
    assert not silent, "\n".join(silent)


def outcome_of(template: Template, place: Place) -> str:
    """Start the damaged cluster, and compare the answers to clients with the former ones."""
    cluster = template.cluster
    nodes = [cluster.controller, cluster.brokers[0]]
    before = {node: len(node.output()) for node in nodes}

    def said() -> str:
        return "\n".join(node.output()[before[node] :] for node in nodes)

    for node in nodes:
        if not started(node, lambda n=node: serves(cluster, n)):
            return "refused" if names_damage(said(), place) else f"silent: {node} ended: {said()}"
    told = told_to_clients(cluster)
    if told == template.told:
        return "warned, and no harm" if names_damage(said(), place) else "no harm"
    different = {
        question: (str(template.told[question])[:200], str(answer)[:200])
        for question, answer in told.items()
        if answer != template.told[question]
    }
    if names_damage(said(), place):
        return "told by the node"
    if all(answer.startswith("error") for _, answer in different.values()):
        return "told to the clients"
    return f"silent: {different}"
