"""Everything in a history: nodes, their disks, the network between them, and what was seen of it.

A *node* has an id, ports and disks, and lives on when its process ends. Controllers count from 100,
brokers from 1. A sole controller has no other port than that for brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import broker.server
import controller.server
from broker.api.table import APIS
from broker.config import from_properties
from controller.config import controller_config
from controller.serve.raft_apis import QUORUM_APIS
from jbodlab.kafka_wire.api_table import (
    load,
    request_encoder,
    request_reader,
    response_encoder,
    response_reader,
)
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.metadata.log.formatting import format_directories
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.log_lines import with_values
from jbodlab.storage.directory import meta_properties, names
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import JbodlabError, QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicPartition
from tests.simulation.compactor import SimCompactor
from tests.simulation.disk import DiskView, File, Folder, Medium, SimDisk
from tests.simulation.loop import PROCESS, Process, SimLoop, SimThreads
from tests.simulation.network import NODES_MAX, PORT_BASE, Network
from tests.simulation.plan import UNLIMITED, Options
from tests.simulation.rpc import RpcNetwork, SimRpcServer, SimRpcTransport

for _api in APIS.values():
    for _version in _api.accepted_versions:
        # The first request of a version is answered in another way: so the first history of a
        # process would not be that of the same seed in another one.
        load(_api.key, _version, _api.max_items)
for _said in QUORUM_APIS:
    # In the versions that controllers speak among themselves, and only made: the first request of
    # one is still answered in its own way, as no history has any before. Each history of a quorum
    # would make some forty of them anew, which takes a fiftieth of its time.
    _spoken = _said.key, _said.accepted_versions[-1]
    request_reader(*_spoken, _said.max_items)
    for _codec in (request_encoder, response_encoder, response_reader):
        _codec(*_spoken)

CONTROLLER = 100
ROOT = Path("/simulation")
Ask = Callable[[], object]
"""Something that comes true, at once or when it is awaited."""
WALL_START_MS = 1_700_000_000_000
DECIDED_S = 2.0
"""By when a healthy broker has made what it decided to make."""
ALWAYS = {
    "listener.security.protocol.map": ",".join(
        f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", "BROKERS")
    ),
    "auto.create.topics.enable": "false",
    "replica.socket.timeout.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "leader.imbalance.check.interval.seconds": "10",
    "log.segment.delete.delay.ms": "2000",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "log.flush.offset.checkpoint.interval.ms": "4000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Properties of all servers in all histories."""
