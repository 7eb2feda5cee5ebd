"""Checkers that look in the step in which something happens, and announce the moments of a history.

They are attached from outside, to methods of the product, which knows nothing of them. A tap is
given what the method is called with, before or after that.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from broker.compaction.round import Round
from broker.controller_link.broker_life import BrokerLife
from broker.controller_link.broker_life_rules import BrokerLifeRules
from broker.disk.calls.fence import Fence
from broker.disk.calls.no_space import NoSpaceError
from broker.disk.directory.log_dir import LogDir
from broker.following.fetch_lane import Lane
from broker.metadata.metadata_cache import MetadataCache
from broker.moves.announcements import Announcements
from broker.moves.directory_swap import DirectorySwap, SwapToken
from broker.moves.move_states import MoveState
from broker.moves.moves import RunningMoves
from broker.produce import leader_appends
from broker.produce.forwarded_appends import ForwardedAppends
from broker.replica.leading.in_sync import InSyncReplicas
from broker.replica.partition.partition import Partition
from broker.replica.replica_state import DataLoss, Deleted
from controller.decide.partitions import isr
from controller.lead.active_controller import ActiveController
from controller.lead.metadata_stream import MetadataStream
from controller.serve import service
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import parse_frame
from jbodlab.storage.directory.directory_probe import PROBE_FILE
from jbodlab.storage.directory.names import METADATA_DIR_NAME, DirKind, parse_partition_dir
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import TopicIdPartition, TopicPartition
from tests.simulation.coverage import RULE
from tests.simulation.disk import CHANGES, DiskView, File, Folder, SimDisk
from tests.simulation.loop import PROCESS, Process
from tests.simulation.plan import MOMENTS, NEVER, SESSION
from tests.simulation.world import DECIDED_S, Node, World, directory_id, partitions_of, topic_id_in

RULE_TEXT = re.compile(r"(?:[SDLGIR]|RL)\d+\b.*")
"""How the text of a checker begins: with the letters of its rules."""
PARTS = ("cluster", "topics", "configs", "features", "next_producer_id")
"""Of an image; they are compared, part by part."""
ATTACHED: list[tuple[Any, str, Any]] = []
"""Each class, the name of its method, and what that was before it was tapped."""
LOOKED: dict[str, list[int]] = {}
"""By rule, as the text of a checker begins: how often that has looked, in a list of one."""


def around(owner: Any, name: str, outer: Callable[..., Any]) -> None:
    """Put a function around a method; it gets the method as its first argument."""
    inner, times = _attached(owner, name, outer)

    def tapped(*args: Any, **more: Any) -> Any:
        times[0] += 1
        return outer(inner, *args, **more)

    setattr(owner, name, functools.wraps(inner)(tapped))


def before(owner: Any, name: str, tell: Callable[..., object]) -> None:
    """Tell somebody what a method is called with, each time before it is."""
    inner, times = _attached(owner, name, tell)

    def tapped(*args: Any, **more: Any) -> Any:
        times[0] += 1
        tell(*args)
        return inner(*args, **more)

    setattr(owner, name, functools.wraps(inner)(tapped))


def after(owner: Any, name: str, tell: Callable[..., object]) -> None:
    """Tell somebody what a method was called with, each time when it has returned."""
    inner, times = _attached(owner, name, tell)

    def tapped(*args: Any, **more: Any) -> Any:
        times[0] += 1
        result = inner(*args, **more)
        tell(*args)
        return result

    setattr(owner, name, functools.wraps(inner)(tapped))


def _attached(owner: Any, name: str, look: Any) -> tuple[Any, list[int]]:
    inner = getattr(owner, name)
    ATTACHED.append((owner, name, inner))
    checker = look.func if isinstance(look, functools.partial) else look
    rule = RULE_TEXT.match(checker.__doc__ or "")
    return inner, LOOKED.setdefault(rule[0] if rule else "", [0])


def detach() -> Counter[str]:
    """Leave the classes of the product as they were; returns how often each rule was looked at."""
    while ATTACHED:
        setattr(*ATTACHED.pop())
    looked = Counter({f"{RULE}{rule}": times for rule, (times,) in LOOKED.items() if rule})
    LOOKED.clear()
    return looked


def attach(world: World) -> _Metadata:
    """Attach all of them to the classes of the product, for this one history."""
    metadata = _Metadata(world)
    _Appends(world)
    _Followers(world)
    _moments(world)
    around(service, "heartbeat", functools.partial(_heard, world))
    around(BrokerLifeRules, "_heartbeat_answered", functools.partial(_told, world))
    before(LogDir, "next_life", functools.partial(_revived, world))
    before(DiskView, "write_bytes", functools.partial(_vouched_for, world))
    before(DirectorySwap, "_swap", functools.partial(_swapped, world))
    around(RunningMoves, "_handle", functools.partial(_stepped, world))
    before(Round, "_is_clean", functools.partial(_compacted, world))
    for disk in world.disks.values():
        disk.on_folder = functools.partial(_folder_made, world)
        disk.on_loop = functools.partial(_called_on_loop, world)
    return metadata


def _called_on_loop(world: World, disk: SimDisk, kind: str) -> None:
    """S19: no call to a data disk holds the event loop up."""
    if disk.path.name != "metadata" and kind != "stat":
        world.report("S19", PROCESS.get(), f"{kind} at {disk.path.name} holds the loop up")


def _folder_made(world: World, path: Path, former: Path) -> None:
    """S13: no replica is made where none may be, or anew while its own directory may come back."""
    node = world.node_with(path.parent)
    try:
        was, its = (parse_partition_dir(each.name) for each in (former, path))
    except ValueError:
        return
    topic, state = world.find(its.topic_partition)
    if was.is_moved and its.kind is DirKind.DELETE and topic is not None:
        _check_successors(world, node, path, topic)
    # A replica is made under a name that says that it is to be deleted, until it is whole.
    is_made = was.kind in (DirKind.DELETE, DirKind.CURRENT) and its.kind is DirKind.CURRENT
    if not is_made or state is None or node.id not in state.replicas:
        return
    closed_s = world.now_s() - world.cordoned_s.get(path.parent, world.now_s())
    has_chosen = state.directory(node.id) == UNASSIGNED
    if has_chosen and closed_s > DECIDED_S and not any(world.disks[p].cause for p in node.places):
        world.report("S13", path.name, f"it is made in {path.parent}, which is cordoned")
    if directory_id(world, path.parent) == state.directory(node.id):
        return  # Its own: of another one with this id, that cannot be read, nobody knows.
    for other in node.log_dirs:
        if directory_id(world, other) == state.directory(node.id):
            folder = world.disks[other].medium.root.names.get(path.name)
            if isinstance(folder, Folder) and topic_id_in(folder) == topic.topic_id:
                world.report("S13", path.name, f"it is made anew in {path.parent}, {other} has it")


def _check_successors(world: World, node: Node, path: Path, topic: TopicImage) -> None:
    """D1: a former replica goes when another is on the disk, as far as it had got itself."""
    partition = parse_partition_dir(path.name).topic_partition
    found: Any = world.disks[path.parent].medium.root.names[path.name]
    logs = [file.data for at, file in found.names.items() if at.endswith(names.LOG_SUFFIX)]
    end = max((h.next_offset for data in logs for _, h in iterate_headers(bytes(data))), default=0)
    are_durable = {}
    for other in node.log_dirs:
        root = world.disks[other].medium.root
        for name, copy in root.names.items():
            is_one = name == str(partition) or name.startswith(f"{partition}.{names.MOVED_PREFIX}")
            if is_one and topic_id_in(copy) == topic.topic_id == topic_id_in(found):
                # A copy that was moved on since then is on the disk under its former name.
                is_named = any(root.durable.get(each) is copy for each in (name, str(partition)))
                are_durable[name] = is_named and not any(_lacks(copy, f, end) for f in copy.names)
    if str(partition) in are_durable and not any(are_durable.values()):
        world.report("D1", path, f"it goes, none of {[*are_durable]} is on the disk")


def _heard(world: World, inner: Any, request: Any, state: Any, now_ms: int) -> Any:
    """S18: only the broker that is registered gives signs of life."""
    result = inner(request, state, now_ms)
    known = state.image.cluster.brokers.get(request.broker_id)
    if not result.response.error_code and (known is None or known.epoch != request.broker_epoch):
        world.report("S18", request.broker_id, f"it is heard in epoch {request.broker_epoch}")
    return result


def _told(world: World, inner: Any, lifecycle: Any, *args: Any) -> None:
    """L8: a failure that an answered heartbeat did not name is still to be told."""
    untold = {*lifecycle._untold} - {*(lifecycle._in_flight or ())}
    inner(lifecycle, *args)
    if untold - {*lifecycle._untold}:
        world.report("L8", PROCESS.get(), "it forgets a failure that it has told nobody")


def _revived(world: World, former: Any, _directory_id: Any, identity: tuple[int, int]) -> None:
    """S20: no directory is revived while a change of its former life may still take effect."""
    if not all(fence.is_closed for fence in former._fences):
        world.report("S20", former.path, "it is revived, and its former life may still touch it")
    # A file that is there is opened, too, to be synced; and a probe's own file may come late.
    for (process, kind, name), count in world.disks[former.path].running.items():
        is_change = count and kind in CHANGES and kind != "create" and name != PROBE_FILE
        if is_change and process is PROCESS.get() and identity == former.identity:
            world.report("S20", former.path, f"it is revived, and a {kind} of {name} still comes")


def _swapped(world: World, _swaps: Any, move: Any) -> None:
    """S4, S9: a copy takes its replica's place with all it has, after the controller was told."""
    me, name, image = move.partition.broker_id, move.topic_partition, world.image
    if move.future.end_offset < move.log.end_offset:
        world.report("S4", name, "its copy takes its place, and ends before it")
    state = image.topics.partition(move.partition.topic_id, name.partition)
    if state is None or me not in state.replicas or image.features.metadata_version < JBOD_LEVEL:
        return
    if state.directory(me) != move.target.directory_id:
        world.report("S9", name, f"it takes its place in {move.target.path}, which was not told")


