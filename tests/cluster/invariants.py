"""Invariants of a cluster whatever was done to it, and accounts of what clients were told.

    no acknowledged record is lost
    the directory in the metadata is the one that holds the replica
    no leader, and no member of an ISR, sits in an offline directory
    a broker has one live copy of each of its replicas

Each is judged from outside: by the controller's log, the files on the disks, whether the servers'
user can write there, the Metadata API of every broker, and what a consumer reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, Producer
from kio.schema.metadata.v12.request import MetadataRequest

from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.peers.client import KafkaConnection
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.directory.partition_metadata import read_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.directory_id import LOST, UNASSIGNED
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicPartition
from tests.cluster.harness import Cluster, directory_id, read_all, wait_for

SETTLED_S = 30.0
METADATA_API = 3


class Accounts(Protocol):
    """Records of any producers: a topic, and the acknowledged place of each number."""

    topic: str
    acknowledged: dict[int, tuple[int, int]]


class Ledger:
    """An acks=all producer of numbers, which keeps accounts of what was acknowledged.

    An idempotent one needs a producer id, and so at least once the controller.
    """

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, *, idempotent: bool = True
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.errors: list[str] = []
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": idempotent,
                "delivery.timeout.ms": 60_000,
                "batch.size": 20_000,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )

    def send(self, count: int = 40, *, size: int = 0) -> None:
        """Hand over records, round robin over the partitions, without waiting for them."""
        for number in range(self.sent, self.sent + count):
            self._producer.produce(
                self.topic,
                key=b"x" * size,
                value=str(number),
                partition=number % self.partitions,
                on_delivery=lambda error, message, n=number: self._delivered(n, error, message),
            )
            self._producer.poll(0)
        self.sent += count

    def produce(self, count: int = 40, *, size: int = 0) -> None:
        """Send records and have all of them acknowledged."""
        self.send(count, size=size)
        self.finish()
        assert not self.errors, self.errors[:3]
        assert len(self.acknowledged) == self.sent

    def finish(self) -> None:
        """Wait for the fate of everything that was sent."""
        assert self._producer.flush(90) == 0

    def _delivered(self, number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged[number] = (message.partition(), message.offset())


class Copy(NamedTuple):
    """A replica's folder in a directory that can be used."""

    path: Path
    directory: DirectoryId
    topic_partition: TopicPartition


def usable(cluster: Cluster, paths: Iterable[Path]) -> dict[Path, bool]:
    """Whether the servers' user can write to each of these directories, and they have an id."""

    def look() -> dict[Path, bool]:
        return {path: _can_write(path) and _has_id(path) for path in paths}

    return cluster.user.ask(look)


def _can_write(path: Path) -> bool:
    name = path / f".try-{os.getpid()}"
    try:
        if not (path / names.META_PROPERTIES_FILE).is_file():
            return False
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        name.unlink()
    except OSError:
        return False
    return True


def _has_id(path: Path) -> bool:
    try:
        return meta_properties.read(PosixFileSystem(), path).directory_id is not None
    except (OSError, JbodlabError):
        return False


def check(cluster: Cluster, *accounts: Accounts, deadline_s: float = SETTLED_S) -> None:
    """All four properties, the first of them for these accounts."""
    settle(cluster, deadline_s)
    for account in accounts:
        assert_kept(cluster, account)


def settle(cluster: Cluster, deadline_s: float = SETTLED_S) -> None:
    """Wait until metadata, disks and brokers agree; fail with what does not."""
    last: list[str] = []

    def agreed() -> bool:
        last[:] = violations(cluster)
        return not last

    wait_for(
        "agreement of metadata, disks and brokers",
        agreed,
        deadline_s,
        last_seen=lambda: "\n".join(last[:20]),
    )


def assert_kept(cluster: Cluster, account: Accounts) -> None:
    """Every acknowledged record is there once, at its offset, in order."""
    partitions = len(cluster.image().topics.by_name[account.topic].partitions)
    found = read_all(cluster.bootstrap, account.topic, partitions)
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition, records in found.items():
        numbers = [int(value) for _, value in records]
        assert numbers == sorted(numbers), f"{account.topic}-{partition} is out of order"
        for offset, value in records:
            places[int(value)].append((partition, offset))
    wrong = {
        number: (place, places.get(number))
        for number, place in account.acknowledged.items()
        # librdkafka names no offset where a broker has a record already that is sent again.
        if [(p, o if place[1] is not None else None) for p, o in places.get(number, ())] != [place]
    }
    assert not wrong, (
        f"{len(wrong)} acknowledged records of {account.topic} are lost, doubled or elsewhere: "
        f"{sorted(wrong.items())[:5]}"
    )


def violations(cluster: Cluster) -> list[str]:
    """Everything that contradicts the four properties now; empty if nothing does."""
    image = cluster.image()
    found = [*_of_leaders(cluster, image), *_of_answers(cluster, image)]
    every = {path for broker in cluster.broker_ids for path in cluster.node(broker).configured_dirs}
    can_be_used = usable(cluster, sorted(every))
    for broker in cluster.broker_ids:
        if cluster.node(broker).is_running:
            paths = cluster.node(broker).configured_dirs
            found += _of_broker(image, broker, [path for path in paths if can_be_used[path]])
    return found


def _of_leaders(cluster: Cluster, image: MetadataImage) -> list[str]:
    found = []
    for topic in image.topics.by_name.values():
        for index, state in topic.partitions.items():
            name = f"{topic.name}-{index}"
            if state.leader >= 0 and state.leader not in state.isr:
                found.append(f"leader {state.leader} of {name} is not in its ISR {state.isr}")
            if state.leader >= 0 and not cluster.node(state.leader).is_running:
                found.append(f"leader {state.leader} of {name} does not run")
            if state.leader >= 0 and not _serves(image, state, state.leader):
                found.append(f"leader {state.leader} of {name} is fenced or in a dead directory")
            # The last member of an ISR stays in it, although nobody can lead then.
            for member in state.isr if state.leader >= 0 else ():
                registration = image.cluster.brokers.get(BrokerId(member))
                if registration is None or not registration.directory_is_online(
                    state.directory(BrokerId(member))
                ):
                    found.append(f"ISR member {member} of {name} is in a dead directory")
    return found


