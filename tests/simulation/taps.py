"""Checkers that look in the step in which something happens, and announce the moments of a history.

They are attached from outside, around methods of the product, which knows nothing of them. A tap
is entered by its class and method, and is given what the method was called with, before and after.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from broker.disk.fence import Fence
from broker.disk.log_dir import LogDir
from broker.disk.no_space import NoSpaceError
from broker.metadata_cache import MetadataCache
from broker.moves.announcements import Announcements
from broker.moves.directory_swap import DirectorySwap, SwapToken
from broker.replica import leader_appends
from broker.replica.partition import Partition
from controller.active_controller import ActiveController
from controller.metadata_stream import MetadataStream
from jbodlab.directory_id import UNASSIGNED
from jbodlab.ids import BrokerId, TopicPartition
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.image.loader import MetadataLoader
from jbodlab.image.metadata_image import EMPTY, MetadataImage
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.log.names import DirKind, parse_partition_dir
from jbodlab.metadata_log.batches import read_batches
from jbodlab.protocol.record_batch import iterate_headers
from jbodlab.records.topic_records import PartitionChangeRecord
from tests.simulation.disk import File, Folder
from tests.simulation.loop import PROCESS
from tests.simulation.plan import MOMENTS
from tests.simulation.world import World, directory_id, partitions_of, text, topic_id_in

METADATA_FOLDER = "__cluster_metadata-0"


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function around a method; it gets the method as its first argument."""
    inner = getattr(owner, name)

    def enter(outer: Callable[..., Any]) -> None:
        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            return outer(inner, *args, **kwargs)

        setattr(owner, name, call)

    return enter


def attach(world: World) -> None:
    """Attach all of them to the classes of the product, for this one history."""
    _Metadata(world)
    _Appends(world)
    _moments(world)
    for disk in world.disks.values():
        disk.on_folder = lambda path: _folder_made(world, path)
        disk.on_loop = lambda disk, kind: _called_on_loop(world, disk.path.name, kind)


def _called_on_loop(world: World, name: str, kind: str) -> None:
    if name != "metadata" and kind not in ("stat",):
        world.report("S19", PROCESS.get().name, f"{kind} at {name} holds the event loop up")


def _folder_made(world: World, path: Path) -> None:
    """S13: no replica is made anew while the directory that has it may come back."""
    node = world.node_with(path.parent)
    try:
        parsed = parse_partition_dir(path.name)
    except ValueError:
        return
    topic = world.image.topics.by_name.get(parsed.topic_partition.topic)
    state = None if topic is None else topic.partitions.get(parsed.topic_partition.partition)
    if parsed.kind is not DirKind.CURRENT or state is None or node.id not in state.replicas:
        return
    for other in node.log_dirs:
        if other != path.parent and state.directory(BrokerId(node.id)) == directory_id(
            world, other
        ):
            folder = world.disks[other].medium.root.names.get(path.name)
            if isinstance(folder, Folder) and topic_id_in(folder) == topic.topic_id:
                world.report("S13", path.name, f"it is made anew in {path.parent}, {other} has it")