def _stepped(world: World, inner: Any, moves: Any, move: Any, event: Any) -> None:
    """S9: what the controller was told of a move that does not come to its swap is taken back."""
    was_promised = move.state.is_promised
    inner(moves, move, event)
    partition, teller = move.partition, moves._announcements
    is_over = was_promised and not move.state.is_promised and move.state is not MoveState.SWAPPED
    if is_over and teller._asks_controller() and not isinstance(partition.state, Deleted):
        key = TopicIdPartition(partition.topic_id, move.topic_partition.partition)
        told = sender_of(moves).pending(key)
        if told is None or told.directory_id == move.target.directory_id:
            world.report("S9", move.topic_partition, f"{event.name}, and its move stays promised")


def _compacted(world: World, done: Any, mapped: Any) -> None:
    """S3: only what is committed is compacted."""
    partition, log_dir = done.log.topic_partition, done.log.log_dir
    replica = replica_of(world, world.node_with(log_dir.path).id, partition)
    if replica is not None and replica.log is done.log and mapped.end > replica.high_watermark:
        world.report(
            "S3", partition, f"it is compacted up to {mapped.end}, above what is committed"
        )


def _vouched_for(world: World, view: DiskView, path: Path, data: bytes) -> None:
    """D1: what a recovery point, or the mark of a stop in order, vouches for is on the disk."""
    is_clean = path.name == names.CLEAN_SHUTDOWN_FILE
    if not is_clean and path.name != names.RECOVERY_POINT_FILE + names.TMP_SUFFIX:
        return
    root = view.disk.medium.root
    told = () if is_clean else parse_frame(path, data, 3)
    ends = {f"{topic}-{index}": int(end) for topic, index, end in told}
    for name, folder in root.names.items():
        end = NEVER if is_clean and _is_current(name) else ends.get(name, 0)
        if isinstance(folder, Folder) and end:
            is_named = root.durable.get(name) is folder
            if not is_named or any(_lacks(folder, file, end) for file in folder.names):
                world.report("D1", path, f"{name} is not on the disk up to {end}")


