"""Three controllers of one quorum, each run by our program or by that of Apache Kafka.

Which of the two runs a controller is decided at each start, so a directory passes from one to the
other: the property file of Kafka's is ours without the listener for brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from msgspec import structs

from jbodlab.cli.lab_state import NodeState
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.formatting import format_directories
from jbodlab.metadata.log.quorum_state import read_quorum_state
from jbodlab.metadata.log.snapshots import decode_snapshot, parse_name
from jbodlab.metadata.records.metadata_version import LATEST
from jbodlab.metadata.records.schema import Record
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import METADATA_TOPIC
from lab.cluster.engine import Engine
from lab.cluster.kafka_servers import KafkaServers
from lab.cluster.node import Node, OwnServers
from lab.machine.waiting import wait_for
from tests.cluster import mixed_changes
from tests.cluster.harness import Cluster, made
from tests.cluster.mixed_changes import Change, is_done
from tests.kafka.jars import RELEASE

ASK_S = 2.0
DEADLINE_S = 60.0
"""A JVM on a busy machine takes its time."""
NAMES = 50
"""Of users and groups whose settings change."""
TOPICS_MOST = 20


class MixedServers(OwnServers):
    """Servers of a cluster, some of whose controllers are Apache Kafka's.

    Attributes:
        of_kafka: Node ids of those; looked at when a node is started.
    """

    def __init__(self, level: int = LATEST) -> None:
        """Take what the directories are formatted for: a level of `metadata.version`."""
        self.of_kafka: set[int] = set()
        self._level = level
        self._kafka = KafkaServers(Engine(RELEASE))

    def format(
        self,
        node: NodeState,
        cluster_id: str,
        directories: Sequence[Path],
        security: Sequence[Record] = (),
    ) -> None:
        """Format directories of a node, as ours."""
        del security
        format_directories(
            directories, cluster_id=cluster_id, node_id=node.node_id, level=self._level
        )

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        if node.node_id not in self.of_kafka:
            return super().command(node)
        return self._kafka.command(structs.replace(node, properties_file=str(_file_of_kafka(node))))


def _file_of_kafka(node: NodeState) -> Path:
    own = Path(node.properties_file)
    values = properties.parse(own.read_text("utf-8"))
    values |= {
        "controller.listener.names": "CONTROLLER",
        "listeners": values["listeners"].split(",")[0],
    }
    file = own.with_name(f"kafka-{own.name}")
    file.write_text(properties.render(values), "utf-8")
    file.chmod(0o644)
    return file


class Batch(NamedTuple):
    """A batch of a log, with its bytes."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


