"""One core with the test as its driver: clock, disk and all other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.raft.core import RaftCore
from jbodlab.raft.events import (
    DeadlineReached,
    Event,
    RecordsProposed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Synced,
)
from jbodlab.raft.instructions import (
    AppendControl,
    AppendFetched,
    AppendProposed,
    ElectionState,
    Instruction,
    Respond,
    SendRequest,
    WriteQuorumState,
)
from jbodlab.raft.log_view import LogView, OffsetAndEpoch
from jbodlab.raft.messages import (
    Answer,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumFetchResponse,
    QuorumResponse,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import State, election_state
from jbodlab.raft.voters import (
    UNKNOWN_DIRECTORY,
    VERSIONS,
    Endpoints,
    History,
    ReplicaKey,
    VoterSet,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.jbodlab.raft.world import key_of, voter

REMEMBERS = ElectionState(epoch=LeaderEpoch(0), leader_id=None, voted=None)
"""Of a node that has taken part in nothing yet, and knows that."""

T = TypeVar("T")

SETTINGS = RaftSettings()
DRAW = SETTINGS.election_timeout_ms + 250
"""An election timer that is drawn with the chance of these tests."""
CHANCE = 0.25

RESPONSES: dict[type[Request], type[QuorumResponse]] = {
    UpdateVoterRequest: UpdateVoterResponse,
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchRequest: QuorumFetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
}


def at(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(offset), LeaderEpoch(epoch))


def endpoints_of(node: int) -> Endpoints:
    return voter(node).endpoints


MORE_ENDPOINTS = (*endpoints_of(2), KRaftVoterEndpoint(name="CONTROLLER_GRPC", host="h", port=1))


def log_of(
    *epochs: tuple[int, int], end: int = 0, voters: Iterable[int] = (1, 2, 3), **more: object
) -> LogView:
    """A log with (epoch, start offset) of each epoch."""
    return LogView(
        voters=History(VoterSet.of(voter(each) for each in voters)),
        kraft_versions=History(1),
        end_offset=end,
        epochs=epochs,
        **more,  # type: ignore[arg-type]
    )


ONLY_LEVEL_0 = KRaftVersionFeature(min_supported_version=0, max_supported_version=0)


def moved(node: int = 2) -> KRaftVoter:
    """A voter that is reached at further places."""
    known = voter(node)
    return KRaftVoter(
        voter_id=known.voter_id,
        voter_directory_id=known.voter_directory_id,
        endpoints=(*MORE_ENDPOINTS,),
        k_raft_version_feature=VERSIONS,
    )


def static(node: int) -> KRaftVoter:
    return KRaftVoter(
        voter_id=node,
        voter_directory_id=UNKNOWN_DIRECTORY,
        endpoints=endpoints_of(node),
        k_raft_version_feature=ONLY_LEVEL_0,
    )


def static_log() -> LogView:
    log = log_of()
    log.voters = History(VoterSet.of(map(static, (1, 2, 3))))
    log.kraft_versions = History(0)
    return log


def batch(base: int, end: int, epoch: int, **more: object) -> Batch:
    return Batch(
        base_offset=Offset(base),
        end_offset=Offset(end),
        epoch=LeaderEpoch(epoch),
        data=b"",
        **more,  # type: ignore[arg-type]
    )


class LoneNode:
    """A node 1 among voters.

    After each event it is checked that nothing leaves before quorum-state is written.
    """

    def __init__(
        self,
        *,
        voters: Iterable[int] = (1, 2, 3),
        stored: ElectionState | None = REMEMBERS,
        log: LogView | None = None,
        settings: RaftSettings = SETTINGS,
        me: ReplicaKey | None = None,
        bootstrap_servers: int = 2,
        endpoints: Endpoints | None = None,
    ) -> None:
        self.now_ms = 0
        self.chance = CHANCE
        self.requests = 1000
        self.stored = stored
        self.under_way: list[SendRequest] = []
        self.core, self.last = RaftCore.start(
            me=me or key_of(1),
            endpoints=endpoints or endpoints_of(1),
            settings=settings,
            log=log or log_of(voters=voters),
            stored=stored,
            bootstrap_servers=bootstrap_servers,
            now_ms=0,
            chance=CHANCE,
        )
        self._look()

    @property
    def state(self) -> State:
        return self.core.state

    def handle(self, event: Event) -> list[Instruction]:
        self.last = self.core.handle(event, now_ms=self.now_ms, chance=self.chance)
        self._look()
        return self.last

    def _look(self) -> None:
        if not self.core.is_whole:
            assert not self.done(WriteQuorumState)
            self.under_way += self.done(SendRequest)
            return
        for each in self.last:
            if isinstance(each, WriteQuorumState):
                self.stored = each.state
            if isinstance(each, SendRequest):
                self.under_way.append(each)
            if isinstance(each, SendRequest | Respond):
                assert self.stored == election_state(self.state), "it leaves before it is durable"
        assert self.stored == election_state(self.state)

    def done(self, kind: type[T]) -> list[T]:
        """The instructions of a kind that the last event led to."""
        return [each for each in self.last if isinstance(each, kind)]

    def asked(self, kind: type[Request]) -> list[SendRequest]:
        """The requests of a kind that the last event led to."""
        return [each for each in self.done(SendRequest) if isinstance(each.request, kind)]

    def ask(self, request: Request) -> Answer | None:
        """Ask the node; None if it does not answer at once."""
        self.requests += 1
        self.handle(RequestReceived(self.requests, request))
        for each in self.done(Respond):
            if each.request_id == self.requests:
                return each.answer
        return None

    def wait(self, duration_ms: int) -> None:
        """Let time pass, and tell the node each time that it waits for."""
        end = self.now_ms + duration_ms
        while (due := self.core.next_deadline_ms) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.handle(DeadlineReached())
            if self.core.next_deadline_ms == due:
                break
        self.now_ms = end

    def wait_until_due(self) -> None:
        """Let time pass until the timer of the state ends, and nothing else happen."""
        deadline = self.state.deadline_ms  # type: ignore[union-attr]
        assert deadline is not None
        self.now_ms = deadline
        self.handle(DeadlineReached())

    def reply(self, sent: SendRequest, response: QuorumResponse) -> None:
        self.handle(ResponseReceived(sent.request_id, response))

    def fail(self, sent: SendRequest, error: ErrorCode = ErrorCode.BROKER_NOT_AVAILABLE) -> None:
        self.handle(RequestFailed(sent.request_id, error))

    def newest(self, kind: type[Request], node: int | None = None) -> SendRequest:
        """The newest request of a kind, to a node if one is named."""
        for sent in reversed(self.under_way):
            if isinstance(sent.request, kind) and node in (None, sent.destination):
                return sent
        raise AssertionError(f"no {kind.__name__} was sent")

    def answer(
        self,
        kind: type[Request],
        node: int | None = None,
        *,
        epoch: int | None = None,
        leader: int | None = None,
        **fields: object,
    ) -> None:
        """Answer the newest request of a kind, in the epoch of the node unless it is named."""
        response = RESPONSES[kind](
            epoch=LeaderEpoch(self.state.epoch if epoch is None else epoch),
            leader_id=None if leader is None else BrokerId(leader),
            **fields,  # type: ignore[arg-type]
        )
        self.reply(self.newest(kind, node), response)

    def disk_works(self) -> None:
        """Write and sync what the last event has appended."""
        for each in self.done(AppendControl) + self.done(AppendFetched) + self.done(AppendProposed):
            self.handle(Synced(each.number))

    def propose(self, records: int = 1) -> None:
        base = self.core.end_offset
        self.handle(RecordsProposed(self.state.epoch, base, Offset(base + records)))


def vote_request(
    candidate: int = 2, *, epoch: int, end: OffsetAndEpoch | None = None, pre: bool = False
) -> VoteRequest:
    return VoteRequest(
        candidate=key_of(candidate),
        epoch=LeaderEpoch(epoch),
        voter=key_of(1),
        end=end or at(0, 0),
        is_pre_vote=pre,
    )


def begin_request(leader: int = 2, *, epoch: int, endpoints: Endpoints | None = None) -> Request:
    return BeginQuorumEpochRequest(
        leader_id=BrokerId(leader),
        epoch=LeaderEpoch(epoch),
        endpoints=endpoints_of(leader) if endpoints is None else endpoints,
        voter=key_of(1),
    )


def end_request(epoch: int = 5, *successors: int) -> EndQuorumEpochRequest:
    return EndQuorumEpochRequest(
        leader_id=BrokerId(2),
        epoch=LeaderEpoch(epoch),
        successors=tuple(key_of(each) for each in successors),
    )


def fetch_request(
    node: int, end: OffsetAndEpoch, *, epoch: int, max_wait_ms: int = 500, high_watermark: int = -1
) -> FetchRequest:
    return FetchRequest(
        replica=key_of(node),
        epoch=LeaderEpoch(epoch),
        end=end,
        max_wait_ms=max_wait_ms,
        max_bytes=1000,
        high_watermark=high_watermark,
    )


def unattached(**more: object) -> LoneNode:
    """In epoch 5, without a vote."""
    node = LoneNode(**more)  # type: ignore[arg-type]
    node.ask(vote_request(epoch=5, pre=True))
    assert node.state.epoch == 5
    return node


def follower(epoch: int = 5, *, has_fetched: bool = False, **more: object) -> LoneNode:
    """Of node 2."""
    node = LoneNode(**more)  # type: ignore[arg-type]
    node.ask(begin_request(2, epoch=epoch))
    if has_fetched:
        node.answer(FetchRequest, epoch=epoch, leader=2)
    return node


def prospective(**more: object) -> LoneNode:
    """In epoch 0, without a leader."""
    node = LoneNode(**more)  # type: ignore[arg-type]
    node.wait_until_due()
    return node


def candidate(**more: object) -> LoneNode:
    """In epoch 1."""
    node = prospective(**more)
    node.answer(VoteRequest, 2, is_granted=True)
    return node


def leader(**more: object) -> LoneNode:
    """Of epoch 1, elected by itself and node 2; its first record is at offset 0."""
    node = candidate(**more)
    node.answer(VoteRequest, 2, is_granted=True)
    return node


def established(**more: object) -> LoneNode:
    """A leader whose first record is committed, by itself and node 2."""
    node = leader(**more)
    node.disk_works()
    node.ask(fetch_request(2, at(1, 1), epoch=1))
    return node


def resigned(**more: object) -> LoneNode:
    """In epoch 1, which it led."""
    node = leader(**more)
    node.wait(SETTINGS.check_quorum_ms)
    return node


MAKERS: dict[str, Callable[[], LoneNode]] = {
    "unattached": unattached,
    "prospective": prospective,
    "candidate": candidate,
    "leader": leader,
    "follower": follower,
    "resigned": resigned,
}
