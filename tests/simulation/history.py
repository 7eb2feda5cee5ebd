"""One history: chaos, healing, a last look at everything, and restarts that change nothing."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import traceback
from collections import Counter
from random import Random
from typing import Any, NamedTuple

from tests.simulation import faults, members, quorum, settled, taps, transactions
from tests.simulation.clients import BROKER, NONE, TOPIC_EXISTS, UNCLEAN, Admin, Consumer, Producer
from tests.simulation.loop import SimLoop, Stuck
from tests.simulation.members import Groups, Member, ModernMember, Watcher
from tests.simulation.plan import KILL, QUORUM_MOMENTS, STOP, UNLIMITED, Event, Plan, TopicPlan
from tests.simulation.quorum_faults import until_voters
from tests.simulation.transactions import CommittedConsumer, Transactions, Transactor
from tests.simulation.world import Ask, NotesHandler, Violation, World

START_S, HEAL_S = 30.0, 60.0
LED_S = 8.0
"""By when the controllers have one that is active; a call to a disk may come back late."""
END_S = 1e6
"""After every end: an event that waits so long happens at its moment, or not at all."""
ENDED_S = 20.0
"""By when a transaction that nobody goes on with has timed out, and has its markers."""


class Outcome(NamedTuple):
    """The result of a history; the first violation, if there was one, and notes for people."""

    violation: tuple[Any, ...] | None
    trace: str
    steps: int
    virtual_s: float
    seen: Counter[str]
    notes: list[tuple[float, str, str]]


def run(plan: Plan, *, until_step: int = 0, is_traced: bool = False) -> Outcome:
    """Run a history; the process should do nothing else, and nothing after a few of them."""
    gc.disable()
    # Nobody asks a line of the log where it came from.
    logging._srcfile = None  # type: ignore[attr-defined]
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    loop = SimLoop(f"{plan.options.seed}", is_fifo=plan.options.is_fifo)
    loop.stop_at_step, loop.is_traced = until_step, is_traced
    world = World(loop, plan.options)
    handler = NotesHandler(world)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    loop.set_exception_handler(lambda _, context: _unhandled(world, context))
    try:
        loop.run_until_complete(_History(world, plan).run())
    except Violation:
        pass  # It is the first of the world's.
    except Stuck as stuck:
        if not until_step:
            world.report("S12", "loop", str(stuck))
    except Exception as error:  # noqa: BLE001 - whatever it is, the history has found it
        world.report("S12", "simulation", "".join(traceback.format_exception(error))[-1500:])
    asyncio.events._set_running_loop(None)
    root.handlers[:] = []
    world.seen.update(taps.detach())
    found = world.violations[0].args if world.violations else None
    return Outcome(found, loop.trace(), loop.steps, world.now_s(), world.seen, world.notes)


def _unhandled(world: World, context: dict[str, Any]) -> None:
    error = context.get("exception")
    world.report("S12", "loop", f"{context.get('message')}: {error!r}")


class _History:
    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self._admin = Admin(world, "client-admin")
        self._operators: list[asyncio.Task[Any]] = []
        self._clients: list[Producer | Consumer | Member | Transactor] = []
        self._groups = Groups(world)
        self._transactions = Transactions(world, self._groups)

    async def run(self) -> None:
        world = self._world
        world.build()
        quorum.attach(world, taps.attach(world))
        members.attach(world)
        transactions.attach(world, self._transactions)
        await self._boot_all()
        await world.run_as("client-start", self._start())
        self._start_clients()
        self._start_events()
        await asyncio.sleep(self._plan.options.chaos_ms / 1000)
        self._heal()
        await world.run_as("client-heal", self._recover())
        world.is_settled = True
        for each in self._clients:
            each.is_running = False
        # A shrunk plan may have no clients.
        if self._runs:
            await asyncio.wait(self._runs, timeout=20.0)
        await world.run_as("client-read", self._read_all())
        await world.run_as("client-groups", self._fetch_all())
        await world.run_as("client-committed", self._read_committed())
        self._check_logs()
        ends = {STOP: self._stop_all, KILL: self._kill_all}
        for way in self._plan.options.restarts:
            await self._restart_all(ends[way])

    async def _boot_all(self) -> None:
        """Start all nodes; brokers would only ask until controllers have one that is active."""
        world = self._world
        for node in world.controllers:
            world.boot(node)
        if world.has_quorum:
            await world.until(lambda: any(map(world.quorum.is_active, world.controllers)), LED_S)
        for node in world.brokers:
            world.boot(node)

    async def _start(self) -> None:
        await self._must(self._all_serve, START_S, "L1", "cluster", "it does not start")
        for topic in self._plan.options.topics:
            is_made = functools.partial(self._is_made, topic)
            await self._must(is_made, START_S, "L1", topic.name, "it is not created")

    async def _must(self, ask: Ask, seconds: float, *wrong: Any, pause_s: float = 0.2) -> None:
        """Report what does not come true in time."""
        if not await self._world.until(ask, seconds, pause_s):
            self._world.report(*wrong)

    async def _all_serve(self) -> bool:
        answers = [await self._admin.refresh(node.id) for node in self._world.brokers]
        return all(answer is not None and len(answer.brokers) == len(answers) for answer in answers)

    async def _is_made(self, topic: TopicPlan) -> bool:
        settings = {
            "min.insync.replicas": str(topic.min_insync),
            "internal.segment.bytes": str(topic.segment_bytes),
        }
        if topic.is_flushed:
            settings["flush.messages"] = "1"
        code = await self._admin.create_topic(
            topic.name, topic.partitions, topic.replication_factor, settings
        )
        return code in (NONE, TOPIC_EXISTS)

    def _start_clients(self) -> None:
        world, options = self._world, self._plan.options
        for number, plan in enumerate(options.producers):
            self._clients.append(Producer(world, plan, f"p{number}"))
        for number in range(options.consumers):
            self._clients.append(Consumer(world, f"c{number}"))
        for group in options.groups:
            kind = ModernMember if group.is_modern else Member
            for number in range(group.members):
                self._clients.append(kind(self._groups, group, f"{group.name}-m{number}"))
            self._clients.append(Watcher(self._groups, group, f"{group.name}-watcher"))
        for plan in options.transactions:
            for number in range(plan.producers):
                name = f"{plan.name}-p{number}"
                self._clients.append(Transactor(self._transactions, plan, name))
        if options.transactions:
            self._clients.append(CommittedConsumer(self._transactions, "committed"))
        self._runs = [world.run_as(f"client-{each.name}", each.run()) for each in self._clients]

    def _start_events(self) -> None:
        world = self._world
        for number, event in enumerate(self._plan.events):
            random = Random(f"{self._plan.options.seed}:{event.fault}:{event.choice}")
            hit = faults.Hit(world, event, random, Admin(world, f"client-op{number}"))
            self._operators.append(world.run_as(hit.admin.name, self._event(event, hit)))

    async def _event(self, event: Event, hit: faults.Hit) -> None:
        await asyncio.sleep(event.at_ms / 1000)
        if event.after:
            is_drawn = event.after in QUORUM_MOMENTS
            await self._world.reached(event.after, 3.0 if is_drawn else END_S)
            if is_drawn:
                await asyncio.sleep(hit.random.random() ** 3 * 0.05)
        await faults.carry_out(hit)

    def _heal(self) -> None:
        """End what goes wrong, and start what does not run."""
        world = self._world
        world.note("healing")
        for task in self._operators:
            task.cancel()
        world.rpc.heal()
        world.network.release_all()
        for disk in world.disks.values():
            disk.heal()
            disk.medium.capacity = UNLIMITED
        world.cordoned_s.clear()
        for node in world.nodes.values():
            world.network.dark.discard(node.name)
            node.is_wanted, node.ahead_ms = True, 0
            if node.process is not None:
                world.loop.thaw(node.process)
        for node, path in list(settled.badly_formatted(world)):
            world.kill(node)
            world.format(node, [path])

    async def _recover(self) -> None:
        """Do what operators do, until everything is as it should be."""
        world = self._world
        begun = world.loop.time()
        while True:
            for node in world.nodes.values():
                if not node.is_up:
                    world.boot(node)
            if world.has_quorum and world.loop.time() > begun + LED_S:
                settled.check_led(world)
            for node in world.brokers:
                await self._revive(node)
            for node in settled.cordoned(world):
                # Each is asked itself, and may not have been up before.
                await self._admin.configure(BROKER, str(node.id), faults.CORDONED, None)
            for partition in list(settled.lost_before_written(world)):
                await self._admin.elect(partition, UNCLEAN)
            # Nobody can be asked before one is active, and what has ended is started meanwhile.
            is_led = world.has_quorum and any(map(world.quorum.is_active, world.controllers))
            if world.seen["event change_voters"] and is_led:
                await until_voters(world, {*world.controllers})
            wrong = settled.unsettled(world)
            if not wrong:
                return
            if world.loop.time() > begun + HEAL_S:
                world.report(*wrong[0])
                return
            await asyncio.sleep(0.3)

    async def _revive(self, node: Any) -> None:
        """Bring directories back that are offline."""
        disks, registered = getattr(node.server, "_disks", None), self._world.registration(node)
        if not node.is_up or disks is None or registered is None or not registered.active:
            return
        for log_dir in disks.log_dirs.all:
            if not log_dir.is_online:
                await self._admin.revive(node.id, log_dir.path)

    async def _read_all(self) -> None:
        """Read every partition to its end, as a new consumer."""
        world = self._world
        reader = Consumer(world, "reader")
        await world.until(reader.refresh, 10.0)
        for partition in sorted({*reader.leaders} - world.tainted):
            at_end = functools.partial(reader.read_some, partition)
            wrong = "L2", partition, "it cannot be read to its end"
            await self._must(at_end, 15.0, *wrong, pause_s=0.02)
        reader.close()
        if not await world.until(lambda: not settled.lagging(world), 15.0):
            world.report("L3", settled.lagging(world)[0], "a follower does not catch up")

    async def _fetch_all(self) -> None:
        """Ask every group for what is committed."""
        for group in self._plan.options.groups:
            coordinated = self._groups.coordinated_by(group.name)
            if coordinated is not None and coordinated[0] in self._world.heirless:
                continue
            reader = Member(self._groups, group, f"{group.name}-reader")
            await self._must(reader.fetch, 15.0, "L5", group.name, "nobody tells what is committed")
            reader.close()

    async def _read_committed(self) -> None:
        """Read every partition as a reader of committed records, when all transactions ended."""
        world, ledger, plans = self._world, self._transactions, self._plan.options.transactions
        if not plans:
            return
        is_over = await world.until(lambda: not transactions.held_up(world, ledger), ENDED_S)
        if not is_over and not ledger.is_lost:
            first = transactions.held_up(world, ledger)[0]
            world.report("I11", first, "a transaction is open for ever")
        reader = CommittedConsumer(ledger, "committed-reader")
        await world.until(reader.refresh, 10.0)
        for partition in sorted(each for each in reader.leaders if not world.is_void(each)):
            at_end = functools.partial(reader.read_some, partition)
            wrong = "L2", partition, "it cannot be read to its end"
            await self._must(at_end, 15.0, *wrong, pause_s=0.02)
            # Also where nothing is seen.
            reader.seen[partition] |= set()
        reader.close()
        ledger.check(reader.seen)
        for plan in plans:
            coordinated = self._groups.coordinated_by(f"group-of-{plan.name}")
            is_lost = coordinated is None or coordinated[0] in world.heirless
            # A transaction that is pending stays so where its own coordinator has lost it.
            if is_lost or ledger.is_void(plan.name):
                continue
            client = Transactor(ledger, plan, f"{plan.name}-reader")
            await self._must(client.fetch, 15.0, "L5", plan.name, "nobody tells its offset")
            client.close()

    def _check_logs(self) -> None:
        settled.check_logs(self._world, self._transactions)

    async def _restart_all(self, stop: Any) -> None:
        """Stop everything, start it again, and compare."""
        world = self._world
        # A request that an operator asked for just before all was healed may be carried out after
        # it.
        await world.run_as("client-undo", self._recover())
        before = settled.snapshot_of(world)
        world.is_settled = False
        await stop()
        await self._boot_all()
        await world.run_as("client-recover", self._recover())
        await world.run_as("client-groups", self._fetch_all())
        await world.run_as("client-committed", self._read_committed())
        settled.check_same(world, before, settled.snapshot_of(world))
        self._check_logs()

    async def _stop_all(self) -> None:
        world = self._world
        for nodes in (world.brokers, world.controllers):
            for node in nodes:
                world.ask_to_stop(node)
            await world.until_down(nodes, 40.0)
            for node in nodes:
                if node.is_up:
                    world.report("L5", node.name, "it does not stop within 40 s")
                elif node.ended:
                    world.report("S12", node.name, f"a clean stop ended by {node.ended}")

    async def _kill_all(self) -> None:
        for node in self._world.nodes.values():
            self._world.kill(node)
        await asyncio.sleep(0.5)
