"""Faults, and acts of operators, by name.

A new one is a function decorated with its family, its weight among the others, and what draws whom
it hits. All is drawn from the event's own choice, so that it stays the same when other events are
left out. A fault that lasts is ended after `length_ms`, by the function itself or by what is named
as `then`: disks by `repair`, nodes by `restart_later`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.metadata.records.metadata_version import LATEST
from jbodlab.vocabulary.directory_id import is_reserved
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.simulation.clients import Admin, Producer
from tests.simulation.coverage import EVENT
from tests.simulation.disk import CHANGES, KINDS, SimDisk
from tests.simulation.plan import FAILURE, PROBE, SESSION, Event, ProducerPlan
from tests.simulation.taps import replica_of
from tests.simulation.world import DECIDED_S, Node, World, directory_id, partitions_of

FAVOUR = 0.5
"""Share of the events that aim at one broker, so that troubles meet."""
OFFSETS_SHARE = 0.7
PROBE_DEADLINE_S = 2.0
STOP_S = 4.0
"""For a broker that ends itself."""
STOPPED_S = 15.0
"""For a broker that is asked to stop in order."""
CORDONED = "cordoned.log.dirs"
HANGS = (KINDS, ("write", "sync"), ("sync",), ("name", "create"))
LOST_ANSWERS = ("BrokerHeartbeat", "AlterPartition", "AssignReplicasToDirs", "BrokerRegistration")
LOST_ANSWERS += ("AllocateProducerIds", "CreateTopics", "AlterPartitionReassignments")
SETTINGS = (
    ("flush.messages", "1"),
    ("internal.segment.bytes", "8192"),
    ("min.insync.replicas", "1"),
    ("segment.ms", "1000"),
)


class Hit(NamedTuple):
    """An event that happens now.

    Attributes:
        random: Draws everything that the event leaves open.
        admin: Asks for what operators do.
    """

    world: World
    event: Event
    random: Random
    admin: Admin

    @property
    def length_s(self) -> float:
        return self.event.length_ms / 1000


T = TypeVar("T")
Found = tuple[TopicPartition, Any]
"""A partition, and its state as committed."""
FAULTS: dict[str, Callable[[Hit], Awaitable[None]]] = {}
WEIGHTS: dict[str, tuple[str, int]] = {}
Function = Callable[..., Coroutine[Any, Any, None]]


def fault(
    family: str,
    weight: int,
    subject: Callable[[Hit], Any] | None = None,
    name: str = "",
    then: Function | None = None,
) -> Callable[[Function], Function]:
    """Make a function a fault that plans can name.

    Args:
        family: Plans have all faults of a family, or none.
        weight: Among the others; 0 for what is never drawn.
        subject: Draws whom it hits, the function's second argument; nothing happens if it is None.
        name: In plans; the function's own by default.
        then: The fault that is done about the same subject in the end.
    """

    def enter(function: Function) -> Function:
        async def happen(hit: Hit) -> None:
            whom = () if subject is None else (subject(hit),)
            hit.world.note(f"{hit.event.fault} hits {str(whom)[:80]}")
            if None not in whom:
                await function(hit, *whom)
                if then is not None:
                    await then(hit, *whom)

        FAULTS[name or function.__name__] = happen
        WEIGHTS[name or function.__name__] = (family, weight)
        return function

    return enter


# Whom it hits


def one_of(hit: Hit, found: Iterable[T]) -> T | None:
    """Draw one, or None if there is none."""
    some = list(found)
    return hit.random.choice(some) if some else None


def a_broker(hit: Hit) -> Node | None:
    """Draw a broker that runs."""
    favourite = hit.world.favourite
    if hit.random.random() < FAVOUR and favourite.is_up and favourite.is_wanted:
        return favourite
    return one_of(hit, (node for node in hit.world.brokers if node.is_up and node.is_wanted))


def a_broker_of_several(hit: Hit) -> Node | None:
    """Draw a broker with several directories."""
    node = a_broker(hit)
    return node if node is not None and len(node.log_dirs) > 1 else None


def a_node(hit: Hit) -> Node:
    return hit.random.choice(list(hit.world.nodes.values()))


def the_controller(hit: Hit) -> Node | None:
    return hit.world.controller if hit.world.controller.is_up else None


def a_disk(hit: Hit) -> Path:
    """Draw a directory; half the time one that holds a leader."""
    world, leading = hit.world, led_in(hit.world)
    if leading and hit.random.random() < FAVOUR:
        return hit.random.choice(leading)
    if hit.random.random() < FAVOUR:
        return hit.random.choice(world.favourite.log_dirs)
    if hit.random.random() < 0.95:
        return hit.random.choice([path for node in world.brokers for path in node.log_dirs])
    return hit.random.choice([hit.random.choice(world.brokers).metadata_dir])


def led_in(world: World) -> list[Path]:
    """Return the directories in which brokers that run lead, once for each partition."""
    return [
        path
        for _, state in partitions_of(world.image)
        if state.leader >= 0 and (node := world.nodes[state.leader]).is_up
        for path in node.log_dirs
        if directory_id(world, path) == state.directory(state.leader)
    ]


def a_partition(hit: Hit) -> Found | None:
    return one_of(hit, partitions_of(hit.world.image))


def paths_of(world: World, node: Node, state: Any) -> list[Path]:
    """Return where a node has its replica of a partition, as committed; none, or one."""
    its = state.directory(node.id) if state is not None and node.id in state.replicas else None
    return [path for path in node.log_dirs if its and directory_id(world, path) == its]


def a_topic(hit: Hit) -> str | None:
    return one_of(hit, sorted({*hit.world.image.topics.by_name} - {GROUP_METADATA_TOPIC}))


def two_nodes(hit: Hit) -> tuple[str, str]:
    one, other = hit.random.sample(list(hit.world.nodes.values()), 2)
    for node in (one, other):
        hit.world.hit(node, hit.length_s)
    return one.name, other.name


# Whether, and how it ends


def may_lose(hit: Hit, node: Node, replaced: Path | None = None) -> bool:
    """Return whether a node may lose what is not durable, or all that a directory has.

    In strict histories it may where each of its partitions with several replicas has another one
    in the committed ISR on a broker that runs and was not hit itself lately, or where the disk that
    is replaced had the only one in sync. A partition that has one replica counts as lost from now
    on, unless each batch was durable before it was acknowledged.
    """
    world = hit.world
    alone: list[TopicPartition] = []
    heirless: list[TopicPartition] = []
    for partition, state in partitions_of(world.image):
        others = [world.nodes[each] for each in state.isr if each != node.id]
        # A replica that is in sync may be taken out by a request that is on its way.
        is_kept = not world.retargeted[partition] and any(
            world.is_serving(each) and is_well(world, each) for each in others
        )
        if node.id not in state.replicas or is_kept:
            continue
        its_disk = None if replaced is None else directory_id(world, replaced)
        is_lost = its_disk is not None and its_disk == state.directory(node.id)
        if len(state.replicas) > 1 and is_lost and state.isr == (node.id,):
            # Nobody may lead before an operator says so.
            heirless.append(partition)
        elif len(state.replicas) > 1 and node.id in state.isr and world.options.is_strict:
            return False
        if len(state.replicas) == 1 or node.id in state.isr or not state.isr:
            alone.append(partition)
    # A record that is durable may be in a disk that fails at the same time.
    is_ill = any(world.disks[path].is_ill for path in node.log_dirs)
    flushed = set() if is_ill else world.flushed_topics()
    world.tainted.update(each for each in alone if replaced or each.topic not in flushed)
    world.heirless.update(dict.fromkeys(heirless, node.id))
    world.fragile.add(node.id)
    return True


def is_well(world: World, node: Node) -> bool:
    """Return whether nothing is done to a node at this moment."""
    process = node.process
    if process is None or not node.is_wanted or process.is_frozen:
        return False
    disks = [world.disks[path] for path in node.places]
    # A call may come back late from a disk that works again, and fail its directory.
    is_ill = any(disk.is_ill or disk.is_late for disk in disks)
    return not is_ill and not world.network.is_cut_off(node.name)


async def _until_whole(world: World) -> None:
    """Wait until the brokers that have lost something have it again, in strict histories.

    Somebody else's trouble at the same time is one more than the cluster promises to survive.
    """
    while world.options.is_strict:
        world.fragile -= {each for each in world.fragile if _is_whole(world, each)}
        if not world.fragile:
            return
        await asyncio.sleep(0.1)


def _is_whole(world: World, node_id: int) -> bool:
    """Return whether a broker has what it is in sync of; it may not know that it lost that."""
    node = world.nodes[node_id]
    is_failing = any(world.disks[path].errors for path in node.log_dirs)
    return (
        world.is_serving(node)
        and not is_failing
        and all(
            node_id in state.isr
            and (is_reserved(state.directory(node_id)) or paths_of(world, node, state))
            for partition, state in partitions_of(world.image)
            if node_id in state.replicas and partition not in world.tainted
        )
    )


def _break(hit: Hit, path: Path) -> None:
    hit.world.disks[path].break_(errno.EIO)
    hit.world.note(f"{path} fails")


async def restart_later(hit: Hit, node: Node) -> None:
    """Start a node again after the event's time."""
    node.is_wanted = False
    await asyncio.sleep(hit.length_s)
    hit.world.network.dark.discard(node.name)
    node.is_wanted = True
    if not node.is_up:
        hit.world.boot(node)