class MetadataDir:
    """The files of a controller that does not run, or does not write now."""

    def __init__(self, node: Node) -> None:
        self.folder = node.metadata_dir / METADATA_DIR_NAME

    def batches(self) -> list[Batch]:
        """Return the whole batches of all segments that are not marked as deleted."""
        found: list[Batch] = []
        for path in sorted(self.folder.glob("*.log")):
            with contextlib.suppress(DecodeError, FileNotFoundError):
                data = path.read_bytes()
                for at, header in iterate_headers(data):
                    batch = data[at : at + header.size]
                    if len(batch) == header.size:
                        epoch = header.partition_leader_epoch
                        found.append(Batch(header.base_offset, header.next_offset, epoch, batch))
        return found

    @property
    def end_offset(self) -> int:
        """Return where the log ends."""
        batches = self.batches()
        return batches[-1].next_offset if batches else -1

    def epoch_starts(self, from_offset: int) -> list[tuple[int, int]]:
        """Return the epochs of `leader-epoch-checkpoint` that begin at an offset or later."""
        lines = (self.folder / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        pairs = (tuple(map(int, line.split())) for line in lines)
        return [(epoch, start) for epoch, start in pairs if start >= from_offset]

    def epoch(self) -> int:
        """Return the leader epoch of quorum-state."""
        state = read_quorum_state(self.folder)
        assert state is not None
        return state.leader_epoch

    def snapshots(self) -> list[Path]:
        """Return the snapshots, the newest last."""
        return sorted(self.folder.glob("*[0-9].checkpoint"))

    def image(self, others: Iterable[Path] = ()) -> MetadataImage:
        """Return the metadata at the end of the log.

        The state at the end of each snapshot, and of further ones of other controllers, has to be
        what the snapshot says.
        """
        found = {parse_name(path.name): path for path in (*others, *self.snapshots())}
        loader, batches = MetadataLoader(), self.batches()
        first = batches[0].base_offset
        for each in (*sorted(found), None):
            if each is not None and each[0] < first:
                continue
            for batch in batches:
                if batch.base_offset == loader.next_offset and (
                    each is None or batch.next_offset <= each[0]
                ):
                    for committed in read_batches(batch.data):
                        loader.load(committed)
            if each is not None:
                header, records = decode_snapshot(found[each].read_bytes())
                image = loader.image
                loader.load_snapshot(records, *each, header.last_contained_log_timestamp)
                is_same = _comparable(image) == _comparable(loader.image)
                assert image.offset < first or is_same, found[each]
        return loader.image


def _comparable(image: MetadataImage) -> MetadataImage:
    """Return an image without what Kafka's snapshots say in another way.

    The time of the last record is that of a commit where its writer led, and the listeners of a
    controller come from a hash table.
    """
    controllers = {}
    for number, each in image.cluster.controllers.items():
        listeners = tuple(sorted(each.end_points, key=attrgetter("name")))
        controllers[number] = structs.replace(each, end_points=listeners)
    cluster = replace(image.cluster, controllers=controllers)
    return replace(image, timestamp_ms=0, cluster=cluster)


class MixedQuorum:
    """The controllers of a cluster with one broker of ours, which need not run.

    Attributes:
        cluster: It.
        servers: Say whose program runs which controller.
        acknowledged: The quotas of users that a leader has said to be set.
        topics: Those that a leader has said to be created.
    """

    def __init__(self, cluster: Cluster, servers: MixedServers) -> None:
        self.cluster = cluster
        self.servers = servers
        self.controllers: list[Node] = cluster.controllers
        self.acknowledged: dict[str, float] = {}
        self.topics: list[str] = []
        self._numbers = count()

    def start(self, *nodes: Node) -> None:
        """Start some controllers, or all."""
        for node in nodes or self.controllers:
            node.start()

    def hand_to(self, node: Node, *, kafka: bool) -> None:
        """Say whose program the next start of a controller runs."""
        if kafka:
            self.servers.of_kafka.add(node.id)
        else:
            self.servers.of_kafka.discard(node.id)

    def is_kafka(self, node: Node) -> bool:
        """Return whose program it is."""
        return node.id in self.servers.of_kafka

    # Questions.

    def _ask_kafka(self, node: Node, key: ApiKey, version: int, message: Any) -> Any:
        async def ask() -> Any:
            connection = await KafkaConnection.open(
                node.state.host, node.port, client_id="test", timeout_s=ASK_S
            )
            try:
                return await connection.call(key, version, message, ASK_S)
            finally:
                connection.close()

        return asyncio.run(ask())

    def ask(self, node: Node, request: Any) -> Any:
        """Send a request to a controller of ours."""
        with grpc.insecure_channel(f"{node.state.host}:{node.state.grpc_port}") as channel:
            method = getattr(
                ControllerStub(channel), type(request).__name__.removesuffix("Request")
            )
            return from_proto(method(to_proto(request), timeout=ASK_S))

    def describes(self, node: Node) -> int | None:
        """Return the epoch in which a controller says that it leads; None if it does not."""
        with contextlib.suppress(OSError, TimeoutError, grpc.RpcError, DecodeError):
            if not self.is_kafka(node):
                answer = self.ask(node, requests.DescribeQuorumRequest())
                return answer.leader_epoch if answer.error_code is ErrorCode.NONE else None
            kind = request_class(ApiKey.DESCRIBE_QUORUM, 0)
            topic = item_class(kind, "topics")
            partition = item_class(topic, "partitions")
            message = kind(
                topics=(
                    topic(topic_name=METADATA_TOPIC, partitions=(partition(partition_index=0),)),
                )
            )
            answer = self._ask_kafka(node, ApiKey.DESCRIBE_QUORUM, 0, message)
            (told,) = answer.topics[0].partitions
            return told.leader_epoch if told.error_code == 0 else None
        return None

    def leader(self) -> Node | None:
        """Return the controller that says that it leads, in the highest epoch."""
        told = {
            node.id: epoch
            for node in self.controllers
            if node.is_running and (epoch := self.describes(node)) is not None
        }
        if not told:
            return None
        leader = max(told, key=lambda each: told[each])
        return next(node for node in self.controllers if node.id == leader)

    def wait_leader(self, *candidates: Node) -> Node:
        """Wait until a controller leads, one of the candidates if there are any."""

        def found() -> Node | None:
            leader = self.leader()
            return (
                leader if leader is not None and (leader in candidates or not candidates) else None
            )

        return wait_for(f"a leader among {candidates or 'all'}", found, DEADLINE_S)

    # Changes.

    def change(self, leader: Node, change: Change) -> bool:
        """Ask a controller for a change; returns whether it says that it is made."""
        with contextlib.suppress(OSError, TimeoutError, grpc.RpcError, DecodeError):
            if self.is_kafka(leader):
                answer = self._ask_kafka(leader, change.key, change.version, change.message)
            else:
                answer = self.ask(leader, change.request)
            return is_done(answer)
        return False

    def try_change(self, leader: Node) -> bool:
        """Ask a controller for the next change; returns whether it is acknowledged."""
        number = next(self._numbers)
        name = f"{number % NAMES}"
        kind = number % 8
        if kind == 5:
            return self.change(leader, mixed_changes.setting(name, 45_001 + number))
        if kind == 6:
            return self.change(leader, mixed_changes.credential(name, number))
        if kind == 7 and self.cluster.broker(1).is_running:
            return self._change_topics(leader, f"topic-{number}")
        # A change without an answer may be there or not.
        self.acknowledged.pop(name, None)
        is_set = self.change(leader, mixed_changes.quota(name, float(number + 1)))
        if is_set:
            self.acknowledged[name] = float(number + 1)
        return is_set

    def _change_topics(self, leader: Node, name: str) -> bool:
        if len(self.topics) > TOPICS_MOST:
            return self.change(leader, mixed_changes.removed_topic(self.topics.pop(0)))
        is_there = self.change(leader, mixed_changes.new_topic(name))
        if is_there:
            self.topics.append(name)
        return is_there

    def change_until_acknowledged(self, deadline_s: float = DEADLINE_S) -> Node:
        """Ask who leads for new quotas until one is set; returns who has set it."""

        def changed() -> Node | None:
            leader = self.leader()
            return leader if leader is not None and self.try_change(leader) else None

        return wait_for("a change that is acknowledged", changed, deadline_s)

    # Equality.

    def wait_caught_up(self) -> None:
        """Wait until each log has the batch that ends the leader's now."""
        leader = self.change_until_acknowledged()
        last = MetadataDir(leader).batches()[-1]
        wait_for(
            f"the batch at {last.base_offset} in all logs",
            lambda: all(last in MetadataDir(node).batches() for node in self.controllers),
            DEADLINE_S,
            last_seen=self.ends,
        )

    def freeze_equal(self) -> None:
        """Wait until all logs end at one offset, and kill all controllers there."""

        def are_killed() -> bool:
            leader = self.wait_leader()
            assert all(node.is_running for node in self.controllers)
            leader.freeze()
            try:
                end = MetadataDir(leader).end_offset
                followers = [node for node in self.controllers if node is not leader]
                if not self._are_at(end, followers):
                    return False
                for node in followers:
                    node.freeze()
                is_equal = self._are_at(end, followers)
                for node in self.controllers if is_equal else ():
                    node.kill()
                for node in followers:
                    node.thaw()
                return is_equal
            finally:
                leader.thaw()

        wait_for("equal logs", are_killed, 2 * DEADLINE_S, last_seen=self.ends)

    def _are_at(self, end: int, nodes: Iterable[Node]) -> bool:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            if all(MetadataDir(node).end_offset == end for node in nodes):
                return True
            time.sleep(0.02)
        return False

    def ends(self) -> list[int]:
        """Return where the log of each controller ends that does not run."""
        return [MetadataDir(node).end_offset for node in self.controllers]

    def check_equal(self) -> None:
        """Compare the files of controllers that do not run, and look for what was acknowledged."""
        dirs = [MetadataDir(node) for node in self.controllers]
        logs = [each.batches() for each in dirs]
        start = max(log[0].base_offset for log in logs)
        logs = [[batch for batch in log if batch.base_offset >= start] for log in logs]
        for node, log in zip(self.controllers, logs, strict=True):
            for one, other in zip(logs[0], log, strict=True):
                assert one == other, f"{node} differs from {self.controllers[0]}: {one} {other}"
        starts = [each.epoch_starts(start + 1) for each in dirs]
        assert starts.count(starts[0]) == len(starts), starts
        epochs = [each.epoch() for each in dirs]
        assert len(set(epochs)) == 1, epochs
        snapshots = [path for each in dirs for path in each.snapshots()]
        images = [_comparable(each.image(snapshots)) for each in dirs]
        for node, image in zip(self.controllers, images, strict=True):
            differing = [
                field.name
                for field in fields(image)
                if getattr(image, field.name) != getattr(images[0], field.name)
            ]
            assert not differing, f"{node} differs from {self.controllers[0]}: {differing}"
        kept = quotas(images[0])
        lost = {user: rate for user, rate in self.acknowledged.items() if kept.get(user) != rate}
        assert not lost, lost
        missing = set(self.topics) - set(images[0].topics.by_name)
        assert not missing, missing


def quotas(image: MetadataImage) -> Mapping[str, float]:
    """Return the quotas of users in an image."""
    return {
        str(name): values[mixed_changes.QUOTA]
        for entities, values in image.quotas.items()
        for kind, name in entities
        if kind == mixed_changes.USER
    }


@contextlib.contextmanager
def quorum(
    root: Path,
    kafka: Iterable[int],
    settings: Mapping[str, str] | None = None,
    level: int = LATEST,
) -> Iterator[MixedQuorum]:
    """A formatted quorum of which nothing runs; the numbers are the places of Kafka's."""
    servers = MixedServers(level)
    cluster = made(root, brokers=1, dirs=1, controllers=3, servers=servers, settings=settings)
    servers.of_kafka = {cluster.controllers[place].id for place in kafka}
    try:
        yield MixedQuorum(cluster, servers)
    finally:
        cluster.close()
