"""The instructions of the core; the driver carries out those of one event in their order.

Three rules make it safe that nothing leaves before it is durable.

* `WriteQuorumState` ends before the next instruction begins, and before the next event is handled.
  It is written on the thread of the log behind all that was handed over before, with its syncs: a
  node that asks for a vote never claims records that a loss of power would take.
* Instructions to the thread of the log (`BeginEpoch`, the appends, `TruncateLog`,
  `InstallSnapshot`) are carried out in order. The driver does not wait for it; `Synced`
  tells the end of an append.
* `InstallSnapshot` is the exception: its result is the next event.

An error of the disk is final: nothing that was handed over may be counted any more.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import Answer, Batch, Request
from jbodlab.raft.voters import Endpoints, ReplicaKey
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset


class BootstrapServer(NamedTuple):
    """An address of `controller.quorum.bootstrap.servers`, or of the static voters.

    The driver leaves out the node's own address.
    """

    place: int


Destination = BrokerId | BootstrapServer


class ElectionState(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a node must not forget.

    Attributes:
        epoch: The highest epoch that the node has taken part in.
        leader_id: Leader of that epoch; None if unknown. Own id if this node won it.
        voted: The replica that the node voted for in that epoch; itself while it is a candidate.
    """

    epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: BrokerId | None = None
    voted: ReplicaKey | None = None


class WriteQuorumState(msgspec.Struct, frozen=True):
    """Replace the file quorum-state; durable before anything else happens.

    Attributes:
        kraft_version: The level that decides the version of the file.
        voters: Node ids, which version 0 names for humans.
    """

    state: ElectionState
    kraft_version: int
    voters: tuple[BrokerId, ...]


class SendRequest(msgspec.Struct, frozen=True):
    """Ask a node; its response has the same id.

    Attributes:
        endpoints: Where the node is reached; empty for a bootstrap server.
    """

    request_id: int
    destination: Destination
    endpoints: Endpoints
    request: Request


class Respond(msgspec.Struct, frozen=True):
    """Answer a request that came."""

    request_id: int
    answer: Answer


class BeginEpoch(msgspec.Struct, frozen=True):
    """Record that an epoch begins at the end of the log, before its first append."""

    epoch: LeaderEpoch
    start_offset: Offset


class AppendControl(msgspec.Struct, frozen=True):
    """Append one batch of control records at the end of the log."""

    number: int
    epoch: LeaderEpoch
    base_offset: Offset
    records: tuple[ControlRecord, ...]


class AppendProposed(msgspec.Struct, frozen=True):
    """Append the batches of the `RecordsProposed` that is handled."""

    number: int


class AppendFetched(msgspec.Struct, frozen=True):
    """Append batches of a leader; the epochs among them begin where their batches do."""

    number: int
    batches: tuple[Batch, ...]


class TruncateLog(msgspec.Struct, frozen=True):
    """Cut the log."""

    end_offset: Offset


class BeginSnapshot(msgspec.Struct, frozen=True):
    """Open a new file for a snapshot that will be fetched."""

    snapshot: OffsetAndEpoch


class WriteSnapshotPiece(msgspec.Struct, frozen=True):
    """Write a piece into that file."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes


class AbandonSnapshot(msgspec.Struct, frozen=True):
    """Remove that file."""

    snapshot: OffsetAndEpoch


class InstallSnapshot(msgspec.Struct, frozen=True):
    """Check the file, sync and rename it, and begin the log anew at its end.

    The next event is `SnapshotInstalled`, or `SnapshotRefused` if the file is not valid.
    """

    snapshot: OffsetAndEpoch


class AdvanceHighWatermark(msgspec.Struct, frozen=True):
    """All below an offset is committed, and in the log of this node."""

    high_watermark: Offset


class TellLeader(msgspec.Struct, frozen=True):
    """The epoch, or its leader, is another one.

    Attributes:
        leader_id: None if unknown, and for a node that resigned.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId | None


class TellEstablished(msgspec.Struct, frozen=True):
    """This node leads, and all records of former epochs in its log are committed.

    Attributes:
        start_offset: Of the epoch.
    """

    epoch: LeaderEpoch
    start_offset: Offset


class TellConfirmed(msgspec.Struct, frozen=True):
    """No other node led when `ConfirmationAsked` with this number, or a lower one, was passed on.

    A majority of the voters has asked this leader for records since, upon an answer that it was
    given since.
    """

    number: int


class TellHandedOver(msgspec.Struct, frozen=True):
    """This node leads no more, as its disk is slow; see `DiskSlow`."""

    sync_ms: int


class TellWithheld(msgspec.Struct, frozen=True):
    """This node may have forgotten votes and records, and gives no vote; see `node`.

    Attributes:
        candidate: The voter that has asked for it, with records in its log; None: the node begins.
    """

    candidate: ReplicaKey | None


class TellWhole(msgspec.Struct, frozen=True):
    """This node votes and counts again."""


class ReportLostRecords(msgspec.Struct, frozen=True):
    """A voter has lost records that it had acknowledged to this leader.

    Its offsets do not count until it has passed what it acknowledged.

    Attributes:
        acknowledged: The highest offset that it has asked from in this epoch.
        end_offset: The offset that it asks from now.
    """

    replica: ReplicaKey
    acknowledged: Offset
    end_offset: Offset


Instruction = (
    WriteQuorumState
    | SendRequest
    | Respond
    | BeginEpoch
    | AppendControl
    | AppendProposed
    | AppendFetched
    | TruncateLog
    | BeginSnapshot
    | WriteSnapshotPiece
    | AbandonSnapshot
    | InstallSnapshot
    | AdvanceHighWatermark
    | TellLeader
    | TellEstablished
    | TellConfirmed
    | TellHandedOver
    | ReportLostRecords
    | TellWithheld
    | TellWhole
)