def _lacks(folder: Folder, name: str, end: int) -> bool:
    """Return whether of a segment's batches below an offset some are not durable."""
    file: Any = folder.names[name]
    # As a compaction takes its place it may be there under another name, which a start completes.
    is_named = any(each is file for each in folder.durable.values())
    if not name.endswith(names.LOG_SUFFIX) or (is_named and not file.unsynced):
        return False
    headers = iterate_headers(bytes(file.data))
    size = min((at for at, header in headers if header.base_offset >= end), default=len(file.data))
    # Nobody can know that bytes which a failed sync was to write are missing.
    return size > 0 and not (is_named and file.durable.startswith(file.synced()[:size]))


def _is_current(name: str) -> bool:
    try:
        return parse_partition_dir(name).kind is DirKind.CURRENT
    except ValueError:
        return False


class _Metadata:
    """Records that the controller commits: S7, S8, S10, S14."""

    def __init__(self, world: World) -> None:
        self._world, self._report = world, world.report
        self.images: dict[int, MetadataImage] = {}
        self._compared: dict[Process, dict[str, tuple[Any, Any]]] = defaultdict(dict)
        """The parts that were last compared: as committed, and as a process has them."""
        self._known: set[int] = set()
        """Epochs of registrations that were unfenced before."""
        self._told: dict[Process | None, MetadataImage] = {}
        self._asked: dict[Process | None, MetadataImage] = {}
        """The image that a broker was told last, and had when it asked to be unfenced."""
        self._misplaced: set[tuple[TopicPartition, str]] = set()
        """Errors that the last commit left."""
        before(ActiveController, "_replayed", self._decided)
        before(isr, "_changed", self._proposed)
        if not world.has_quorum:
            after(MetadataStream, "__init__", self._begun)
            before(MetadataStream, "committed", self._committed)
        before(MetadataCache, "publish", self._published)
        before(BrokerLife, "ready_to_unfence", self._asks)
        around(service, "heartbeat", self._dismissed)

    def _asks(self, *_: Any) -> None:
        self._asked[PROCESS.get()] = self._told[PROCESS.get()]

    def _published(self, _cache: Any, image: MetadataImage, *_: Any) -> None:
        """S7: an image at an offset is the same one everywhere."""
        self._told[PROCESS.get()] = image
        known, compared = self.images.get(image.offset), self._compared[PROCESS.get()]
        for name in PARTS if known is not None else ():
            both = getattr(known, name), getattr(image, name)
            last = compared.get(name, (None, None))
            # A part that did not change since the last image is the same object.
            if last[0] is both[0] and last[1] is both[1]:
                continue
            compared[name] = both
            if both[0] != both[1]:
                self._report("S7", PROCESS.get(), f"its {name} at {image.offset} are others")

    def _decided(self, _active: Any, result: Any) -> None:
        """S14: one decision changes the ISR of a partition once."""
        changes = Counter(
            (record.partition_id, record.topic_id)
            for record, _ in result.records
            if isinstance(record, PartitionChangeRecord) and record.isr is not None
        )
        for (index, topic_id), count in changes.items():
            if count > 1:
                self._report("S14", f"{index} of {topic_id}", "one result changes its ISR twice")

    def _proposed(self, change: Any, partition: Any, *_: Any) -> None:
        """S14: what a leader wants of an ISR counts if it knows all that came before."""
        known = partition.state
        asked, there = ((e.leader_epoch, e.partition_epoch) for e in (change, known))
        if asked != there:
            name = f"{partition.topic}-{partition.index}"
            self._report("S14", name, f"an ISR is taken of {asked}, it is at {there}")

    def _begun(self, _stream: Any, log: Any, _log_thread: Any, end_offset: int, *_: Any) -> None:
        """S7: the log of metadata only grows."""
        loader = self._world.metadata
        if end_offset < loader.next_offset:
            self._report("S7", "controller", f"ends at {end_offset}, was {loader.next_offset}")
        self._check_durable(end_offset)
        while loader.next_offset < end_offset:
            data = log.read(max(loader.next_offset, log.start_offset))
            if not data:
                break
            self.load(data)

    def _committed(self, _stream: Any, committed: Any) -> None:
        self._check_durable(committed.end_offset)
        for _, data in committed.batches:
            self.load(data)

    def load(self, data: bytes) -> None:
        world = self._world
        for batch in read_batches(data):
            former = world.image
            world.metadata.load(batch)
            self.images[world.image.offset] = world.image
            self._changed(former, world.image)

    def _check_durable(self, end_offset: int) -> None:
        """S8: what is answered and streamed is on the controller's disk."""
        root = self._world.disks[self._world.controller.metadata_dir].medium.root
        folder = root.durable.get(METADATA_DIR_NAME)
        if not isinstance(folder, Folder):
            self._report("S8", "controller", "the folder of its log is not durable")
            return
        found = folder.durable.items()
        logs = [each for name, each in found if name.endswith(".log") and isinstance(each, File)]
        count = sum(name.endswith(".log") for name in folder.names)
        if len(logs) == count and not any(each.unsynced for each in logs):
            return
        ends = [h.next_offset for each in logs for _, h in iterate_headers(bytes(each.durable))]
        if (durable := max(ends, default=0)) < end_offset:
            self._report("S8", "controller", f"{end_offset} is committed, {durable} durable")

    def _changed(self, former: MetadataImage, image: MetadataImage) -> None:
        if former.topics is not image.topics:
            for topic_id, topic in image.topics.by_id.items():
                old = former.topics.by_id.get(topic_id, topic)
                for index, state in () if old is topic else topic.partitions.items():
                    was = old.partitions.get(index, state)
                    if was is not state:
                        self._changed_partition(TopicPartition(topic.name, index), was, state)
        if former.cluster is not image.cluster:
            for broker_id, broker in image.cluster.brokers.items():
                was = former.cluster.brokers.get(broker_id, broker)
                if was.epoch != broker.epoch or was.fenced > broker.fenced:
                    self._is_eligible(broker_id, image)
                if was.fenced != broker.fenced:
                    self._fenced(broker) if broker.fenced else self._unfenced(broker, image)
                if broker.in_controlled_shutdown and not was.in_controlled_shutdown:
                    self._leaves(broker_id, image)
        # One commit later: what the last one left wrong must be right now.
        is_same = former.topics is image.topics and former.cluster is image.cluster
        wrong = self._misplaced if is_same else {*misplaced(image)}
        for partition, what in sorted(self._misplaced & wrong):
            self._report("S10", partition, what)
        self._misplaced = wrong

    def _leaves(self, broker_id: int, image: MetadataImage) -> None:
        """S10: who stops in order leads nothing that another one can lead."""
        for partition, state in partitions_of(image):
            others = [(b, image.cluster.brokers.get(b)) for b in state.isr if b != broker_id]
            can_lead = [b for b, r in others if r and r.directory_is_online(state.directory(b))]
            if state.leader == broker_id and any(image.cluster.brokers[b].active for b in can_lead):
                self._report("S10", partition, f"{broker_id} stops and leads on, not {can_lead}")

    def _dismissed(self, inner: Any, request: Any, state: Any, now_ms: int) -> Any:
        """S10: who stops in order may go when all that serve have heard that it does."""
        result, me = inner(request, state, now_ms), request.broker_id
        known = state.image.cluster.brokers.get(me)
        # A controller that begins has not heard from it, and lets it go if it leads nothing.
        is_leaving = known is not None and known.in_controlled_shutdown and not known.fenced
        is_leaving = is_leaving and state.heartbeats.in_controlled_shutdown(me)
        if is_leaving and result.response.should_shut_down and not request.want_fence:
            for node in self._world.brokers:
                its = self._told.get(node.process, state.image).cluster.brokers.get(me)
                has_heard = its is not None and its.in_controlled_shutdown
                if self._world.is_serving(node) and not (has_heard and its.epoch == known.epoch):
                    self._report("S10", me, f"it may go, and {node.id} has not heard that it does")
        return result

    def _fenced(self, broker: BrokerRegistration) -> None:
        """S18: whoever can be heard is not fenced, also after the controller stood still."""
        world = self._world
        node = world.nodes[broker.broker_id]
        heard_s = world.now_s() - world.hit_until_s.get(node.id, 0.0)
        quiet_s = world.options.seconds(SESSION) + 2
        # A record that a controller wrote as it ended is known later: it may be a registration of
        # before.
        is_its = broker.epoch > node.former_epoch and node.process in self._asked
        if is_its and heard_s > quiet_s and not node.stop_was_asked:
            world.report("S18", node.name, "it is fenced, and nothing has kept it from being heard")

    def _unfenced(self, broker: BrokerRegistration, image: MetadataImage) -> None:
        """S17: who starts with several directories says first in which its replicas are.

        It cannot say so of what is made when it has asked already.
        """
        if len(broker.directories) < 2 or broker.epoch in self._known:
            return
        self._known.add(broker.epoch)
        me = broker.broker_id
        asked = self._asked.get(self._world.nodes[me].process, image)
        for topic in asked.topics.by_id.values():
            for index, known in topic.partitions.items():
                state = image.topics.partition(topic.topic_id, index)
                has_it = me in known.replicas and state is not None and me in state.replicas
                if has_it and state.directory(me) == UNASSIGNED:
                    self._report("S17", f"{topic.name}-{index}", f"{me} is unfenced without it")

    def _is_eligible(self, me: int, image: MetadataImage) -> None:
        """S4: who comes back as eligible has all that was ever shown."""
        world = self._world
        for partition, state in partitions_of(image):
            if me not in state.elr or partition in world.tainted:
                continue
            topic_id = image.topics.by_name[partition.topic].topic_id
            replica = replica_of(world, me, partition)
            is_its = replica is not None and replica.topic_id == topic_id
            log = replica.log if is_its else None
            shown = world.shown.get((topic_id, partition.partition), 0)
            if log is not None and not log.failed and log.written_end < shown:
                self._report("S4", partition, f"{me} is eligible with {log.written_end} of {shown}")

    def _changed_partition(
        self, partition: TopicPartition, former: PartitionRegistration, state: PartitionRegistration
    ) -> None:
        """S14: epochs rise as they should, and directories are real ones."""
        world = self._world
        report = functools.partial(world.report, "S14", partition)
        if state.partition_epoch <= former.partition_epoch:
            report(f"partition epoch {former.partition_epoch} -> {state.partition_epoch}")
        if state.leader != former.leader and state.leader_epoch <= former.leader_epoch:
            report(f"leader {state.leader} in epoch {state.leader_epoch} again")
        if state.leader_epoch < former.leader_epoch:
            report(f"leader epoch falls to {state.leader_epoch}")
        known = state.elr or state.last_known_elr
        if not state.isr and (state.leader >= 0 or (former.isr and not known)):
            report("its ISR is empty")
        if set(state.elr) & set(state.isr):
            report(f"{state.elr} are eligible, {state.isr} in sync")
        world.seen["replica eligible"] += bool(set(state.elr) - set(former.elr))
        if former.leader < 0 <= state.leader and not former.isr:
            by = "eligible replica elected" if state.leader in former.elr else "last leader elected"
            world.seen[by] += 1
        if state.leader >= 0 and set(state.elr) - set(former.elr):
            leading = replica_of(world, state.leader, partition)
            if leading is not None and leading.leader is not None:
                in_sync_have(world, partition, leading.high_watermark, state.elr)
        is_over = is_reassigned(former) and not is_reassigned(state)
        # A user who asks for another target, or for the same once more, ends the one before at
        # once.
        is_done = is_over and not world.retargeted[partition]
        if is_done and {*state.replicas} - {*state.isr}:
            report(f"its reassignment is over, {state.isr} of {state.replicas} are in sync")
        if state.leader != former.leader:
            world.moment("elected")
        if set(state.isr) - set(former.isr) and state.leader in state.isr:
            leading = replica_of(world, state.leader, partition)
            role = None if leading is None else leading.leader
            if role is not None and role.leader_epoch == state.leader_epoch:
                in_sync_have(world, partition, leading.high_watermark, state.isr)
                joined = set(state.isr) - set(former.isr)
                in_sync_have(world, partition, role.leader_epoch_start, joined)
        if len(state.isr) < len(former.isr):
            world.moment("isr")
            world.seen["ISR shrunk to one"] += len(state.isr) == 1
        if state.directories != former.directories:
            world.moment("assigned")


