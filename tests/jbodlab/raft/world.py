"""A quorum of cores over a network and disks that the test plays: one step is one small event.

Messages are lost, doubled and delivered in any order. Nodes are killed, or lose their power and
with it what they had not synced. The thread of a log does its jobs one by one, when a step says so.
`World.play` takes the name of a step and a number that chooses what the step does it to, so a
history is a list of pairs, and the same list is the same history. Every step is followed by the
checks, which look at all disks at once; `BrokenRuleError` names the rule and what was seen.

    R1  one leader in an epoch
    R2  a replica votes for one candidate in an epoch, whatever happens to it
    R3  two logs with the same record at an offset are the same up to there
    R4  what was committed is in the log of each later leader
    R6  no high watermark falls, neither at a node nor from leader to leader
    R7  what is committed is on the disks of a majority of the last voter set
    R8  no node cuts what is committed
    R12 a log that is cut takes its voter sets back
    R13 the epoch of a node never falls
    R14 nothing leaves before what it depends on is on the disk
    R15 a node that is no voter never votes, leads or counts
    R16 neither does a voter whose disk was emptied, until it is whole
    RL1, RL2  with a network that works a leader is elected, and all logs become the same
    RL4 and nobody stands for election while the network works
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
    KRaftVotersRecord,
)
from jbodlab.raft.core import RaftCore
from jbodlab.raft.events import (
    DeadlineReached,
    Event,
    LeaderSuspected,
    NodeShutdownBegun,
    RecordsProposed,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotsChanged,
    Synced,
)
from jbodlab.raft.instructions import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    AppendControl,
    AppendFetched,
    AppendProposed,
    BeginEpoch,
    BeginSnapshot,
    BootstrapServer,
    ElectionState,
    InstallSnapshot,
    Instruction,
    ReportLostRecords,
    Respond,
    SendRequest,
    TellConfirmed,
    TellEstablished,
    TellHandedOver,
    TellLeader,
    TellWhole,
    TellWithheld,
    TruncateLog,
    WriteQuorumState,
    WriteSnapshotPiece,
)
from jbodlab.raft.log_view import LogView, OffsetAndEpoch
from jbodlab.raft.messages import (
    AddVoterRequest,
    Batch,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotResponse,
    QuorumFetchAnswer,
    QuorumFetchResponse,
    QuorumResponse,
    RemoveVoterRequest,
    Request,
    VersionsRequest,
    VersionsResponse,
    VoterChangeAnswer,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import Leader, Resigned
from jbodlab.raft.voters import VERSIONS, History, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset

SNAPSHOT_SIZE = 3
PIECE = 2


class BrokenRuleError(AssertionError):
    """A rule does not hold."""

    def __init__(self, rule: str, seen: object) -> None:
        super().__init__(f"{rule}: {seen}")
        self.rule = rule


def key_of(node: int) -> ReplicaKey:
    return ReplicaKey(BrokerId(node), DirectoryId(UUID(int=1000 + node)))


def voter(node: int) -> KRaftVoter:
    return KRaftVoter(
        voter_id=node,
        voter_directory_id=key_of(node).directory_id,
        endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host=f"host{node}", port=9093),),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )


class Entry(msgspec.Struct, frozen=True):
    """A batch in a log, with a number that stands for all the bytes up to its end."""

    batch: Batch
    chain: int


class Files:
    """A log on a disk: entries, and the snapshots, of which the oldest stands at the start."""

    def __init__(self) -> None:
        self.start = OffsetAndEpoch(Offset(0), LeaderEpoch(0))
        self.start_chain = 0
        self.entries: list[Entry] = []
        self.snapshots: dict[OffsetAndEpoch, int] = {}

    @property
    def end(self) -> int:
        return self.entries[-1].batch.end_offset if self.entries else self.start.offset

    def append(self, batches: tuple[Batch, ...]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end, (batch, self.end)
            self.entries.append(Entry(batch, hash((self.chain, batch.data))))

    @property
    def chain(self) -> int:
        return self.entries[-1].chain if self.entries else self.start_chain

    def chain_at(self, offset: int) -> int | None:
        """The number of all bytes below an offset; None: it is no end of a batch here."""
        if offset == self.start.offset:
            return self.start_chain
        for entry in reversed(self.entries):
            if entry.batch.end_offset == offset:
                return entry.chain
        return None

    def truncate(self, end: int) -> None:
        while self.entries and self.entries[-1].batch.end_offset > end:
            self.entries.pop()
        assert self.end == end, "a truncation in the middle of a batch"

    def restart(self, snapshot: OffsetAndEpoch, chain: int) -> None:
        self.start, self.start_chain, self.entries = snapshot, chain, []
        self.snapshots = {snapshot: chain}

    def clean(self, snapshot: OffsetAndEpoch) -> None:
        chain = self.chain_at(snapshot.offset)
        assert chain is not None
        self.entries = [
            entry for entry in self.entries if entry.batch.base_offset >= snapshot.offset
        ]
        self.start, self.start_chain = snapshot, chain
        self.snapshots = {snapshot: chain}

    def copy(self) -> Files:
        copied = Files()
        copied.start, copied.start_chain = self.start, self.start_chain
        copied.entries, copied.snapshots = list(self.entries), dict(self.snapshots)
        return copied

    def epochs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for entry in self.entries:
            if not found or entry.batch.epoch > found[-1][0]:
                found.append((entry.batch.epoch, entry.batch.base_offset))
        return found


class Node:
    """A node: its process, which may be down, and its disk."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.key = world, number, key_of(number)
        self.life = 0
        self.core: RaftCore | None = None
        self.durable = Files()
        """The log that a loss of power leaves."""
        self.written = Files()
        """The log that a kill of the process leaves."""
        self.ordered = Files()
        """The log as the core knows it."""
        self.stored: ElectionState | None = None
        self.jobs: deque[Callable[[], None]] = deque()
        self.events: deque[Event] = deque()
        self.waits = False
        """Whether a write of quorum-state is under way, so that all else waits."""
        self.rest: deque[Instruction] = deque()
        self.asked: dict[int, tuple[tuple[int, int, int], Request]] = {}
        """Asker (node, life, id there) and request, by the id of the request here."""
        self.pieces: dict[OffsetAndEpoch, int] = {}
        self.high_watermark = -1
        self.proposed: tuple[Batch, ...] = ()
        self.formatted_with = world.voters

    # The process.

    @property
    def is_whole(self) -> bool:
        return self.stored is not None if self.core is None else self.core.is_whole

    def start(self) -> None:
        self.life += 1
        self.durable = self.written.copy()
        self.ordered = self.written.copy()
        self.high_watermark = -1
        log = LogView(
            start_offset=self.ordered.start.offset,
            end_offset=self.ordered.end,
            epochs=self.ordered.epochs(),
            snapshots=sorted(self.ordered.snapshots),
            voters=self.voters_on_disk(),
            kraft_versions=History(1),
        )
        self.core, instructions = RaftCore.start(
            me=self.key,
            endpoints=voter(self.number).endpoints,
            settings=self.world.settings,
            log=log,
            stored=self.stored,
            bootstrap_servers=len(self.world.nodes) - 1,
            now_ms=self.world.now_ms,
            chance=self.world.draw(),
        )
        self.carry_out(instructions)

    def voters_on_disk(self) -> History[VoterSet]:
        """The voter sets of the log and of the snapshot that it begins with."""
        history = History(self.formatted_with)
        start = self.ordered.start
        if start in self.world.snapshot_voters:
            history.restart(start.offset - 1, self.world.snapshot_voters[start])
        for entry in self.ordered.entries:
            for offset, record in entry.batch.controls:
                if isinstance(record, KRaftVotersRecord):
                    history.add(offset, VoterSet.of(record.voters))
        return history

    def stop(self, *, has_power: bool, kept: int = 0) -> None:
        """End the process; without power only synced batches are sure to stay."""
        if not has_power:
            tail = self.written.entries[len(self.durable.entries) :]
            kept = min(kept, len(tail))
            files = self.durable.copy()
            if self.written.entries[: len(files.entries)] == files.entries:
                files.append(tuple(entry.batch for entry in tail[:kept]))
            self.written = files
        self.core = None
        self.jobs.clear()
        self.events.clear()
        self.rest.clear()
        self.asked.clear()
        self.pieces.clear()
        self.waits = False

    def handle(self, event: Event) -> None:
        if self.core is None:
            return
        if self.waits:
            self.events.append(event)
            return
        if isinstance(event, RecordsProposed) and (
            not self.core.leads_in(event.epoch) or self.core.end_offset != event.base_offset
        ):
            return
        instructions = self.core.handle(event, now_ms=self.world.now_ms, chance=self.world.draw())
        self.carry_out(instructions)

    def carry_out(self, instructions: list[Instruction]) -> None:
        self.rest.extend(instructions)
        self.go_on()

    def go_on(self) -> None:
        while not self.waits:
            if self.rest:
                self.do(self.rest.popleft())
            elif self.events:
                self.handle(self.events.popleft())
            else:
                return

    def do(self, instruction: Instruction) -> None:
        world = self.world
        match instruction:
            case WriteQuorumState():
                self.waits = True
                self.jobs.append(lambda: self.write_state(instruction.state))
            case SendRequest():
                world.check_leaves(self, instruction.request)
                world.send(self, instruction)
            case Respond():
                self.respond(instruction)
            case BeginEpoch():
                world.leads(self, instruction.epoch)
            case AppendControl():
                base = instruction.base_offset
                if isinstance(instruction.records[-1], KRaftVotersRecord):
                    world.seen["voters changed"] += 1
                data = f"{self.number} {instruction.epoch} {base} {instruction.records}".encode()
                batch = Batch(
                    base_offset=base,
                    end_offset=Offset(base + len(instruction.records)),
                    epoch=instruction.epoch,
                    data=data,
                    controls=tuple(
                        (Offset(base + index), record)
                        for index, record in enumerate(instruction.records)
                    ),
                )
                self.append(instruction.number, (batch,))
            case AppendProposed():
                self.append(instruction.number, self.proposed)
            case AppendFetched():
                self.append(instruction.number, instruction.batches)
            case TruncateLog():
                world.check_cut(self, instruction.end_offset)
                world.seen["truncation"] += 1
                self.ordered.truncate(instruction.end_offset)
                assert self.core is not None
                if self.voters_on_disk().last != self.core.voters:
                    raise BrokenRuleError("R12", f"{self.number} keeps {self.core.voters.ids}")
                self.jobs.append(lambda: self.cut(instruction.end_offset))
            case BeginSnapshot():
                self.pieces[instruction.snapshot] = 0
            case WriteSnapshotPiece():
                assert self.pieces[instruction.snapshot] == instruction.position
                self.pieces[instruction.snapshot] += len(instruction.data)
            case AbandonSnapshot():
                del self.pieces[instruction.snapshot]
            case InstallSnapshot():
                assert self.pieces.pop(instruction.snapshot) == SNAPSHOT_SIZE
                self.waits = True
                self.jobs.append(lambda: self.install(instruction.snapshot))
            case AdvanceHighWatermark():
                world.committed(self, instruction.high_watermark)
            case ReportLostRecords():
                world.seen["lost records reported"] += 1
            case (
                TellLeader()
                | TellEstablished()
                | TellConfirmed()
                | TellWithheld()
                | TellWhole()
                | TellHandedOver()
            ):
                world.seen[type(instruction).__name__] += 1

    def respond(self, instruction: Respond) -> None:
        assert instruction.request_id in self.asked, "a request is answered twice"
        asked, request = self.asked.pop(instruction.request_id)
        answer = instruction.answer
        response: QuorumResponse
        match answer:
            case QuorumFetchAnswer():
                response = self.read(answer)
            case FetchSnapshotAnswer():
                response = self.read_snapshot(answer)
            case VoterChangeAnswer():
                self.world.seen[f"change {answer.error.name}"] += 1
                return
            case _:
                response = answer
        self.world.check_answer_leaves(self, request, response)
        self.world.post(self.number, asked, ResponseReceived(asked[2], response))

    def read(self, answer: QuorumFetchAnswer) -> QuorumFetchResponse:
        batches: tuple[Batch, ...] = ()
        if answer.read is not None:
            first, end, _ = answer.read
            assert end <= self.ordered.end
            batches = tuple(
                entry.batch
                for entry in self.ordered.entries
                if first <= entry.batch.base_offset < end
            )[:4]
            assert batches
            assert batches[0].base_offset == first
        return QuorumFetchResponse(
            error=answer.error,
            epoch=answer.epoch,
            leader_id=answer.leader_id,
            leader_endpoints=answer.leader_endpoints,
            high_watermark=answer.high_watermark,
            diverging=answer.diverging,
            snapshot=answer.snapshot,
            batches=batches,
        )

    def read_snapshot(self, answer: FetchSnapshotAnswer) -> FetchSnapshotResponse:
        snapshot, position, data = None, 0, b""
        if answer.read is not None:
            snapshot, position, _ = answer.read
            data = b"xxx"[position : position + PIECE]
        return FetchSnapshotResponse(
            error=answer.error,
            epoch=answer.epoch,
            leader_id=answer.leader_id,
            leader_endpoints=answer.leader_endpoints,
            snapshot=snapshot,
            size=SNAPSHOT_SIZE,
            position=position,
            data=data,
        )

    # The disk.

    def append(self, number: int, batches: tuple[Batch, ...]) -> None:
        self.ordered.append(batches)
        self.world.check_match(self, self.ordered, len(batches))
        self.jobs.append(lambda: self.write(batches))
        self.jobs.append(lambda: self.sync(number))

    def write(self, batches: tuple[Batch, ...]) -> None:
        self.written.append(batches)

    def sync(self, number: int) -> None:
        self.durable = self.written.copy()
        self.handle(Synced(number))

    def cut(self, end: int) -> None:
        self.written.truncate(end)
        self.durable.truncate(min(end, self.durable.end))

    def write_state(self, state: ElectionState) -> None:
        if self.stored is not None and state.epoch < self.stored.epoch:
            raise BrokenRuleError("R13", f"{self.number} goes back from {self.stored} to {state}")
        self.stored = state
        self.waits = False
        self.go_on()

    def install(self, snapshot: OffsetAndEpoch) -> None:
        chain = self.world.snapshots[snapshot]
        for files in (self.ordered, self.written, self.durable):
            files.restart(snapshot, chain)
        self.world.seen["snapshot installed"] += 1
        self.waits = False
        self.events.appendleft(SnapshotInstalled(snapshot, self.world.snapshot_voters[snapshot], 1))
        self.go_on()

    def work(self, jobs: int = 1) -> None:
        for _ in range(min(jobs, len(self.jobs))):
            if self.core is None:
                return
            self.jobs.popleft()()


