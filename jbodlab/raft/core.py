"""The core of a quorum of controllers: events in, instructions out; no clock, no disk, no chance.

How a driver uses it. It makes a core from what the disk has, with `RaftCore.start`, and carries out
the instructions. From then on it passes on one event at a time, with the time of a clock that never
goes back and with a random number, and carries out what the event leads to before it passes on the
next one; `instructions` says what may go on in the meantime. It passes on a `DeadlineReached` when
`next_deadline_ms` has come. The core decides everything else: whom to ask and when again, what an
answer means, when a Fetch is answered, what is committed.

    messages, instructions, events    what goes in and out
    states, node, start               the states, and each change of state or log
    election, tally                   votes
    answering, responses              requests and answers of other nodes
    leading, progress, membership     the duties of a leader
    following, joining, log_view      the duties of a follower, and where two logs diverge
    outbox                            requests under way
    voters                            voter sets by offset

Source: `org.apache.kafka.raft.KafkaRaftClient`; KIP-595, KIP-853, KIP-996.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from jbodlab.raft import following, leading
from jbodlab.raft.answering import answer
from jbodlab.raft.events import (
    ConfirmationAsked,
    DeadlineReached,
    DiskSlow,
    Event,
    LeaderSuspected,
    NodeShutdownBegun,
    RecordsProposed,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotsChanged,
    Synced,
)
from jbodlab.raft.instructions import ElectionState, Instruction
from jbodlab.raft.log_view import LogView
from jbodlab.raft.membership import send_question
from jbodlab.raft.messages import EndQuorumEpochRequest, VoteRequest
from jbodlab.raft.node import QuorumNode
from jbodlab.raft.outbox import Outbox
from jbodlab.raft.responses import take_failure, take_response
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.start import first_state
from jbodlab.raft.states import (
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
    State,
    Unattached,
)
from jbodlab.raft.voters import Endpoints, ReplicaKey, VoterSet
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset


class RaftCore:
    """One node of the quorum; made by `start`."""

    def __init__(self, node: QuorumNode) -> None:
        self._node = node

    @classmethod
    def start(
        cls,
        *,
        me: ReplicaKey,
        endpoints: Endpoints,
        settings: RaftSettings,
        log: LogView,
        stored: ElectionState | None,
        bootstrap_servers: int,
        now_ms: int,
        chance: float,
    ) -> tuple[RaftCore, list[Instruction]]:
        """Return the core of a node that starts, and its first instructions.

        Args:
            me: This replica.
            endpoints: Where other nodes reach it.
            settings: Timing.
            log: The log as it was opened; the core is its owner from now on.
            stored: Content of quorum-state; None: there is no such file.
            bootstrap_servers: The number of addresses at which a leader is looked for.
            now_ms: Time of a clock that never goes back.
            chance: From 0 up to 1.
        """
        outbox = Outbox(
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            bootstrap_servers=bootstrap_servers,
        )
        node = QuorumNode(
            me=me,
            endpoints=endpoints,
            settings=settings,
            log=log,
            outbox=outbox,
            state=first_state(me, log, stored, settings, now_ms, chance),
            written=stored,
        )
        core = cls(node)
        node.now_ms, node.chance = now_ms, chance
        node.begin()
        return core, core._finished()

    @property
    def state(self) -> State:
        """The state of the node."""
        return self._node.state

    @property
    def leader_id(self) -> BrokerId | None:
        """Leader of the epoch; None if unknown, and for a node that resigned."""
        return self._node.leader_id

    @property
    def voters(self) -> VoterSet:
        """The last voter set, committed or not."""
        return self._node.voters

    @property
    def end_offset(self) -> Offset:
        """Where a leader appends."""
        return self._node.log.end_offset

    @property
    def high_watermark(self) -> Offset | None:
        """The first offset that is not known to be committed; None if nothing is known."""
        return self._node.high_watermark

    @property
    def is_whole(self) -> bool:
        """Whether the node votes and counts; see `node`."""
        return self._node.is_whole

    @property
    def log(self) -> LogView:
        """The log; to be read only."""
        return self._node.log

    @property
    def next_deadline_ms(self) -> int | None:
        """When `DeadlineReached` is due; None if only another event can change anything."""
        node, state = self._node, self._node.state
        times = [node.outbox.next_deadline_ms]
        if isinstance(state, Leader):
            times.extend(leading.deadlines_ms(node, state))
        elif not (isinstance(state, Resigned) and node.is_shutting_down):
            times.append(state.deadline_ms)
        return min((time for time in times if time is not None), default=None)

    def leads_in(self, epoch: LeaderEpoch) -> bool:
        """Return whether this node leads in an epoch, and may append in it."""
        state = self._node.state
        return isinstance(state, Leader) and state.epoch == epoch

    def handle(self, event: Event, *, now_ms: int, chance: float) -> list[Instruction]:
        """Take an event in, and say what is to be done now, in order.

        Args:
            event: Of the node itself, its disk or another node.
            now_ms: Time of a clock that never goes back.
            chance: From 0 up to 1, drawn anew for each event.

        Raises:
            QuorumViolationError: the nodes of the quorum contradict each other.
        """
        node = self._node
        assert now_ms >= node.now_ms
        node.now_ms, node.chance = now_ms, chance
        self._take_in(event)
        return self._finished()

    def _finished(self) -> list[Instruction]:
        if not isinstance(self._node.state, Leader):
            self._settle()
        self._send()
        instructions, self._node.instructions = self._node.instructions, []
        return instructions

    def _take_in(self, event: Event) -> None:
        node = self._node
        match event:
            case RecordsProposed():
                assert self.leads_in(event.epoch)
                assert event.base_offset == node.log.end_offset
                node.append_proposed(event.end_offset)
                leading.records_appended(node)
            case Synced():
                node.log.note_synced(event.number)
                leading.advance_high_watermark(node)
                following.advance_high_watermark(node)
            case DeadlineReached():
                self._tick()
            case RequestReceived():
                answer(node, event.request_id, event.request)
            case ResponseReceived():
                take_response(node, event.request_id, event.response)
            case RequestFailed():
                take_failure(node, event.request_id, event.error)
            case ConfirmationAsked():
                assert isinstance(node.state, Leader)
                leading.confirm(node, node.state, event.number)
            case DiskSlow():
                leading.disk_is_slow(node, event.sync_ms)
            case SnapshotInstalled():
                node.restart_log(event.snapshot, event.voters, event.kraft_version)
                self._end_download()
            case SnapshotRefused():
                self._end_download()
            case SnapshotsChanged():
                node.log.set_snapshots(event.snapshots, event.start_offset)
            case LeaderSuspected():
                self._suspect()
            case ResignRequested():
                if isinstance(node.state, Leader):
                    node.become_resigned(event.successor)
            case NodeShutdownBegun():
                node.is_shutting_down = True
                if isinstance(node.state, Leader):
                    node.become_resigned()
            case _:
                assert_never(event)

    # Timers.

    def _tick(self) -> None:
        node, state = self._node, self._node.state
        node.outbox.expire(node.now_ms)
        if isinstance(state, Leader):
            leading.check_deadlines(node, state)
        elif state.deadline_ms is not None and state.deadline_ms <= node.now_ms:
            self._time_is_over(state)

    def _time_is_over(
        self,
        state: Unattached | Prospective | QuorumCandidate | Follower | Resigned,
    ) -> None:
        node = self._node
        if isinstance(state, Unattached | Follower) and node.postpones_election():
            again_ms = node.now_ms + node.settings.election_timeout_ms
            node.update(replace(state, deadline_ms=again_ms))
            return
        match state:
            case Unattached():
                if node.asks_for_votes:
                    node.become_prospective()
                else:
                    node.update(replace(state, deadline_ms=None))
            case Prospective():
                self._lose(state)
            case QuorumCandidate():
                node.become_prospective()
            case Follower():
                if node.may_stand:
                    node.become_prospective()
                else:
                    # A leader that does not answer is asked by way of a bootstrap server.
                    deadline = node.now_ms + node.settings.fetch_timeout_ms
                    node.update(replace(state, deadline_ms=deadline, fetch_deadline_ms=deadline))
            case Resigned():
                if not node.is_shutting_down:
                    node.become_unattached(LeaderEpoch(state.epoch + 1))
            case _:
                assert_never(state)

    def _lose(self, state: Prospective) -> None:
        if state.leader_id is not None and state.endpoints:
            # A leader that is well is found again.
            self._node.become_follower(state.epoch, state.leader_id, state.endpoints)
        else:
            self._node.become_unattached(state.epoch)

    def _settle(self) -> None:
        """Go on as far as votes lead; a sole voter wins each step with its own vote."""
        node = self._node
        if isinstance(node.state, Unattached | Follower | Resigned) and node.is_sole:
            node.become_prospective()
        if isinstance(node.state, Prospective):
            if node.state.tally.is_lost or (node.state.tally.is_won and not node.is_whole):
                self._lose(node.state)
            elif node.state.tally.is_won:
                node.become_candidate()
        if isinstance(node.state, QuorumCandidate) and node.state.tally.is_won:
            node.become_leader()

    def _suspect(self) -> None:
        node, state = self._node, self._node.state
        settings = node.settings
        is_new = node.now_ms >= node.suspected_until_ms and settings.suspect_ms >= 0
        if not isinstance(state, Follower) or not is_new or not node.may_stand:
            return
        ids = [each for each in node.voters.ids if each != state.leader_id]
        pause = settings.suspect_ms + ids.index(node.me.node_id) * settings.suspect_stagger_ms
        node.suspected_until_ms = state.fetch_deadline_ms
        deadline = min(state.deadline_ms, node.now_ms + pause)
        node.update(replace(state, deadline_ms=deadline, is_suspected=True))

    def _end_download(self) -> None:
        state = self._node.state
        if isinstance(state, Follower):
            self._node.update(replace(state, download=None, position=None))

    # Requests of this node.

    def _send(self) -> None:
        node, state = self._node, self._node.state
        match state:
            case Leader():
                if node.not_begun:
                    leading.send_begin_epoch(node, state)
                if node.change is not None:
                    send_question(node, node.change)
            case Unattached() | Follower():
                following.send_fetch(node)
            case Prospective() | QuorumCandidate():
                self._send_votes(state)
            case Resigned():
                for key in state.unacknowledged:
                    if node.outbox.is_ready(key.node_id):
                        request = EndQuorumEpochRequest(
                            leader_id=node.me.node_id,
                            epoch=state.epoch,
                            successors=state.successors,
                            endpoints=node.own_endpoints,
                        )
                        node.send(key, request)
            case _:
                assert_never(state)

    def _send_votes(self, state: Prospective | QuorumCandidate) -> None:
        node = self._node
        for key in state.tally.unanswered:
            if node.outbox.is_ready(key.node_id):
                request = VoteRequest(
                    candidate=node.me,
                    epoch=state.epoch,
                    voter=key,
                    end=node.log.end,
                    is_pre_vote=isinstance(state, Prospective),
                )
                node.send(key, request)
