"""Checkers of several controllers, and of the quorum that they make; attached as those of `taps`.

Batches are known by their first offsets and epochs. A log has a batch in common with another one
where both have it behind the same batch; what is committed is told by whichever controller is the
first to know. Of disks counts what a loss of power would leave at that moment.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextvars import Context
from itertools import pairwise
from typing import Any

from controller.lead.active_controller import ActiveController
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from controller.quorum.driver import RaftDriver
from controller.quorum.raft_files import RaftFiles
from controller.quorum.raft_log import RaftLog
from jbodlab.controller_api.requests import AllocateProducerIdsResponse
from jbodlab.metadata.log import quorum_state
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.log.snapshots import parse_name
from jbodlab.raft import instructions
from jbodlab.raft.events import LeaderSuspected, RequestReceived
from jbodlab.raft.messages import FetchRequest, VoterChangeRequest, VoteRequest, VoteResponse
from jbodlab.raft.states import Leader
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory.names import LOG_SUFFIX, METADATA_DIR_NAME
from tests.simulation.disk import File, Folder
from tests.simulation.loop import PROCESS, Process
from tests.simulation.taps import after, around, before
from tests.simulation.world import Node, World

EPOCH_AT = slice(12, 16)
"""Of a batch's header."""
ANSWER_S = 5.0
"""For which an answer may be on its way to a controller, whatever has happened since."""
WAY = 10
"""Records that may be on their way to a controller that has all."""
Batch = tuple[int, int]
"""First offset and epoch of a batch."""