class World:
    """All nodes, and what is on its way between them.

    Args:
        voters: Their number; ids begin at 1.
        observers: Further nodes.
        settings: Of all nodes.
    """

    settings = RaftSettings()

    def __init__(self, voters: int, observers: int = 0, settings: RaftSettings = settings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.draw: Callable[[], float] = lambda: 0.0
        self.voters = VoterSet.of(voter(number) for number in range(1, voters + 1))
        self.nodes: dict[int, Node] = {}
        for number in range(1, voters + observers + 1):
            self.nodes[number] = Node(self, number)
        self.messages: list[tuple[int, int, int, Event, tuple[int, int, int] | None]] = []
        """Sender, receiver, its life, what it gets, and who asked if it is a request."""
        self.cuts: set[tuple[int, int]] = set()
        """Sender and receiver of messages that are lost."""
        self.requests = 0
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.records: dict[tuple[int, int], int] = {}
        self.committed_end = 0
        self.committed_chain = {0: 0}
        self.committed_epoch = 0
        self.snapshots: dict[OffsetAndEpoch, int] = {}
        self.snapshot_voters: dict[OffsetAndEpoch, VoterSet] = {}
        self.seen: Counter[str] = Counter()
        for node in self.nodes.values():
            node.start()

    # Steps.

    def play(self, step: str, pick: int) -> None:
        """Take a step; one that is not possible now does nothing."""
        self.draw = lambda: pick % 101 / 101
        STEPS[step](self, pick)

    def _one(self, nodes: list[Node], pick: int) -> Node | None:
        return nodes[pick % len(nodes)] if nodes else None

    def _up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.core is not None]

    def deliver(self, pick: int) -> None:
        if self.messages:
            self.arrive(self.messages.pop(pick % len(self.messages)))

    def deliver_first(self, pick: int) -> None:
        if self.messages:
            self.arrive(self.messages.pop(0))

    def double(self, pick: int) -> None:
        if self.messages:
            self.messages.append(self.messages[pick % len(self.messages)])

    def lose(self, pick: int) -> None:
        if self.messages:
            self.messages.pop(pick % len(self.messages))

    def work(self, pick: int) -> None:
        node = self._one([node for node in self._up() if node.jobs], pick)
        if node is not None:
            node.work(1 + pick % 3)

    def tick(self, pick: int) -> None:
        due = [node for node in self._up() if self.is_due(node)]
        node = self._one(due, pick)
        if node is not None:
            node.handle(DeadlineReached())

    def is_due(self, node: Node) -> bool:
        assert node.core is not None
        deadline = node.core.next_deadline_ms
        return deadline is not None and deadline <= self.now_ms

    def wait(self, pick: int) -> None:
        """Let time pass, up to the next deadline or less."""
        deadlines = [
            node.core.next_deadline_ms
            for node in self._up()
            if node.core is not None and node.core.next_deadline_ms is not None
        ]
        step = min(deadlines, default=self.now_ms) - self.now_ms
        self.now_ms += max(0, min(step, 1 + pick % 400))

    def propose(self, pick: int) -> None:
        leaders = [node for node in self._up() if isinstance(_state(node), Leader)]
        node = self._one(leaders, pick)
        if node is None or node.waits or node.core is None:
            return
        base = node.core.end_offset
        epoch = node.core.state.epoch
        batches = []
        for count in range(1 + pick % 2):
            end = Offset(base + 1 + (pick + count) % 3)
            self.requests += 1
            data = f"{self.requests}".encode()
            batches.append(Batch(base_offset=base, end_offset=end, epoch=epoch, data=data))
            base = end
        node.proposed = tuple(batches)
        node.handle(RecordsProposed(epoch, batches[0].base_offset, base))

    def kill(self, pick: int) -> None:
        node = self._one(self._up(), pick)
        if node is not None:
            node.stop(has_power=True)

    def power_loss(self, pick: int) -> None:
        node = self._one(self._up(), pick)
        if node is not None:
            node.stop(has_power=False, kept=pick % 3)

    def empty(self, pick: int) -> None:
        """Replace the disk of a voter, if all others are whole."""
        numbers = list(self.voters.ids)
        node = self.nodes[numbers[pick % len(numbers)]]
        others = [self.nodes[number] for number in numbers if number != node.number]
        is_harmless = len(numbers) > 2 and all(other.is_whole for other in others)
        if not is_harmless or self.seen["voters changed"]:
            return
        if node.core is not None:
            node.stop(has_power=True)
        node.written, node.stored = Files(), None
        # A message on its way to the process that is gone does not reach the next one.
        self.messages = [each for each in self.messages if each[1] != node.number]
        self.votes = {key: to for key, to in self.votes.items() if key[0] != node.key}
        self.seen["emptied"] += 1
        node.start()

    def boot(self, pick: int) -> None:
        down = [node for node in self.nodes.values() if node.core is None]
        node = self._one(down, pick)
        if node is not None:
            node.start()

    def cut(self, pick: int) -> None:
        numbers = list(self.nodes)
        one, other = numbers[pick % len(numbers)], numbers[pick // 7 % len(numbers)]
        if one != other:
            self.part(one, other, both_ways=pick % 3 > 0)

    def part(self, one: int, other: int, *, both_ways: bool = True) -> None:
        """Lose all messages from one node to another."""
        self.cuts.add((one, other))
        if both_ways:
            self.cuts.add((other, one))

    def heal(self, pick: int) -> None:
        self.cuts.clear()

    def resign(self, pick: int) -> None:
        node = self._one([node for node in self._up() if isinstance(_state(node), Leader)], pick)
        if node is not None:
            node.handle(ResignRequested())

    def shut_down(self, pick: int) -> None:
        node = self._one(self._up(), pick)
        if node is not None:
            node.handle(NodeShutdownBegun())

    def suspect(self, pick: int) -> None:
        node = self._one(self._up(), pick)
        if node is not None:
            node.handle(LeaderSuspected())

    def clean(self, pick: int) -> None:
        """Write a snapshot of what a node knows to be committed, and remove the log below it."""
        node = self._one([node for node in self._up() if node.high_watermark > 0], pick)
        if node is None or node.waits or node.jobs:
            return
        ends = [
            entry
            for entry in node.ordered.entries
            if node.ordered.start.offset < entry.batch.end_offset <= node.high_watermark
        ]
        if not ends:
            return
        last = ends[pick % len(ends)]
        snapshot = OffsetAndEpoch(last.batch.end_offset, last.batch.epoch)
        self.snapshots[snapshot] = last.chain
        assert node.core is not None
        self.snapshot_voters[snapshot] = node.core.log.voters.at(snapshot.offset - 1)
        for files in (node.ordered, node.written, node.durable):
            files.clean(snapshot)
        node.handle(SnapshotsChanged((snapshot,), snapshot.offset))

    def change_voters(self, pick: int) -> None:
        """Ask a leader for one voter more or less."""
        node = self._one([node for node in self._up() if isinstance(_state(node), Leader)], pick)
        if node is None or node.core is None or self.seen["emptied"]:
            return
        number = list(self.nodes)[pick // 7 % len(self.nodes)]
        request: Request = RemoveVoterRequest(voter=key_of(number))
        if number not in node.core.voters.ids:
            request = AddVoterRequest(
                voter=key_of(number), endpoints=voter(number).endpoints, timeout_ms=5_000
            )
        self.ask(node, request)

    def ask(self, node: Node, request: Request) -> None:
        """Ask a node as an operator does."""
        self.requests += 1
        node.asked[self.requests] = (node.number, node.life, 0), request
        node.handle(RequestReceived(self.requests, request))

    # The network.

    def send(self, node: Node, sent: SendRequest) -> None:
        if isinstance(sent.destination, BootstrapServer):
            others = [number for number in self.nodes if number != node.number]
            target = others[sent.destination.place]
        else:
            target = sent.destination
        asked = (node.number, node.life, sent.request_id)
        self.requests += 1
        event = RequestReceived(self.requests, sent.request)
        self.messages.append((node.number, target, -1, event, asked))

    def post(self, sender: int, asked: tuple[int, int, int], event: Event) -> None:
        self.messages.append((sender, asked[0], asked[1], event, None))

    def arrive(self, message: tuple[int, int, int, Event, tuple[int, int, int] | None]) -> None:
        sender, number, life, event, asked = message
        node = self.nodes[number]
        if (sender, number) in self.cuts:
            return
        if isinstance(event, RequestReceived):
            assert asked is not None
            if node.core is None:
                self.post(number, asked, RequestFailed(asked[2], ErrorCode.BROKER_NOT_AVAILABLE))
                return
            if isinstance(event.request, VersionsRequest):
                told = VersionsResponse(versions=VERSIONS)
                self.post(number, asked, ResponseReceived(asked[2], told))
                return
            # A request that was doubled has an id of its own.
            self.requests += 1
            event = RequestReceived(self.requests, event.request)
            node.asked[event.request_id] = asked, event.request
            node.handle(event)
        elif node.life == life:
            node.handle(event)

    # Checks.

    def leads(self, node: Node, epoch: LeaderEpoch) -> None:
        if self.leaders.setdefault(epoch, node.number) != node.number:
            raise BrokenRuleError(
                "R1", f"{self.leaders[epoch]} and {node.number} lead in epoch {epoch}"
            )
        assert node.core is not None
        if not node.core.voters.has(node.key):
            raise BrokenRuleError("R15", f"{node.number} leads and is no voter")
        chain = node.ordered.chain_at(self.committed_end)
        if chain != self.committed_chain[self.committed_end] and not (
            node.ordered.start.offset > self.committed_end
        ):
            raise BrokenRuleError(
                "R4", f"leader {node.number} of {epoch} lacks {self.committed_end}"
            )
        self.seen["leader"] += 1

    def check_match(self, node: Node, files: Files, count: int) -> None:
        for entry in files.entries[-count:]:
            place = (entry.batch.end_offset, entry.batch.epoch)
            if self.records.setdefault(place, entry.chain) != entry.chain:
                raise BrokenRuleError("R3", f"the log of {node.number} differs up to {place}")

    def committed(self, node: Node, high_watermark: int) -> None:
        if high_watermark < node.high_watermark:
            raise BrokenRuleError("R6", f"{node.number}: {node.high_watermark} to {high_watermark}")
        node.high_watermark = high_watermark
        chain = node.ordered.chain_at(high_watermark)
        known = self.committed_chain.get(high_watermark)
        state = _state(node)
        if isinstance(state, Leader) and state.epoch >= self.committed_epoch:
            if high_watermark < self.committed_end:
                raise BrokenRuleError("R6", f"leader {node.number} tells {high_watermark} again")
            self.committed_epoch = state.epoch
        if chain is not None and known is not None and chain != known:
            raise BrokenRuleError(
                "R4", f"{node.number} commits other records up to {high_watermark}"
            )
        if high_watermark <= self.committed_end:
            return
        # A leader that was removed resigns as soon as that is committed.
        if not isinstance(state, Leader | Resigned):
            raise BrokenRuleError(
                "R7", f"{node.number} knows of {high_watermark} before its leader"
            )
        assert chain is not None, "a high watermark in the middle of a batch"
        assert node.core is not None
        voters = node.core.voters
        copies = [
            number
            for number in voters.ids
            if self.nodes[number].durable.chain_at(high_watermark) == chain
            or self.nodes[number].durable.start.offset > high_watermark
        ]
        # A copy that was acknowledged may have been lost since with its disk.
        lost = sum(not self.nodes[number].is_whole for number in voters.ids)
        if len(copies) + lost < voters.majority:
            raise BrokenRuleError("R7", f"{high_watermark} is only on the disks of {copies}")
        self.committed_end = high_watermark
        self.committed_chain[high_watermark] = chain
        self.seen["commit"] += 1

    def check_cut(self, node: Node, end: int) -> None:
        common = [
            offset
            for offset, chain in self.committed_chain.items()
            if node.ordered.chain_at(offset) == chain
        ]
        if end < max(common, default=0):
            raise BrokenRuleError("R8", f"{node.number} cuts {max(common)} at {end}")

    def check_leaves(self, node: Node, request: Request) -> None:
        stored = node.stored
        match request:
            case VoteRequest(is_pre_vote=False):
                self.vote(node.key, request.epoch, request.candidate)
                if stored is None or (stored.epoch, stored.voted) != (request.epoch, node.key):
                    raise BrokenRuleError(
                        "R14", f"{node.number} asks for votes with {stored} on its disk"
                    )
                self.on_disk(node, request.end)
            case BeginQuorumEpochRequest():
                if stored is None or (stored.epoch, stored.leader_id) != (
                    request.epoch,
                    node.number,
                ):
                    raise BrokenRuleError("R14", f"{node.number} begins with {stored} on its disk")
            case FetchRequest():
                self.on_disk(node, request.end)

    def on_disk(self, node: Node, end: OffsetAndEpoch) -> None:
        if node.durable.end < end.offset or node.durable.chain_at(
            end.offset
        ) != node.ordered.chain_at(end.offset):
            raise BrokenRuleError(
                "R14", f"{node.number} tells of {end}, has synced {node.durable.end}"
            )

    def check_answer_leaves(self, node: Node, request: Request, response: QuorumResponse) -> None:
        stored = node.stored
        assert node.core is not None
        if not node.core.is_whole:
            if isinstance(response, VoteResponse) and response.is_granted:
                raise BrokenRuleError("R16", f"{node.number} grants a vote and is not whole")
            return
        if stored is None or stored.epoch < response.epoch:
            raise BrokenRuleError("R14", f"{node.number} answers in {response.epoch}, has {stored}")
        if not isinstance(response, VoteResponse) or not isinstance(request, VoteRequest):
            return
        if response.is_granted and not request.is_pre_vote:
            self.seen["vote granted"] += 1
            self.vote(node.key, request.epoch, request.candidate)
            if (stored.epoch, stored.voted) != (request.epoch, request.candidate):
                raise BrokenRuleError(
                    "R14", f"{node.number} grants {request} with {stored} on its disk"
                )

    def vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        if self.votes.setdefault((voter, epoch), candidate) != candidate:
            raise BrokenRuleError("R2", f"{voter} votes for {candidate} in {epoch}, too")

    # Healing.

    def run(self, duration_ms: int, *, latency_ms: int = 1) -> None:
        """Let everything work for a time: messages in order, disks at once."""
        end = self.now_ms + duration_ms
        self.draw = Random(self.now_ms).random
        while self.now_ms < end:
            for node in self._up():
                node.work(len(node.jobs))
            arriving, self.messages = self.messages, []
            for message in arriving:
                self.arrive(message)
            for node in self._up():
                node.work(len(node.jobs))
                if self.is_due(node):
                    node.handle(DeadlineReached())
            if self.messages:
                self.now_ms += latency_ms
            elif not any(node.jobs for node in self._up()):
                before = self.now_ms
                self.wait(399)
                self.now_ms = max(self.now_ms, before + (not self._any_due()))

    def _any_due(self) -> bool:
        return any(self.is_due(node) for node in self._up())

    def settle(self) -> None:
        """Heal all, and check that the quorum recovers and stays as it is."""
        self.cuts.clear()
        self.messages.clear()
        for node in self.nodes.values():
            if node.core is not None and node.core._node.is_shutting_down:
                node.stop(has_power=True)
            if node.core is None:
                node.start()
        self.run(15_000)
        leaders = [node for node in self.nodes.values() if isinstance(_state(node), Leader)]
        if len(leaders) != 1:
            raise BrokenRuleError("RL1", f"leaders {[node.number for node in leaders]} at the end")
        self.play("propose", 1)
        self.run(3_000)
        ends = {node.ordered.end for node in self.nodes.values()}
        marks = {node.high_watermark for node in self.nodes.values()}
        if len(ends) != 1 or marks != ends:
            raise BrokenRuleError("RL2", f"ends {ends}, high watermarks {marks}")
        epoch = _state(leaders[0]).epoch
        self.run(60_000, latency_ms=20)
        if {_state(node).epoch for node in self.nodes.values()} != {epoch}:
            raise BrokenRuleError("RL4", f"an election after {epoch} for no reason")


def _state(node: Node) -> Any:
    return None if node.core is None else node.core.state


STEPS: dict[str, Callable[[World, int], None]] = {
    "deliver": World.deliver,
    "deliver_first": World.deliver_first,
    "work": World.work,
    "tick": World.tick,
    "wait": World.wait,
    "propose": World.propose,
    "double": World.double,
    "lose": World.lose,
    "kill": World.kill,
    "power_loss": World.power_loss,
    "empty": World.empty,
    "boot": World.boot,
    "cut": World.cut,
    "heal": World.heal,
    "resign": World.resign,
    "shut_down": World.shut_down,
    "suspect": World.suspect,
    "clean": World.clean,
    "change_voters": World.change_voters,
}

WEIGHTS = {
    "deliver": 20,
    "deliver_first": 40,
    "work": 60,
    "tick": 20,
    "wait": 10,
    "propose": 16,
    "double": 2,
    "lose": 2,
    "kill": 0.3,
    "power_loss": 0.5,
    "empty": 0.2,
    "boot": 3,
    "cut": 0.3,
    "heal": 1,
    "resign": 0.15,
    "shut_down": 0.05,
    "suspect": 0.3,
    "clean": 0.5,
    "change_voters": 1.5,
}
"""How often each step is drawn in a history that is given by a seed."""


FAULTS = (
    "double",
    "lose",
    "kill",
    "power_loss",
    "empty",
    "cut",
    "resign",
    "shut_down",
    "suspect",
    "clean",
    "change_voters",
)


def play_seed(seed: int, steps: int, *, voters: int, observers: int = 0) -> World:
    """Play a history that one number stands for, and let it settle.

    Each history has some of the faults only, and some of them often.
    """
    random = Random(seed)
    world = World(voters, observers)
    often = {fault: random.choice((0, 1, 1, 4)) for fault in FAULTS}
    weights = [weight * often.get(step, 1) for step, weight in WEIGHTS.items()]
    for step in random.choices(list(WEIGHTS), weights, k=steps):
        world.play(step, random.randrange(1_000_000))
    world.settle()
    return world
