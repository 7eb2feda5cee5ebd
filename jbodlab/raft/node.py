"""One node of the quorum: its state and its log, and each change of them with its instructions.

The election state is written when a change of state changes it, before anything else happens. So
what is in memory only (asking for pre-votes, resigning) is what a restart may forget.

A voter without an election state may have lost its disk, and with it votes and records that it had
acknowledged. It is not *whole*: it gives no vote, asks for none, and fetches as `NOBODY`, so that
no leader counts it. It becomes whole in one of two ways.

* It has seen the end of a leader's log, and a later record is committed: by a majority without it,
  each member of which followed this leader at that time. So what it had acknowledged before is
  below that end, and nobody who lacks that record is elected with a vote that it has forgotten.
* All other voters ask it for pre-votes with empty logs: the quorum begins.

Until then no election state is written, so that a restart finds the node as it is. Kafka takes such
a voter for a good one (KAFKA-14205).

Source: `org.apache.kafka.raft.QuorumState`, `...KafkaRaftClient`; KIP-595.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import msgspec
from msgspec.structs import replace

from jbodlab.metadata.records.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVotersRecord,
    LeaderChangeMessage,
    Voter,
)
from jbodlab.raft.election import election_timeout
from jbodlab.raft.instructions import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    AppendControl,
    AppendFetched,
    AppendProposed,
    BeginEpoch,
    Destination,
    ElectionState,
    Instruction,
    Respond,
    TellLeader,
    TellWhole,
    TellWithheld,
    TruncateLog,
    WriteQuorumState,
)
from jbodlab.raft.log_view import LogView, OffsetAndEpoch
from jbodlab.raft.messages import (
    Batch,
    FetchRequest,
    QuorumFetchAnswer,
    Request,
    VoterChangeAnswer,
    VoterChangeRequest,
)
from jbodlab.raft.outbox import Outbox
from jbodlab.raft.progress import Progress
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import (
    TRANSITIONS,
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
    State,
    Unattached,
    election_state,
)
from jbodlab.raft.tally import Tally
from jbodlab.raft.voters import VERSIONS, Endpoints, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset

NEVER_MS = 1 << 40
BOOTSTRAP_OFFSET = -1
"""Offset of the voters in `0-0.checkpoint`: they are in no log yet."""


class KnownLeader(TypedDict):
    """The fields of a `QuorumResponse` that say who leads."""

    epoch: LeaderEpoch
    leader_id: BrokerId | None
    leader_endpoints: Endpoints


class ParkedFetch(NamedTuple):
    """A Fetch that waits for news."""

    request: FetchRequest
    deadline_ms: int


class VoterChange(msgspec.Struct):
    """A change of the voters that a leader has not answered yet.

    Attributes:
        deadline_ms: When it is answered in any case.
        offset: Of its record; None before it is appended.
        is_asked: Whether the voter that it is about was asked what it supports.
    """

    request_id: int
    request: VoterChangeRequest
    deadline_ms: int
    offset: Offset | None = None
    is_asked: bool = False


class Confirmation:
    """A question of a leader whether it still leads.

    Attributes:
        answered: Keys of voters whose Fetch was answered since.
        confirmed: Those of them that have asked for records again.
    """

    __slots__ = ("answered", "confirmed", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.answered: set[ReplicaKey] = set()
        self.confirmed: set[ReplicaKey] = set()


class QuorumNode:
    """The state of a node, and its log; `state` is replaced by the methods `become_...` only.

    Args:
        me: This replica.
        endpoints: Where other nodes reach it.
        settings: Timing.
        log: Its log.
        outbox: Its requests.
        state: The first state.
        written: The election state on the disk; None: there is no file.
    """

    def __init__(
        self,
        *,
        me: ReplicaKey,
        endpoints: Endpoints,
        settings: RaftSettings,
        log: LogView,
        outbox: Outbox,
        state: State,
        written: ElectionState | None,
    ) -> None:
        self.me = me
        self.settings = settings
        self.log = log
        self.outbox = outbox
        self.state = state
        self.high_watermark: Offset | None = None
        """The highest that this process knows; the log has all below it."""
        self.parked: dict[int, ParkedFetch] = {}
        """Fetches that a leader has not answered, by the ids of their requests."""
        self.confirmations: list[Confirmation] = []
        """Questions of a leader that are open, the oldest first."""
        self.begin_due_ms = 0
        """When a leader looks again which voters do not follow it."""
        self.not_begun: set[Destination] = set()
        """Voters that a leader tells that it leads, by node id."""
        self.is_shutting_down = False
        self.reluctant_until_ms = 0
        """Up to when the node lets others lead, as its disk is slow."""
        self.handed_over_ms = -NEVER_MS
        """When it last gave up the leadership for that."""
        self._postponed_ms: int | None = None
        """Since when it lets others lead in the present search for a leader."""
        self.suspected_until_ms = 0
        """The end of the last suspicion; none begins before."""
        self.now_ms = 0
        self.chance = 0.0
        self.instructions: list[Instruction] = []
        """Of the event that is handled."""
        self.own_endpoints = endpoints
        self.change: VoterChange | None = None
        """The change of the voters that a leader is at."""
        self.reported: dict[BrokerId, KRaftVoter] = {}
        """The voters at level 0 of kraft.version, as they have told a leader."""
        self.was_removed = False
        """Whether this process has been a voter and is none any more."""
        voters = log.voters
        self.is_whole = (
            written is not None or voters.last_offset == BOOTSTRAP_OFFSET or voters.last.is_only(me)
        )
        """Whether the node remembers all that it has voted for and acknowledged; see the module."""
        self.empty: set[BrokerId] = set()
        """Voters that have told a node that is not whole that their logs are empty."""
        self.withheld_epoch = LeaderEpoch(-1)
        """The last epoch in which a vote was withheld."""
        self._written = written
        self._told = TellLeader(LeaderEpoch(-1), None)

    @property
    def voters(self) -> VoterSet:
        """The last voter set of the log, committed or not."""
        return self.log.voters.last

    @property
    def own_voter(self) -> KRaftVoter:
        """This node as a voter set should have it."""
        return KRaftVoter(
            voter_id=self.me.node_id,
            voter_directory_id=self.me.directory_id,
            endpoints=self.own_endpoints,
            k_raft_version_feature=VERSIONS,
        )

    @property
    def may_stand(self) -> bool:
        """Whether the node may be elected: it is a whole voter that goes on."""
        return self.is_whole and self.voters.has(self.me) and not self.is_shutting_down

    @property
    def is_sole(self) -> bool:
        """Whether the node is elected by its own vote, at once."""
        return self.may_stand and self.voters.is_only(self.me)

    @property
    def asks_for_votes(self) -> bool:
        """Whether the node asks for pre-votes; without any log only to say that it has none."""
        is_new = not self.is_whole and self.log.end_offset == 0 and self.voters.has(self.me)
        return self.may_stand or (is_new and not self.is_shutting_down)

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader that other nodes may be told; a node that resigned is none."""
        return None if isinstance(self.state, Resigned) else self.state.leader_id

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where that leader is reached; empty if unknown."""
        match self.state:
            case Leader():
                return self.own_endpoints
            case Follower() | Prospective():
                return self.state.endpoints
            case _:
                return ()

    def known_leader(self) -> KnownLeader:
        """Return what each answer of this node says."""
        return {
            "epoch": self.state.epoch,
            "leader_id": self.leader_id,
            "leader_endpoints": self.leader_endpoints,
        }

    def draw(self) -> int:
        """Return the end of an election timer that begins now."""
        return self.now_ms + election_timeout(self.settings.election_timeout_ms, self.chance)

    def emit(self, instruction: Instruction) -> None:
        """Add an instruction."""
        self.instructions.append(instruction)

    def send(self, destination: ReplicaKey, request: Request) -> None:
        """Ask a node."""
        node = destination.node_id
        endpoints = self.voters.endpoints(node)
        if node == self.state.leader_id and self.leader_endpoints:
            endpoints = self.leader_endpoints
        self.emit(self.outbox.send(node, endpoints, request, self.now_ms))

    # Changes of state.

    def begin(self) -> None:
        """Write down and tell the first state; a sole voter leads in the same turn."""
        if not self.is_sole:
            self._write_if_changed()
            self._tell_if_changed()
        if not self.is_whole:
            self.emit(TellWithheld(None))
            if self.asks_for_votes:
                self.become_prospective()

    def become_whole(self) -> None:
        """Vote and count from now on."""
        self.is_whole = True
        self._write_if_changed()
        self.emit(TellWhole())

    def become_unattached(self, epoch: LeaderEpoch, leader_id: BrokerId | None = None) -> None:
        """Know no leader that can be reached."""
        state = self.state
        is_same = epoch == state.epoch
        self._enter(
            Unattached(
                epoch=epoch,
                leader_id=leader_id if leader_id is not None or not is_same else state.leader_id,
                voted=state.voted if is_same else None,
                deadline_ms=self._unattached_deadline(),
            )
        )

    def _unattached_deadline(self) -> int | None:
        if not self.asks_for_votes:
            return None
        match self.state:
            case Unattached(deadline_ms=deadline) if deadline is not None:
                return deadline
            case Follower(is_resigned=True, deadline_ms=deadline):
                # Of a successor, which another one may have been too early for.
                return deadline
            case QuorumCandidate() | Resigned():
                return self.state.deadline_ms
            case Prospective() if not self.state.tally.is_lost:
                return self.state.deadline_ms
            case _:
                return self.draw()

    def postpones_election(self) -> bool:
        """Return whether to let others be elected: the disk is slow, and they may be quicker."""
        if self.now_ms >= self.reluctant_until_ms or self.voters.is_only(self.me):
            return False
        if self._postponed_ms is None:
            self._postponed_ms = self.now_ms
        # Others whose disks are well stand in that time; perhaps there are none.
        return self.now_ms < self._postponed_ms + self.settings.election_timeout_ms

    def has_leader(self) -> None:
        """Take note that a leader is heard, or that this node is one."""
        self._postponed_ms = None

    def become_prospective(self) -> None:
        """Ask whether the voters would elect this node.

        Raises:
            QuorumViolationError: the node is no voter.
        """
        if not self.voters.has(self.me):
            raise QuorumViolationError(f"{self.me} is no voter of {self.voters.keys}")
        self._enter(
            Prospective(
                epoch=self.state.epoch,
                # Only a sole voter that has resigned finds itself here, and it is elected at once.
                leader_id=self.state.leader_id,
                endpoints=self.leader_endpoints,
                voted=self.state.voted,
                tally=self._tally(),
                since_ms=self.now_ms,
                deadline_ms=self.draw(),
                is_resigned=isinstance(self.state, Follower) and self.state.is_resigned,
            )
        )

    def become_candidate(self) -> None:
        """Enter the next epoch, and vote for this node in it."""
        self._enter(
            QuorumCandidate(
                epoch=LeaderEpoch(self.state.epoch + 1),
                voted=self.me,
                tally=self._tally(),
                deadline_ms=self.draw(),
            )
        )

    def become_leader(self) -> None:
        """Begin the epoch that this node was elected in."""
        state = self.state
        assert isinstance(state, QuorumCandidate)
        self.has_leader()
        start = self.log.end_offset
        self._enter(
            Leader(
                epoch=state.epoch,
                leader_id=self.me.node_id,
                start_offset=start,
                progress=Progress(self.me, start, self.now_ms),
            )
        )
        self.begin_due_ms = self.now_ms
        self.log.begin_epoch(state.epoch)
        self.emit(BeginEpoch(state.epoch, start))
        self.append_control(self._first_records(state.tally))

    def _first_records(self, tally: Tally) -> tuple[ControlRecord, ...]:
        ids = self.voters.ids
        change = LeaderChangeMessage(
            leader_id=self.me.node_id,
            voters=tuple(Voter(voter_id=each) for each in ids),
            granting_voters=tuple(Voter(voter_id=each) for each in ids if each in tally.granted),
        )
        level = self.log.kraft_versions.last
        if level < 1:
            return (change,)
        voters = self.voters.with_voter(self.own_voter)
        if self.log.voters.last_offset != BOOTSTRAP_OFFSET and voters == self.voters:
            return (change,)
        return (
            change,
            KRaftVersionRecord(k_raft_version=level),
            KRaftVotersRecord(voters=voters.voters),
        )

    def become_follower(
        self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: Endpoints
    ) -> None:
        """Copy the log of a leader.

        Raises:
            QuorumViolationError: the epoch has another leader.
        """
        self._check_leader(epoch, leader_id)
        deadline = self.now_ms + self.settings.fetch_timeout_ms
        self._enter(
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                endpoints=endpoints,
                voted=self.state.voted if epoch == self.state.epoch else None,
                deadline_ms=deadline,
                fetch_deadline_ms=deadline,
                update_due_ms=deadline,
            )
        )

    def become_resigned(self, successor: BrokerId | None = None) -> None:
        """Lead no longer in this epoch.

        Args:
            successor: The voter that should stand for election first; None: the longest log.
        """
        assert isinstance(self.state, Leader)
        successors = self.state.progress.successors(self.voters)
        self._enter(
            Resigned(
                epoch=self.state.epoch,
                leader_id=self.me.node_id,
                unacknowledged=self.voters.others(self.me),
                successors=tuple(sorted(successors, key=lambda key: key.node_id != successor)),
                deadline_ms=self.draw(),
            )
        )

    def take_leader(
        self,
        epoch: LeaderEpoch,
        leader_id: BrokerId | None,
        endpoints: Endpoints = (),
        *,
        is_alive: bool = False,
    ) -> None:
        """Take note of an epoch and its leader, as another node knows them.

        Args:
            epoch: A lower one than that of this node is no news.
            leader_id: None if the other node knows no leader.
            endpoints: Of the leader; empty: those of the voter set count.
            is_alive: Whether the leader itself says so.

        Raises:
            QuorumViolationError: the epoch has another leader.
        """
        state = self.state
        if leader_id == self.me.node_id and not self.is_whole:
            # It led before it lost its disk, and will not again in that epoch.
            leader_id = None
        if epoch < state.epoch or (epoch == state.epoch and leader_id in (None, self.me.node_id)):
            return
        if leader_id is None:
            self.become_unattached(epoch)
            return
        self._check_leader(epoch, leader_id)
        endpoints = endpoints or self.voters.endpoints(leader_id)
        if epoch == state.epoch and state.leader_id is not None:
            # A prospective node has lost this leader, and does not believe what others remember.
            is_back = is_alive and not isinstance(state, Follower)
            if not is_back and len(endpoints) <= len(self.leader_endpoints):
                return
        if endpoints:
            self.become_follower(epoch, leader_id, endpoints)
        elif epoch > state.epoch or isinstance(state, Unattached):
            self.become_unattached(epoch, leader_id)

    def update(self, state: State) -> None:
        """Change details of the state that are not in its election state."""
        assert election_state(state) == election_state(self.state)
        assert type(state) is type(self.state)
        self.state = state

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Give the vote of this epoch."""
        state = self.state
        if state.voted is not None:
            return
        match state:
            case Unattached():
                self._enter(
                    Unattached(epoch=state.epoch, voted=candidate, deadline_ms=self._redrawn())
                )
            case Prospective():
                self._enter(
                    replace(state, voted=candidate, tally=self._tally(), deadline_ms=self.draw())
                )
            case _:
                raise AssertionError(state)

    def _redrawn(self) -> int | None:
        return self.draw() if self.asks_for_votes else None

    def _tally(self) -> Tally:
        voters = self.voters
        return Tally(
            majority=voters.majority,
            voters=voters.keys,
            granted=(self.me.node_id,) if voters.has(self.me) else (),
        )

    def _check_leader(self, epoch: LeaderEpoch, leader_id: BrokerId) -> None:
        if leader_id == self.me.node_id:
            raise QuorumViolationError(
                f"others take {self.me} for the leader of epoch {epoch}; it is {self.state}"
            )
        known = self.state.leader_id
        if epoch == self.state.epoch and known not in (None, leader_id):
            raise QuorumViolationError(f"epoch {epoch} has two leaders: {known} and {leader_id}")

    def _enter(self, state: State) -> None:
        former = self.state
        if (type(former), type(state)) not in TRANSITIONS:
            raise QuorumViolationError(f"{former} cannot become {state}")
        if state.epoch < former.epoch:
            raise QuorumViolationError(f"epoch {former.epoch} goes back to {state.epoch}")
        self.state = state
        self.outbox.forget_all()
        # A sole voter leads before the turn ends.
        is_passing = self.is_sole and isinstance(state, Prospective | QuorumCandidate)
        if not is_passing:
            self._write_if_changed()
        if isinstance(former, Follower) and former.download is not None:
            self.emit(AbandonSnapshot(former.download))
        if not is_passing:
            self._tell_if_changed()
        for request_id in self.parked:
            answer = QuorumFetchAnswer(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                **self.known_leader(),
            )
            self.emit(Respond(request_id, answer))
        self.parked.clear()
        self.confirmations.clear()
        change, self.change = self.change, None
        if change is not None:
            told = VoterChangeAnswer(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                message="the leader has changed; the change may be committed or not",
                **self.known_leader(),
            )
            self.emit(Respond(change.request_id, told))
        self.reported.clear()

    def _write_if_changed(self) -> None:
        state = election_state(self.state)
        if self.is_whole and state != self._written:
            self._written = state
            level = self.log.kraft_versions.last
            self.emit(WriteQuorumState(state, level, self.voters.ids))

    def _tell_if_changed(self) -> None:
        told = TellLeader(self.state.epoch, self.leader_id)
        if told != self._told:
            self._told = told
            self.emit(told)

    # Changes of the log.

    def append_control(self, records: tuple[ControlRecord, ...]) -> None:
        """Append a batch of control records as the leader."""
        base = self.log.end_offset
        number = self.log.append(Offset(base + len(records)))
        self.log.add_controls((Offset(base + index), each) for index, each in enumerate(records))
        self.emit(AppendControl(number, self.state.epoch, base, records))

    def append_proposed(self, end_offset: Offset) -> None:
        """Append batches of the controller as the leader."""
        self.emit(AppendProposed(self.log.append(end_offset)))

    def append_fetched(self, batches: Sequence[Batch]) -> None:
        """Append batches of the leader."""
        for batch in batches:
            if batch.epoch > self.log.last_epoch or not self.log.epochs:
                self.log.begin_epoch(batch.epoch)
            number = self.log.append(batch.end_offset)
            was_voter = self.voters.has(self.me)
            self.log.add_controls(batch.controls)
            self.was_removed |= was_voter and not self.voters.has(self.me)
        self.emit(AppendFetched(number, tuple(batches)))

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log.

        Raises:
            QuorumViolationError: committed records would be lost.
        """
        if self.high_watermark is not None and end_offset < self.high_watermark:
            raise QuorumViolationError(
                f"{self.state} cuts its log of {self.log.end} at {end_offset}, "
                f"below the high watermark {self.high_watermark}"
            )
        self.log.truncate_to(end_offset)
        self.emit(TruncateLog(end_offset))

    def restart_log(
        self, snapshot: OffsetAndEpoch, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """Take note that the log begins anew at the end of a snapshot, which is committed."""
        self.log.restart_at(snapshot, voters, kraft_version)
        self.advance_high_watermark(snapshot.offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Take note that all below an offset is committed; a lower one is no news."""
        if offset > (-1 if self.high_watermark is None else self.high_watermark):
            assert offset <= self.log.end_offset
            self.high_watermark = Offset(offset)
            self.emit(AdvanceHighWatermark(self.high_watermark))