async def for_a_while(hit: Hit, owner: Any, name: str, value: float, later: float) -> None:
    """Set an attribute, and another value of it after the event's time."""
    hit.world.note(f"{name} is {value} for {hit.length_s:.1f} s")
    setattr(owner, name, value)
    await asyncio.sleep(hit.length_s)
    setattr(owner, name, later)


async def held(hit: Hit, pairs: list[tuple[str, str]], seconds: float) -> None:
    for source, target in pairs:
        hit.world.note(f"{source} -> {target} is held for {seconds:.1f} s")
        hit.world.network.hold(source, target)
    await asyncio.sleep(seconds)
    for pair in pairs:
        hit.world.network.link(*pair).release()


async def restart_when_down(hit: Hit, node: Node) -> None:
    await hit.world.until_down([node], STOPPED_S)
    await restart_later(hit, node)


async def closely(hit: Hit, path: Path, also: Callable[[], object]) -> None:
    """Break a directory and do something else, in any order, shortly after each other."""
    steps = [lambda: _break(hit, path), also]
    hit.random.shuffle(steps)
    steps[0]()
    await asyncio.sleep(hit.random.random() ** 3 * 0.3)
    # Somebody may have lost something meanwhile.
    await _until_whole(hit.world)
    steps[1]()


async def repair(hit: Hit, path: Path) -> None:
    """Heal a disk after the event's time; often somebody revives the directory then."""
    await asyncio.sleep(hit.length_s)
    hit.world.disks[path].heal()
    hit.world.note(f"{path} works again")
    node = hit.world.node_with(path)
    if hit.random.random() < 0.5 and path in node.log_dirs and node.is_up:
        await hit.admin.revive(node.id, path)


