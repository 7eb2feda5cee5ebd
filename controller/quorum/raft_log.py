"""The replicated log of a quorum: a batch is committed when a majority has it, perhaps of one.

The driver tells how far the log is committed. Batches below that are told to listeners in their
order, from memory where they are there, else from the disk. A term begins only when the listeners
know everything below its epoch, and it ends at once when the epoch or its leader is another one:
appends that are not committed then fail, although the next leader may have them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from controller.quorum.driver import Peers, Proposal, RaftDriver, Served
from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import InstalledSnapshot, RaftFiles, read_log
from controller.quorum.recent_batches import LogBatch, RecentBatches
from controller.quorum.replicated_log import (
    CommitListener,
    Committed,
    NewBatch,
    NotLeaderError,
    QuorumFollower,
    RoleListener,
    encoded,
)
from jbodlab.metadata.log.snapshots import Snapshot
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.raft.batches import quorum_records
from jbodlab.raft.core import RaftCore
from jbodlab.raft.events import ConfirmationAsked, NodeShutdownBegun, ResignRequested
from jbodlab.raft.instructions import ElectionState
from jbodlab.raft.messages import Request, VoterChangeRequest
from jbodlab.raft.progress import ReplicaProgress
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import Follower, Leader, Resigned
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, Endpoints, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import FormatError, KafkaError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

NO_LISTENER = "it has no listener for others; controller.listener.names must name two"
HAND_OVER_S, HAND_OVER_LOOK_S = 0.5, 0.005
"""Longest wait at the end of a process until the voters know that it leads no more; its steps."""


class QuorumNodeSettings(NamedTuple):
    """The facts of a node from its property file and its directory.

    Attributes:
        me: Node id, and the id of the metadata directory.
        endpoints: Where other nodes reach this one; none where it is the only controller for good.
        voters: Voters by the property file; others in the log or in a snapshot replace them.
        bootstrap_servers: The number of addresses at which a leader is looked for.
        stored: Content of quorum-state; None without a file.
        timing: Times and sizes.
    """

    me: ReplicaKey
    endpoints: Endpoints
    voters: VoterSet
    bootstrap_servers: int
    stored: ElectionState | None
    timing: RaftSettings


class DiskFigures(NamedTuple):
    """Whether the disk of a node of the quorum keeps up.

    Attributes:
        wait_ms: How long the step of the log takes that is under way; 0 without any.
        hand_overs: How often the node has given up the leadership as its disk was slow.
        is_full: Whether it waits for room.
    """

    wait_ms: int
    hand_overs: int
    is_full: bool


class RaftLog:
    """The `ReplicatedLog` of one node; lives on the event loop.

    Args:
        settings: Of this node.
        files: Its files, used on `log_thread` only from now on.
        log_thread: Their thread.
        peers: The way to other nodes.
        high_watermark: Up to where listeners know the log: the end of the newest snapshot.
        on_snapshot: Takes a snapshot in place of everything that listeners know.
        now_ms: Time of a clock that never goes back.
        wall_ms: Milliseconds since 1970.
        random: Draws a number of [0, 1).
    """

    def __init__(
        self,
        *,
        settings: QuorumNodeSettings,
        files: RaftFiles,
        log_thread: LogThread,
        peers: Peers,
        high_watermark: Offset,
        on_snapshot: Callable[[Snapshot], None],
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        random: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._files = files
        self._log_thread = log_thread
        self._on_snapshot = on_snapshot
        self._now_ms = now_ms
        self._random = random
        self._recent = RecentBatches()
        self._driver = RaftDriver(
            files=files,
            log_thread=log_thread,
            peers=peers,
            observer=self,
            recent=self._recent,
            now_ms=now_ms,
            wall_ms=wall_ms,
            random=random,
            disk_slow_ms=settings.timing.disk_slow_ms,
        )
        self._roles: RoleListener
        self._listeners: list[CommitListener] = []
        self._told = high_watermark
        """The first offset that listeners do not know."""
        self._committed = high_watermark
        """The first offset that is not committed."""
        self._appends: deque[_Append] = deque()
        """Appends of this leader that are not committed."""
        self._confirming: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Questions whether this node still leads, by their numbers."""
        self._confirmations = 0
        self._established: LeaderEpoch | None = None
        """The epoch whose term begins as soon as listeners know all that is committed."""
        self._life = 0
        """Counts the snapshots that were installed: what is read from the disk then is void."""
        self._is_reading = False

    @property
    def high_watermark(self) -> Offset:
        """First offset that listeners do not know to be committed."""
        return self._told

    @property
    def end_offset(self) -> Offset:
        """Where the next batch begins; see `ReplicatedLog`."""
        return self.core.end_offset

    @property
    def core(self) -> RaftCore:
        """The state of this node in the quorum; to be read only."""
        return self._driver.core

    @property
    def voters(self) -> VoterSet:
        """The last voter set, committed or not; that of the property file before the start."""
        return self.core.voters if self.has_begun else self._settings.voters

    @property
    def kraft_version(self) -> int:
        """The last level of kraft.version, committed or not; 0 before the start."""
        return self.core.log.kraft_versions.last if self.has_begun else 0

    @property
    def leader_id(self) -> BrokerId | None:
        """Leader of the epoch; None if it is unknown."""
        return self.core.leader_id if self.has_begun else None

    @property
    def directory_id(self) -> DirectoryId | None:
        """Where this node keeps its log; see `ReplicatedLog`."""
        return self._settings.me.directory_id if self.kraft_version else None

    @property
    def has_begun(self) -> bool:
        """Whether `core` is there: it is made by `run`."""
        return self._driver.has_begun

    @property
    def me(self) -> ReplicaKey:
        """This replica."""
        return self._settings.me

    @property
    def disk(self) -> DiskFigures:
        """Whether the disk of this node keeps up."""
        driver = self._driver
        return DiskFigures(
            wait_ms=driver.disk_wait_ms, hand_overs=driver.hand_overs, is_full=driver.is_full
        )

    def leader_address(self, listener_name: str) -> tuple[str, int] | None:
        """Return where the leader is reached that this node follows; None if it follows none."""
        state = self.core.state if self.has_begun else None
        endpoints = state.endpoints if isinstance(state, Follower) else ()
        found = (each for each in endpoints if each.name == listener_name)
        return next(((each.host, each.port) for each in found), None)

    def followers(self) -> Sequence[QuorumFollower]:
        """Return the other controllers of the quorum; see `ReplicatedLog`."""
        state, voters = self.core.state, self.core.voters
        if not isinstance(state, Leader):
            return ()
        known = state.progress.replicas
        others = voters.others(self._settings.me)
        observers = (key for key in known if key not in voters.keys)
        return [
            _follower(key, known.get(key), self._driver.behind_ms, is_voter=key in others)
            for key in (*others, *observers)
        ]

    def add_listener(self, listener: CommitListener) -> None:
        """Tell an object of each commit; see `ReplicatedLog`."""
        self._listeners.append(listener)

    def remove_listener(self, listener: CommitListener) -> None:
        """Tell an object no longer."""
        self._listeners.remove(listener)

    async def run(self, roles: RoleListener) -> None:
        """Take part in the quorum; see `ReplicatedLog`.

        Raises:
            FormatError: the log names others as voters, and this node is the only one for good.
            LogDirError: the metadata directory failed.
            QuorumViolationError: the nodes of the quorum contradict each other.
        """
        self._roles = roles
        settings = self._settings
        view = await self._log_thread.run(partial(self._files.begin, settings.voters))
        voters = view.voters.last
        if not settings.endpoints and not voters.is_only(settings.me):
            raise FormatError(
                f"the metadata log has the voters {', '.join(map(str, voters.keys))}, and this "
                f"controller, {settings.me}, cannot be one of several, as {NO_LISTENER}"
            )
        core, instructions = RaftCore.start(
            me=settings.me,
            endpoints=settings.endpoints,
            settings=settings.timing,
            log=view,
            stored=settings.stored,
            bootstrap_servers=settings.bootstrap_servers,
            now_ms=self._now_ms(),
            chance=self._random(),
        )
        self._driver.begin(core, instructions)
        try:
            await self._driver.run()
        finally:
            # Nothing is committed any more, and all who wait have to know.
            self.leader_known(self.core.state.epoch, None)

    def ask(self, request: Request) -> asyncio.Future[Served]:
        """Answer a request of another node."""
        return self._driver.ask(request)

    def records_at(self, offset: Offset) -> Sequence[ControlRecord]:
        """Return the records about the quorum that counted at an offset; none at level 0."""
        log = self.core.log
        return quorum_records(log.voters.at(offset), log.kraft_versions.at(offset))

    async def change_voters(self, request: VoterChangeRequest) -> None:
        """Have the leader change the voters; see `ReplicatedLog`."""
        if not self._settings.endpoints:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this controller is the only one, as {NO_LISTENER}",
            )
        answer = (await self.ask(request)).answer
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise NotLeaderError
        if answer.error is not ErrorCode.NONE:
            raise KafkaError(answer.error, getattr(answer, "message", ""))

    def snapshots_changed(self) -> None:
        """Take note that this node has written a snapshot or cleaned the log."""
        self._driver.snapshots_changed()

    def resign(self, successor: BrokerId | None = None) -> None:
        """Give up the leadership; see `ReplicatedLog`."""
        if self._driver.has_begun:
            self._driver.pass_on(ResignRequested(successor))

    async def leave(self) -> None:
        """Lead no more, and wait a moment until the other voters know: the process ends.

        After an error the driver has already notified them, and processes no answers.
        """
        is_only = self._driver.has_begun and self.core.voters.is_only(self._settings.me)
        if is_only or self._driver.has_failed:
            return
        self._driver.pass_on(NodeShutdownBegun())
        loop = asyncio.get_running_loop()
        end_s = loop.time() + HAND_OVER_S
        while self._driver.has_begun and loop.time() < end_s:
            state = self.core.state
            is_known = not isinstance(state, Resigned) or not state.unacknowledged
            # A vote that the next leader needs waits for the disk, and then for the network.
            is_answered = is_known and not self._driver.is_answering
            await asyncio.sleep(HAND_OVER_LOOK_S)
            if is_answered:
                return

    def confirm(self, epoch: LeaderEpoch) -> asyncio.Future[None] | None:
        """Ask the other voters whether this node still leads; see `ReplicatedLog`."""
        if not self._driver.has_begun or not self.core.leads_in(epoch):
            raise NotLeaderError
        if self.core.voters.is_only(self._settings.me):
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirmations += 1
        self._confirming.append((self._confirmations, future))
        self._driver.pass_on(ConfirmationAsked(self._confirmations))
        return future

    def append(self, epoch: LeaderEpoch, batches: Sequence[NewBatch]) -> asyncio.Future[Committed]:
        """Append batches; see `ReplicatedLog`."""
        assert batches
        if not (self._driver.has_begun and self.core.leads_in(epoch)):
            raise NotLeaderError
        new = [
            LogBatch(
                batch.base_offset,
                Offset(batch.base_offset + len(batch.records)),
                encoded(batch, epoch),
            )
            for batch in batches
        ]
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._driver.pass_on(Proposal(epoch, new, partial(self._proposed, _Append(future, new))))
        return future

    def _proposed(self, append: _Append, is_handed_over: bool) -> None:
        if is_handed_over:
            self._appends.append(append)
        else:
            append.future.set_exception(NotLeaderError())

    # The driver tells the rest.

    def leader_known(self, epoch: LeaderEpoch, leader_id: BrokerId | None) -> None:
        """End the term of a former epoch; see `QuorumObserver`."""
        self._established = None
        waiting: list[asyncio.Future[Any]] = [each.future for each in self._appends]
        waiting += [future for _, future in self._confirming]
        self._appends.clear()
        self._confirming.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(NotLeaderError())
        is_own = leader_id == self._settings.me.node_id
        # A leader serves only when it is established.
        self._roles.on_follower(epoch, None if is_own else leader_id)
        if is_own:
            self._roles.on_elected(epoch)

    def established(self, epoch: LeaderEpoch) -> None:
        """Begin a term as soon as listeners know all that is committed; see `QuorumObserver`."""
        self._established = epoch
        self._tell()

    def confirmed(self, number: int) -> None:
        """Answer the questions up to a number; see `QuorumObserver`."""
        while self._confirming and self._confirming[0][0] <= number:
            _, future = self._confirming.popleft()
            if not future.done():
                future.set_result(None)

    def controls_appended(self, end_offset: Offset) -> None:
        """Tell the term where its next batch begins; see `QuorumObserver`."""
        self._roles.on_controls(end_offset)

    def advanced(self, high_watermark: Offset) -> None:
        """Tell listeners what is committed; see `QuorumObserver`."""
        self._committed = max(self._committed, high_watermark)
        self._tell()

    def installed(self, snapshot: InstalledSnapshot) -> None:
        """Begin anew with what a snapshot says; see `QuorumObserver`."""
        self._life += 1
        self._is_reading = False
        self._told = self._committed = Offset(snapshot.content.end_offset)
        self._on_snapshot(snapshot.content)

    def _tell(self) -> None:
        """Tell listeners everything that is committed and can be read now."""
        while not self._is_reading and self._told < self._committed:
            end = self._appends[0].end_offset if self._appends else self._committed
            batches = self._recent.between(self._told, min(end, self._committed))
            if batches is None:
                self._is_reading = True
                read = partial(read_log, self._files, self._told, self._committed)
                self._log_thread.call(read, partial(self._read, self._life))
                return
            self._tell_batches(batches)
        if self._established is not None and not self._is_reading:
            epoch, self._established = self._established, None
            self._roles.on_leader(epoch)

    def _read(
        self, life: int, batches: Sequence[LogBatch] | None, error: BaseException | None
    ) -> None:
        if error is not None:
            self._driver.fail(error)
        elif life == self._life:
            self._is_reading = False
            try:
                assert batches
                self._tell_batches(batches)
                self._tell()
            except Exception as failure:  # noqa: BLE001 - it ends the process
                self._driver.fail(failure)

    def _tell_batches(self, batches: Sequence[LogBatch]) -> None:
        end_offset = batches[-1].end_offset
        committed = Committed([(each.base_offset, each.data) for each in batches], end_offset)
        self._told = end_offset
        for listener in tuple(self._listeners):
            listener.committed(committed)
        if self._appends and self._appends[0].end_offset == end_offset:
            append = self._appends.popleft()
            if not append.future.done():
                if len(append.batches) < len(batches):
                    own = [(each.base_offset, each.data) for each in append.batches]
                    committed = Committed(own, end_offset)
                append.future.set_result(committed)


def _follower(
    key: ReplicaKey, known: ReplicaProgress | None, behind_ms: int, *, is_voter: bool
) -> QuorumFollower:
    directory_id = None if key.directory_id == UNKNOWN_DIRECTORY else key.directory_id
    if known is None:
        return QuorumFollower(node_id=key.node_id, directory_id=directory_id, is_voter=is_voter)
    caught_up_ms = known.last_caught_up_ms
    return QuorumFollower(
        node_id=key.node_id,
        directory_id=directory_id,
        is_voter=is_voter,
        end_offset=known.end_offset,
        last_fetch_ms=known.last_fetch_ms + behind_ms,
        last_caught_up_ms=None if caught_up_ms < 0 else caught_up_ms + behind_ms,
    )


class _Append(NamedTuple):
    """An append of this leader."""

    future: asyncio.Future[Committed]
    batches: Sequence[LogBatch]

    @property
    def end_offset(self) -> Offset:
        return self.batches[-1].end_offset
