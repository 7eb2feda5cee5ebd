"""The first state of a node, by what it finds on its disk.

Source: `org.apache.kafka.raft.QuorumState.initialize`; KIP-595. There a node that had voted for
itself is a candidate even if it knows the leader of its epoch.
"""

from __future__ import annotations

from jbodlab.raft.election import election_timeout
from jbodlab.raft.instructions import ElectionState
from jbodlab.raft.log_view import LogView
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import Follower, QuorumCandidate, Resigned, State, Unattached
from jbodlab.raft.tally import Tally
from jbodlab.raft.voters import ReplicaKey
from jbodlab.vocabulary.ids import BrokerId


def first_state(
    me: ReplicaKey,
    log: LogView,
    stored: ElectionState | None,
    settings: RaftSettings,
    now_ms: int,
    chance: float,
) -> State:
    """Return the state that a node starts in; for the arguments see `RaftCore.start`.

    A node that led never leads again in that epoch: it may have lost records that it had not
    synced, and told to others. A vote counts on.
    """
    voters = log.voters.last
    is_voter = voters.has(me)
    deadline = now_ms + election_timeout(settings.election_timeout_ms, chance)
    if stored is None or stored.epoch < log.last_epoch:
        return Unattached(epoch=log.last_epoch, deadline_ms=deadline if is_voter else None)
    leader, epoch = stored.leader_id, stored.epoch
    if leader == me.node_id:
        return Resigned(
            epoch=epoch,
            leader_id=me.node_id,
            unacknowledged=voters.others(me),
            successors=(),
            deadline_ms=deadline,
        )
    if leader is not None and leader != me.node_id and voters.endpoints(leader):
        return Follower(
            epoch=epoch,
            leader_id=leader,
            endpoints=voters.endpoints(leader),
            voted=stored.voted,
            deadline_ms=now_ms + settings.fetch_timeout_ms,
            fetch_deadline_ms=now_ms + settings.fetch_timeout_ms,
            update_due_ms=now_ms + settings.fetch_timeout_ms,
        )
    if leader is None and stored.voted is not None and _is_own(me, stored.voted) and is_voter:
        return QuorumCandidate(
            epoch=epoch,
            voted=stored.voted,
            tally=Tally(
                majority=voters.majority, voters=voters.keys, granted=(BrokerId(me.node_id),)
            ),
            deadline_ms=deadline,
        )
    return Unattached(
        epoch=epoch,
        leader_id=leader,
        voted=stored.voted,
        deadline_ms=deadline if is_voter else None,
    )


def _is_own(me: ReplicaKey, voted: ReplicaKey) -> bool:
    return voted.node_id == me.node_id