def is_reassigned(state: PartitionRegistration) -> bool:
    """Return whether a partition is on its way to other brokers."""
    return bool(state.adding_replicas or state.removing_replicas)


def misplaced(image: MetadataImage) -> Iterator[tuple[TopicPartition, str]]:
    """S10: leaders and members of an ISR in directories that their brokers have not."""
    for partition, state in partitions_of(image):
        for member in state.elr:
            broker = image.cluster.brokers.get(member)
            if member not in state.replicas or broker is None:
                continue
            if not broker.directory_is_online(state.directory(member)):
                yield partition, f"{member} is eligible in the offline {state.directory(member)}"
        if state.leader < 0:
            continue
        if state.leader not in state.isr:
            yield partition, f"leader {state.leader} is not in its ISR {state.isr}"
        for member in state.isr:
            broker, directory = image.cluster.brokers.get(member), state.directory(member)
            if broker is None:
                yield partition, f"{member} in its ISR is not registered"
            elif not broker.directory_is_online(directory):
                yield partition, f"{member} in its ISR is in the offline {directory}"
            elif broker.fenced:
                yield partition, f"{member} in its ISR is fenced"


class _Appends:
    """Acts of leaders: S1, S2, S13."""

    def __init__(self, world: World) -> None:
        self._world, self._report = world, world.report
        self._leaders: dict[tuple[Any, int, int], int] = {}
        self.shown_in: dict[tuple[Any, int], int] = {}

        before(leader_appends, "check_append", self._appends)
        after(leader_appends, "check_append", self._accepted)
        around(Partition, "advance_high_watermark", self._advance)
        # The only replica commits what it has written.
        around(Partition, "_written", self._advance)
        before(Partition, "_begin_to_lead", self._begins)
        after(Partition, "_begin_to_lead", self._leads)

    def _appends(self, partition: Any, *_: Any) -> None:
        """S1: one leader in each epoch, and it is the one that the metadata names."""
        world, me, name = self._world, partition.broker_id, partition.topic_partition
        world.moment("appended")
        if partition.leader is None:
            return
        epoch = partition.leader.leader_epoch
        other = self._leaders.setdefault((partition.topic_id, name.partition, epoch), me)
        if other != me:
            world.report("S1", name, f"{me} appends in epoch {epoch}, as {other} did")
        state = world.image.topics.partition(partition.topic_id, name.partition)
        if state is not None and state.leader_epoch == epoch and state.leader != me:
            world.report("S1", name, f"{me} appends, {state.leader} leads")

    def _accepted(self, partition: Any, leader: Any, acks: int, _header: Any) -> None:
        """S4: nothing is taken for all while fewer are in sync than the topic demands."""
        name, replicas = partition.topic_partition, partition.registration.replicas
        demanded = self._world.image.configs.topic(name.topic).get("min.insync.replicas", "1")
        if acks == -1 and len(leader.isr) < min(int(demanded), len(replicas)):
            self._report("S4", name, f"{leader.isr} are in sync, {demanded} are demanded")

    def _advance(self, inner: Any, partition: Any) -> None:
        """S2, S4: the high watermark never falls, is written, and moves if enough are in sync."""
        was = partition.high_watermark
        isr = () if partition.leader is None else partition.leader.isr
        inner(partition)
        log, now = partition.log, partition.high_watermark
        if log is None or partition.leader is None:
            return
        name = partition.topic_partition
        if now < was:
            self._report("S2", name, f"high watermark falls from {was} to {now}")
        if now > log.written_end:
            self._report("S2", name, f"high watermark {now} beyond {log.written_end}")
        key = (partition.topic_id, name.partition)
        self._world.shown[key] = max(self._world.shown.get(key, 0), now)
        if now > was:
            if len(isr) < partition.min_isr:
                self._report("S4", name, f"{now} counts as committed, {isr} are in sync")
            epoch = partition.leader.leader_epoch
            self.shown_in[key] = max(self.shown_in.get(key, 0), epoch)
            in_sync_have(self._world, name, now, topic_id=partition.topic_id)

    def _begins(self, partition: Any, _event: Any, log: Any) -> None:
        """S2: who begins to lead has all that was ever shown, but for what its successors did."""
        key = (partition.topic_id, partition.topic_partition.partition)
        shown = self._world.shown.get(key, 0)
        name = partition.topic_partition
        if partition.high_watermark > shown and name not in self._world.tainted:
            self._report("S2", name, f"{partition.high_watermark} counts as committed, {shown} is")
        if partition.registration.leader_epoch < self.shown_in.get(key, 0):
            return
        is_replaced = self._world.heirless.get(name) == partition.broker_id
        if is_replaced and shown > log.end_offset == 0:
            self._report("S2", name, f"{partition.broker_id} leads, and has nothing of it")
        if name in self._world.tainted:
            self._world.shown[key] = min(shown, log.end_offset)
        elif log.end_offset < shown:
            self._report("S2", name, f"its leader has {log.end_offset}, {shown} was shown")

    def _leads(self, partition: Any, *_: Any) -> None:
        """S3: who leads knows where its epoch begins."""
        epochs, epoch = partition.log.epochs.entries, partition.registration.leader_epoch
        if not epochs or epochs[-1][0] != epoch:
            self._report("S3", partition.topic_partition, f"it leads in {epoch}, knows {epochs}")