# Directories of transactions


def led_for(topic: str) -> Callable[[Hit], Path | None]:
    """Return what finds the directory in which the first transaction has its leader of a topic."""

    def find(hit: Hit) -> Path | None:
        world = hit.world
        found = world.image.topics.by_name.get(topic)
        if found is None:
            return None
        name, index = world.options.transactions[0].name, 0
        if topic == TRANSACTION_STATE_TOPIC:
            index = coordinator_partition(name, len(found.partitions))
        state = found.partitions[index]
        return next(iter(paths_of(world, world.nodes[state.leader], state)), None)

    return find


def _kill_disk(disk: SimDisk, kind: str) -> None:
    match kind:
        case "eio":
            disk.break_(errno.EIO)
        case "full":
            disk.break_(errno.ENOSPC, ("create", "write"))
        case "hang":
            disk.hang(KINDS)


TABLE = {"coordinator": TRANSACTION_STATE_TOPIC, "data": "t0"}
"""Whose directory dies, and what is led there."""


def _of_transactions(whose: str, kind: str) -> None:
    @fault("transactions", 0, led_for(TABLE[whose]), f"{kind}_of_{whose}", repair)
    async def die(hit: Hit, path: Path) -> None:
        hit.world.moment("a directory of a transaction dies")
        _kill_disk(hit.world.disks[path], kind)


for _whose in TABLE:
    for _kind in ("eio", "full", "hang"):
        _of_transactions(_whose, _kind)


# Nodes


@fault("node", 2, the_controller, "kill_controller")
@fault("node", 4, a_broker)
async def kill(hit: Hit, node: Node) -> None:
    """A process ends at once, and comes back."""
    hit.world.kill(node)
    await restart_later(hit, node)


@fault("node", 2, a_broker, then=restart_when_down)
async def restart(hit: Hit, node: Node) -> None:
    """A broker is stopped in an orderly way, and comes back."""
    node.is_wanted = False
    hit.world.ask_to_stop(node)


@fault("clock", 2, a_node)
async def wrong_clock(hit: Hit, node: Node) -> None:
    """The wall clock of a node is set wrong for a while."""
    ahead_ms = hit.random.choice((-3_000_000, -4_000, 4_000, 3_000_000))
    await for_a_while(hit, node, "ahead_ms", ahead_ms, 0)


@fault("node", 2, a_node)
async def freeze(hit: Hit, node: Node) -> None:
    """A process stands still."""
    await frozen(hit, node, hit.length_s)


async def frozen(hit: Hit, node: Node, seconds: float) -> None:
    """Let a process stand still for so long."""
    process = node.process
    if process is not None:
        hit.world.note(f"{node.name} is frozen")
        hit.world.hit(node, seconds)
        hit.world.loop.freeze(process)
        await asyncio.sleep(seconds)
        if process.is_alive:
            hit.world.loop.thaw(process)
            hit.world.note(f"{node.name} goes on")


@fault("power", 2, the_controller, "controller_power_loss")
@fault("power", 3, a_broker)
async def power_loss(hit: Hit, node: Node) -> None:
    """A machine loses power."""
    if node.is_controller or may_lose(hit, node):
        hit.world.cut_power(node)
        await restart_later(hit, node)


# Disks


@fault("disk", 4, a_disk, then=repair)
async def eio(hit: Hit, path: Path) -> None:
    """Every call to a directory fails."""
    _break(hit, path)