class _Metadata:
    """What the controller commits: S7, S8, S10, S14."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._images: dict[int, MetadataImage] = {}
        self._known: set[int] = set()
        """Epochs of registrations that were unfenced before."""
        self._last: MetadataImage = EMPTY

        @around(MetadataStream, "__init__")
        def begun(inner: Any, stream: Any, log: Any, log_thread: Any, end_offset: int) -> None:
            inner(stream, log, log_thread, end_offset)
            self._catch_up(log, end_offset)

        @around(ActiveController, "_replayed")
        def decided(inner: Any, active: Any, result: Any) -> Any:
            self._check_result(result)
            return inner(active, result)

        @around(MetadataStream, "committed")
        def committed(inner: Any, stream: Any, batches: Any, end_offset: int) -> None:
            self._check_durable(end_offset)
            for _, data in batches:
                self._load(data)
            inner(stream, batches, end_offset)

        @around(MetadataCache, "publish")
        def published(inner: Any, cache: Any, image: MetadataImage, *rest: Any) -> Any:
            self._published(image)
            return inner(cache, image, *rest)

    def _published(self, image: MetadataImage) -> None:
        """S7: an image at an offset is the same one everywhere."""
        known = self._images.get(image.offset)
        if known is not None and (others := difference(known, image)):
            sentence = f"its image at {image.offset} is another: {others}"
            self._world.report("S7", PROCESS.get().name, sentence)

    def _check_result(self, result: Any) -> None:
        """S14: one decision changes the ISR of a partition once."""
        changed: set[Any] = set()
        for record, _ in result.records:
            if isinstance(record, PartitionChangeRecord) and record.isr is not None:
                key = (record.topic_id, record.partition_id)
                if key in changed:
                    name = f"{record.partition_id} of {record.topic_id}"
                    self._world.report("S14", name, "one result changes its ISR twice")
                changed.add(key)

    def _catch_up(self, log: Any, end_offset: int) -> None:
        loader = self._world.metadata
        if end_offset < loader.next_offset:
            self._world.report(
                "S7", "controller", f"its log ends at {end_offset}, it was {loader.next_offset}"
            )
        self._check_durable(end_offset)
        while loader.next_offset < end_offset:
            data = log.read(max(loader.next_offset, log.start_offset))
            if not data:
                break
            self._load(data)

    def _load(self, data: bytes) -> None:
        world = self._world
        for batch in read_batches(data):
            before = world.metadata.image
            world.metadata.load(batch)
            self._images[world.image.offset] = world.image
            self._changed(before, world.image)

    def _check_durable(self, end_offset: int) -> None:
        """S8: what is answered and streamed is on the controller's disk."""
        root = self._world.disks[self._world.controller.metadata_dir].medium.root
        folder = root.durable.get(METADATA_FOLDER)
        if not isinstance(folder, Folder):
            self._world.report("S8", "controller", "the folder of its log is not durable")
            return
        logs = {n: f for n, f in folder.durable.items() if n.endswith(".log")}
        if not any(isinstance(f, File) and f.unsynced for f in logs.values()) and len(logs) == sum(
            name.endswith(".log") for name in folder.names
        ):
            return
        durable = 0
        for file in logs.values():
            assert isinstance(file, File)
            for _, header in iterate_headers(bytes(file.durable)):
                durable = max(durable, header.next_offset)
        if durable < end_offset:
            self._world.report(
                "S8", "controller", f"{end_offset} is committed, {durable} is on the disk"
            )

    def _changed(self, before: MetadataImage, after: MetadataImage) -> None:
        world = self._world
        for name, topic in (
            after.topics.by_name.items() if before.topics is not after.topics else ()
        ):
            old = before.topics.by_name.get(name)
            if old is topic or old is None or old.topic_id != topic.topic_id:
                continue
            for index, state in topic.partitions.items():
                former = old.partitions.get(index)
                if former is not None and former is not state:
                    self._changed_partition(f"{name}-{index}", former, state)
        if before.cluster is not after.cluster:
            for broker_id, broker in after.cluster.brokers.items():
                former_broker = before.cluster.brokers.get(broker_id)
                if former_broker is not None and former_broker.fenced != broker.fenced:
                    self._fenced(broker) if broker.fenced else self._unfenced(broker, after)
        # One commit later: what the last one left wrong must be right now.
        if self._last.offset >= 0:
            for name, wrong in sorted(misplaced(self._last)):
                if (name, wrong) in misplaced(after):
                    world.report("S10", name, wrong)
        self._last = after

    def _fenced(self, broker: BrokerRegistration) -> None:
        """S18: whoever can be heard is not fenced, also after the controller stood still."""
        world = self._world
        node = world.nodes[broker.broker_id]
        heard_s = world.now_s() - world.hit_until_s.get(node.id, 0.0)
        quiet_s = world.options.session_timeout_ms / 1000 + 2
        is_its = node.is_up and broker.epoch > node.former_epoch
        if is_its and heard_s > quiet_s and not node.stop_was_asked:
            world.report("S18", node.name, "it is fenced, and nothing has kept it from being heard")

    def _unfenced(self, broker: BrokerRegistration, image: MetadataImage) -> None:
        """S17: who starts with several directories says first in which its replicas are."""
        if len(broker.directories) < 2 or broker.epoch in self._known:
            return
        self._known.add(broker.epoch)
        me = broker.broker_id
        for partition, state in partitions_of(image):
            if me in state.replicas and state.directory(me) == UNASSIGNED:
                sentence = f"it is unfenced, {text(partition)} has no directory"
                self._world.report("S17", f"node-{me}", sentence)

    def _changed_partition(
        self, name: str, former: PartitionRegistration, state: PartitionRegistration
    ) -> None:
        """S14: epochs rise as they should, and directories are real ones."""
        world = self._world
        if state.partition_epoch <= former.partition_epoch:
            world.report(
                "S14", name, f"partition epoch {former.partition_epoch} -> {state.partition_epoch}"
            )
        if state.leader != former.leader and state.leader_epoch <= former.leader_epoch:
            world.report("S14", name, f"leader {state.leader} in epoch {state.leader_epoch} again")
        if state.leader_epoch < former.leader_epoch:
            world.report("S14", name, f"leader epoch falls to {state.leader_epoch}")
        if not state.isr and former.isr:
            world.report("S14", name, "its ISR is empty")
        if state.leader != former.leader:
            world.moment("elected")
        if set(state.isr) - set(former.isr) and state.leader in state.isr:
            topic, _, index = name.rpartition("-")
            leading = replica_of(world, state.leader, TopicPartition(topic, int(index)))
            role = None if leading is None else leading.leader
            if role is not None and role.leader_epoch == state.leader_epoch:
                in_sync_have(world, leading.topic_partition, leading.high_watermark, state)
        if len(state.isr) < len(former.isr):
            world.moment("isr")
            if len(state.isr) == 1:
                world.seen["ISR shrunk to one"] += 1
        if state.directories != former.directories:
            world.moment("assigned")


