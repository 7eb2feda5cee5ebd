"""Answers to the requests of other nodes: votes, the begin and the end of an epoch.

Each request first says its epoch. A lower one is answered FENCED_LEADER_EPOCH. A higher one is
entered, also by a pre-vote: the node that asks knows of it.

Source: `org.apache.kafka.raft.KafkaRaftClient.handleVoteRequest` and others; KIP-595, KIP-853.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from jbodlab.raft import leading
from jbodlab.raft.election import grants_vote, successor_delay
from jbodlab.raft.instructions import Respond, TellWithheld
from jbodlab.raft.membership import change_voters
from jbodlab.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VersionsRequest,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.node import QuorumNode
from jbodlab.raft.states import Follower
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey
from jbodlab.vocabulary.error_code import ErrorCode


def answer(node: QuorumNode, request_id: int, request: Request) -> None:
    """Answer a request; a Fetch perhaps later.

    Raises:
        QuorumViolationError: an epoch has two leaders.
    """
    match request:
        case VoteRequest():
            error, is_granted = _vote(node, request)
            vote = VoteResponse(error=error, is_granted=is_granted, **node.known_leader())
            node.emit(Respond(request_id, vote))
        case BeginQuorumEpochRequest():
            error = _begin_epoch(node, request)
            node.emit(
                Respond(request_id, BeginQuorumEpochResponse(error=error, **node.known_leader()))
            )
        case EndQuorumEpochRequest():
            error = _end_epoch(node, request)
            node.emit(
                Respond(request_id, EndQuorumEpochResponse(error=error, **node.known_leader()))
            )
        case FetchRequest():
            leading.fetch(node, request_id, request)
        case FetchSnapshotRequest():
            leading.fetch_snapshot(node, request_id, request)
        case (
            AddVoterRequest()
            | RemoveVoterRequest()
            | UpdateVoterRequest()
            | RaiseKRaftVersionRequest()
        ):
            change_voters(node, request_id, request)
        case VersionsRequest():
            raise AssertionError("ApiVersions is answered by the listener")
        case _:
            assert_never(request)


def _vote(node: QuorumNode, request: VoteRequest) -> tuple[ErrorCode, bool]:
    end = request.end
    # A real vote is asked for in an epoch that no log can have yet.
    is_possible = end.epoch < request.epoch + request.is_pre_vote
    if min(end) < 0 or not is_possible:
        return ErrorCode.INVALID_REQUEST, False
    if request.epoch < node.state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, False
    if request.candidate.node_id < 0:
        return ErrorCode.INVALID_REQUEST, False
    if request.epoch > node.state.epoch:
        node.become_unattached(request.epoch)
    if not _is_meant(node.me, request.voter):
        return ErrorCode.INVALID_VOTER_KEY, False
    if not node.is_whole:
        _withhold(node, request)
        return ErrorCode.NONE, False
    is_up_to_date = end.is_up_to_date_with(node.log.end)
    is_granted = grants_vote(node.state, request, is_up_to_date=is_up_to_date)
    if is_granted and not request.is_pre_vote:
        node.vote_for(request.candidate)
    return ErrorCode.NONE, is_granted


def _withhold(node: QuorumNode, request: VoteRequest) -> None:
    """Give no vote; with all other voters as empty as this one the quorum begins."""
    if request.end.offset > 0:
        if node.withheld_epoch < request.epoch:
            node.withheld_epoch = request.epoch
            node.emit(TellWithheld(request.candidate))
        return
    voter = node.voters.key_of(request.candidate)
    if voter is not None and request.is_pre_vote and node.log.end_offset == 0:
        node.empty.add(voter.node_id)
        if node.empty.issuperset(key.node_id for key in node.voters.others(node.me)):
            node.become_whole()


def _is_meant(me: ReplicaKey, voter: ReplicaKey | None) -> bool:
    return voter is None or (
        voter.node_id == me.node_id and voter.directory_id in (UNKNOWN_DIRECTORY, me.directory_id)
    )


def _begin_epoch(node: QuorumNode, request: BeginQuorumEpochRequest) -> ErrorCode:
    error = _take_leader_of(node, request)
    if error is ErrorCode.NONE and not _is_meant(node.me, request.voter):
        return ErrorCode.INVALID_VOTER_KEY
    return error


def _end_epoch(node: QuorumNode, request: EndQuorumEpochRequest) -> ErrorCode:
    error = _take_leader_of(node, request)
    state = node.state
    # A follower in the epoch of the request is one of this leader.
    if error is ErrorCode.NONE and isinstance(state, Follower) and not state.is_resigned:
        pause = successor_delay(node.me, request.successors, node.settings.election_backoff_max_ms)
        node.update(replace(state, deadline_ms=node.now_ms + pause, is_resigned=True))
    return error


def _take_leader_of(
    node: QuorumNode, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> ErrorCode:
    if request.epoch < node.state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    # No node but this one may say that this one leads.
    if request.leader_id < 0 or request.leader_id == node.me.node_id:
        return ErrorCode.INVALID_REQUEST
    is_alive = isinstance(request, BeginQuorumEpochRequest)
    node.take_leader(request.epoch, request.leader_id, request.endpoints, is_alive=is_alive)
    return ErrorCode.NONE