@fault("disk", 2, a_disk, then=repair)
async def read_only(hit: Hit, path: Path) -> None:
    hit.world.disks[path].break_(errno.EROFS, sorted(CHANGES))


@fault("disk", 3, a_disk, then=repair)
async def one_error(hit: Hit, path: Path) -> None:
    """One call fails, the next ones work."""
    kind = hit.random.choice([each for each in KINDS if each != "stat"])
    hit.world.note(f"the next {kind} at {path} fails")
    hit.world.disks[path].fail_next[kind] = errno.EIO
    hit.world.disks[path].cause = f"{kind} fails once"


@fault("disk", 3, a_disk, then=repair)
async def hang(hit: Hit, path: Path) -> None:
    """Calls to a directory do not return for a while."""
    kinds = hit.random.choice(HANGS)
    hit.world.note(f"{path} hangs in {', '.join(kinds)}")
    hit.world.disks[path].hang(kinds, is_after=hit.random.random() < 0.5)


@fault("disk", 2, a_disk)
async def slow(hit: Hit, path: Path) -> None:
    disk = hit.world.disks[path]
    disk.cause = "it is slow"
    await for_a_while(hit, disk, "slowness_s", 10 ** hit.random.uniform(-3, 0.3), 0.0)


@fault("disk", 1, a_disk)
async def full(hit: Hit, path: Path) -> None:
    """A directory has no room for a while."""
    medium = hit.world.disks[path].medium
    capacity = medium.used() + hit.random.randrange(4_000)
    await for_a_while(hit, medium, "capacity", capacity, medium.capacity)


@fault("hands", 2, a_broker)
async def emptied(hit: Hit, node: Node) -> None:
    """A broker stops, one of its disks loses all or its indexes, and it starts again.

    The disk is replaced by a fresh one, or after a stop in order its replicas are removed.
    """
    path = hit.random.choice(node.log_dirs)
    chance = hit.random.random()
    if chance > 0.9:
        hit.world.kill(node)
        hit.world.remove_indexes(path)
        await restart_later(hit, node)
    elif chance < 0.3:
        node.is_wanted = False
        hit.world.ask_to_stop(node)
        await hit.world.until_down([node], STOPPED_S)
        if not node.is_up and may_lose(hit, node, path):
            hit.world.remove_replicas(path)
        await restart_later(hit, node)
    elif may_lose(hit, node, path):
        hit.world.replace(node, path, is_formatted=hit.random.random() < 0.7)
        await restart_later(hit, node)


@fault("hands", 2, a_broker)
async def replaced_while_up(hit: Hit, node: Node) -> None:
    """A disk that failed is replaced by a fresh one, and its broker runs on."""
    path = hit.random.choice(node.log_dirs)
    if len(node.log_dirs) > 1 and may_lose(hit, node, path):
        _break(hit, path)
        await asyncio.sleep(0.3 + hit.length_s / 2)
        hit.world.insert(node, path)
        await repair(hit, path)


@fault("hands", 1, a_broker_of_several, then=restart_later)
async def swapped_disks(hit: Hit, node: Node) -> None:
    """Two disks of a stopped broker change places."""
    hit.world.kill(node)
    one, other = (hit.world.disks[each] for each in hit.random.sample(node.log_dirs, 2))
    one.medium, other.medium = other.medium, one.medium
    one.cause = other.cause = "they are swapped"
    hit.world.note(f"{one.path} and {other.path} are swapped")


@fault("hands", 1, a_broker_of_several)
async def twin(hit: Hit, node: Node) -> None:
    """A disk becomes a copy of another one's identity, which is noticed at the next start."""
    path, other = hit.random.sample(node.log_dirs, 2)
    if directory_id(hit.world, other) is None or not may_lose(hit, node, path):
        return
    hit.world.replace(node, path)
    hit.world.copy_identity(other, path)
    hit.world.note(f"{path} has the id of {other}")
    await restart_later(hit, node)
    await asyncio.sleep(1 + hit.length_s)
    # Of a disk that cannot be read nobody knows the id.
    if hit.world.is_serving(node) and not hit.world.disks[other].is_ill:
        hit.world.report("S9", node.name, f"it runs, {path} has the id of {other}")
    hit.world.replace(node, path)
    await restart_later(hit, node)


# One thing that goes wrong alone, as recovery has bounds then


@fault("calm", 0, a_disk, then=repair)
async def hang_whole(hit: Hit, path: Path) -> None:
    """All calls to a directory hang."""
    hit.world.disks[path].hang(KINDS)
    hit.world.explained_s = 1.5 * PROBE_DEADLINE_S + hit.world.options.seconds(PROBE) + 1


@fault("calm", 0, a_broker)
async def killed(hit: Hit, node: Node) -> None:
    """A broker is away for longer than its session."""
    hit.world.explained_s = hit.world.options.seconds(SESSION) + 1
    await kill(hit, node)


