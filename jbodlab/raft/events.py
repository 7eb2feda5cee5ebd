"""The events of a node of the quorum; the core takes one event at a time.

`RequestReceived` and `ResponseReceived` come from the network, `Synced` and `DiskSlow` from the
thread of the log, the others from the node itself.
"""

from __future__ import annotations

import msgspec

from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import PlainResponse, QuorumResponse, Request
from jbodlab.raft.voters import VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset


class DeadlineReached(msgspec.Struct, frozen=True):
    """`next_deadline_ms` has come.

    A driver that is late passes on first what has arrived in the meantime: a pause of the process
    must not end a leadership that is well.
    """


class RequestReceived(msgspec.Struct, frozen=True):
    """Another node asks; the answer is a `Respond` with the same id, now or later."""

    request_id: int
    request: Request


class ResponseReceived(msgspec.Struct, frozen=True):
    """A node answers a `SendRequest`; the core drops an answer that it no longer expects."""

    request_id: int
    response: QuorumResponse | PlainResponse


class RequestFailed(msgspec.Struct, frozen=True):
    """A `SendRequest` has no answer of its own type.

    Attributes:
        error: BROKER_NOT_AVAILABLE if the connection broke, NETWORK_EXCEPTION if the login failed,
            else the error at the top of the response.
    """

    request_id: int
    error: ErrorCode


class RecordsProposed(msgspec.Struct, frozen=True):
    """The leader of an epoch appends batches, from the end of the log up to an offset.

    The driver checks `leads_in(epoch)` and `end_offset` of the core before, in the same turn.
    """

    epoch: LeaderEpoch
    base_offset: Offset
    end_offset: Offset


class ConfirmationAsked(msgspec.Struct, frozen=True):
    """The leader wants to know whether it still leads; `TellConfirmed` has the same number.

    The driver checks that the core leads before, in the same turn.
    """

    number: int


class Synced(msgspec.Struct, frozen=True):
    """An append, and all before it, survives a loss of power."""

    number: int


class DiskSlow(msgspec.Struct, frozen=True):
    """The disk of this node is slow.

    Attributes:
        sync_ms: How long the call takes that is under way, or what syncs take, their median.
    """

    sync_ms: int


class SnapshotInstalled(msgspec.Struct, frozen=True):
    """The log begins anew at the end of a snapshot that was fetched: the end of `InstallSnapshot`.

    Attributes:
        voters: In the snapshot; None without a Voters record.
        kraft_version: In the snapshot; None without a KRaftVersion record.
    """

    snapshot: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int | None


class SnapshotRefused(msgspec.Struct, frozen=True):
    """The file that was fetched is no valid snapshot; nothing is changed."""

    snapshot: OffsetAndEpoch


class SnapshotsChanged(msgspec.Struct, frozen=True):
    """This node wrote a snapshot or removed some.

    Attributes:
        snapshots: All complete ones, ascending.
        start_offset: Of the log.
    """

    snapshots: tuple[OffsetAndEpoch, ...]
    start_offset: Offset


class LeaderSuspected(msgspec.Struct, frozen=True):
    """The connection to the leader ended, and the leader's machine refuses a new one.

    A connection that times out, an error in a response, and a peer that refuses the certificate are
    no such evidence.
    """


class ResignRequested(msgspec.Struct, frozen=True):
    """The node is not to lead any more; it may be elected again.

    Attributes:
        successor: The voter that should lead next, if anybody cares.
    """

    successor: BrokerId | None = None


class NodeShutdownBegun(msgspec.Struct, frozen=True):
    """The node ends in a moment: it resigns, and stands for election no more."""


Event = (
    DeadlineReached
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | RecordsProposed
    | ConfirmationAsked
    | Synced
    | DiskSlow
    | SnapshotInstalled
    | SnapshotRefused
    | SnapshotsChanged
    | LeaderSuspected
    | ResignRequested
    | NodeShutdownBegun
)
