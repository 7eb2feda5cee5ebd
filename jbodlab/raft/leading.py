"""The duties of a leader: it answers fetches, knows what is committed, and keeps its majority.

A Fetch is answered at once if there is news for its replica, which are records, or a higher high
watermark (KIP-1166). Otherwise it is parked until there is, or its time is over.

Source: `org.apache.kafka.raft.KafkaRaftClient`, `...LeaderState`; KIP-595, KIP-836.
"""

from __future__ import annotations

from jbodlab.raft.instructions import (
    ReportLostRecords,
    Respond,
    TellConfirmed,
    TellEstablished,
    TellHandedOver,
)
from jbodlab.raft.log_view import VALID, Position
from jbodlab.raft.membership import end_late_change, voters_committed
from jbodlab.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    QuorumFetchAnswer,
)
from jbodlab.raft.node import Confirmation, ParkedFetch, QuorumNode
from jbodlab.raft.states import Leader
from jbodlab.raft.voters import NOBODY, ReplicaKey
from jbodlab.vocabulary.error_code import ErrorCode

OBSERVER_SILENCE_MS = 300_000
"""After which an observer is forgotten."""
SLOW_DISK_MS, HANDED_OVER_MS = 10_000, 60_000
"""How long a voter whose disk is slow lets others lead, and one that has handed over for that."""
HAND_OVER_PAUSE_MS = 10_000
"""Shortest time between two hand-overs of a node."""
FASTER = 5
"""How many times faster the disk of another voter must be."""