@fault("calm", 0, a_disk)
async def unreported(hit: Hit, path: Path) -> None:
    """A directory fails while its broker cannot tell the controller."""
    world, node = hit.world, hit.world.node_with(path)
    if path not in node.log_dirs:
        return
    leads = path in led_in(world)
    world.explained_s = _session_s(hit)
    for pair in to_controllers(world, node):
        world.network.hold(*pair)
    world.hit(node)
    await asyncio.sleep(0.05)
    _break(hit, path)
    await asyncio.sleep(world.options.seconds(FAILURE) + STOP_S)
    check_stopped(world, node, path if leads else None)
    world.network.release_all()
    await repair(hit, path)


def check_stopped(world: World, node: Node, led_in: Path | None) -> None:
    """L8: a broker that cannot report a directory that it leads in stops."""
    if led_in is not None and node.is_up:
        world.report("L8", node.name, f"it goes on, {led_in} that it leads in is not reported")


@fault("calm", 0, the_controller)
async def freeze_controller(hit: Hit, node: Node) -> None:
    """The controller stands still for longer than any session."""
    hit.world.explained_s = _session_s(hit)
    await frozen(hit, node, hit.world.options.seconds(SESSION) * 1.5)


def _session_s(hit: Hit) -> float:
    options = hit.world.options
    return options.seconds(SESSION) * 2 + options.seconds(FAILURE)


# Network


@fault("net", 3, two_nodes)
async def hold(hit: Hit, ends: tuple[str, str]) -> None:
    """Nothing gets from one node to another, one way or both."""
    both = hit.random.random() < 0.6
    await held(hit, [ends, ends[::-1]] if both else [ends], hit.length_s)


@fault("net", 2, a_broker)
async def cut_off(hit: Hit, node: Node) -> None:
    """A broker is away from the controller for longer than its session, and serves meanwhile."""
    length_s = hit.world.options.seconds(SESSION) + hit.length_s / 2
    hit.world.hit(node, length_s)
    await held(hit, to_controllers(hit.world, node), length_s)


def to_controllers(world: World, node: Node) -> list[tuple[str, str]]:
    """Return the links between a broker and all controllers, both ways."""
    there = [(node.name, each.name) for each in world.controllers]
    return [each for pair in there for each in (pair, pair[::-1])]


@fault("net", 2, two_nodes)
async def slow_link(hit: Hit, ends: tuple[str, str]) -> None:
    link = hit.world.network.link(*ends)
    await for_a_while(hit, link, "slowness_s", 10 ** hit.random.uniform(-2, 0.3), 0.0)


@fault("rpc", 3, lambda hit: hit.random.choice(LOST_ANSWERS))
async def lose_answer(hit: Hit, method: str) -> None:
    """The controller carries a call out, and its answer does not arrive."""
    hit.world.rpc.lose_answers[method] += 1


@fault("rpc", 2, lambda hit: hit.random.choice(LOST_ANSWERS))
async def late_answer(hit: Hit, method: str) -> None:
    """The controller carries a call out, and its answer arrives after what is told later."""
    hit.world.rpc.late_answers_s[method] = hit.random.random()


@fault("rpc", 2)
async def break_stream(hit: Hit) -> None:
    hit.world.rpc.break_streams += 1


# Load


@fault("load", 2, a_partition)
async def burst(hit: Hit, found: Found, records: int = 80) -> None:
    """Many batches go to one partition, one soon after the other."""
    partition, _ = found
    if partition.topic != GROUP_METADATA_TOPIC:
        plan = ProducerPlan(topic=partition.topic, records=records)
        name = f"burst{hit.event.choice}"
        await Producer(hit.world, plan, name, only=partition).run()


# Operators


@fault("admin", 5, a_partition)
async def move(hit: Hit, found: Found) -> None:
    """A replica is moved to another directory of its broker."""
    partition, state = found
    favourite = hit.world.favourite.id
    is_favoured = favourite in state.replicas and hit.random.random() < FAVOUR
    broker = favourite if is_favoured else hit.random.choice(state.replicas)
    path = hit.random.choice(hit.world.nodes[broker].log_dirs)
    await hit.admin.move(broker, path, partition)


@fault("admin", 3, a_partition)
async def reassign(hit: Hit, found: Found) -> None:
    """A partition goes to other brokers."""
    partition, state = found
    ids = [node.id for node in hit.world.brokers]
    count = min(len(ids), max(2, len(state.replicas)) if len(ids) > 1 else 1)
    await hit.admin.reassign(partition, hit.random.sample(ids, count))
    if hit.random.random() < 0.3:
        await asyncio.sleep(hit.length_s)
        await _until_whole(hit.world)
        await hit.admin.reassign(partition, None)