class _Durable:
    """The part of each controller's directory that a loss of power leaves.

    Of a log only what is new is read.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[File, tuple[int, int]] = {}
        """Of segments: how many bytes were read, and the offset behind them."""
        self._states: dict[int, tuple[File, dict[str, Any]]] = {}

    def cut(self, node: Node) -> None:
        """Read the log of a controller anew: it has been cut."""
        folder = self._folder(node)
        for file in () if folder is None else folder.durable.values():
            self._read.pop(file, None)  # type: ignore[arg-type]

    def _folder(self, node: Node) -> Folder | None:
        found = self._world.disks[node.metadata_dir].medium.root.durable.get(METADATA_DIR_NAME)
        return found if isinstance(found, Folder) else None

    def end_offset(self, node: Node) -> int:
        """Return where its log ends."""
        folder = self._folder(node)
        logs = [] if folder is None else [n for n in folder.durable if n.endswith(LOG_SUFFIX)]
        if folder is None or not logs:
            return 0
        file: Any = folder.durable[max(logs)]
        size, end = self._read.get(file, (0, int(max(logs).removesuffix(LOG_SUFFIX))))
        if size > len(file.durable):
            size, end = 0, int(max(logs).removesuffix(LOG_SUFFIX))
        if size < len(file.durable):
            for at, header in iterate_headers(bytes(file.durable[size:])):
                size, end = size + header.size, header.next_offset
                assert at >= 0
            self._read[file] = size, end
        return end

    def state(self, node: Node) -> dict[str, Any]:
        """Return what its quorum-state says; an empty one without."""
        folder = self._folder(node)
        file = None if folder is None else folder.durable.get(quorum_state.FILE_NAME)
        if not isinstance(file, File) or not file.durable:
            return {}
        known = self._states.get(node.id)
        if known is None or known[0] is not file:
            known = self._states[node.id] = file, json.loads(bytes(file.durable))
        return known[1]


class Quorum:
    """Everything that controllers have done so far.

    Args:
        load: Takes in a batch that is committed.
        images: Images after what is committed, by their offsets.
    """

    def __init__(self, world: World, load: Callable[[bytes], None], images: dict[int, Any]) -> None:
        self._world, self._report = world, world.report
        self._load, self._images = load, images
        self.durable = _Durable(world)
        self._leaders: dict[int, int] = {}
        """By epoch."""
        self._votes: dict[tuple[Any, int], Any] = {}
        """Whom a replica voted for in an epoch, as it has answered."""
        self._asked: dict[tuple[Process, int], VoteRequest] = {}
        self._epochs: dict[int, int] = defaultdict(int)
        """The highest that a controller has written."""
        self._batches: dict[Batch, tuple[int, Batch]] = {}
        """Of each the checksum, and the one before."""
        self._last: dict[int, list[Batch]] = {}
        """The batches that a controller has appended since it began."""
        self._committed: dict[int, int] = {}
        """Checksums of what is committed, by offset."""
        self._borders = {0}
        """Where a batch that is committed ends."""
        self._watermarks: dict[Process, int] = {}
        self._answered = -1
        """The highest epoch in which something was answered."""
        self._blocks: dict[int, int] = {}
        """Blocks of producer ids, and the brokers that got them."""
        self._compared: dict[Process, Any] = {}
        self._voters: dict[Process, Any] = {}
        """The newest voters that a controller has in its log."""
        self._begun: dict[int, float] = {}
        """When the processes of controllers began."""
        self._drivers: dict[Process | None, Any] = {}
        self._leaderships: dict[Process | None, Any] = {}

    def attach(self) -> None:
        before(RaftDriver, "begin", self._begins)
        after(Leadership, "__init__", self._made)
        before(RaftDriver, "_carry_out", self._carries_out)
        before(RaftDriver, "pass_on", self._takes_in)
        before(RaftDriver, "_append", self._appends)
        after(RaftFiles, "truncate", self._was_cut)
        before(CommittedState, "committed", self._commits)
        after(CommittedState, "committed", self._has_committed)
        around(ActiveController, "submit", self._answers)
        before(RaftLog, "installed", self._installs)
        after(SnapshotWriter, "__init__", self._writes_snapshot)

    def core(self, node: Node) -> Any:
        """Return the core of a controller that runs; None before it has one."""
        driver = self._drivers.get(node.process)
        return None if driver is None else driver.core

    def voter_sets(self) -> list[Any]:
        """Return the newest voters in the log of each controller, as it was seen last."""
        # Of several processes of a node the last one counts.
        return [
            *{process.name.partition(".")[0]: v for process, v in self._voters.items()}.values()
        ]

    def has_all(self, node: Node) -> bool:
        """Return whether a controller runs, and has on its disk what is committed.

        A record that was committed in this moment may be on its way.
        """
        core, end = self.core(node), self._world.metadata.next_offset
        is_whole = node.is_up and core is not None and core.is_whole
        return is_whole and self.durable.end_offset(node) > end - WAY

    def is_active(self, node: Node) -> bool:
        """Return whether a controller serves brokers as the active one."""
        leadership = self._leaderships.get(node.process)
        return leadership is not None and leadership.is_active

    def _made(self, leadership: Any, **_: Any) -> None:
        self._leaderships[PROCESS.get()] = leadership

    # Elections.

    @property
    def _node(self) -> Node:
        return self._world.nodes[int(PROCESS.get().name.split(".")[0].removeprefix("node-"))]

    def _takes_in(self, driver: Any, event: Any) -> None:
        """R18: nobody takes a leader for dead that does not know it, or refuses its certificate."""
        if isinstance(event, RequestReceived) and isinstance(event.request, VoteRequest):
            self._asked[PROCESS.get(), event.request_id] = event.request
        elif isinstance(event, LeaderSuspected):
            leader = self._world.nodes.get(driver.core.state.leader_id)
            me, now_s = self._node, self._world.now_s()
            if leader is None or frozenset({me.name, leader.name}) not in self._strangers:
                return
            if leader.is_up and now_s - self._begun[leader.id] > ANSWER_S:
                self._report("R18", me.name, f"it takes {leader.name} for dead, which is up")

    def ask(self, node: Node, request: VoterChangeRequest) -> asyncio.Task[None]:
        """Ask a controller for other voters; what comes of it is seen in its log."""
        context = Context()
        context.run(PROCESS.set, node.process)
        asked = self._leaderships[node.process].change_voters(request)
        task: asyncio.Task[None] = context.run(self._world.loop.create_task, asked)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._world.loop.kept.append(task)
        return task

    def _changes(self, history: Any) -> None:
        """R12: one voter comes or goes, and nobody else before that is committed."""
        me, known = PROCESS.get(), max(self._watermarks.values(), default=0)
        former = self._voters.get(me)
        if former is history.last:
            return
        self._voters[me] = history.last
        if former is not None:
            self._world.moment("a controller has other voters")
        for (_, one), (at, other) in pairwise(history._entries):
            if len({*one.keys} ^ {*other.keys}) > 1:
                self._report("R12", me, f"{other.keys} follow {one.keys} at {at}")
        if len([at for at, _ in history._entries if at >= known]) > 1:
            self._report("R12", me, f"two changes of voters are not committed, {known} is")

    def _carries_out(self, driver: Any, instruction: Any) -> None:
        """R1, R2, R4, R6, R7, R8, R12, R13, R14: the core decides as it must."""
        self._changes(driver.core.log.voters)
        match instruction:
            case instructions.WriteQuorumState():
                self._writes(driver.core, instruction.state)
            case instructions.Respond():
                self._responds(driver.core, instruction)
            case instructions.SendRequest():
                self._sends(instruction.request)
            case instructions.TruncateLog():
                self._cuts(driver.core, instruction.end_offset)
            case instructions.AdvanceHighWatermark():
                self._advances(driver.core, instruction.high_watermark)
            case instructions.TellEstablished():
                self._world.active_id = self._node.id
                self._world.moment("claimed")
            case instructions.ReportLostRecords() | instructions.TellWithheld():
                self._world.moment(type(instruction).__name__)

    def _writes(self, core: Any, state: Any) -> None:
        """R1, R4, R13: an epoch has one leader, with all that is committed; no epoch goes back."""
        me, epoch, leader = self._node.id, state.epoch, state.leader_id
        if epoch < self._epochs[me]:
            self._report("R13", me, f"it writes epoch {epoch} after {self._epochs[me]}")
        if epoch > max(self._epochs.values()) and self._world.is_settled:
            self._report("RL4", me, f"nothing happens, and it begins epoch {epoch}")
        self._epochs[me] = epoch
        if leader is None:
            return
        if self._leaders.setdefault(epoch, leader) != leader:
            self._report("R1", epoch, f"{me} has {leader}, it was {self._leaders[epoch]}")
        if leader == me and isinstance(core.state, Leader):
            self._world.moment("elected controller")
            if core.end_offset < self._world.metadata.next_offset:
                committed = self._world.metadata.next_offset
                self._report("R4", me, f"it leads with {core.end_offset}, {committed} is committed")

    def _responds(self, core: Any, instruction: Any) -> None:
        """R2, R14: a vote, and an epoch, is on the disk before it is told; one vote in an epoch."""
        me, answer = self._node, instruction.answer
        asked = self._asked.pop((PROCESS.get(), instruction.request_id), None)
        if not core.is_whole:
            return
        stored = self.durable.state(me)
        if answer.epoch > max(0, stored.get("leaderEpoch", 0)):
            self._report("R14", me.name, f"it answers in {answer.epoch}, {stored} is on its disk")
        if asked is None or asked.is_pre_vote or not isinstance(answer, VoteResponse):
            return
        if answer.is_granted:
            candidate = asked.candidate.node_id
            self._voted(me, asked.epoch, candidate)
            if stored.get("votedId") != candidate or stored.get("leaderEpoch") != asked.epoch:
                self._report("R14", me.name, f"it votes for {candidate}, {stored} is on its disk")

    def _voted(self, me: Node, epoch: int, candidate: int) -> None:
        if self._votes.setdefault((me.id, epoch), candidate) != candidate:
            was = self._votes[me.id, epoch]
            self._report("R2", me.name, f"it votes for {candidate} in {epoch}, as for {was}")

    def _sends(self, request: Any) -> None:
        """R2, R14: what is asked from another controller is on the disk before."""
        me = self._node
        if isinstance(request, VoteRequest) and not request.is_pre_vote:
            stored = self.durable.state(me)
            self._voted(me, request.epoch, me.id)
            if stored.get("votedId") != me.id or stored.get("leaderEpoch") != request.epoch:
                self._report("R14", me.name, f"it stands in {request.epoch}, {stored} is on disk")
        elif isinstance(request, FetchRequest) and request.replica.node_id == me.id:
            end = self.durable.end_offset(me)
            if end < request.end.offset:
                self._report(
                    "R14", me.name, f"it asks from {request.end.offset}, has {end} on disk"
                )

    # Logs.

    def _appends(self, driver: Any, _number: int, batches: Any) -> None:
        """R3: logs that have a batch in common have everything before it in common."""
        me = self._node.id
        log = self._last.setdefault(me, [])
        for batch in batches:
            key = batch.base_offset, int.from_bytes(batch.data[EPOCH_AT])
            former = log[-1] if log else None
            checksum = zlib.crc32(batch.data)
            known = self._batches.setdefault(key, (checksum, former or (-1, -1)))
            if known[0] != checksum:
                self._report("R3", me, f"another batch at {key[0]} of epoch {key[1]}")
            elif former is not None and known[1] != (-1, -1) and known[1] != former:
                self._report("R3", me, f"{key} follows {former}, elsewhere {known[1]}")
            elif former is not None and known[1] == (-1, -1):
                self._batches[key] = checksum, former
            log.append(key)

    def _cuts(self, core: Any, end_offset: int) -> None:
        """R8: what is known to be committed is never cut."""
        self._world.seen["a controller has cut its log"] += 1
        known = self._watermarks.get(PROCESS.get(), 0)
        if end_offset < known:
            self._report("R8", PROCESS.get(), f"it cuts at {end_offset}, {known} is committed")
        log = self._last.get(self._node.id, [])
        while log and log[-1][0] >= end_offset:
            cut = log.pop()
            if self._committed.get(cut[0]) == self._batches[cut][0]:
                self._report("R8", PROCESS.get(), f"it cuts {cut}, which is committed")

    def _was_cut(self, *_: Any) -> None:
        self.durable.cut(self._node)

    @property
    def _strangers(self) -> set[frozenset[str]]:
        return self._world.network.strangers

    def _begins(self, driver: Any, *_: Any) -> None:
        node = self._node
        self._begun[node.id] = self._world.now_s()
        self._drivers[node.process] = driver
        # Its log may be shorter than it was.
        self._last.pop(node.id, None)
        self.durable.cut(node)
        self._epochs[node.id] = max(0, self.durable.state(node).get("leaderEpoch", 0))

    def _installs(self, _log: Any, snapshot: Any) -> None:
        """R5: a snapshot says what was committed."""
        self._world.seen["a controller fetched a snapshot"] += 1
        self._last.pop(self._node.id, None)
        self.durable.cut(self._node)
        if snapshot.content.end_offset > self._world.metadata.next_offset:
            self._report("R5", PROCESS.get(), f"it begins at {snapshot.content.end_offset}")

    def _writes_snapshot(self, writer: Any, *_: Any) -> None:
        """RL2: a snapshot ends where a batch does, so that a log can begin behind it."""
        end, _epoch = parse_name(writer.path.name)
        self._world.moment("a snapshot is written beside a quorum")
        if end not in self._borders:
            self._report("RL2", PROCESS.get(), f"its snapshot ends at {end}, inside of a batch")

    def _advances(self, core: Any, high_watermark: int) -> None:
        """R6, R7: the high watermark never falls; a majority has all below it on its disks."""
        me, world = PROCESS.get(), self._world
        if high_watermark < self._watermarks.get(me, 0):
            self._report("R6", me, f"it falls from {self._watermarks[me]} to {high_watermark}")
        self._watermarks[me] = high_watermark
        if not isinstance(core.state, Leader):
            return
        if high_watermark < world.metadata.next_offset:
            self._report("R6", me, f"{high_watermark} after {world.metadata.next_offset}")
        voters = core.log.voters.last.ids
        having = [
            each
            for each in voters
            if each in world.emptied or self.durable.end_offset(world.nodes[each]) >= high_watermark
        ]
        if len(having) <= len(voters) // 2:
            self._report("R7", me, f"{high_watermark} is committed, only {having} have it")

    # Commits and answers.

    def _commits(self, _state: Any, committed: Any) -> None:
        """R5: at each offset the same is committed everywhere."""
        ends = [base for base, _ in committed.batches[1:]] + [committed.end_offset]
        for (base_offset, data), end in zip(committed.batches, ends, strict=True):
            checksum = zlib.crc32(data)
            if base_offset >= self._world.metadata.next_offset:
                self._committed[base_offset] = checksum
                self._borders.add(end)
                self._load(data)
            elif self._committed.get(base_offset) != checksum:
                self._report("R5", PROCESS.get(), f"another batch is committed at {base_offset}")

    def _has_committed(self, state: Any, _: Any) -> None:
        """R5: the state at an offset is the same one at all controllers."""
        image = state.image
        known = self._images.get(image.offset)
        if known is None:
            return
        last = self._compared.get(PROCESS.get(), (None, None))
        for name in ("cluster", "topics", "configs", "features", "next_producer_id"):
            both = getattr(known, name), getattr(image, name)
            former = tuple(getattr(each, name, None) for each in last)
            if not (former[0] is both[0] and former[1] is both[1]) and both[0] != both[1]:
                self._report("R5", PROCESS.get(), f"its {name} at {image.offset} are others")
        self._compared[PROCESS.get()] = known, image

    async def _answers(self, inner: Any, active: Any, decide: Any, **more: Any) -> Any:
        """R9, R10, R20: an answer is that of the newest epoch, and of what is committed."""
        begun, needed = self._answered, [0]

        def decided(state: Any, now_ms: int) -> Any:
            result = decide(state, now_ms)
            # Records about the quorum itself that follow the last one of the metadata say nothing.
            needed[0] = state.image.offset + 1
            if result.records:
                needed[0] = state.next_offset + len(result.records)
            return result

        response = await inner(active, decided, **more)
        epoch, world = active.epoch, self._world
        if epoch < begun:
            self._report("R9", PROCESS.get(), f"it answers in {epoch}, asked after one of {begun}")
        self._answered = max(self._answered, epoch)
        if needed[0] > world.metadata.next_offset:
            end = world.metadata.next_offset
            self._report("R10", PROCESS.get(), f"it answers with {needed[0]}, {end} is committed")
        if isinstance(response, AllocateProducerIdsResponse) and not response.error_code:
            block = response.producer_id_start
            if self._blocks.setdefault(block, id(response)) != id(response):
                self._report("R20", block, "a block of producer ids is given twice")
        return response


def attach(world: World, metadata: Any) -> None:
    """Attach all of them, where there are several controllers.

    Args:
        metadata: Takes in what is committed.
    """
    if world.has_quorum:
        world.quorum = Quorum(world, metadata.load, metadata.images)
        world.quorum.attach()
