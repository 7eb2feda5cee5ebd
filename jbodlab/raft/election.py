"""Elections: when a vote is granted, how votes are counted, how long is waited.

A node that loses its leader first asks for *pre-votes* in the epoch that it is in (KIP-996). A
pre-vote is a question without any effect, so a node that was cut off does not raise the epoch of
the others. Only with a majority of pre-votes it enters the next epoch and asks for real votes.

    state here                 pre-vote                        real vote
    Unattached, Prospective    if up to date                   given before: to the same key only;
                                                               a leader is known: no;
                                                               else if up to date
    Candidate, Resigned        if up to date                   no
    Leader                     no                              no
    Follower                   if up to date, and the leader   no
                               has not answered a Fetch yet,
                               has resigned, or is suspected

Whether the candidate is in the voter set of this node does not matter: the set may be older than
that of the candidate.

Source: `org.apache.kafka.raft.QuorumState.canGrantVote`, `...EpochElection`; KIP-595, KIP-996. The
last two conditions of a follower are not Kafka's; they loosen the pre-vote only, which protects
availability (KAFKA-20895).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from jbodlab.raft.messages import VoteRequest
from jbodlab.raft.states import (
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
    State,
    Unattached,
)
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey


def grants_vote(state: State, request: VoteRequest, *, is_up_to_date: bool) -> bool:
    """Decide on a vote.

    Args:
        state: Of this node, in the epoch of the request.
        request: Of the candidate.
        is_up_to_date: Whether the candidate's log reaches at least as far as that of this node.
    """
    match state:
        case Unattached() | Prospective():
            if request.is_pre_vote:
                return is_up_to_date
            if state.voted is not None:
                return _is_same(state.voted, request.candidate)
            return is_up_to_date and state.leader_id is None
        case QuorumCandidate() | Resigned():
            return request.is_pre_vote and is_up_to_date
        case Leader():
            return False
        case Follower():
            is_without_leader = not state.has_fetched or state.is_resigned or state.is_suspected
            return request.is_pre_vote and is_up_to_date and is_without_leader
        case _:
            assert_never(state)


def _is_same(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    # Version 0 of quorum-state keeps the node only (KAFKA-16526).
    return voted.node_id == candidate.node_id and voted.directory_id in (
        UNKNOWN_DIRECTORY,
        candidate.directory_id,
    )


def election_timeout(election_timeout_ms: int, chance: float) -> int:
    """Return the time of an election timer; chance, from 0 up to 1, spreads the candidates."""
    return election_timeout_ms + int(election_timeout_ms * chance)


def successor_delay(me: ReplicaKey, successors: Sequence[ReplicaKey], backoff_max_ms: int) -> int:
    """Return after how many ms a successor of a leader that resigned stands for election.

    The first one does so at once. Each further one waits twice as long as the one before, up to
    the maximum; so does a voter that the leader did not name. The second one waits an eighth of
    the maximum at most: the first one may lack what the second one got meanwhile, and then only the
    second one can be elected.
    """
    places = [place for place, key in enumerate(successors) if _is_same(key, me)]
    if not places:
        return backoff_max_ms
    place = places[0]
    if place == 0:
        return 0
    doublings = max(3, len(successors) - 1)
    return min(backoff_max_ms, (backoff_max_ms >> doublings) << (place - 1))