@fault("admin", 2, a_topic)
async def recreate(hit: Hit, name: str) -> None:
    """A topic is deleted, and often made again under its name."""
    topic = hit.world.image.topics.by_name.get(name)
    if topic is None:
        return  # somebody else was faster
    partitions = topic.partitions
    factor = len(next(iter(partitions.values())).replicas)
    hit.world.gone_topics.add(name)
    await hit.admin.delete_topic(name)
    if hit.random.random() < 0.7:
        await asyncio.sleep(hit.length_s / 4)
        factor = min(factor, len(hit.world.brokers))
        await hit.admin.create_topic(name, len(partitions), factor, {})


@fault("admin", 2, a_partition)
async def delete_records(hit: Hit, found: Found) -> None:
    """A partition begins later; not behind what is committed."""
    partition, state = found
    leading = replica_of(hit.world, state.leader, partition) if state.leader >= 0 else None
    if leading is None or leading.leader is None or partition.topic == GROUP_METADATA_TOPIC:
        return
    to = hit.random.randint(0, leading.high_watermark)
    hit.world.trimmed[partition] = max(hit.world.trimmed[partition], to)
    await hit.admin.delete_records(state.leader, partition, to)
    if await hit.admin.delete_records(state.leader, partition, 1 << 40) == 0:
        hit.world.report("S2", partition, "records were deleted that there are not")


@fault("admin", 1)
async def new_topic(hit: Hit) -> None:
    name = f"n{hit.event.choice % 1000}"
    count = hit.random.choice((1, 3, 8))
    factor = hit.random.randint(1, len(hit.world.brokers))
    await hit.admin.create_topic(name, count, factor, {})


@fault("admin", 1, a_topic)
async def grow(hit: Hit, name: str) -> None:
    count = len(hit.world.image.topics.by_name[name].partitions) + hit.random.randint(1, 3)
    await hit.admin.grow_topic(name, count)


@fault("admin", 1, a_partition)
async def elect(hit: Hit, found: Found) -> None:
    await hit.admin.elect(found[0])


@fault("admin", 2, lambda hit: hit.random.choice(hit.world.brokers))
async def cordon(hit: Hit, node: Node) -> None:
    """A directory gets no new replicas for a while, although a topic is made."""
    path = hit.random.choice(node.log_dirs)
    _uncordon(hit.world, node)
    if await hit.admin.configure(4, str(node.id), CORDONED, str(path)) == 0:
        _uncordon(hit.world, node)  # Others may have asked for theirs meanwhile.
        hit.world.cordoned_s[path] = hit.world.now_s()
    await asyncio.sleep(DECIDED_S)
    await new_topic(hit)
    await asyncio.sleep(hit.length_s)
    _uncordon(hit.world, node)
    await hit.admin.configure(4, str(node.id), CORDONED, None)


def _uncordon(world: World, node: Node) -> None:
    """Forget what was cordoned: there is one setting for all directories of a broker."""
    for path in node.log_dirs:
        world.cordoned_s.pop(path, None)


@fault("admin", 1, lambda hit: hit.random.choice(SETTINGS))
async def configure(hit: Hit, setting: tuple[str, str]) -> None:
    """Settings of a topic change."""
    name = a_topic(hit)
    if name is not None:
        await hit.admin.configure(2, name, *setting)


@fault("admin", 2)
async def upgrade(hit: Hit) -> None:
    """The cluster goes to the newest features, or after that leaves its eligible replicas."""
    await hit.admin.set_level("metadata.version", LATEST)
    level = hit.random.choice((None, 0, 1))
    if level is not None:
        await hit.admin.set_level(ELR_VERSION, level, is_lower=level == 0)


# Troubles that meet


@fault("combined", 3, a_disk, then=repair)
async def unheard(hit: Hit, path: Path) -> None:
    """A directory fails shortly before or after the controller ends, which comes back."""
    controller = hit.world.controller
    await closely(hit, path, lambda: hit.world.kill(controller))
    await restart_later(hit, controller)


@fault("combined", 2, a_broker)
async def sick_stop(hit: Hit, node: Node) -> None:
    """A directory fails shortly before or after its broker is asked to stop."""
    path = hit.random.choice(node.log_dirs)
    node.is_wanted = False
    await closely(hit, path, lambda: hit.world.ask_to_stop(node))
    await restart_when_down(hit, node)
    await repair(hit, path)


@fault("combined", 3, a_broker, then=restart_later)
async def changed_while_away(hit: Hit, node: Node) -> None:
    """A topic is deleted or made, or replicas are moved, while a broker is away."""
    hit.world.kill(node)
    node.is_wanted = False
    await FAULTS[hit.random.choice(("recreate", "recreate", "reassign", "new_topic"))](hit)


@fault("combined", 2, a_disk, then=repair)
async def creation_at_a_dead_disk(hit: Hit, path: Path) -> None:
    """A directory fails as replicas are made in it."""
    hit.world.disks[path].break_(errno.EIO, ("create", "name"))
    await new_topic(hit)


