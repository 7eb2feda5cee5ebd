"""Faults of controllers that elect the active one; histories with one controller have none of them.

A majority of them can always come back: their disks may fail as they like for a while, but one that
has lost its log has it again before another one may lose its own.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from typing import Any

from jbodlab.metadata.log.quorum_state import FILE_NAME
from jbodlab.metadata.records.control_records import KRaftVoterEndpoint
from jbodlab.raft.messages import (
    AddVoterRequest,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    VoterChangeRequest,
)
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId
from tests.simulation.disk import KINDS
from tests.simulation.faults import (
    HANGS,
    Hit,
    closely,
    fault,
    for_a_while,
    frozen,
    held,
    kill,
    led_in,
    one_of,
    paths_of,
    repair,
    restart_later,
    restart_when_down,
)
from tests.simulation.plan import QUORUM, UNLIMITED
from tests.simulation.world import Node, World, address, directory_id, partitions_of

CLAIM_S = 1.0
"""By when another one is active, if nothing else is wrong."""
RESIGNED_S, ELECTED_S = 3.5, 4.5
"""By when a leader that no other controller reaches has resigned (one and a half fetch timeouts),
and by when another one is active behind that: the timers of an election end, perhaps twice."""
VOTERS_S = 10.0
"""For which an operator asks for other voters."""
NOTICED_S = 4.0
"""By when a controller ends whose directory fails."""
NEXT_LEADER_S = 2.0
"""By when the next active controller has elected leaders for what failed with the former one."""
CALLS = ("write", "sync", "create", "name", "read")
"""Calls of a controller: appends, their sync, files of snapshots and votes, what others lack."""
CALLED_S, ENDED_S = 5.0, 0.2
"""By when such a call comes, if it does, and by when a controller ends after its error."""


# Whom it hits


def the_active(hit: Hit) -> Node | None:
    node = hit.world.controller
    return node if node.is_up and node.is_wanted else None


def a_controller(hit: Hit) -> Node | None:
    """Draw a controller that runs; half the time the active one."""
    active = the_active(hit)
    if active is not None and hit.random.random() < 0.5:
        return active
    return one_of(hit, (node for node in hit.world.controllers if node.is_up and node.is_wanted))


def some_controllers(hit: Hit) -> list[Node] | None:
    """Draw some of the controllers that run; one, two or all."""
    running = [node for node in hit.world.controllers if node.is_up and node.is_wanted]
    return hit.random.sample(running, hit.random.randint(1, len(running))) if running else None


# Processes


@fault(QUORUM, 3, the_active)
async def kill_active(hit: Hit, node: Node) -> None:
    """The active controller's process ends at once, and comes back."""
    await kill(hit, node)


@fault(QUORUM, 2, some_controllers)
async def kill_controllers(hit: Hit, nodes: list[Node]) -> None:
    """Some of them end shortly after each other, and come back one by one."""
    await _shortly(hit, nodes, hit.world.kill)


@fault(QUORUM, 2, some_controllers)
async def controllers_lose_power(hit: Hit, nodes: list[Node]) -> None:
    await _shortly(hit, nodes, hit.world.cut_power)


async def _shortly(hit: Hit, nodes: Iterable[Node], end: Callable[[Node], object]) -> None:
    async def one(node: Node) -> None:
        await asyncio.sleep(hit.random.random() ** 3 * 0.2)
        if node.is_up and node.is_wanted:
            end(node)
            await asyncio.sleep(hit.random.random() ** 3)
            await restart_later(hit, node)

    await asyncio.gather(*map(one, nodes))


@fault(QUORUM, 2, the_active)
async def active_restarts(hit: Hit, node: Node) -> None:
    """The active controller ends, and comes back before anybody else could stand."""
    hit.world.kill(node)
    hit.world.boot(node)


@fault(QUORUM, 2, the_active, then=restart_when_down)
async def stop_active(hit: Hit, node: Node) -> None:
    """The active controller is stopped in order."""
    node.is_wanted = False
    hit.world.ask_to_stop(node)


