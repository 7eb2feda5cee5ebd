"""Carries out what the core of the quorum decides: the only place with its clock, disk and network.

One event at a time goes into the core, and the instructions that come out are carried out in their
order. Two of them hold up everything that follows, events as well: what is written to quorum-state
is durable before anything else happens, and a snapshot is installed before the log goes on.
Everything else that touches the disk is handed to the thread of the log, which reports the end of
each append as an event. So a leader answers its followers while its own disk is busy.

Appends that wait for the thread are written together, with one sync.

Source: `org.apache.kafka.raft.KafkaRaftClient.poll`, `KafkaRaftClientDriver`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any, NamedTuple, Protocol, assert_never

from controller.limits import STOOD_STILL_MS
from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import InstalledSnapshot, LogDirFullError, RaftFiles, SnapshotPart
from controller.quorum.recent_batches import LogBatch, RecentBatches
from jbodlab.metadata.log.batches import control_batch
from jbodlab.raft.core import RaftCore
from jbodlab.raft.events import (
    ConfirmationAsked,
    DeadlineReached,
    DiskSlow,
    Event,
    NodeShutdownBegun,
    RecordsProposed,
    RequestReceived,
    ResignRequested,
    SnapshotInstalled,
    SnapshotRefused,
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
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import Answer, FetchSnapshotAnswer, QuorumFetchAnswer, Request
from jbodlab.raft.states import Leader
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

TURNS_BEFORE_A_LATE_DEADLINE = 10
"""Turns of the event loop in which what has arrived while the process stood still is taken in."""


NO_ROOM_S = 1.0
"""Pause before an append that found no room is tried again."""
FAREWELL_S = 0.1
"""How long a leader whose disk failed waits until the others know."""


SYNCS, SLOW_SYNC_MS = 20, 250
"""A disk is slow, too, when the median of so many syncs takes longer."""


WORK_OF_LEADERS = RecordsProposed, Synced


class Served(NamedTuple):
    """An answer to another node, with the bytes that it sends along.

    Attributes:
        data: Whole batches, or a piece of a snapshot.
        size: Of the whole snapshot in bytes.
    """

    answer: Answer
    data: bytes = b""
    size: int = 0


class Proposal(NamedTuple):
    """Batches that a leader wants to append.

    Attributes:
        settle: Called with whether they were handed over, when it is their turn.
    """

    epoch: LeaderEpoch
    batches: Sequence[LogBatch]
    settle: Callable[[bool], None]


class QuorumObserver(Protocol):
    """An object that is told what the quorum does to the log of this node."""

    def leader_known(self, epoch: LeaderEpoch, leader_id: BrokerId | None) -> None:
        """The epoch, or its leader, is another one."""

    def established(self, epoch: LeaderEpoch) -> None:
        """This node leads, and all records of former epochs in its log are committed."""

    def controls_appended(self, end_offset: Offset) -> None:
        """This leader has appended records of the quorum itself."""

    def advanced(self, high_watermark: Offset) -> None:
        """All below an offset is committed, and in the log of this node."""

    def confirmed(self, number: int) -> None:
        """This node led when a confirmation was asked for; see `TellConfirmed`."""

    def installed(self, snapshot: InstalledSnapshot) -> None:
        """The log begins anew at the end of a snapshot, and all below it is committed."""


class Peers(Protocol):
    """The way to other nodes."""

    def send(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        """Ask a node; the event of its answer, or of the failure, is passed on."""

    def close(self) -> None:
        """Ask nobody any more."""


class _Append(NamedTuple):
    """Batches that are written, and then synced."""

    data: bytes
    number: int


class _Step(NamedTuple):
    """Another step on the thread of the log, and what takes its result."""

    run: Callable[[], Any]
    done: Callable[[Any], None]


class RaftDriver:
    """The driver of one core; lives on the event loop.

    Args:
        files: The files of this node, used on `log_thread` only.
        log_thread: Their thread.
        peers: The way to other nodes.
        observer: Is told what the quorum does.
        recent: The end of the log in memory.
        now_ms: Time of a clock that never goes back.
        wall_ms: Milliseconds since 1970.
        random: Draws a number of [0, 1).
        disk_slow_ms: Time of one step of the log from which the disk is slow; 0: never.
    """

    def __init__(
        self,
        *,
        files: RaftFiles,
        log_thread: LogThread,
        peers: Peers,
        observer: QuorumObserver,
        recent: RecentBatches,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        random: Callable[[], float],
        disk_slow_ms: int,
    ) -> None:
        self._files = files
        self._log_thread = log_thread
        self._peers = peers
        self._observer = observer
        self._recent = recent
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._random = random
        self._core: RaftCore | None = None
        """None before the log was read."""
        self._events: deque[Event | Proposal] = deque()
        self._instructions: deque[Instruction] = deque()
        self._held_up_ms: int | None = None
        """Since when a write is under way that comes before everything else."""
        self.behind_ms = 0
        """Lag of the clock of the core in ms: the clock pauses during such writes."""
        self._is_at_work = False
        self._proposal: Proposal | None = None
        """The one that the core takes in now."""
        self._steps: deque[_Append | _Step] = deque()
        self._is_thread_busy = False
        self._busy_since_ms = 0
        self._disk_slow_ms = disk_slow_ms
        self._look: asyncio.TimerHandle | None = None
        self._syncs_ms: deque[int] = deque(maxlen=SYNCS)
        self.is_full = False
        """Whether an append waits for room on the disk, and all other steps behind it."""
        self._again: asyncio.TimerHandle | None = None
        self.hand_overs = 0
        """How often this node has given up the leadership as its disk was slow."""
        self._requests = 0
        self._asked: dict[int, asyncio.Future[Served]] = {}
        self._lives = 0
        """Counts the snapshots that were installed."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_timer_set = False
        """Whether it runs to the next deadline of the core, or to an earlier time."""
        self._late_turns = 0
        """How often a deadline that is late was put off."""
        self._error: BaseException | None = None
        """The first one, which ends this driver."""
        self._has_ended = asyncio.Event()
        self._is_over = False
        """Whether the driver carries out no more instructions."""

    @property
    def core(self) -> RaftCore:
        """The core, once it was begun; to be read only."""
        assert self._core is not None
        return self._core

    @property
    def has_begun(self) -> bool:
        """Whether there is a core."""
        return self._core is not None

    @property
    def has_failed(self) -> bool:
        """Whether an error ends it."""
        return self._error is not None

    @property
    def is_answering(self) -> bool:
        """Whether another node waits for an answer."""
        return bool(self._asked)

    def begin(self, core: RaftCore, instructions: Sequence[Instruction]) -> None:
        """Carry out the first instructions of a core, and what follows from them."""
        self._core = core
        self._instructions.extend(instructions)
        self._go_on()

    async def run(self) -> None:
        """Wait for the end, which is an error.

        Raises:
            LogDirError: the metadata directory failed.
            QuorumViolationError: the nodes of the quorum contradict each other.
        """
        try:
            await self._has_ended.wait()
            assert self._error is not None
            if isinstance(self._error, LogDirError):
                await self._hand_over_leadership()
            raise self._error
        finally:
            self._stop()

    async def _hand_over_leadership(self) -> None:
        """Tell the others to elect another leader: that needs no disk."""
        if self._core is None or not isinstance(self.core.state, Leader):
            return
        instructions = self.core.handle(
            NodeShutdownBegun(), now_ms=self._core_ms(), chance=self._random()
        )
        sent = [each for each in instructions if isinstance(each, SendRequest)]
        answered = asyncio.Semaphore(0)
        for each in sent:
            self._peers.send(each, lambda _: answered.release())
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                for _ in sent:
                    await answered.acquire()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for timer in (self._look, self._again):
            if timer is not None:
                timer.cancel()
        self._peers.close()
        self._is_over = True
        for future in self._asked.values():
            future.cancel()

    def fail(self, error: BaseException) -> None:
        """End by an error, if it is the first one."""
        if self._error is None:
            self._error, self._is_over = error, True
            self._has_ended.set()

    # Events.

    def pass_on(self, event: Event | Proposal) -> None:
        """Have the core take in an event, in its turn."""
        self._events.append(event)
        self._go_on()

    def ask(self, request: Request) -> asyncio.Future[Served]:
        """Have the core answer a request of another node."""
        future: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
        self._requests += 1
        self._asked[self._requests] = future
        self.pass_on(RequestReceived(self._requests, request))
        return future

    def snapshots_changed(self) -> None:
        """Look which snapshots there are, and where the log begins: this node has cleaned it."""
        changed = partial(self._take_snapshots, self._lives)
        self._hand_over(_Step(self._files.snapshots_and_start, changed))

    def _take_snapshots(self, life: int, found: tuple[tuple[OffsetAndEpoch, ...], Offset]) -> None:
        if life == self._lives:
            self.pass_on(SnapshotsChanged(*found))

    def _go_on(self) -> None:
        if self._core is None or self._is_at_work or self._is_over:
            return
        self._is_at_work = True
        try:
            while self._held_up_ms is None:
                if self._instructions:
                    self._carry_out(self._instructions.popleft())
                elif self._events:
                    self._handle(self._events.popleft())
                else:
                    if not self._is_timer_set:
                        self._set_timer()
                    break
        except Exception as error:  # noqa: BLE001 - it ends the process
            self.fail(error)
        finally:
            self._is_at_work = False

    def _handle(self, event: Event | Proposal) -> None:
        core = self.core
        if isinstance(event, Proposal):
            first, last = event.batches[0], event.batches[-1]
            leads = core.leads_in(event.epoch)
            fits = leads and core.end_offset == first.base_offset
            event.settle(fits)
            if leads and not fits:
                # The proposer's state is not that of the log: it has to begin anew.
                self._events.append(ResignRequested())
            if not fits:
                return
            self._proposal = event
            event = RecordsProposed(event.epoch, first.base_offset, last.end_offset)
        elif isinstance(event, SnapshotInstalled):
            self._recent.clear()
        elif isinstance(event, ConfirmationAsked) and not isinstance(core.state, Leader):
            # The asker has been told that this node leads no more.
            return
        state = core.state
        self._instructions += core.handle(event, now_ms=self._core_ms(), chance=self._random())
        # Such an event brings no deadline forward.
        is_work = isinstance(event, WORK_OF_LEADERS) and isinstance(state, Leader)
        if not is_work or core.state is not state:
            self._is_timer_set = False

    # The clock.

    def _core_ms(self) -> int:
        """Return the time of the core.

        A candidate whose vote takes long to write would else have no time left to be elected, and
        what it asks for would have no time left to be answered.
        """
        now_ms = self._now_ms() if self._held_up_ms is None else self._held_up_ms
        return now_ms - self.behind_ms

    def _set_timer(self) -> None:
        self._is_timer_set = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.core.next_deadline_ms
        if deadline_ms is not None:
            left_ms = deadline_ms - self._core_ms()
            if left_ms > 0:
                self._late_turns = 0
            self._call_later(max(0, left_ms) / 1000, deadline_ms)

    def _call_later(self, delay_s: float, deadline_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self._reach, deadline_ms)

    def _reach(self, deadline_ms: int) -> None:
        """Pass on a deadline; what has arrived before a late one comes first."""
        late_ms = self._core_ms() - deadline_ms
        self._is_timer_set = False
        if late_ms < 0:
            self._go_on()
        elif late_ms > STOOD_STILL_MS and self._late_turns < TURNS_BEFORE_A_LATE_DEADLINE:
            self._late_turns += 1
            self._call_later(0, deadline_ms)
        else:
            self.pass_on(DeadlineReached())

    # Instructions.

    def _carry_out(self, instruction: Instruction) -> None:
        files = self._files
        match instruction:
            case AppendProposed():
                proposal, self._proposal = self._proposal, None
                assert proposal is not None
                self._append(instruction.number, proposal.batches)
            case AdvanceHighWatermark():
                self._observer.advanced(instruction.high_watermark)
            case WriteQuorumState():
                self._hold_up(partial(files.write_state, instruction), lambda _: None)
            case SendRequest():
                self._peers.send(instruction, self.pass_on)
            case Respond():
                self._respond(instruction)
            case BeginEpoch():
                self._run(partial(files.begin_epoch, instruction.epoch))
            case AppendControl():
                control = self._control(instruction)
                self._append(instruction.number, [control])
                self._observer.controls_appended(control.end_offset)
            case AppendFetched():
                batches = [
                    LogBatch(each.base_offset, each.end_offset, each.data)
                    for each in instruction.batches
                ]
                self._append(instruction.number, batches)
            case TruncateLog():
                self._recent.truncate(instruction.end_offset)
                logger.warning(
                    "cutting the metadata log, whose end other controllers have not",
                    extra={"end_offset": instruction.end_offset},
                )
                self._run(partial(files.truncate, instruction.end_offset))
            case BeginSnapshot():
                self._run(partial(files.begin_snapshot, instruction.snapshot))
            case WriteSnapshotPiece():
                self._run(partial(files.write_piece, instruction.data))
            case AbandonSnapshot():
                self._run(partial(files.abandon_snapshot, instruction.snapshot))
            case InstallSnapshot():
                snapshot = instruction.snapshot
                install = partial(files.install_snapshot, snapshot)
                self._hold_up(install, partial(self._installed, snapshot))
            case TellLeader():
                self._observer.leader_known(instruction.epoch, instruction.leader_id)
            case TellEstablished():
                self._observer.established(instruction.epoch)
            case TellConfirmed():
                self._observer.confirmed(instruction.number)
            case TellHandedOver():
                self.hand_overs += 1
                logger.warning(
                    "this controller leads no more, as its disk is slow",
                    extra={"sync_ms": instruction.sync_ms},
                )
            case TellWithheld(candidate=None):
                logger.warning(
                    "there is no quorum-state: this controller gives no vote and does not count "
                    "before all voters turn out to be new, or it has caught up with a leader that "
                    "the others elect"
                )
            case TellWithheld():
                logger.error(
                    "a vote is withheld, as this controller may have lost its metadata log; "
                    "a leader needs a majority of the other voters",
                    extra={"candidate": str(instruction.candidate)},
                )
            case TellWhole():
                logger.info("this controller gives votes and counts")
            case ReportLostRecords():
                logger.error(
                    "a voter has lost acknowledged records; "
                    "remove it and add it with a new directory id",
                    extra={
                        "voter": str(instruction.replica),
                        "acknowledged": instruction.acknowledged,
                        "end_offset": instruction.end_offset,
                    },
                )
            case _:
                assert_never(instruction)

    def _control(self, instruction: AppendControl) -> LogBatch:
        base_offset = instruction.base_offset
        data = control_batch(
            *instruction.records,
            base_offset=base_offset,
            epoch=instruction.epoch,
            timestamp_ms=self._wall_ms(),
        )
        return LogBatch(base_offset, Offset(base_offset + len(instruction.records)), data)

    def _installed(self, snapshot: OffsetAndEpoch, found: InstalledSnapshot | None) -> None:
        if found is None:
            logger.warning("the snapshot of another controller is damaged; fetching it again")
            self._events.appendleft(SnapshotRefused(snapshot))
            return
        self._lives += 1
        logger.info(
            "the metadata log begins anew at a snapshot of the leader",
            extra={"end_offset": snapshot.offset, "leader_epoch": snapshot.epoch},
        )
        self._observer.installed(found)
        self._events.appendleft(SnapshotInstalled(snapshot, found.voters, found.kraft_version))

    # Answers to other nodes.

    def _respond(self, instruction: Respond) -> None:
        future = self._asked.pop(instruction.request_id)
        answer = instruction.answer
        if future.done():
            # The asker has gone.
            return
        match answer:
            case QuorumFetchAnswer(read=(first, end, bytes_max)):
                batches = self._recent.between(first, end, bytes_max)
                if batches is not None:
                    future.set_result(Served(answer, b"".join(each.data for each in batches)))
                    return
                read = partial(self._files.read, first, end, bytes_max)
                self._log_thread.call(read, partial(self._read, future, answer))
            case FetchSnapshotAnswer(read=(snapshot, position, bytes_max)):
                piece = partial(self._files.read_snapshot, snapshot, position, bytes_max)
                self._log_thread.call(piece, partial(self._read_snapshot, future, answer))
            case _:
                future.set_result(Served(answer))

    def _read(
        self,
        future: asyncio.Future[Served],
        answer: Answer,
        data: bytes | None,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            self.fail(error)
        elif not future.done():
            future.set_result(Served(answer, data or b""))

    def _read_snapshot(
        self,
        future: asyncio.Future[Served],
        answer: Answer,
        piece: SnapshotPart | None,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            self.fail(error)
        elif not future.done():
            # A snapshot that is gone has no size.
            future.set_result(Served(answer, *(piece or (b"", 0))))

    # The thread of the log.

    def _append(self, number: int, batches: Sequence[LogBatch]) -> None:
        for batch in batches:
            self._recent.append(batch)
        data = b"".join(each.data for each in batches)
        self._hand_over(_Append(data, number))

    def _run(self, run: Callable[[], object]) -> None:
        self._hand_over(_Step(run, lambda _: None))

    def _hold_up(self, run: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run a step behind all others; nothing else happens before its end."""
        since_ms = self._held_up_ms = self._now_ms()

        def go_on(result: Any) -> None:
            done(result)
            self._held_up_ms = None
            self.behind_ms += self._now_ms() - since_ms
            self._go_on()

        self._hand_over(_Step(run, go_on))

    def _hand_over(self, step: _Append | _Step) -> None:
        self._steps.append(step)
        self._use_thread()

    def _use_thread(self) -> None:
        """Give the thread its next step, or all appends up to the next other step."""
        if self._is_thread_busy or not self._steps or self._is_over:
            return
        self._is_thread_busy = True
        self._busy_since_ms = self._now_ms()
        self._look_later()
        step = self._steps[0]
        if isinstance(step, _Step):
            self._steps.popleft()
            self._log_thread.call(step.run, partial(self._stepped, step))
            return
        appends: list[_Append] = []
        while self._steps and isinstance(self._steps[0], _Append):
            appends.append(self._steps.popleft())  # type: ignore[arg-type]
        # A loss of power may leave the second of two writes alone, which no start takes; and where
        # there is no room for the first one, the second would be missing behind it.
        data = b"".join(each.data for each in appends)
        # Followers fetch from memory meanwhile.
        write = partial(self._files.append, data)
        self._write_out(write, appends[-1].number, self._busy_since_ms)

    def _write_out(self, write: Callable[[], None], last: int, now_ms: int) -> None:
        write_and_sync = partial(self._files.then_flush, write)
        self._log_thread.call(write_and_sync, partial(self._synced, last, now_ms))

    def _write_again(self, last: int) -> None:
        self._write_out(self._files.finish, last, self._now_ms())

    @property
    def disk_wait_ms(self) -> int:
        """How long the step of the log takes that is under way; 0 without any."""
        return self._now_ms() - self._busy_since_ms if self._is_thread_busy else 0

    def _look_later(self) -> None:
        """Have it noticed when the step under way takes too long."""
        if self._disk_slow_ms:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(self._disk_slow_ms / 1000, self._is_late)

    def _is_late(self) -> None:
        self._look_later()
        self.pass_on(DiskSlow(self.disk_wait_ms))

    def _thread_is_free(self) -> None:
        self._is_thread_busy = False
        if self._look is not None:
            self._look.cancel()

    def _stepped(self, step: _Step, result: Any, error: BaseException | None) -> None:
        self._thread_is_free()
        if error is not None:
            self.fail(error)
            return
        step.done(result)
        self._use_thread()

    def _synced(self, number: int, begun_ms: int, _: object, error: BaseException | None) -> None:
        if isinstance(error, LogDirFullError) and not isinstance(self.core.state, Leader):
            # The others go on without this node, which acknowledges nothing until there is room.
            if not self.is_full:
                logger.error("no space left for the metadata log; trying again: %s", error)
            self.is_full = True
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(NO_ROOM_S, self._write_again, number)
            return
        self._thread_is_free()
        if error is not None:
            self.fail(error)
            return
        if self.is_full:
            self.is_full = False
            logger.info("there is room for the metadata log again")
            self._run(self._files.keep_reserve)
        self._use_thread()
        self.pass_on(Synced(number))
        if self._disk_slow_ms:
            self._look_at_syncs(self._now_ms() - begun_ms)

    def _look_at_syncs(self, sync_ms: int) -> None:
        self._syncs_ms.append(sync_ms)
        if len(self._syncs_ms) == SYNCS and median(self._syncs_ms) > SLOW_SYNC_MS:
            sync_ms = int(median(self._syncs_ms))
            self._syncs_ms.clear()
            self.pass_on(DiskSlow(sync_ms))
