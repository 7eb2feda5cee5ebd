"""Requests and responses of controllers, as plain values; the wire adds cluster id and topic.

The wire answers another cluster id (INCONSISTENT_CLUSTER_ID) or topic (INVALID_REQUEST) itself. A
null id on the wire is None here, a missing directory id is `UNKNOWN_DIRECTORY`.

Source: Kafka's messages Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot.
"""

from __future__ import annotations

import msgspec

from jbodlab.metadata.records.control_records import ControlRecord, KRaftVersionFeature, KRaftVoter
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.voters import Endpoints, ReplicaKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset


class VoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A replica asks a voter for its vote.

    Attributes:
        candidate: The replica that asks.
        epoch: Of the candidate; for a pre-vote the one that it is in, not the next.
        voter: The receiver that is meant; None in version 0.
        end: Of the candidate's log.
        is_pre_vote: Whether it asks only if it would get the vote (KIP-996).
    """

    candidate: ReplicaKey
    epoch: LeaderEpoch
    voter: ReplicaKey | None
    end: OffsetAndEpoch
    is_pre_vote: bool


class BeginQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A leader tells a voter that it leads.

    Attributes:
        endpoints: Where the leader is reached; empty in version 0.
        voter: The receiver that is meant; None in version 0.
    """

    leader_id: BrokerId
    epoch: LeaderEpoch
    endpoints: Endpoints = ()
    voter: ReplicaKey | None = None


class EndQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A leader tells a voter that it leads no longer.

    Attributes:
        successors: The voters that should stand for election, the best first.
        endpoints: Where the former leader is reached.
    """

    leader_id: BrokerId
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...] = ()
    endpoints: Endpoints = ()


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A replica asks for records; all that it has is on its disk.

    Attributes:
        epoch: The newest that the replica knows.
        end: Of its log: offset of the first record that it lacks, epoch of its last one.
        max_wait_ms: How long the leader may wait for news.
        high_watermark: As the replica knows it; -1 if it does not.
    """

    replica: ReplicaKey
    epoch: LeaderEpoch
    end: OffsetAndEpoch
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = -1


class FetchSnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A replica asks for a piece of a snapshot."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class VersionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A leader asks a node which levels of kraft.version it supports, by ApiVersions."""


class AddVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or the replica itself, wants a replica to be a voter.

    Attributes:
        acks_commit: Whether the answer waits until the new voter set is committed.
        timeout_ms: How long it waits at most.
        is_again: Whether it may have been carried out before; what is so already is done then.
    """

    voter: ReplicaKey
    endpoints: Endpoints
    acks_commit: bool = True
    timeout_ms: int
    is_again: bool = False


class RemoveVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or a replica with the node id, wants a replica to be no voter.

    Attributes:
        is_again: Whether it may have been carried out before; what is so already is done then.
    """

    voter: ReplicaKey
    is_again: bool = False


class UpdateVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A voter tells its leader where it is reached, and what it supports.

    Attributes:
        epoch: Of the leader that is meant.
        voter: As the voter set shall have it.
    """

    epoch: LeaderEpoch
    voter: KRaftVoter


class RaiseKRaftVersionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An operator wants another level of kraft.version; it comes with UpdateFeatures.

    Attributes:
        validates_only: Whether nothing shall be changed.
    """

    level: int
    validates_only: bool = False


VoterChangeRequest = (
    AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | RaiseKRaftVersionRequest
)

Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | VersionsRequest
    | VoterChangeRequest
)


class QuorumResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of each response.

    Attributes:
        epoch: Of the node that answers.
        leader_id: Of that epoch; None if unknown.
        leader_endpoints: Where that leader is reached; empty if unknown.
    """

    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId | None
    leader_endpoints: Endpoints = ()


class VoteResponse(QuorumResponse, frozen=True, kw_only=True):
    """Whether the vote is granted."""

    is_granted: bool = False


class BeginQuorumEpochResponse(QuorumResponse, frozen=True, kw_only=True):
    """The voter has taken note."""


class EndQuorumEpochResponse(QuorumResponse, frozen=True, kw_only=True):
    """The voter has taken note."""


class UpdateVoterResponse(QuorumResponse, frozen=True, kw_only=True):
    """Whether the leader has taken note."""


class PlainResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response that does not say who leads."""

    error: ErrorCode = ErrorCode.NONE


class VersionsResponse(PlainResponse, frozen=True, kw_only=True):
    """The levels of kraft.version that a node supports."""

    versions: KRaftVersionFeature


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A record batch that was fetched; its CRC is right.

    Attributes:
        end_offset: Behind its last record.
        epoch: Of its header.
        data: Its bytes.
        controls: Its control records, by their offsets.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: LeaderEpoch
    data: bytes
    controls: tuple[tuple[Offset, ControlRecord], ...] = ()


class QuorumFetchResponse(QuorumResponse, frozen=True, kw_only=True):
    """Records, or why there are none.

    Attributes:
        high_watermark: Of the leader; -1 if unknown.
        diverging: The logs differ behind this.
        snapshot: The replica has to fetch this snapshot first.
        batches: The valid ones at the front; the rest is left out.
        is_damaged: Whether batches were left out.
    """

    high_watermark: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()
    is_damaged: bool = False


class FetchSnapshotResponse(QuorumResponse, frozen=True, kw_only=True):
    """A piece of a snapshot.

    Attributes:
        snapshot: Its id; None if the leader has not got it any more.
        size: Of the whole file in bytes.
        position: Of the piece.
    """

    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: bytes = b""


class QuorumFetchAnswer(QuorumResponse, frozen=True, kw_only=True):
    """A response to a Fetch before its records are read.

    Attributes:
        log_start_offset: Of the leader; -1 if it is none.
        read: First offset, the offset behind the last, and the most bytes, of which at least one
            batch is sent; None: no records.
    """

    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    read: tuple[Offset, Offset, int] | None = None


class FetchSnapshotAnswer(QuorumResponse, frozen=True, kw_only=True):
    """A response to a FetchSnapshot before its bytes are read.

    Attributes:
        read: The snapshot, the position and the most bytes to read from it; a position that is not
            below its size is POSITION_OUT_OF_RANGE. None with an error.
    """

    read: tuple[OffsetAndEpoch, int, int] | None = None


class VoterChangeAnswer(QuorumResponse, frozen=True, kw_only=True):
    """The outcome of a change of the voters.

    Attributes:
        message: Why it was refused; empty if it was not.
    """

    message: str = ""


Answer = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | QuorumFetchAnswer
    | FetchSnapshotAnswer
    | VoterChangeAnswer
)
