"""Answers of other nodes, and the requests that have none.

Each answer says the epoch of its node and the leader of that epoch. They are taken in before the
rest: a node that hears of a higher epoch is in it.

Source: `org.apache.kafka.raft.KafkaRaftClient.maybeHandleCommonResponse`; KIP-595. There
INVALID_REQUEST and CLUSTER_AUTHORIZATION_FAILED end the process; here they are failures as any
other, so that no node can end another one.
"""

from __future__ import annotations

from msgspec.structs import replace

from jbodlab.raft import following
from jbodlab.raft.membership import question_answered
from jbodlab.raft.messages import (
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchSnapshotResponse,
    PlainResponse,
    QuorumFetchResponse,
    QuorumResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.node import QuorumNode
from jbodlab.raft.outbox import SentRequest
from jbodlab.raft.states import (
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
)
from jbodlab.vocabulary.error_code import ErrorCode


def take_response(
    node: QuorumNode, request_id: int, response: QuorumResponse | PlainResponse
) -> None:
    """Take an answer in; a node whose answer is of no use is asked after a pause again.

    Raises:
        QuorumViolationError: the nodes contradict each other.
    """
    sent = node.outbox.take(request_id)
    if sent is None:
        return
    _end_suspicion(node, sent)
    if isinstance(response, PlainResponse):
        question_answered(node, sent, response)
    elif not _is_of_use(node, sent, response):
        node.outbox.pause(sent.destination, node.now_ms)


def take_failure(node: QuorumNode, request_id: int, error: ErrorCode) -> None:
    """Ask the node after a pause again."""
    sent = node.outbox.take(request_id)
    if sent is None:
        return
    is_pre_vote = isinstance(sent.request, VoteRequest) and sent.request.is_pre_vote
    is_prospective = isinstance(node.state, Prospective)
    is_old_voter = error is ErrorCode.UNSUPPORTED_VERSION and is_pre_vote and is_prospective
    if is_old_voter and node.is_whole:
        # That voter knows no pre-vote; a real vote is all that it can be asked for.
        node.become_candidate()
        return
    node.outbox.pause(sent.destination, node.now_ms)
    question_answered(node, sent, PlainResponse(error=error))
    is_old_leader = error is ErrorCode.UNSUPPORTED_VERSION
    if is_old_leader and isinstance(sent.request, UpdateVoterRequest):
        _leader_knows(node)


def _is_of_use(node: QuorumNode, sent: SentRequest, response: QuorumResponse) -> bool:
    epoch = node.state.epoch
    if response.epoch < epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return False
    node.take_leader(response.epoch, response.leader_id, response.leader_endpoints)
    if response.epoch > epoch:
        # The answer to a question of a former epoch is of no use in this one.
        return False
    state = node.state
    match response:
        case FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND):
            following.give_up_snapshot(node)
            return True
        case QuorumResponse(error=error) if error is not ErrorCode.NONE:
            return False
        case VoteResponse() if isinstance(state, Prospective) and _is_early(state, response):
            node.outbox.pause(sent.destination, node.now_ms, node.now_ms - state.since_ms)
            return True
        case VoteResponse() if isinstance(state, Prospective | QuorumCandidate):
            tally = state.tally.counted(sent.destination, is_granted=response.is_granted)
            node.update(replace(state, tally=tally))
            return True
        case BeginQuorumEpochResponse() if isinstance(state, Leader):
            node.not_begun.discard(sent.destination)
            return True
        case EndQuorumEpochResponse() if isinstance(state, Resigned):
            rest = [key for key in state.unacknowledged if key.node_id != sent.destination]
            node.update(replace(state, unacknowledged=tuple(rest)))
            return True
        case UpdateVoterResponse():
            _leader_knows(node)
            return True
        case QuorumFetchResponse() if isinstance(state, Follower):
            return following.fetched(node, state, response)
        case FetchSnapshotResponse() if isinstance(state, Follower):
            return following.snapshot_fetched(node, state, response)
        case _:
            return False


def _is_early(state: Prospective, response: VoteResponse) -> bool:
    """Return whether a voter refuses as it has not heard yet that its leader has resigned.

    The leader tells all voters at the same time, and the first successor asks at once. Without
    another question it would wait for its timer, and the others for theirs. Kafka counts such a
    refusal.

    A voter with a longer log refuses in the same words, so each pause is as long as all before.
    """
    follows = response.leader_id is not None and response.leader_id == state.leader_id
    return state.is_resigned and follows and not response.is_granted


def _leader_knows(node: QuorumNode) -> None:
    if isinstance(node.state, Follower):
        node.update(replace(node.state, has_told_itself=True))


def _end_suspicion(node: QuorumNode, sent: SentRequest) -> None:
    """Believe in the leader again after any answer of it."""
    state = node.state
    if (
        isinstance(state, Follower)
        and state.is_suspected
        and not state.is_resigned
        and sent.destination == state.leader_id
    ):
        node.update(replace(state, deadline_ms=state.fetch_deadline_ms, is_suspected=False))
