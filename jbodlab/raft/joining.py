"""A follower's requests about itself: where it is reached, and that it wants to be a voter.

Once in a fetch timeout one of them takes the place of a Fetch, which it follows in turn: at most
one request is on its way to the leader.

A node that was removed while it runs does not add itself again before it has been started anew
(KAFKA-19850 tells that Kafka's does).

Source: `org.apache.kafka.raft.FollowerState`, `KafkaRaftClient.shouldSendAddOrRemoveVoterRequest`;
KIP-853.
"""

from __future__ import annotations

from jbodlab.metadata.records.control_records import KRaftVoter
from jbodlab.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
)
from jbodlab.raft.node import QuorumNode
from jbodlab.raft.states import Follower
from jbodlab.raft.voters import key_of


def request_about_itself(node: QuorumNode, state: Follower) -> VoterChangeRequest | None:
    """Return what a follower asks its leader for in place of records; None for nothing."""
    if node.now_ms < state.update_due_ms or not node.is_whole:
        return None
    level, me = node.log.kraft_versions.last, node.me
    known = node.voters.voter(me.node_id)
    if node.voters.has(me):
        is_told = state.has_told_itself if level == 0 else _is_same(known, node.own_voter)
        if is_told:
            return None
        return UpdateVoterRequest(epoch=state.epoch, voter=node.own_voter)
    if level == 0 or not node.settings.auto_join or node.was_removed:
        return None
    if known is not None:
        return RemoveVoterRequest(voter=key_of(known))
    return AddVoterRequest(
        voter=me,
        endpoints=node.own_endpoints,
        acks_commit=False,
        timeout_ms=node.settings.request_timeout_ms,
    )


def _is_same(known: KRaftVoter | None, own: KRaftVoter) -> bool:
    # Kafka keeps the endpoints in any order.
    return (
        known is not None
        and set(known.endpoints) == set(own.endpoints)
        and known.k_raft_version_feature == own.k_raft_version_feature
    )