@fault("combined", 3, a_broker)
async def sick_restart(hit: Hit, node: Node) -> None:
    """A broker starts while one of its disks is dead, which comes back later."""
    path = hit.random.choice(node.log_dirs)
    _break(hit, path)
    await asyncio.sleep(hit.random.random() * 2)
    if node.is_up and node.is_wanted:
        await kill(hit, node)
        await asyncio.sleep(hit.random.random() * 8)
    await repair(hit, path)


@fault("combined", 4, a_partition)
async def troubled_move(hit: Hit, found: Found) -> None:
    """A replica is moved while many write to it, and something happens on the way."""
    troubles = ("target", "source", "kill", "again", "back", "flip", "power", "slow", "slow")
    troubles += ("gone",)
    trouble, moment = hit.random.choice(troubles), hit.random.choice(("", "moving", "swapped"))
    writing = burst(hit, found, 300 if trouble == "slow" else 80)
    await asyncio.gather(writing, _move_in_trouble(hit, found, trouble, moment))


def a_flushed_one(hit: Hit, replicas: Sequence[int] = (1,)) -> Found | None:
    """Draw a partition with one replica, whose batches are durable before they are acknowledged."""
    flushed = hit.world.flushed_topics()
    some = [found for found in partitions_of(hit.world.image) if found[0].topic in flushed]
    return one_of(hit, (f for f in some if len(f[1].replicas) in replicas and f[1].leader >= 0))


@fault("combined", 3, lambda hit: a_flushed_one(hit, (1, 2, 3)))
async def late_write(hit: Hit, found: Found) -> None:
    """A disk hangs between writes, and its directory is revived as they may still go on."""
    node = hit.world.nodes[found[1].leader]
    paths = paths_of(hit.world, node, found[1])
    if not paths or len(node.log_dirs) < 2:
        return

    async def trouble() -> None:
        await asyncio.sleep(hit.random.random() * 0.3)
        hit.world.disks[paths[0]].hang(("sync",))
        hit.world.note(f"{paths[0]} hangs in sync")
        await hit.world.reached("offline", PROBE_DEADLINE_S * 2 + hit.world.options.seconds(PROBE))
        await asyncio.sleep(0.1)
        hit.world.disks[paths[0]].heal()
        await hit.admin.revive(node.id, paths[0])

    await asyncio.gather(burst(hit, found), trouble())


@fault("combined", 3, a_flushed_one)
async def power_loss_after_a_swap(hit: Hit, found: Found) -> None:
    """Power is lost as the copy of a replica takes its place, and nobody else has its records."""
    await _move_in_trouble(hit, found, "power", "swapped")


async def _move_in_trouble(hit: Hit, found: Found, trouble: str, moment: str) -> None:
    node = hit.world.nodes[hit.random.choice(found[1].replicas)]
    if len(node.log_dirs) < 2:
        return
    directory = found[1].directory(node.id)
    targets = [path for path in node.log_dirs if directory_id(hit.world, path) != directory]
    target = hit.random.choice(targets)
    await hit.admin.move(node.id, target, found[0])
    hit.world.note(f"{trouble} at {moment or 'any moment'}")
    if trouble == "slow":
        # The copy between the last look and the swap takes longer, and appends come meanwhile.
        paths = hit.random.choice((node.log_dirs, [target]))
        disks = [hit.world.disks[path] for path in paths]
        for disk in disks:
            disk.slowness_s, disk.cause = hit.random.random() * 0.03, "it is slow"
        await hit.world.reached("swapped", 3.0)
        for disk in disks:
            disk.slowness_s = 0.0
        return
    if moment:
        await hit.world.reached(moment, 2.0)
    await asyncio.sleep(hit.random.random() ** 3 * (0.02 if moment == "swapped" else 1.0))
    await _until_whole(hit.world)
    if trouble in ("target", "source"):
        others = [path for path in node.log_dirs if path not in targets] or [target]
        path = target if trouble == "target" else others[0]
        _break(hit, path)
        await repair(hit, path)
    elif trouble == "gone":
        await recreate_under_load(hit, found)
    elif trouble in ("again", "back"):
        await hit.admin.move(node.id, hit.random.choice(node.log_dirs), found[0])
    elif trouble == "flip":
        link = hit.world.network.link(hit.world.controller.name, node.name)
        link.slowness_s = hit.random.random() * 0.5
        for path in (*(each for each in node.log_dirs if each not in targets), target):
            await hit.admin.move(node.id, path, found[0])
        link.slowness_s = 0.0
    elif node.is_up and node.is_wanted:
        await (kill if trouble == "kill" else power_loss)(hit, node)