def refusal(node: QuorumNode, epoch: int) -> ErrorCode:
    """Return why a request to the leader of an epoch is not served; NONE if it is."""
    state = node.state
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    # A node that ends has resigned.
    return ErrorCode.NONE if isinstance(state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def fetch(node: QuorumNode, request_id: int, request: FetchRequest) -> None:
    """Answer a Fetch, or park it."""
    end = request.end
    error = refusal(node, request.epoch)
    if min(request.max_wait_ms, end.offset, end.epoch) < 0 or end.epoch > request.epoch:
        error = ErrorCode.INVALID_REQUEST
    state = node.state
    if error is not ErrorCode.NONE or not isinstance(state, Leader):
        node.emit(Respond(request_id, QuorumFetchAnswer(error=error, **node.known_leader())))
        return
    position = _position(node, request)
    if position != VALID:
        node.emit(Respond(request_id, _answer(node, state, position)))
        return
    _take_progress(node, state, request)
    known = state.progress.high_watermark
    is_behind = known is not None and request.high_watermark < known
    node.parked[request_id] = ParkedFetch(request, node.now_ms + request.max_wait_ms)
    is_urgent = is_behind or request.max_wait_ms == 0 or _is_waited_for(node, request)
    if node.log.end_offset > end.offset or is_urgent:
        _answer_parked(node, state, request_id)


def _position(node: QuorumNode, request: FetchRequest) -> Position:
    if request.end.offset == 0 and node.log.snapshots:
        # Cheaper than the history (KAFKA-15078).
        return Position(snapshot=node.log.snapshots[-1])
    return node.log.position_of(request.end.offset, request.end.epoch)


def _answer_parked(node: QuorumNode, state: Leader, request_id: int) -> None:
    request = node.parked.pop(request_id).request
    voter = node.voters.key_of(request.replica)
    if voter is not None:
        for confirmation in node.confirmations:
            confirmation.answered.add(voter)
    node.emit(Respond(request_id, _answer(node, state, VALID, request)))


def _answer(
    node: QuorumNode, state: Leader, position: Position, request: FetchRequest | None = None
) -> QuorumFetchAnswer:
    read = None
    if request is not None and request.end.offset < node.log.end_offset:
        read = request.end.offset, node.log.end_offset, request.max_bytes
        state.progress.sent_records(_key_of(node, request), node.now_ms)
    known = state.progress.high_watermark
    return QuorumFetchAnswer(
        **node.known_leader(),
        high_watermark=-1 if known is None else known,
        log_start_offset=node.log.start_offset,
        diverging=position.diverging,
        snapshot=position.snapshot,
        read=read,
    )


def _take_progress(node: QuorumNode, state: Leader, request: FetchRequest) -> None:
    if request.replica == NOBODY:
        return
    voter = node.voters.key_of(request.replica)
    replica = _key_of(node, request)
    highest = state.progress.highest(replica)
    has_lost = state.progress.fetched(replica, request.end.offset, node.log.end_offset, node.now_ms)
    if has_lost and voter is not None:
        node.emit(ReportLostRecords(request.replica, highest, request.end.offset))
    _hear(node, state, request)
    _confirm(node, request)
    advance_high_watermark(node)


def _key_of(node: QuorumNode, request: FetchRequest) -> ReplicaKey:
    """Return the key by which the progress of a replica is kept."""
    voter = node.voters.key_of(request.replica)
    return request.replica if voter is None else voter


def confirm(node: QuorumNode, state: Leader, number: int) -> None:
    """Ask the voters whether this node still leads, by answers that they follow with a Fetch.

    A Fetch that is on its way already may be of a voter that has left this leader meanwhile.
    """
    node.confirmations.append(Confirmation(number))
    for request_id in list(node.parked):
        _answer_parked(node, state, request_id)
    _tell_confirmed(node)


def _confirm(node: QuorumNode, request: FetchRequest) -> None:
    voter = node.voters.key_of(request.replica)
    if voter is None or voter == node.voters.key_of(node.me):
        return
    for confirmation in node.confirmations:
        if voter in confirmation.answered:
            confirmation.confirmed.add(voter)
    _tell_confirmed(node)


def _tell_confirmed(node: QuorumNode) -> None:
    if not node.confirmations:
        return
    others = node.voters.majority - node.voters.has(node.me)
    while node.confirmations and len(node.confirmations[0].confirmed) >= others:
        node.emit(TellConfirmed(node.confirmations.pop(0).number))


def _is_waited_for(node: QuorumNode, request: FetchRequest) -> bool:
    """Return whether a question is open that the replica has no answer since to."""
    voter = node.voters.key_of(request.replica)
    return voter is not None and any(voter not in each.answered for each in node.confirmations)


def _hear(node: QuorumNode, state: Leader, request: FetchRequest | FetchSnapshotRequest) -> None:
    voter = node.voters.key_of(request.replica)
    if voter is not None and voter != node.voters.key_of(node.me):
        node.not_begun.discard(voter.node_id)
        state.progress.heard(voter, node.voters, node.now_ms)


def fetch_snapshot(node: QuorumNode, request_id: int, request: FetchSnapshotRequest) -> None:
    """Answer a FetchSnapshot."""
    error = refusal(node, request.epoch)
    if error is ErrorCode.NONE and request.snapshot not in node.log.snapshots:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    elif error is ErrorCode.NONE and request.position < 0:
        error = ErrorCode.POSITION_OUT_OF_RANGE
    is_served = error is ErrorCode.NONE
    if is_served and isinstance(node.state, Leader):
        _hear(node, node.state, request)
    read = (request.snapshot, request.position, request.max_bytes) if is_served else None
    answer = FetchSnapshotAnswer(error=error, read=read, **node.known_leader())
    node.emit(Respond(request_id, answer))


def advance_high_watermark(node: QuorumNode) -> None:
    """Commit what a majority has on disk now; all parked fetches learn of it."""
    state = node.state
    if not isinstance(state, Leader):
        return
    is_first = state.progress.high_watermark is None
    if not state.progress.advance(node.voters, node.log.synced_offset):
        return
    assert state.progress.high_watermark is not None
    node.advance_high_watermark(state.progress.high_watermark)
    for request_id in list(node.parked):
        _answer_parked(node, state, request_id)
    if is_first:
        node.emit(TellEstablished(state.epoch, state.start_offset))
    _tell_confirmed(node)
    voters_committed(node, state)


def disk_is_slow(node: QuorumNode, sync_ms: int) -> None:
    """Stand back in elections for a while, and hand over to a voter with a faster disk.

    While a majority of the others is well, they commit without this node, and nobody notices. The
    leadership is handed over before one of them fails, too.
    """
    node.reluctant_until_ms = max(node.reluctant_until_ms, node.now_ms + SLOW_DISK_MS)
    state = node.state
    if not isinstance(state, Leader) or node.now_ms < node.handed_over_ms + HAND_OVER_PAUSE_MS:
        return
    since_ms = node.now_ms - node.settings.fetch_timeout_ms
    heard = set(node.voters.others(node.me)) - set(state.progress.silent(node.voters, since_ms))
    is_any_faster = any(state.progress.sync_ms(each) * FASTER <= sync_ms for each in heard)
    if len(heard) >= node.voters.majority and is_any_faster:
        node.handed_over_ms = node.now_ms
        node.reluctant_until_ms = node.now_ms + HANDED_OVER_MS
        node.emit(TellHandedOver(sync_ms))
        node.become_resigned()


def records_appended(node: QuorumNode) -> None:
    """Answer the fetches that there are records for now, be they on this node's disk or not."""
    state = node.state
    if isinstance(state, Leader):
        for request_id, parked in list(node.parked.items()):
            if parked.request.end.offset < node.log.end_offset:
                _answer_parked(node, state, request_id)


def check_deadlines(node: QuorumNode, state: Leader) -> None:
    """Resign without a majority, answer fetches whose time is over, look for silent voters."""
    deadline = _resignation_due_ms(node, state)
    if deadline is not None and deadline <= node.now_ms:
        node.become_resigned()
        return
    end_late_change(node)
    for request_id, parked in list(node.parked.items()):
        if parked.deadline_ms <= node.now_ms:
            _answer_parked(node, state, request_id)
    if node.begin_due_ms <= node.now_ms:
        _look_for_silent_voters(node, state)


def _look_for_silent_voters(node: QuorumNode, state: Leader) -> None:
    since_ms = node.now_ms - node.settings.begin_epoch_ms
    node.not_begun = {key.node_id for key in state.progress.silent(node.voters, since_ms)}
    node.begin_due_ms = node.now_ms + node.settings.begin_epoch_ms
    state.progress.forget_observers(node.voters, node.now_ms - OBSERVER_SILENCE_MS)


def deadlines_ms(node: QuorumNode, state: Leader) -> list[int | None]:
    """Return when the leader has something to do; never, if nobody follows it or should."""
    parked = [each.deadline_ms for each in node.parked.values()]
    change_due = None if node.change is None else node.change.deadline_ms
    resignation_due = _resignation_due_ms(node, state)
    has_others = resignation_due is not None or bool(state.progress.replicas)
    begin_due = node.begin_due_ms if has_others else None
    return [resignation_due, begin_due, change_due, *parked]


def _resignation_due_ms(node: QuorumNode, state: Leader) -> int | None:
    if node.voters.is_only(node.me):
        return None
    return state.progress.majority_heard_ms + node.settings.check_quorum_ms


def send_begin_epoch(node: QuorumNode, state: Leader) -> None:
    """Tell the voters that do not follow that this node leads."""
    for key in node.voters.others(node.me):
        if key.node_id in node.not_begun and node.outbox.is_ready(key.node_id):
            request = BeginQuorumEpochRequest(
                leader_id=node.me.node_id,
                epoch=state.epoch,
                endpoints=node.leader_endpoints,
                voter=key,
            )
            node.send(key, request)
