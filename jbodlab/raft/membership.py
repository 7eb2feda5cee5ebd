"""Changes of the voter set by its leader, one voter at a time.

A set counts from its record on, for elections and for the high watermark. Two sets in a row have a
common majority, so there is one change at a time: the leader knows what is committed in its epoch,
no other change waits, and the last voter set is committed. A change is done when its record is
committed, counted with the new set. If the time of the asker is over before, the record stays, and
may be committed later; the next change has to wait for that.

    AddVoter     the new voter answers ApiVersions, and has the log as an observer
    RemoveVoter  a majority of those who are left follows
    UpdateVoter  the voter answers at its new address; answered when the record is appended.
                 At level 0 of kraft.version the leader only remembers what it was told
    level 1      all static voters have told this leader their directories

A leader that removes itself counts no more from the record on. It leads until the record is
committed, and resigns then. If it died before any other voter has the record, its log would be the
longest, and it might not stand for election any more: where the others have no majority without it,
such as one of two voters, nobody could be elected again. There it resigns at once, and the next
leader removes it.

Source: `org.apache.kafka.raft.internals.AddVoterHandler`, `...RemoveVoterHandler`,
`...UpdateVoterHandler`, `...KRaftVersionUpgrade`; KIP-853. Kafka takes a voter that was caught up
within an hour, any removal, and a changed address that nobody has tried (KAFKA-20661).
"""

from __future__ import annotations

from typing import assert_never

from jbodlab.metadata.records.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVotersRecord,
)
from jbodlab.raft.instructions import Respond
from jbodlab.raft.messages import (
    AddVoterRequest,
    PlainResponse,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeAnswer,
    VoterChangeRequest,
)
from jbodlab.raft.node import QuorumNode, VoterChange
from jbodlab.raft.outbox import SentRequest
from jbodlab.raft.states import Leader
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, VERSIONS, ReplicaKey, VoterSet, key_of, supports
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, Offset

LAG_MAX = 1_000
"""Records that a new voter may lack."""

COMMIT_MS_MAX = 60_000
"""Longest wait for the commit of a change."""


def change_voters(node: QuorumNode, request_id: int, request: VoterChangeRequest) -> None:
    """Refuse a change, carry it out, or begin to ask the voter that it is about."""
    try:
        _begin(node, request_id, request)
    except KafkaError as error:
        _answer(node, request_id, error.code, error.message)


def _begin(node: QuorumNode, request_id: int, request: VoterChangeRequest) -> None:
    state = node.state
    if isinstance(request, UpdateVoterRequest) and request.epoch != state.epoch:
        is_old = request.epoch < state.epoch
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
    if not isinstance(state, Leader):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this controller does not lead")
    match request:
        case AddVoterRequest():
            _check_complete(node, request.voter, _added(request))
            _check_quiet(node, state, level_min=1)
            if request.is_again and request.voter in node.voters.keys:
                _answer(node, request_id)
                return
            if node.voters.voter(request.voter.node_id) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_VOTER, f"node {request.voter.node_id} is a voter already"
                )
            _ask(node, request_id, request, node.settings.request_timeout_ms)
        case RemoveVoterRequest():
            if request.voter.directory_id == UNKNOWN_DIRECTORY:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names no directory id")
            _check_quiet(node, state, level_min=1)
            if request.is_again and request.voter not in node.voters.keys:
                _answer(node, request_id)
                return
            _remove(node, state, request_id, request.voter)
        case UpdateVoterRequest():
            _update(node, state, request_id, request)
        case RaiseKRaftVersionRequest():
            _raise_version(node, state, request_id, request)
        case _:
            assert_never(request)


def _check_complete(node: QuorumNode, voter: ReplicaKey, described: KRaftVoter) -> None:
    name, versions = node.own_endpoints[0].name, described.k_raft_version_feature
    is_complete = voter.node_id >= 0 and voter.directory_id != UNKNOWN_DIRECTORY
    if not is_complete or not any(each.name == name for each in described.endpoints):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a voter has a node id, a directory id and an endpoint of listener {name}",
        )
    if not 0 <= versions.min_supported_version <= versions.max_supported_version:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"kraft.version is supported from {versions}")