COMPACTED = {
    "log.roll.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
"""And of those whose logs are to be compacted."""


class Violation(Exception):  # noqa: N818 - what was found, as the history's end
    """A checker, such as S1, has found something wrong about a subject: a partition, a node."""


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
    """Yield all partitions that there are."""
    for topic in image.topics.by_name.values():
        for index, state in topic.partitions.items():
            yield TopicPartition(topic.name, index), state


@dataclass(eq=False)
class Node:
    """One machine of the cluster."""

    id: int
    log_dirs: list[Path]
    metadata_dir: Path
    lives: int = 0
    former_epoch: int = -1
    """Of the registration that there was when the last process began."""
    process: Process | None = None
    config: Any = None
    server: Any = None
    stop: asyncio.Event | None = None
    stop_was_asked: bool = False
    ahead_ms: int = 0
    """By which its wall clock is wrong."""
    is_wanted: bool = True
    """Whether it is to run; not between a kill and the restart that belongs to it."""
    ended: str = ""
    """Why its last process ended by itself; empty if it did not."""

    @property
    def name(self) -> str:
        return f"node-{self.id}"

    @property
    def is_controller(self) -> bool:
        return self.id >= CONTROLLER

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def places(self) -> list[Path]:
        return [*self.log_dirs, self.metadata_dir]


class World:
    """One history's state.

    Attributes:
        metadata: Records that the controller has committed, replayed.
        seen: How often something interesting was reached.
        notes: Events that happened, with time and node, for people.
        tainted: Partitions that the plan itself has taken records from.
        gone_topics: Topics that were deleted at some time.
    """

    def __init__(self, loop: SimLoop, options: Options) -> None:
        self.loop = loop
        self.options = options
        self.network = Network(loop, f"{options.seed}")
        self.seen: Counter[str] = Counter()
        self.rpc = RpcNetwork(loop, self.network, self.seen)
        self.disks: dict[Path, SimDisk] = {}
        self.nodes: dict[int, Node] = {}
        self.metadata = MetadataLoader()
        self.quorum: Any = None
        """Checkers of several controllers; None with one."""
        self.active_id = CONTROLLER
        """The controller that was elected last."""
        self.emptied: set[int] = set()
        """Controllers that have lost their log, and may not have it again."""
        self.notes: list[tuple[float, str, str]] = []
        self.violations: list[Violation] = []
        self.sent: dict[bytes, tuple[TopicPartition, int]] = {}
        """Partition and acks of every value of a producer."""
        self.acknowledged: dict[bytes, int | None] = {}
        """Offset of a value, where one was told; None where only the success was."""
        self.once: set[bytes] = set()
        """Values that may be there once at most."""
        self.read: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        """Records that consumers have seen at each offset."""
        self.shown: dict[tuple[Any, int], int] = {}
        """By topic id and number of a partition: up to where consumers could ever read it."""
        self.tainted: set[TopicPartition] = set()
        self.gone_topics: set[str] = set()
        self.heirless: dict[TopicPartition, int] = {}
        """Those whose last replica in sync went with a disk that was replaced, and whose it was."""
        self.trimmed: Counter[TopicPartition] = Counter()
        """Below which offset operators have deleted records."""
        self.retargeted: Counter[TopicPartition] = Counter()
        """How many requests for other replicas are under way, or have lost their answers."""
        self.fragile: set[int] = set()
        """Brokers that have lost something, and may not have it again."""
        self.is_settled = False
        """Whether nothing goes wrong any more, and the cluster has recovered."""
        self.explained_s = 0.0
        """How long it may take until the one thing that goes wrong is known."""
        self.cordoned_s: dict[Path, float] = {}
        """Since when directories get no new replicas."""
        self.hit_until_s: dict[int, float] = {}
        """Until when what is done to a node explains its silence."""
        self.moments: dict[str, list[Callable[[], object]]] = defaultdict(list)
        self._devices = 0
        self._formats: Counter[str] = Counter()
        self._ids = Random(f"{options.seed}:ids")
        self.cluster_id = kafka_uuid.to_text(kafka_uuid.random_uuid(self._ids.randbytes))

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def find(
        self, partition: TopicPartition
    ) -> tuple[TopicImage | None, PartitionRegistration | None]:
        """Return a topic and the state of its partition, as far as there are."""
        topic = self.image.topics.by_name.get(partition.topic)
        return topic, None if topic is None else topic.partitions.get(partition.partition)

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node.is_controller]

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def has_quorum(self) -> bool:
        """Whether controllers elect the active one."""
        return self.options.controllers > 1

    @property
    def favourite(self) -> Node:
        """Return the broker that many events aim at."""
        return self.nodes[self.options.seed % self.options.brokers + 1]

    @property
    def controller(self) -> Node:
        """Return the sole controller, or that which was elected last."""
        return self.nodes[self.active_id]

    def now_s(self) -> float:
        """Return virtual seconds since the start."""
        return self.loop.time() - 1000.0

    def note(self, what: str) -> None:
        self.notes.append((self.now_s(), PROCESS.get().name, what))

    def report(self, checker: str, subject: object, sentence: str) -> None:
        """Take a violation in; the history ends with its first one."""
        self.note(f"VIOLATION {checker} {subject}: {sentence}")
        self.violations.append(Violation(checker, f"{subject}", sentence))
        self.loop.ending = self.violations[0]

    def moment(self, name: str) -> None:
        """Say that something was reached; what waits for it is told once."""
        self.seen[name] += 1
        for tell in self.moments.pop(name, ()):
            self.loop.call_soon(tell, context=Context())

    def later(self, seconds: float, what: Callable[..., object], *args: Any) -> None:
        """Look at something after a while, whoever has ended by then."""
        self.loop.call_later(seconds, what, *args, context=Context())

    async def reached(self, moment: str, timeout_s: float) -> None:
        """Wait for a moment, but not for long."""
        reached = asyncio.Event()
        self.moments[moment].append(reached.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await reached.wait()

    def is_void(self, partition: TopicPartition) -> bool:
        """Return whether nothing follows from what a partition has."""
        return partition in self.tainted or partition.topic in self.gone_topics

    def flushed_topics(self) -> set[str]:
        """Return the topics whose batches are durable before they are acknowledged."""
        return {each.name for each in self.options.topics if each.is_flushed} - self.gone_topics

    def node_with(self, path: Path) -> Node:
        return next(node for node in self.nodes.values() if path in node.places)

    def hit(self, node: Node, seconds: float = 0.0) -> None:
        """Say that a node is kept from being heard, for so long."""
        until_s = self.now_s() + seconds
        self.hit_until_s[node.id] = max(until_s, self.hit_until_s.get(node.id, 0.0))

    def build(self) -> None:
        """Make all nodes, with formatted disks."""
        for node_id in range(CONTROLLER, CONTROLLER + self.options.controllers):
            self._add_node(node_id, 0)
        for node_id in range(1, self.options.brokers + 1):
            self._add_node(node_id, self.options.directories)

    def _add_node(self, node_id: int, directories: int) -> None:
        home = ROOT / f"node-{node_id}"
        log_dirs = [home / f"d{number}" for number in range(1, directories + 1)]
        node = Node(node_id, log_dirs, home / "metadata")
        self.nodes[node_id] = node
        for path in node.places:
            capacity = self.options.capacity if path in log_dirs else UNLIMITED
            medium, seed = self.new_medium(capacity), f"{self.options.seed}:disk:{path}"
            self.disks[path] = SimDisk(self.loop, path, medium, seed)
        self.format(node, node.places)
        for path in log_dirs if self.options.loss == "torn" else ():
            # As if it had been stopped in order before: that must count once only.
            view = DiskView(self.disks[path])
            view.write_bytes(path / names.CLEAN_SHUTDOWN_FILE, b"", sync=True)
            self.disks[path].medium.sync_all()

    def new_medium(self, capacity: int) -> Medium:
        self._devices += 1
        medium = Medium(self._devices, capacity, is_ordered=self.options.is_ordered)
        medium.is_shuffled = not self.options.is_strict
        return medium

    def format(self, node: Node, paths: list[Path]) -> None:
        """Do what the format tool does."""
        before = self._formats[node.name]
        self._formats[node.name] += 1
        format_directories(
            paths,
            cluster_id=self.cluster_id,
            node_id=node.id,
            level=self.options.level,
            environment=self._environment(node, f"format {before}" if before else "format"),
        )
        for path in paths:
            self.disks[path].medium.sync_all()

    def replace(self, node: Node, path: Path, *, is_formatted: bool = True) -> None:
        """Stop a broker, and give it a fresh disk."""
        self.kill(node)
        self.insert(node, path, is_formatted=is_formatted)

    def insert(self, node: Node, path: Path, *, is_formatted: bool = True) -> None:
        """Put a fresh disk in the place of another."""
        disk = self.disks[path]
        disk.heal()
        disk.cause = "it is replaced"
        disk.medium = self.new_medium(disk.medium.capacity)
        self.note(f"{path} is replaced")
        if is_formatted:
            self.format(node, [path])

    def remove_replicas(self, path: Path) -> None:
        """Remove the folders of all replicas from a directory of a broker that does not run."""
        medium = self.disks[path].medium
        found = [name for name, each in medium.root.names.items() if isinstance(each, Folder)]
        medium.change(*((medium.root, name, None) for name in found))
        medium.sync_all()
        self.disks[path].cause = "its replicas are removed"
        self.note(f"{path} loses its replicas")

    def remove_indexes(self, path: Path) -> None:
        """Remove all index files from a directory of a broker that does not run."""
        medium = self.disks[path].medium
        for folder in medium.root.names.values():
            if isinstance(folder, Folder):
                indexes = names.with_suffix(folder.names, names.INDEX_SUFFIXES)
                medium.change(*((folder, name, None) for name in indexes))
        medium.sync_all()
        self.note(f"{path} loses its indexes")

    def copy_identity(self, source: Path, target: Path) -> None:
        """Give a directory the id of another one."""
        one, other = (self.disks[each].medium.root for each in (source, target))
        other.names[names.META_PROPERTIES_FILE] = one.names[names.META_PROPERTIES_FILE]
        other.durable[names.META_PROPERTIES_FILE] = one.names[names.META_PROPERTIES_FILE]

    def _environment(self, node: Node, life: str) -> Environment:
        seed = f"{self.options.seed}:{node.name}:{life}:{self._devices}"
        loop = self.loop
        views = {path: DiskView(self.disks[path]) for path in node.places}
        return Environment(
            monotonic_s=loop.time,
            wall_ms=lambda: WALL_START_MS + int(loop.time() * 1000) + node.ahead_ms,
            random=Random(f"{seed}:random"),
            random_bytes=Random(f"{seed}:bytes").randbytes,
            threads=SimThreads(loop),
            fs_of=views.__getitem__,
            connect_rpc=lambda address, _keys: SimRpcTransport(self.rpc, address),
            rpc_server=lambda listener, _tls: SimRpcServer(self.rpc, listener),
            compactor=SimCompactor,
        )

    def boot(self, node: Node) -> None:
        """Start a process of a node."""
        assert not node.is_up
        node.lives += 1
        node.ended = ""
        node.stop_was_asked = False
        registered = self.registration(node)
        node.former_epoch = -1 if registered is None else registered.epoch
        self.hit(node, 2.0)
        node.process = Process(f"{node.name}.{node.lives}")
        context = Context()
        context.run(PROCESS.set, node.process)
        context.run(self._start, node, node.process)
        self.note(f"{node.name} starts")

    def _start(self, node: Node, process: Process) -> None:
        environment = self._environment(node, str(node.lives))
        node.stop = asyncio.Event()
        kind: Any = controller.server.ControllerServer
        read: Any = controller_config
        if not node.is_controller:
            kind, read = broker.server.BrokerServer, from_properties
        # The settings stay the same in all its lives.
        node.config = node.config or read(self.properties(node))[0]
        node.server = kind(node.config, environment)
        task = self.loop.create_task(node.server.run(node.stop), name="server")
        self.loop.kept.append((task, node.server))
        task.add_done_callback(lambda done: self._ended(node, process, done))

    def _ended(self, node: Node, process: Process, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.note(f"{node.name} has ended{'' if error is None else f': {error!r}'}")
        if error is not None:
            node.ended = str(error) or repr(error)
            is_expected = isinstance(error, (JbodlabError, OSError))
            if not is_expected or isinstance(error, QuorumViolationError):
                self.report("S12", node.name, f"it ended by {error!r}")
        self._gone(node, process)

    def registration(self, node: Node) -> BrokerRegistration | None:
        return self.image.cluster.brokers.get(BrokerId(node.id))

    def is_serving(self, node: Node) -> bool:
        """Return whether the controller counts on this very process."""
        found = self.registration(node)
        return node.is_up and found is not None and found.active and found.epoch > node.former_epoch

    def kill(self, node: Node) -> None:
        """End a process at once; what it wrote stays with the system."""
        if node.process is not None:
            self.note(f"{node.name} is killed")
            self._gone(node, node.process)

    def cut_power(self, node: Node) -> None:
        """End a process with its machine; nobody is told, and what is not durable may be lost."""
        self.note(f"{node.name} loses power")
        self.network.dark.add(node.name)
        if node.process is not None:
            self._gone(node, node.process, noticed_s=2.0)
        for path in node.places:
            self.disks[path].lose_power(self.options.loss)

    def _gone(self, node: Node, process: Process, noticed_s: float = 0.0) -> None:
        """Let nothing of a process run any more; others notice at once, or after a while."""
        if node.process is process:
            node.process = None
        self.hit(node)
        self.loop.kill(process)
        if noticed_s:
            self.later(noticed_s, self._power_noticed, process)
        else:
            self._power_noticed(process)

    def _power_noticed(self, process: Process) -> None:
        self.network.process_ended(process)
        self.rpc.process_ended(process)

    def ask_to_stop(self, node: Node) -> None:
        if node.stop is not None and node.is_up:
            self.note(f"{node.name} is asked to stop")
            node.stop_was_asked = True
            node.stop.set()

    def run_as(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a client; nothing of it may end by an exception that nobody expects."""
        context = Context()
        context.run(PROCESS.set, Process(name))
        task: asyncio.Task[Any] = context.run(self.loop.create_task, work)
        self.loop.kept.append(task)
        task.add_done_callback(functools.partial(self._client_ended, name))
        return task

    def _client_ended(self, name: str, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report("S12", name, "".join(traceback.format_exception(error))[-1500:])

    async def until(self, what: Ask, timeout_s: float, pause_s: float = 0.2) -> bool:
        """Ask again and again until there is a true answer; returns whether there was one."""
        end = self.loop.time() + timeout_s
        while True:
            answer = what()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer or self.loop.time() > end:
                return bool(answer)
            await asyncio.sleep(pause_s)

    async def until_down(self, nodes: Iterable[Node], timeout_s: float) -> None:
        """Wait until none of some nodes runs, but not for longer."""
        await self.until(lambda: not any(node.is_up for node in nodes), timeout_s, 0.1)

    def properties(self, node: Node) -> Mapping[str, str]:
        names = ("CONTROLLER", *("BROKERS",) * self.has_quorum)
        listeners = names if node.is_controller else ("PLAINTEXT",)
        ids = [each.id for each in self.controllers]
        several = {
            "jbodlab.metadata.reserve.bytes": "4096",
            # Two thirds of all fetches of controllers would only ask anew who leads, and half of
            # those of brokers whether there is something by now. A record that says nothing goes
            # through the logs of all of them.
            "controller.quorum.retry.backoff.ms": "250",
            "metadata.max.idle.interval.ms": "2000",
            "replica.fetch.wait.max.ms": "1000",
            "jbodlab.controller.bootstrap.servers": ",".join(
                address(each, len(names) - 1) for each in ids
            ),
        }
        return {
            **ALWAYS,
            **(COMPACTED if self.options.is_compacted else {}),
            **(several if self.has_quorum else {}),
            "controller.quorum.voters": ",".join(f"{each}@{address(each)}" for each in ids),
            "controller.listener.names": ",".join(names),
            "process.roles": "controller" if node.is_controller else "broker",
            "node.id": str(node.id),
            "listeners": ",".join(
                f"{name}://{address(node.id, place)}" for place, name in enumerate(listeners)
            ),
            "log.dirs": ",".join(map(str, node.log_dirs or [node.metadata_dir])),
            "metadata.log.dir": str(node.metadata_dir),
            **{name: str(value) for name, value in self.options.settings.items()},
        }


def address(node_id: int, place: int = 0) -> str:
    """Return where a node listens; its listeners have places."""
    return f"127.0.0.1:{PORT_BASE + NODES_MAX * place + node_id}"


def directory_id(world: World, path: Path) -> DirectoryId | None:
    """Return the id that a directory has on its disk."""
    text = text_in(world.disks[path].medium.root, names.META_PROPERTIES_FILE)
    try:
        return meta_properties.parse(text).directory_id
    except JbodlabError:
        return None


def text_in(folder: Folder, name: str) -> str:
    file = folder.names.get(name)
    return file.data.decode(errors="replace") if isinstance(file, File) else ""


def topic_id_in(folder: Folder) -> UUID | None:
    """Return the id of the topic that a replica's folder says it is of."""
    _, _, found = text_in(folder, names.PARTITION_METADATA_FILE).partition("topic_id: ")
    try:
        return kafka_uuid.parse(found.strip())
    except ValueError:
        return None


class NotesHandler(logging.Handler):
    """Takes the product's log lines in, and what nobody expected among them as violations."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        with_values(record)
        self._world.note(f"{record.levelname} {text}{vars(record)['values']}")
        self._world.seen[f"logged: {record.msg}"] += 1
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            self._world.report("S12", record.name, f"{text}: {record.exc_info[1]!r}")