@fault(QUORUM, 2, the_active, then=restart_later)
async def one_after_the_other(hit: Hit, node: Node) -> None:
    """The active one ends, and the next one as soon as it is elected, or has begun its term."""
    hit.world.kill(node)
    node.is_wanted = False
    await hit.world.reached(hit.random.choice(("elected controller", "claimed")), 5.0)
    await asyncio.sleep(hit.random.random() ** 3 * 0.05)
    if (other := the_active(hit)) is not None:
        end = hit.random.choice((hit.world.kill, hit.world.cut_power))
        end(other)
        await restart_later(hit, other)


@fault(QUORUM, 3, a_controller)
async def freeze_a_controller(hit: Hit, node: Node) -> None:
    """One of them stands still; what it has decided and not sent yet waits with it."""
    await frozen(hit, node, hit.length_s)


# Disks


async def come_back(hit: Hit, node: Node) -> None:
    """Heal a controller's disk after the event's time, and start it if it has ended."""
    await asyncio.sleep(hit.length_s)
    hit.world.disks[node.metadata_dir].heal()
    hit.world.note(f"{node.metadata_dir} works again")
    if not node.is_up and node.is_wanted:
        hit.world.boot(node)


@fault(QUORUM, 3, a_controller, then=come_back)
async def controller_eio(hit: Hit, node: Node) -> None:
    """Every call to a controller's directory fails."""
    hit.world.disks[node.metadata_dir].break_(errno.EIO)


@fault(QUORUM, 3, a_controller, then=come_back)
async def controller_error(hit: Hit, node: Node) -> None:
    """One call to a controller's directory fails, the next ones work."""
    kind = hit.random.choice([each for each in KINDS if each != "stat"])
    hit.world.note(f"the next {kind} at {node.metadata_dir} fails")
    hit.world.disks[node.metadata_dir].fail_next[kind] = errno.EIO


@fault(QUORUM, 3, a_controller, then=come_back)
async def controller_hangs(hit: Hit, node: Node) -> None:
    """Calls to a controller's directory do not return for a while."""
    kinds = hit.random.choice(HANGS)
    hit.world.note(f"{node.metadata_dir} hangs in {', '.join(kinds)}")
    hit.world.disks[node.metadata_dir].hang(kinds, is_after=hit.random.random() < 0.5)


@fault(QUORUM, 2, a_controller)
async def controller_is_slow(hit: Hit, node: Node) -> None:
    disk = hit.world.disks[node.metadata_dir]
    await for_a_while(hit, disk, "slowness_s", 10 ** hit.random.uniform(-3, 0.3), 0.0)


@fault(QUORUM, 1, some_controllers)
async def controllers_are_full(hit: Hit, nodes: list[Node]) -> None:
    """Directories of some of them have no room for a while."""
    media = [(hit.world.disks[node.metadata_dir].medium, node) for node in nodes]
    for medium, node in media:
        medium.capacity = medium.used() + hit.random.randrange(2_000)
        hit.world.note(f"{node.metadata_dir} has {medium.capacity} bytes")
    await asyncio.sleep(hit.length_s)
    for medium, node in media:
        medium.capacity = UNLIMITED
        if not node.is_up and node.is_wanted:
            hit.world.boot(node)


@fault(QUORUM, 3, a_controller)
async def emptied_controller(hit: Hit, node: Node) -> None:
    """A controller's disk is replaced by a fresh one under the node's own id."""
    if may_be_emptied(hit.world, node):
        hit.world.emptied.add(node.id)
        hit.world.replace(node, node.metadata_dir)
        await restart_later(hit, node)