def _check_quiet(node: QuorumNode, state: Leader, *, level_min: int) -> None:
    """Check that no change may be under way, and that changes are possible at all."""
    if node.change is not None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is pending")
    committed = state.progress.high_watermark
    if committed is None:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "the leader does not know yet what is committed"
        )
    if node.log.kraft_versions.last < level_min:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"kraft.version {node.log.kraft_versions.last} has a fixed set of voters; "
            "raise it to 1 first",
        )
    last = node.log.voters.last_offset
    if last is not None and last >= committed:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the last voter set is not committed yet")


def _following(node: QuorumNode, state: Leader, voters: VoterSet) -> int:
    """Return how many voters of a set, but this leader, follow it now."""
    since_ms = node.now_ms - 2 * node.settings.fetch_timeout_ms
    replicas = state.progress.replicas
    known = (replicas.get(key) for key in voters.others(node.me))
    return sum(
        each is not None and each.counts and each.last_fetch_ms >= since_ms for each in known
    )


def _remove(node: QuorumNode, state: Leader, request_id: int, voter: ReplicaKey) -> None:
    voters, rest = node.voters, node.voters.without(voter.node_id)
    if voter not in voters.keys:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{voter} is no voter")
    if not rest.voters:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{voter} is the last voter")
    following = _following(node, state, rest)
    if following + rest.has(node.me) < rest.majority:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"too few of the voters {', '.join(map(str, rest.ids))} follow the leader",
        )
    if voter == node.me and following < voters.majority:
        node.become_resigned()
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leader has to remove this one")
    change = VoterChange(
        request_id, RemoveVoterRequest(voter=voter), node.now_ms + node.settings.request_timeout_ms
    )
    _append(node, state, change, _record(rest))


def _update(node: QuorumNode, state: Leader, request_id: int, request: UpdateVoterRequest) -> None:
    voter, level = request.voter, node.log.kraft_versions.last
    key = key_of(voter)
    _check_complete(node, key, voter)
    _check_quiet(node, state, level_min=0)
    _check_supports(voter, level)
    known = node.voters.voter(key.node_id)
    if known is None or not node.voters.has(key):
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{key} is no voter")
    if level >= 1 and known != voter:
        # The voter waits for the answer with its next Fetch.
        _ask(node, request_id, request, node.settings.fetch_timeout_ms // 2)
        return
    if level == 0:
        node.reported[key.node_id] = voter
    _answer(node, request_id)


def _raise_version(
    node: QuorumNode, state: Leader, request_id: int, request: RaiseKRaftVersionRequest
) -> None:
    level = node.log.kraft_versions.last
    if request.level == level:
        _answer(node, request_id)
        return
    if request.level < level:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot be lowered from {level}"
        )
    _check_quiet(node, state, level_min=0)
    voters = VoterSet.of(_with_directory(node, each, request.level) for each in node.voters.voters)
    if request.validates_only:
        _answer(node, request_id)
        return
    records = (KRaftVersionRecord(k_raft_version=request.level), *_record(voters))
    _append(node, state, VoterChange(request_id, request, node.now_ms + COMMIT_MS_MAX), records)


def _with_directory(node: QuorumNode, static: KRaftVoter, level: int) -> KRaftVoter:
    """Return a static voter as it has told this leader."""
    voter_id = BrokerId(static.voter_id)
    voter = node.own_voter if voter_id == node.me.node_id else node.reported.get(voter_id)
    if voter is None:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"controller {voter_id} has not told the leader its directory id yet",
        )
    if not supports(voter.k_raft_version_feature, level):
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"controller {voter_id} does not support level {level} of kraft.version",
        )
    if voter.voter_directory_id == UNKNOWN_DIRECTORY:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"controller {voter_id} has no directory id"
        )
    return voter


def _check_supports(voter: KRaftVoter, level: int) -> None:
    if not supports(voter.k_raft_version_feature, level):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"node {voter.voter_id} does not support level {level} of kraft.version",
        )


def _added(request: AddVoterRequest) -> KRaftVoter:
    return KRaftVoter(
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
        endpoints=request.endpoints,
        k_raft_version_feature=VERSIONS,
    )


def _record(voters: VoterSet) -> tuple[ControlRecord, ...]:
    return (KRaftVotersRecord(voters=voters.voters),)


# The question to the voter.


def _ask(
    node: QuorumNode,
    request_id: int,
    request: AddVoterRequest | UpdateVoterRequest,
    timeout_ms: int,
) -> None:
    node.change = VoterChange(request_id, request, node.now_ms + timeout_ms)