def misplaced(image: MetadataImage) -> set[tuple[str, str]]:
    """S10: leaders and members of an ISR in directories that their brokers have not."""
    found = set()
    for partition, state in partitions_of(image):
        name = text(partition)
        if state.leader >= 0 and state.leader not in state.isr:
            found.add((name, f"leader {state.leader} is not in its ISR {state.isr}"))
        for member in state.isr if state.leader >= 0 else ():
            broker = image.cluster.brokers.get(BrokerId(member))
            directory = state.directory(BrokerId(member))
            if broker is None:
                found.add((name, f"{member} in its ISR is not registered"))
            elif not broker.directory_is_online(directory):
                found.add((name, f"{member} in its ISR is in the offline {directory}"))
            elif member == state.leader and broker.fenced:
                found.add((name, f"leader {member} is fenced"))
    return found


def difference(one: MetadataImage, other: MetadataImage) -> str:
    """Return the names of the parts that are not equal."""
    parts = ("cluster", "topics", "configs", "features", "next_producer_id")
    return ", ".join(each for each in parts if getattr(one, each) != getattr(other, each))


class _Appends:
    """What leaders do: S1, S2, S13."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[tuple[Any, int, int], int] = {}
        self.high: dict[tuple[Any, int], int] = {}

        @around(leader_appends, "check_append")
        def append(inner: Any, partition: Any, acks: int, header: Any) -> Any:
            self._appends(partition)
            world.moment("appended")
            return inner(partition, acks, header)

        @around(Partition, "advance_high_watermark")
        def advanced(inner: Any, partition: Any) -> None:
            before = partition.high_watermark
            inner(partition)
            self._watermark(partition, before)

        @around(Partition, "_begin_to_lead")
        def leads(inner: Any, partition: Any, event: Any, log: Any) -> None:
            self._begins(partition, log)
            inner(partition, event, log)

    def _appends(self, partition: Any) -> None:
        """S1: one leader in each epoch, and it is the one that the metadata names."""
        leader = partition.leader
        if leader is None:
            return
        me = partition.broker_id
        key = (partition.topic_id, partition.topic_partition.partition, leader.leader_epoch)
        name = text(partition.topic_partition)
        if (other := self._leaders.setdefault(key, me)) != me:
            sentence = f"{me} appends in epoch {leader.leader_epoch}, as {other} did"
            self._world.report("S1", name, sentence)
        topic = self._world.image.topics.by_id.get(partition.topic_id)
        state = None if topic is None else topic.partitions.get(key[1])
        if state is not None and state.leader_epoch == leader.leader_epoch and state.leader != me:
            self._world.report("S1", name, f"{me} appends, {state.leader} leads")

    def _watermark(self, partition: Any, before: int) -> None:
        """S2: it never falls while a broker leads, and is never beyond what is written."""
        log, now = partition.log, partition.high_watermark
        if log is None or partition.leader is None:
            return
        name = text(partition.topic_partition)
        if now < before:
            self._world.report("S2", name, f"high watermark falls from {before} to {now}")
        if now > log.written_end:
            sentence = f"high watermark {now} beyond the end {log.written_end}"
            self._world.report("S2", name, sentence)
        key = (partition.topic_id, partition.topic_partition.partition)
        self.high[key] = max(self.high.get(key, 0), now)
        if now > before:
            in_sync_have(self._world, partition.topic_partition, now)

    def _begins(self, partition: Any, log: Any) -> None:
        """S2: who begins to lead has all that was ever shown."""
        key = (partition.topic_id, partition.topic_partition.partition)
        shown = self.high.get(key, 0)
        if partition.topic_partition in self._world.tainted:
            self.high[key] = min(shown, log.end_offset)
        elif log.end_offset < shown:
            sentence = f"{partition.broker_id} leads from {log.end_offset} on, {shown} was shown"
            self._world.report("S2", text(partition.topic_partition), sentence)


SOMETIMES: dict[str, tuple[Any, str, Callable[..., object]]] = {
    "a swap was taken back": (SwapToken, "take_back", lambda *_: True),
    "a move ended after it was announced": (Announcements, "take_back", lambda *_: True),
    "a former life was fenced off": (Fence, "check", lambda fence: fence.is_closed),
    "an empty heir must not lead": (Partition, "must_not_lead", lambda *_: True),
    "a disk had no room": (NoSpaceError, "__init__", lambda *_: True),
    "a broker loaded a snapshot": (
        MetadataLoader,
        "load_snapshot",
        lambda *_: PROCESS.get().name.startswith("node-") and PROCESS.get().name < "node-100",
    ),
}
"""What many histories together must have come to: a method, and which calls of it count."""
SOMETIMES_LOGGED = (
    "swap of %s was put off, a disk is busy",
    "segment was cut at its first invalid byte",
    "metadata segment is cut behind its last valid batch",
)
SOMETIMES_SEEN = (
    "ISR shrunk to one",
    "an answer was lost after its call was carried out",
    "a directory failed with a heartbeat on its way",
)


def never_reached(seen: Collection[str]) -> list[str]:
    """Return what all histories together should have reached, and have not."""
    wanted = [*SOMETIMES, *(f"logged: {each}" for each in SOMETIMES_LOGGED), *SOMETIMES_SEEN]
    return sorted({*wanted, *MOMENTS} - {*seen})


def _moments(world: World) -> None:
    """Say when something is reached that events may follow, and count what happens sometimes."""
    methods = {
        "BrokerHeartbeat": "heartbeat",
        "AssignReplicasToDirs": "moving",
        "BrokerRegistration": "registered",
    }

    def called(_node: str, method: str) -> None:
        if method in methods:
            world.moment(methods[method])

    world.rpc.on_call = called

    @around(DirectorySwap, "_swap")
    def swapped(inner: Any, swap: Any, move: Any) -> None:
        world.moment("swapped")
        inner(swap, move)

    @around(LogDir, "go_offline")
    def offline(inner: Any, log_dir: Any, cause: str) -> Any:
        if log_dir.is_online:
            _goes_offline(world, log_dir.path, cause)
        return inner(log_dir, cause)

    for name, (owner, method, counts) in SOMETIMES.items():
        around(owner, method)(functools.partial(_counted, world, name, counts))


def _counted(world: World, name: str, counts: Any, inner: Any, *args: Any) -> Any:
    world.seen[name] += bool(counts(*args))
    return inner(*args)


def _goes_offline(world: World, path: Path, cause: str) -> None:
    """S11: a directory goes offline only for a reason."""
    world.seen["directory offline"] += 1
    is_asking = world.rpc.is_asking(PROCESS.get(), "BrokerHeartbeat")
    world.seen["a directory failed with a heartbeat on its way"] += is_asking
    world.note(f"{path} goes offline: {cause}")
    # Who loses the last one stops, and asks to be fenced.
    world.hit(world.node_with(path), 2.0)
    if not world.disks[path].cause:
        world.report("S11", f"{path}", f"it goes offline, nothing was done to it: {cause}")


def replica_states(world: World) -> Iterator[tuple[int, Any]]:
    """Yield node and `Partition` of every replica of brokers that run."""
    for node in world.brokers:
        if node.is_up and node.server is not None:
            replicas = getattr(node.server, "_replicas", None)
            if replicas is not None:
                for partition in replicas.registry.partitions():
                    yield node.id, partition


def replica_of(world: World, node_id: int, partition: TopicPartition) -> Any:
    """Return the `Partition` of a broker that runs, or None."""
    node = world.nodes[node_id]
    replicas = getattr(node.server, "_replicas", None) if node.is_up else None
    return None if replicas is None else replicas.registry.partition(partition)


def in_sync_have(
    world: World,
    partition: TopicPartition,
    end: int,
    state: PartitionRegistration | None = None,
) -> None:
    """S4: every member of the committed ISR has what is acknowledged and shown."""
    topic = world.image.topics.by_name.get(partition.topic)
    if topic is None or partition in world.tainted:
        return
    state = state or topic.partitions.get(partition.partition)
    for member in () if state is None else state.isr:
        replica = replica_of(world, member, partition)
        if (
            replica is not None
            and member not in world.fragile
            and replica.topic_id == topic.topic_id
            and replica.log is not None
            and not replica.log.failed
            and replica.log.written_end < end
        ):
            sentence = f"{member} in the ISR has {replica.log.written_end}, {end} is acknowledged"
            world.report("S4", text(partition), sentence)