class _Followers:
    """Acts of followers: S2, S3, S4."""

    def __init__(self, world: World) -> None:
        self._world = world
        after(Partition, "leader_says", self._heard)
        after(Partition, "truncated", self._cut)
        before(Lane, "_append_partition", self._takes)
        before(InSyncReplicas, "follower_fetched", self._fetched)

    def _heard(self, partition: Any, *_: Any) -> None:
        """S2, S3: what a follower takes for committed it has, in the same epochs as its leader."""
        log, name = partition.log, partition.topic_partition
        if log is None or partition.leader is not None:
            return
        if partition.high_watermark > max(log.written_end, log.start_offset):
            self._world.report("S2", name, f"{partition.broker_id} takes too much for committed")
        leading = replica_of(self._world, partition.registration.leader, name)
        role = None if leading is None else leading.leader
        if role is None or role.leader_epoch != partition.registration.leader_epoch:
            return
        if "compact" in log.config.cleanup_policy:
            return  # where each cleans by itself, an epoch begins with what is left of it
        logs = (log, leading.log)
        # Where what is known of epochs begins, none need begin: records before it were deleted.
        known = (each.epochs.entries[:1] or ((0, 0),) for each in logs)
        begin = max(*(each.start_offset for each in logs), *(first[0][1] for first in known))
        end = min(each.end_offset for each in logs)
        mine, its = (
            [entry for entry in each.epochs.entries if begin < entry[1] < end] for each in logs
        )
        if leading.topic_id == partition.topic_id and mine != its:
            self._world.report("S3", name, f"{partition.broker_id} has {mine}, its leader {its}")

    def _cut(self, partition: Any) -> None:
        """S6: of a batch that is gone no producer is remembered."""
        log = partition.log
        for number, entry in log.producers.entries if log is not None else ():
            if entry.batches and entry.batches[-1].last_offset >= log.end_offset:
                self._world.report("S6", partition.topic_partition, f"{number} is not cut with it")

    def _takes(self, _lane: Any, followed: Any, _log: Any, _data: Any, epoch: int) -> None:
        """S3: what was asked for in one epoch is nothing in another."""
        partition = followed.partition
        if partition.registration.leader_epoch != epoch:
            self._world.report("S3", partition.topic_partition, f"it takes what {epoch} is")

    def _fetched(self, leading: Any, follower: int, offset: int, epoch: int, *_: Any) -> None:
        """S4: who asks from an offset has everything below, if eligible all that was shown."""
        partition, world = leading._replica, self._world
        name, topic_id = partition.topic_partition, partition.topic_id
        replica = replica_of(world, follower, name)
        known = world.image.cluster.brokers.get(follower)
        if replica is None or known is None or known.epoch != epoch:
            return
        state = world.image.topics.partition(topic_id, name.partition)
        shown = world.shown.get((topic_id, name.partition), 0)
        is_eligible = state is not None and follower in state.elr and name not in world.tainted
        # Before it is unfenced, a broker says which logs it has lost.
        is_told = known.fenced and replica.data_loss is not DataLoss.NO
        if is_eligible and offset < shown and not is_told:
            world.report("S4", name, f"{follower} is eligible with {offset} of {shown}")
        if replica.registration.leader_epoch == partition.registration.leader_epoch:
            in_sync_have(world, name, offset, (follower,), topic_id)