def may_be_emptied(world: World, node: Node) -> bool:
    """Return whether most controllers have their log, and go on having it, without one of them."""
    world.emptied -= {each for each in world.emptied if world.quorum.has_all(world.nodes[each])}
    gone = world.emptied | {node.id}
    return len(gone) <= (len(world.controllers) - 1) // 2 and all(
        _has_majority(world, voters, gone) for voters in world.quorum.voter_sets()
    )


def _has_majority(world: World, voters: VoterSet, gone: set[int]) -> bool:
    """Return whether voters can elect and commit when some controllers are as new."""

    def is_there(key: ReplicaKey) -> bool:
        # One that was emptied before has another directory, and is no voter before it is added.
        its = directory_id(world, world.nodes[key.node_id].metadata_dir)
        return key.node_id not in gone and key.directory_id in (UNKNOWN_DIRECTORY, its)

    return sum(map(is_there, voters.keys)) >= voters.majority


# Voters


@fault(QUORUM, 2)
async def change_voters(hit: Hit) -> None:
    """A controller is no voter for a while; most often the active one is drawn."""
    others = hit.random.sample(hit.world.controllers, len(hit.world.controllers))
    node = hit.world.controller if hit.random.random() < 0.5 else others[0]
    await until_voters(hit.world, {*hit.world.controllers} - {node})
    await asyncio.sleep(hit.length_s)
    await until_voters(hit.world, {*hit.world.controllers})


async def until_voters(world: World, wanted: set[Node]) -> None:
    """Ask whoever is active until its voters are those that are wanted, but not for ever."""
    end_s = world.now_s() + VOTERS_S
    while world.now_s() < end_s:
        active = [each for each in world.controllers if world.quorum.is_active(each)]
        for node in active:
            request = _next_change(world, world.quorum.core(node).log, wanted)
            if request is None:
                return
            await asyncio.wait({world.quorum.ask(node, request)}, timeout=2.0)
        await asyncio.sleep(0.3)


def _next_change(world: World, log: Any, wanted: set[Node]) -> VoterChangeRequest | None:
    """Return what an operator asks for next; None if nothing is left to do."""
    voters = log.voters.last
    if log.kraft_versions.last < 1:
        return RaiseKRaftVersionRequest(level=1)
    for key in voters.keys:
        node = world.nodes[key.node_id]
        # One that was emptied has another directory, which is no voter.
        if node not in wanted or key.directory_id != directory_id(world, node.metadata_dir):
            return RemoveVoterRequest(voter=key)
    for node in sorted(wanted, key=lambda each: each.id):
        if node.id not in voters.ids:
            host, port = address(node.id).split(":")
            its = directory_id(world, node.metadata_dir) or UNKNOWN_DIRECTORY
            return AddVoterRequest(
                voter=ReplicaKey(BrokerId(node.id), its),
                endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host=host, port=int(port)),),
                timeout_ms=2_000,
            )
    return None


@fault("calm", 0, the_active)
async def upgraded_beside_a_silent_voter(hit: Hit, node: Node) -> None:
    """R12: kraft.version is not raised while the leader has not heard a voter, but behind that."""
    world = hit.world
    silent = next(each for each in world.controllers if each is not node)
    world.kill(silent)
    # The leader of the next epoch has never heard it.
    world.kill(node)
    world.boot(node)
    await world.until(lambda: bool(_active(world)), ELECTED_S, 0.01)
    for active in _active(world):
        asked = world.quorum.ask(active, RaiseKRaftVersionRequest(level=1))
        await asyncio.wait({asked}, timeout=CALLED_S)
        error = asked.exception() if asked.done() else None
        if isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_UPDATE_VERSION:
            world.moment("an upgrade was refused")
        if max(_levels(world)) > 0:
            world.report("R12", active.name, f"it has not heard {silent.name}, and is upgraded")
    await restart_later(hit, silent)
    await _upgrade(world)