@fault("combined", 2, a_disk, then=repair)
async def recreate_beside_a_dead_disk(hit: Hit, path: Path) -> None:
    """A topic is deleted and made again while a directory with its replicas is dead."""
    _break(hit, path)
    await asyncio.sleep(0.5 + hit.random.random())
    await FAULTS["recreate"](hit)


@fault("combined", 2, a_partition)
async def recreate_under_load(hit: Hit, found: Found) -> None:
    """A topic is deleted while many write to it."""
    if found[0].topic != GROUP_METADATA_TOPIC:
        await asyncio.gather(burst(hit, found), recreate(hit, found[0].topic))


def a_replicated_one(hit: Hit) -> tuple[TopicPartition, list[Node]] | None:
    """Draw a partition with several members in sync, and these, its leader first.

    Most often one of those in which groups keep their offsets, where there is one.
    """
    found = [
        (partition, [hit.world.nodes[each] for each in sorted(state.isr, key=state.leader.__ne__)])
        for partition, state in partitions_of(hit.world.image)
        if len(state.isr) > 1 and state.leader in state.isr
    ]
    offsets = [each for each in found if each[0].topic == GROUP_METADATA_TOPIC]
    is_favoured = offsets and hit.random.random() < OFFSETS_SHARE
    return one_of(hit, offsets if is_favoured else found)


@fault("combined", 4, a_replicated_one)
async def failovers(hit: Hit, found: tuple[TopicPartition, list[Node]]) -> None:
    """One leader after the other goes, before the last follower has what they have appended."""
    _, nodes = found
    *others, last = nodes[:1] + hit.random.sample(nodes[1:], len(nodes) - 1)
    pairs = [pair for node in others for pair in ((node.name, last.name), (last.name, node.name))]
    for pair in pairs:
        hit.world.network.hold(*pair)
    gone = []
    for node in others[:2]:
        await asyncio.sleep(0.3 + hit.random.random() * 1.2)
        if node.is_up and node.is_wanted:
            node.is_wanted = False
            is_orderly = hit.random.random() < 0.7
            (hit.world.ask_to_stop if is_orderly else hit.world.kill)(node)
            gone.append(node)
            await hit.world.reached("elected", hit.world.options.seconds(SESSION) + 1)
    for pair in pairs:
        hit.world.network.link(*pair).release()
    await asyncio.gather(*(restart_when_down(hit, node) for node in gone))


@fault("combined", 4, a_replicated_one)
async def crossed_isr(hit: Hit, found: tuple[TopicPartition, list[Node]]) -> None:
    """A follower that comes back goes again, or the partition changes, as its leader lets it in."""
    partition, (leader, *others) = found
    follower = hit.random.choice(others)
    follower.is_wanted = False
    hit.world.ask_to_stop(follower)
    await hit.world.until_down([follower], 2.0)
    hit.world.kill(follower)
    follower.is_wanted = True
    hit.world.boot(follower)
    await hit.world.reached("proposing", 4.0)
    link = hit.world.network.link(leader.name, hit.world.controller.name)
    if hit.random.random() < 0.7:
        link.slowness_s = 0.05 + hit.random.random() * 1.5
        hit.world.hit(leader, 10.0)
    else:
        hit.world.rpc.late_answers_s["AlterPartition"] = 0.1 + hit.random.random()
    await hit.world.reached("proposing", 4.0)
    await asyncio.sleep(hit.random.random() * 0.05)
    troubles = ("disk", "stop", "kill", "fresh", "fresh", "move", "reassign", "elect")
    trouble = hit.random.choice(troubles)
    paths = paths_of(hit.world, follower, hit.world.find(partition)[1])
    if trouble == "disk" and paths:
        await _until_whole(hit.world)
        _break(hit, paths[0])
        await burst(hit, found)
    elif trouble == "fresh" and paths and follower.is_up and may_lose(hit, follower, paths[0]):
        link.slowness_s += 1.0
        hit.world.ask_to_stop(follower)
        follower.is_wanted = False
        await hit.world.until_down([follower], 2.0)
        hit.world.replace(follower, paths[0])
        hit.world.boot(follower)
        follower.is_wanted = True
        await asyncio.sleep(1.0)
    elif trouble in ("stop", "kill") and follower.is_up and follower.is_wanted:
        follower.is_wanted = False
        (hit.world.ask_to_stop if trouble == "stop" else hit.world.kill)(follower)
    elif trouble in FAULTS:
        await FAULTS[trouble](hit)
    await asyncio.sleep(0.5)
    link.slowness_s = 0.0
    if not follower.is_wanted:
        await restart_when_down(hit, follower)
    elif paths:
        await repair(hit, paths[0])


async def carry_out(hit: Hit) -> None:
    """Let an event happen."""
    if WEIGHTS[hit.event.fault][0] not in ("admin", "rpc"):
        await _until_whole(hit.world)
    hit.world.seen[f"{EVENT}{hit.event.fault}"] += 1
    await FAULTS[hit.event.fault](hit)