SOMETIMES: dict[str, tuple[Any, str]] = {
    "a swap was taken back": (SwapToken, "take_back"),
    "a move ended after it was announced": (Announcements, "take_back"),
    "an empty heir must not lead": (Partition, "must_not_lead"),
    "a disk had no room": (NoSpaceError, "__init__"),
    "a batch was forwarded to the leader": (ForwardedAppends, "append"),
    "swapped": (DirectorySwap, "_swap"),
    "proposing": (InSyncReplicas, "_propose"),
}
"""Methods that many histories together must have come to; a moment is reached by each call."""
FENCED, LOADED = "a former life was fenced off", "a broker loaded a snapshot"
SOMETIMES_SEEN = (
    FENCED,
    LOADED,
    "ISR shrunk to one",
    "replica eligible",
    "eligible replica elected",
    "last leader elected",
    "an answer was lost after its call was carried out",
    "a directory failed with a heartbeat on its way",
    "logged: move of %s: swap postponed because a disk is busy",
    "logged: truncated a segment at its first invalid byte",
    "logged: truncating a metadata segment after its last valid batch",
)


def never_reached(seen: Collection[str]) -> list[str]:
    """Return what all histories together should have reached, and have not."""
    return sorted({*SOMETIMES, *SOMETIMES_SEEN, *MOMENTS} - {*seen})