@fault("calm", 0, the_active)
async def killed_in_an_upgrade(hit: Hit, node: Node) -> None:
    """R12: an upgrade is done or not, and never half, when its leader ends as it is appended."""
    world, process = hit.world, node.process
    log = world.quorum.core(node).log
    end_s = world.now_s() + VOTERS_S
    while log.kraft_versions.last < 1 and world.now_s() < end_s and node.process is process:
        # The voters tell the leader in their own time what it needs.
        world.quorum.ask(node, RaiseKRaftVersionRequest(level=1))
        await world.until(lambda: log.kraft_versions.last > 0, 0.2, 0.0005)
    if hit.event.choice % 2:
        await world.until(lambda: max(_levels(world, but=node), default=0) > 0, CALLED_S, 0.0005)
        world.moment("an upgrade was replicated as its leader died")
    elif max(_levels(world, but=node), default=0) == 0:
        world.moment("an upgrade was with its leader alone")
    end = hit.random.choice((world.kill, world.cut_power))
    end(node)
    if await world.until(lambda: _has_half(world), ELECTED_S, 0.01):
        world.report("R12", node.name, "an upgrade is done by half")
    await restart_later(hit, node)
    await _upgrade(world)


def _active(world: World) -> list[Node]:
    return [each for each in world.controllers if world.quorum.is_active(each)]


def _logs(world: World, but: Node | None = None) -> list[Any]:
    others = (each for each in world.controllers if each.is_up and each is not but)
    return [core.log for core in map(world.quorum.core, others) if core is not None]


def _levels(world: World, but: Node | None = None) -> list[int]:
    """Return the level of kraft.version at each controller that runs, committed or not."""
    return [log.kraft_versions.last for log in _logs(world, but)]


def _has_half(world: World) -> bool:
    """Return whether a log names directories of voters at level 0, or does not name all at 1."""

    def is_half(log: Any) -> bool:
        named = [key.directory_id != UNKNOWN_DIRECTORY for key in log.voters.last.keys]
        return any(named) != (log.kraft_versions.last > 0) or any(named) != all(named)

    return any(map(is_half, _logs(world)))


async def _upgrade(world: World) -> None:
    await until_voters(world, {*world.controllers})
    if min(_levels(world), default=0) > 0 and not _has_half(world):
        world.moment("an upgrade is done")


# Network


@fault(QUORUM, 3, a_controller)
async def part_controllers(hit: Hit, node: Node) -> None:
    """Nothing gets from one controller to some others, one way or both."""
    others = [each for each in hit.world.controllers if each is not node]
    others = hit.random.sample(others, hit.random.randint(1, len(others)))
    pairs = [(node.name, each.name) for each in others]
    back = [pair[::-1] for pair in pairs]
    await held(hit, hit.random.choice((pairs, back, pairs + back)), hit.length_s)


@fault(QUORUM, 2, the_active)
async def active_without_controllers(hit: Hit, node: Node) -> None:
    """The active controller reaches brokers only."""
    others = [each for each in hit.world.controllers if each is not node]
    await held(hit, both_ways(node, others), hit.length_s)


@fault(QUORUM, 1, the_active)
async def active_without_brokers(hit: Hit, node: Node) -> None:
    """The active controller reaches controllers only, and stays active; sessions may end."""
    for broker in hit.world.brokers:
        hit.world.hit(broker, hit.length_s)
    await held(hit, both_ways(node, hit.world.brokers), hit.length_s)


@fault(QUORUM, 2, the_active)
async def active_without_anybody(hit: Hit, node: Node) -> None:
    others = [each for each in hit.world.nodes.values() if each is not node]
    for broker in hit.world.brokers:
        hit.world.hit(broker, hit.length_s)
    await held(hit, both_ways(node, others), hit.length_s)


def both_ways(node: Node, others: Iterable[Node]) -> list[tuple[str, str]]:
    """Return the links between a node and others."""
    return [(a.name, b.name) for each in others for a, b in ((node, each), (each, node))]