def send_question(node: QuorumNode, change: VoterChange) -> None:
    """Ask the voter that a change is about which levels it supports, at its new address."""
    if change.is_asked or change.offset is not None:
        return
    match change.request:
        case AddVoterRequest(voter=key, endpoints=endpoints):
            asked = key.node_id
        case UpdateVoterRequest(voter=voter):
            asked, endpoints = BrokerId(voter.voter_id), voter.endpoints
        case _:
            raise AssertionError(change)
    if node.outbox.is_ready(asked):
        change.is_asked = True
        node.emit(node.outbox.send(asked, endpoints, VersionsRequest(), node.now_ms))


def question_answered(node: QuorumNode, sent: SentRequest, answer: PlainResponse) -> None:
    """Go on with the change whose voter has answered, or could not."""
    change, state = node.change, node.state
    is_expected = isinstance(sent.request, VersionsRequest) and change is not None
    if not is_expected or change is None or not change.is_asked or not isinstance(state, Leader):
        return
    if change.offset is not None:
        return
    try:
        if not isinstance(answer, VersionsResponse) or answer.error is not ErrorCode.NONE:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {sent.destination} does not answer at its address: {answer.error.name}",
            )
        _append_voter(node, state, change, answer)
    except KafkaError as error:
        _end(node, error.code, error.message)


def _append_voter(
    node: QuorumNode, state: Leader, change: VoterChange, answer: VersionsResponse
) -> None:
    match change.request:
        case AddVoterRequest() as request:
            added = _added(request)
            added = KRaftVoter(
                voter_id=added.voter_id,
                voter_directory_id=added.voter_directory_id,
                endpoints=added.endpoints,
                k_raft_version_feature=answer.versions,
            )
            _check_supports(added, node.log.kraft_versions.last)
            _check_caught_up(node, state, request.voter)
            change.deadline_ms = node.now_ms + min(request.timeout_ms, COMMIT_MS_MAX)
            _append(node, state, change, _record(node.voters.with_voter(added)))
            if not request.acks_commit:
                _end(node)
        case UpdateVoterRequest(voter=voter):
            _append(node, state, change, _record(node.voters.with_voter(voter)))
            _end(node)
        case _:
            raise AssertionError(change)


def _check_caught_up(node: QuorumNode, state: Leader, voter: ReplicaKey) -> None:
    known = state.progress.replicas.get(voter)
    since_ms = node.now_ms - 2 * node.settings.fetch_timeout_ms
    if known is None or known.last_fetch_ms < since_ms:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{voter} does not follow the leader as an observer"
        )
    lag = node.log.end_offset - known.end_offset
    if known.last_caught_up_ms < 0 or lag > LAG_MAX:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{voter} is {lag} records behind the leader")


# The record and its commit.


def _append(
    node: QuorumNode, state: Leader, change: VoterChange, records: tuple[ControlRecord, ...]
) -> None:
    node.append_control(records)
    change.offset = Offset(node.log.end_offset - 1)
    node.change = change
    state.progress.voters_changed(node.now_ms)


def voters_committed(node: QuorumNode, state: Leader) -> None:
    """Answer the change whose record is committed; resign if it removed this leader."""
    committed, change = state.progress.high_watermark, node.change
    assert committed is not None
    if change is not None and change.offset is not None and change.offset < committed:
        _end(node)
    last = node.log.voters.last_offset
    if last is not None and last < committed and not node.voters.has(node.me):
        node.become_resigned()


def end_late_change(node: QuorumNode) -> None:
    """Answer the change whose time is over."""
    if node.change is not None and node.change.deadline_ms <= node.now_ms:
        _end(node, ErrorCode.REQUEST_TIMED_OUT, "the change is not committed yet")


def _end(node: QuorumNode, error: ErrorCode = ErrorCode.NONE, message: str = "") -> None:
    change, node.change = node.change, None
    assert change is not None
    _answer(node, change.request_id, error, message)


def _answer(
    node: QuorumNode, request_id: int, error: ErrorCode = ErrorCode.NONE, message: str = ""
) -> None:
    answer = VoterChangeAnswer(error=error, message=message, **node.known_leader())
    node.emit(Respond(request_id, answer))