CALLS = {
    "BrokerHeartbeat": "heartbeat",
    "AssignReplicasToDirs": "moving",
    "BrokerRegistration": "registered",
}
"""Moments that are reached as a controller begins to carry out a call."""


def _moments(world: World) -> None:
    """Say when something is reached that events may follow, and count what happens sometimes."""
    world.rpc.on_call = lambda method: world.moment(CALLS[method]) if method in CALLS else None
    before(LogDir, "go_offline", functools.partial(_goes_offline, world))
    for name, (owner, method) in SOMETIMES.items():
        before(owner, method, lambda *_, name=name: world.moment(name))
    before(Fence, "check", lambda fence: world.moment(FENCED) if fence.is_closed else None)
    before(MetadataLoader, "load_snapshot", functools.partial(_loads, world))


def _loads(world: World, *_: Any) -> None:
    if PROCESS.get() in [node.process for node in world.brokers]:
        world.moment(LOADED)


def _goes_offline(world: World, log_dir: Any, cause: str) -> None:
    """S11: a directory goes offline only for a reason."""
    if not log_dir.is_online:
        return
    path = log_dir.path
    world.moment("offline")
    is_asking = world.rpc.is_asking(PROCESS.get(), "BrokerHeartbeat")
    world.seen["a directory failed with a heartbeat on its way"] += is_asking
    world.note(f"{path} goes offline: {cause}")
    # A broker that loses the last one stops, and asks to be fenced.
    world.hit(world.node_with(path), 2.0)
    if not world.disks[path].cause:
        world.report("S11", path, f"it goes offline, nothing was done to it: {cause}")