@fault(QUORUM, 2, a_controller)
async def slow_controllers(hit: Hit, node: Node) -> None:
    """Everything that one controller sends to another one takes longer."""
    other = hit.random.choice([each for each in hit.world.controllers if each is not node])
    link = hit.world.network.link(node.name, other.name)
    await for_a_while(hit, link, "slowness_s", 10 ** hit.random.uniform(-2, 0.3), 0.0)


# Certificates


@fault(QUORUM, 2, a_controller)
async def certificate_of_controller(hit: Hit, node: Node) -> None:
    """A controller's certificate has expired, or some others do not trust it, for a while."""
    others = [each for each in hit.world.nodes.values() if each is not node]
    if hit.random.random() < 0.5:
        others = hit.random.sample(others, hit.random.randint(1, len(others)))
    _disown(hit, node, others)
    await asyncio.sleep(hit.length_s)
    _own_again(hit, node, others)


def _disown(hit: Hit, node: Node, others: Iterable[Node]) -> None:
    hit.world.note(f"the certificate of {node.name} is no good for {[o.name for o in others]}")
    for each in others:
        hit.world.network.disown(node.name, each.name)
        if not each.is_controller:
            hit.world.hit(each, hit.length_s)


def _own_again(hit: Hit, node: Node, others: Iterable[Node]) -> None:
    hit.world.note(f"the certificate of {node.name} is good again")
    for each in others:
        hit.world.network.own_again(node.name, each.name)


# One thing that goes wrong alone, as a failover has bounds then


@fault("calm", 0, the_active)
async def active_dies(hit: Hit, node: Node) -> None:
    """RL6: another controller is active soon after the process of the active one has ended."""
    hit.world.kill(node)
    await _check_claim(hit, node)
    await restart_later(hit, node)


@fault("calm", 0, the_active, then=come_back)
async def disk_of_active_dies(hit: Hit, node: Node) -> None:
    """R18, RL6: a controller whose directory fails ends, and another one is active."""
    hit.world.disks[node.metadata_dir].break_(errno.EIO)
    await hit.world.until_down([node], NOTICED_S)
    if node.is_up:
        hit.world.report("R18", node.name, "its directory fails, and it goes on")
    await _check_claim(hit, node)


@fault("calm", 0, the_active, then=come_back)
async def call_of_active_fails(hit: Hit, node: Node) -> None:
    """R18, RL6: a controller ends at the first error of its directory, and another is active."""
    kind, process = CALLS[hit.event.choice % len(CALLS)], node.process
    failing = hit.world.disks[node.metadata_dir].fail_next
    failing[kind] = errno.EIO
    if await hit.world.until(lambda: kind not in failing, CALLED_S, 0.01):
        hit.world.moment(f"the active's {kind} failed")
        await asyncio.sleep(ENDED_S)
        if node.is_up and node.process is process:
            hit.world.report("R18", node.name, f"its {kind} failed, and it goes on")
        await _check_claim(hit, node)


@fault("calm", 0, the_active, then=restart_later)
async def directory_dies_with_active(hit: Hit, node: Node) -> None:
    """L7: what led in a directory that dies as the active controller does is led soon again."""
    world = hit.world
    path = hit.random.choice(led_in(world))
    broker = world.node_with(path)
    process = broker.process
    assert process is not None
    led = [
        partition
        for partition, state in partitions_of(world.image)
        if state.leader == broker.id
        and len(state.isr) > 1
        and path in paths_of(world, broker, state)
    ]

    def is_telling() -> bool:
        is_offline = not broker.server._disks.log_dirs.by_path(path).is_online
        return is_offline and world.rpc.is_asking(process, "BrokerHeartbeat")

    if hit.event.choice % 2:
        await closely(hit, path, lambda: world.kill(node))
    else:
        world.disks[path].break_(errno.EIO)
        if await world.until(is_telling, NOTICED_S, 0.0002):
            world.moment("the active ended as it was told of a directory")
        world.kill(node)

    def is_led_elsewhere() -> bool:
        leaders = {each: state.leader for each, state in partitions_of(world.image)}
        return all(leaders[each] not in (broker.id, NO_LEADER) for each in led)

    if not await world.until(is_led_elsewhere, NEXT_LEADER_S, 0.05):
        world.report("L7", path.name, f"{NEXT_LEADER_S} s after its failure {led} are led there")
    await repair(hit, path)
    await hit.admin.revive(broker.id, path)