def _serves(image: MetadataImage, state: PartitionRegistration, broker: int) -> bool:
    registration = image.cluster.brokers.get(BrokerId(broker))
    return (
        registration is not None
        and not registration.fenced
        and registration.directory_is_online(state.directory(BrokerId(broker)))
    )


def _of_broker(image: MetadataImage, broker: int, paths: list[Path]) -> list[str]:
    """Compare what a running broker has with what the metadata say; `paths` can be used."""
    registration = image.cluster.brokers.get(BrokerId(broker))
    if registration is None or registration.fenced:
        return [f"broker {broker} is not unfenced"]
    found = [
        f"broker {broker} registered a directory that cannot be used: {directory}"
        for directory in set(registration.directories) - {directory_id(path) for path in paths}
    ]
    live = [path for path in paths if directory_id(path) in registration.directories]
    copies: dict[TopicPartition, list[Copy]] = defaultdict(list)
    for path in live:
        for copy in copies_in(path):
            copies[copy.topic_partition].append(copy)
    wanted: dict[TopicPartition, PartitionRegistration] = {}
    for topic in image.topics.by_name.values():
        for index, state in topic.partitions.items():
            if broker in state.replicas:
                wanted[TopicPartition(topic.name, index)] = state
    for key, here in copies.items():
        if len(here) > 1:
            found.append(f"broker {broker} has {key} twice: {[str(copy.path) for copy in here]}")
        if key not in wanted:
            found.append(f"broker {broker} has {here[0].path}, which belongs to nobody")
            continue
        topic_id = read_topic_id(PosixFileSystem(), here[0].path / names.PARTITION_METADATA_FILE)
        if topic_id != image.topics.by_name[key.topic].topic_id:
            found.append(f"{here[0].path} is of another topic {topic_id}")
    for key, state in wanted.items():
        problem = _misplaced(registration, state.directory(BrokerId(broker)), copies[key], state)
        if problem:
            found.append(f"broker {broker}, {key}: {problem}")
    return found


def _misplaced(
    registration: BrokerRegistration,
    assigned: DirectoryId,
    copies: list[Copy],
    state: PartitionRegistration,
) -> str:
    actual = [copy.directory for copy in copies]
    if assigned in registration.directories:
        return "" if actual == [assigned] else f"is in {actual}, the metadata say {assigned}"
    if assigned == UNASSIGNED:
        return "the controller does not know its directory"
    if assigned == LOST and state.leader < 0:
        return ""
    return f"is in {actual}, the metadata name a dead directory" if actual else ""


def copies_in(path: Path) -> list[Copy]:
    """The current replicas in a directory."""
    found = []
    for entry in path.iterdir():
        if not entry.is_dir() or entry.name == names.METADATA_DIR_NAME:
            continue
        try:
            parsed = names.parse_partition_dir(entry.name)
        except ValueError:
            continue
        # Folders of others may have such names, too, as `.Trash-1000`.
        if parsed.kind is DirKind.CURRENT and _has_a_log(entry):
            found.append(Copy(entry, directory_id(path), parsed.topic_partition))
    return found


def _has_a_log(folder: Path) -> bool:
    # Its broker may remove it while it is looked at.
    with contextlib.suppress(FileNotFoundError):
        return any(folder.glob("*.log"))
    return False


class Answer(NamedTuple):
    """The state of a partition as a broker tells clients."""

    leader: int
    isr: frozenset[int]
    offline: frozenset[int]


Answers = Mapping[TopicPartition, Answer]


def answers(cluster: Cluster, *brokers: int) -> list[Answers | None]:
    """The state of all partitions as each broker tells clients; None if it does not answer."""

    async def ask() -> list[Answers | None]:
        return await asyncio.gather(*(_answers(cluster.node(broker).port) for broker in brokers))

    return asyncio.run(ask())


async def _answers(port: int) -> Answers | None:
    request = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    try:
        connection = await KafkaConnection.open(
            "127.0.0.1", port, client_id="invariants", timeout_s=5
        )
        try:
            response = await connection.call(METADATA_API, 12, request, timeout_s=5)
        finally:
            connection.close()
    except (ConnectionError, TimeoutError, JbodlabError):
        return None
    return {
        TopicPartition(topic.name, partition.partition_index): Answer(
            partition.leader_id,
            frozenset(partition.isr_nodes),
            frozenset(partition.offline_replicas),
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def _of_answers(cluster: Cluster, image: MetadataImage) -> list[str]:
    """Compare what brokers tell clients with the metadata."""
    found = []
    running = [broker.id for broker in cluster.brokers if broker.is_running]
    for broker, told in zip(running, answers(cluster, *running), strict=True):
        if told is None:
            found.append(f"broker {broker} does not answer")
            continue
        for topic in image.topics.by_name.values():
            for index, state in topic.partitions.items():
                key = TopicPartition(topic.name, index)
                offline = frozenset(r for r in state.replicas if not _serves(image, state, r))
                wanted = Answer(state.leader, frozenset(state.isr), offline)
                if told.get(key) != wanted:
                    found.append(f"broker {broker} says {told.get(key)} of {key}, not {wanted}")
        ghosts = [key for key in told if key.topic not in image.topics.by_name]
        found += [f"broker {broker} knows {key}, which does not exist" for key in ghosts]
    return found