def replicas_on(node: Node) -> Any:
    """Return all replicas of a broker that runs, or None."""
    manager = manager_on(node)
    return None if manager is None else manager.registry


def manager_on(node: Node) -> Any:
    """Return the `ReplicaManager` of a broker that runs, or None."""
    replicas = getattr(node.server, "_replicas", None) if node.is_up else None
    return None if replicas is None else replicas.manager


def sender_of(moves: Any) -> Any:
    """Return what tells the controller in which directories replicas are, by a broker's moves."""
    return moves._announcements._assigner._sender


def replica_states(world: World) -> Iterator[tuple[int, Any]]:
    """Yield node and `Partition` of every replica of brokers that run."""
    for node in world.brokers:
        if (registry := replicas_on(node)) is not None:
            for partition in registry.partitions():
                yield node.id, partition


def replica_of(world: World, node_id: int, partition: TopicPartition) -> Any:
    """Return the `Partition` of a broker that runs, or None."""
    registry = replicas_on(world.nodes[node_id])
    return None if registry is None else registry.partition(partition)


def in_sync_have(
    world: World,
    partition: TopicPartition,
    end: int,
    members: Collection[int] | None = None,
    topic_id: Any = None,
) -> None:
    """S4: every member of the committed ISR, or who joins it, has what is promised."""
    topic, state = world.find(partition)
    if topic is None or state is None or partition in world.tainted:
        return
    if topic_id not in (None, topic.topic_id):
        return  # a leader that has not heard yet that its topic is another one now
    for member in state.isr if members is None else members:
        replica = replica_of(world, member, partition)
        is_its = replica is not None and replica.topic_id == topic.topic_id
        log = replica.log if is_its and member not in world.fragile else None
        if log is not None and not log.failed and log.written_end < end:
            world.report("S4", partition, f"{member} has {log.written_end}, {end} is promised")
