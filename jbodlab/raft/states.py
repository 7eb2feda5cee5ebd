"""The states of a node of the quorum, and which may follow which.

How to think about it. A node is in one *epoch*, which never falls, and in one state of it.

    Unattached   knows no leader that it can reach, asks any node that it knows of for one
    Prospective  asks the voters whether they would elect it (pre-vote)
    Candidate    asks the voters to elect it, in the next epoch
    Leader       elected by a majority
    Follower     copies the log of a leader
    Resigned     led in this epoch, and never will again; tells the voters

An observer is Unattached or Follower only. An election ends in three ways: won, lost to another
leader, or by its timer. Each timer of a state is a *deadline*, on the clock that the driver tells.

Three things follow a node from state to state in one epoch, as nobody may be elected twice: its
vote, the leader that it has heard of, and the epoch itself. They are its `ElectionState`.

    from          to           by
    Unattached    Prospective  election timer
    Prospective   Candidate    majority of pre-votes; epoch + 1
    Candidate     Leader       majority of votes
    Candidate     Prospective  election timer; its own vote stays
    Follower      Prospective  fetch timer
    Leader        Resigned     lost the majority, was asked to, or its process ends
    Resigned      Unattached   election timer; epoch + 1: nobody may believe in it as leader
    any           Unattached   a higher epoch without a leader; Prospective that lost
    not Leader    Follower     a leader of this epoch or a higher one

Source: `org.apache.kafka.raft.QuorumState`; KIP-595, KIP-996, KIP-853.
"""

from __future__ import annotations

import msgspec

from jbodlab.raft.instructions import ElectionState
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.progress import Progress
from jbodlab.raft.tally import Tally
from jbodlab.raft.voters import Endpoints, ReplicaKey
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset


class Unattached(msgspec.Struct, frozen=True, kw_only=True):
    """No leader can be reached.

    Attributes:
        leader_id: Leader of the epoch, whose endpoints are unknown; no vote is given then.
        deadline_ms: Of the election timer; None: an observer has none.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId | None = None
    voted: ReplicaKey | None = None
    deadline_ms: int | None = None


class Prospective(msgspec.Struct, frozen=True, kw_only=True):
    """The node asks for pre-votes.

    Attributes:
        leader_id: Leader of the epoch that it does not hear any more, if any.
        endpoints: Of that leader.
        since_ms: When it began to ask.
        is_resigned: Whether that leader has sent EndQuorumEpoch.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId | None
    endpoints: Endpoints
    voted: ReplicaKey | None
    tally: Tally
    since_ms: int
    deadline_ms: int
    is_resigned: bool = False


class QuorumCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """The node asks for votes, and has given its own to itself."""

    epoch: LeaderEpoch
    voted: ReplicaKey
    tally: Tally
    deadline_ms: int
    leader_id: None = None


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The node was elected.

    Attributes:
        start_offset: Of the epoch; older records are committed when the first of it is.
        progress: Of all replicas; changes.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId
    start_offset: Offset
    progress: Progress
    voted: None = None


class Follower(msgspec.Struct, frozen=True, kw_only=True):
    """The node copies the log of a leader.

    Attributes:
        deadline_ms: Of the fetch timer.
        has_fetched: Whether the leader has answered a Fetch since this state began.
        is_resigned: Whether the leader has sent EndQuorumEpoch.
        is_suspected: Whether the leader's process seems to be gone.
        fetch_deadline_ms: The deadline without a suspicion.
        high_watermark: The highest that the leader has told; -1: none.
        leader_end_offset: Where the leader's log ended when this node, which was not whole, first
            had all of it; -1: it had not.
        download: The snapshot that is fetched.
        position: How much of it is there, in bytes; None: it is being installed.
        update_due_ms: When the node may next ask for something about itself.
        has_told_itself: Whether the leader knows the directory of this voter.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId
    endpoints: Endpoints
    voted: ReplicaKey | None
    deadline_ms: int
    fetch_deadline_ms: int
    has_fetched: bool = False
    is_resigned: bool = False
    is_suspected: bool = False
    high_watermark: int = -1
    leader_end_offset: int = -1
    download: OffsetAndEpoch | None = None
    position: int | None = None
    update_due_ms: int = 0
    has_told_itself: bool = False


class Resigned(msgspec.Struct, frozen=True, kw_only=True):
    """The node led in this epoch.

    Attributes:
        leader_id: The node itself.
        unacknowledged: Voters that have not answered EndQuorumEpoch.
        successors: In the order in which they should stand for election.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId
    unacknowledged: tuple[ReplicaKey, ...]
    successors: tuple[ReplicaKey, ...]
    deadline_ms: int
    voted: None = None


State = Unattached | Prospective | QuorumCandidate | Leader | Follower | Resigned

TRANSITIONS: frozenset[tuple[type[State], type[State]]] = frozenset(
    {
        (Unattached, Unattached),
        (Unattached, Prospective),
        (Unattached, Follower),
        (Prospective, Unattached),
        # It votes for another one, and asks anew.
        (Prospective, Prospective),
        (Prospective, QuorumCandidate),
        (Prospective, Follower),
        (QuorumCandidate, Unattached),
        (QuorumCandidate, Prospective),
        (QuorumCandidate, Leader),
        (QuorumCandidate, Follower),
        (Leader, Unattached),
        (Leader, Follower),
        (Leader, Resigned),
        (Follower, Unattached),
        (Follower, Prospective),
        # The leader of a higher epoch, or more endpoints of the same one (KAFKA-16927).
        (Follower, Follower),
        (Resigned, Unattached),
        (Resigned, Follower),
        # A sole voter elects itself at once.
        (Resigned, Prospective),
    }
)


def election_state(state: State) -> ElectionState:
    """Return what must not be forgotten of a state."""
    return ElectionState(epoch=state.epoch, leader_id=state.leader_id, voted=state.voted)