@fault("calm", 0, the_active, then=restart_later)
async def last_word_to_active(hit: Hit, node: Node) -> None:
    """R16: a broker that ends as the active controller does is fenced by the next one at once."""
    world = hit.world
    broker = hit.random.choice([each for each in world.brokers if world.is_serving(each)])
    process, disk = broker.process, world.disks[broker.metadata_dir]
    assert process is not None
    disk.break_(errno.EIO)

    def is_fenced() -> bool:
        registered = world.registration(broker)
        return registered is not None and registered.fenced

    def is_saying_it() -> bool:
        is_last = broker.process is process and broker.server._is_last_word_wanted
        return is_last and world.rpc.is_asking(process, "BrokerHeartbeat")

    if await world.until(is_saying_it, NOTICED_S, 0.0002):
        world.moment("the active ended with a broker's last word")
        world.kill(node)
        if not await world.until(is_fenced, NEXT_LEADER_S, 0.05):
            world.report("R16", broker.name, f"{NEXT_LEADER_S} s after its end it is not fenced")
    disk.heal()
    await restart_when_down(hit, broker)


@fault("calm", 0, the_active, then=restart_later)
async def vote_is_lost(hit: Hit, node: Node) -> None:
    """R2: a controller loses its power or gets an error as it writes its vote, and tells nobody."""

    def is_voting(each: Node) -> bool:
        running = hit.world.disks[each.metadata_dir].running
        return any(count for (_, _, name), count in running.items() if name.startswith(FILE_NAME))

    def voting() -> list[Node]:
        return [each for each in hit.world.controllers if each.is_up and is_voting(each)]

    hit.world.kill(node)
    if await hit.world.until(voting, CALLED_S, 0.0005):
        (voter, *_) = voting()
        disk, process = hit.world.disks[voter.metadata_dir], voter.process
        if hit.event.choice % 2:
            disk.fail_next["name"] = errno.EIO
            await hit.world.until(lambda: not disk.fail_next, CALLED_S, 0.0005)
            hit.world.moment("a vote could not be kept")
            await asyncio.sleep(ENDED_S)
            if voter.is_up and voter.process is process:
                hit.world.report("R18", voter.name, "its vote is not on its disk, and it goes on")
        else:
            hit.world.moment("power was lost with a vote")
            hit.world.cut_power(voter)
        await restart_later(hit, voter)


@fault("calm", 0, the_active)
async def certificate_of_active_expires(hit: Hit, node: Node) -> None:
    """R18, RL6: an active controller that nobody accepts resigns and goes on, another is active."""
    others = [each for each in hit.world.nodes.values() if each is not node]
    process = node.process
    _disown(hit, node, others)
    await asyncio.sleep(RESIGNED_S)
    if hit.world.quorum.is_active(node):
        hit.world.report("R18", node.name, "nobody accepts its certificate, and it is active")
    await _check_claim(hit, node, ELECTED_S)
    await asyncio.sleep(hit.length_s)
    _own_again(hit, node, others)
    if node.process is not process:
        hit.world.report("R18", node.name, "it ended, as others do not accept its certificate")


async def _check_claim(hit: Hit, former: Node, within_s: float = CLAIM_S) -> None:
    def is_claimed() -> bool:
        active = [each for each in hit.world.controllers if hit.world.quorum.is_active(each)]
        return bool(active) and active != [former]

    if not await hit.world.until(is_claimed, within_s, 0.05):
        hit.world.report("RL6", former.name, f"{within_s} s after it nobody else is active")
