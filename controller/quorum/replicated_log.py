"""The port between an active controller and the quorum that replicates its log.

How a leader uses it. A decision is replayed on the newest state at once, so that the next decision
sees it; that state is *pending*. The batches of a round of decisions are passed to `append`. When
they can no longer be lost, the log answers with a `Committed` value, in the order of the calls.
Only then may an effect of them leave the process: a response to a caller, a refusal that was
decided on pending state, a batch on a stream, a snapshot, a metric. So listeners take a `Committed`
value, which only a `ReplicatedLog` makes, and callers wait for it.

    what leaves the process             what must be durable before
    response, refusal, stream, snapshot the batches, on enough voters: `Committed`
    response without any batch          nothing, but that nobody else leads: `confirm`
    first batch of a leader epoch       quorum-state with that epoch and leader
    claim of the epoch (activation)     the LeaderChange record of the epoch: `Committed`

Invariants, for any implementation:

* 0 <= high_watermark <= end offset of the log. The high watermark never goes back.
* `append` is refused outside of the epoch in which this node leads. The epoch rises with each
  election, and each record of a later epoch has a higher offset.
* Every answer of `append` is one of three. `Committed`: the batches survive. `NotLeaderError`: the
  outcome is unknown, the next leader may find them in its log or not. `LogDirError`: the disk
  failed, and the process ends. None of them means that the batches were taken back.
* A leader that resigned leads again from the committed state. It never continues with pending
  state.
* Roles are events: `on_leader` begins a term, `on_follower` ends it. Nobody asks for an election.

The commit is the implementation's answer, not the caller's: a majority of the voters has synced it,
which with one voter is the sync of that voter (`raft_log`).

Source: `org.apache.kafka.raft.RaftClient`, KIP-595.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.metadata.log.batches import MAX_BATCH_BYTES, BatchTooLargeError
from jbodlab.raft.messages import VoterChangeRequest
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset


class NotLeaderError(RpcRefusedError):
    """This node does not lead; what it was asked for is not done, or its outcome is unknown.

    A broker asks again, as after a connection that broke.
    """

    def __init__(self, *, is_outcome_unknown: bool = False, hint: bytes = b"") -> None:
        super().__init__(
            Refusal.NOT_CONTROLLER,
            "NOT_CONTROLLER: this controller is not active",
            is_outcome_unknown=is_outcome_unknown,
            hint=hint,
        )


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to append; the log adds the leader epoch.

    Attributes:
        records: Key and value of each record.
        timestamp_ms: Of all records, ms since 1970.
        attributes: Of the batch, as in its header.
    """

    base_offset: Offset
    records: Sequence[tuple[bytes | None, bytes | None]]
    timestamp_ms: int
    attributes: int = 0


class Committed(msgspec.Struct, frozen=True):
    """Batches that are committed; only a `ReplicatedLog` makes this value.

    Attributes:
        batches: Each batch as it is in the log, with its base offset.
        end_offset: Offset behind the last record: the high watermark.
    """

    batches: list[tuple[Offset, bytes]]
    end_offset: Offset


class QuorumFollower(msgspec.Struct, frozen=True, kw_only=True):
    """Another controller, as the leader knows it.

    Attributes:
        directory_id: Where it keeps the log; None where the quorum does not know that.
        is_voter: Whether it votes; others only follow.
        end_offset: Of its log; -1 if it has not asked for records yet.
        last_fetch_ms: When it has asked last, on the clock of the node; None: never.
        last_caught_up_ms: When it had all that the leader had; None: never.
    """

    node_id: BrokerId
    directory_id: DirectoryId | None
    is_voter: bool
    end_offset: Offset = Offset(-1)
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None


class CommitListener(Protocol):
    """An object that is told what is committed; on the event loop, in order."""

    def committed(self, committed: Committed) -> None:
        """Take note of new batches."""


class RoleListener(Protocol):
    """An object that is told who leads; on the event loop.

    Epochs never fall, and no epoch has two leaders. Between two terms of this node `on_follower` is
    called.
    """

    def on_leader(self, epoch: LeaderEpoch) -> None:
        """This node leads, and all records of former epochs in its log are committed."""

    def on_controls(self, end_offset: Offset) -> None:
        """The quorum has appended records of its own, and the next batch begins at an offset."""

    def on_elected(self, epoch: LeaderEpoch) -> None:
        """This node was elected after `on_follower`; `on_leader` is called as soon as it may be."""

    def on_follower(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """This node does not lead; nothing is committed any more that it appends.

        Args:
            epoch: The newest leader epoch.
            leader: The leader of that epoch; None if it is unknown.
        """


class ReplicatedLog(Protocol):
    """The log of a quorum, as its leader uses it; lives on the event loop."""

    @property
    def high_watermark(self) -> Offset:
        """First offset that is not committed."""

    @property
    def end_offset(self) -> Offset:
        """Where the next batch of the leader begins."""

    @property
    def directory_id(self) -> DirectoryId | None:
        """Where this node keeps the log; None where the quorum does not know that of its voters."""

    @property
    def kraft_version(self) -> int:
        """The last level of kraft.version, committed or not; 0 where the voters are fixed."""

    def followers(self) -> Sequence[QuorumFollower]:
        """Return the other controllers of the quorum; none where this node does not lead."""

    def add_listener(self, listener: CommitListener) -> None:
        """Tell an object of each commit from now on, whoever leads.

        Objects are told in the order in which they were added, before the futures of `append`.
        """

    def remove_listener(self, listener: CommitListener) -> None:
        """Tell an object no longer."""

    async def run(self, roles: RoleListener) -> None:
        """Take part in the quorum, and tell an object who leads; runs until cancelled.

        Raises:
            LogDirError: the metadata directory failed.
        """

    def resign(self, successor: BrokerId | None = None) -> None:
        """Give up the leadership, if this node leads; `on_follower` is told before it returns.

        Args:
            successor: The voter that should lead next, if anybody cares.
        """

    async def change_voters(self, request: VoterChangeRequest) -> None:
        """Have the leader change the voters; returns when that is committed.

        Raises:
            NotLeaderError: this node does not lead.
            KafkaError: the change is refused, or not committed in time.
        """

    def confirm(self, epoch: LeaderEpoch) -> asyncio.Future[None] | None:
        """Ask the other voters whether this node still leads.

        Args:
            epoch: Leader epoch of the caller.

        Returns:
            A future that is done when nobody else has led up to this call, and fails with
            `NotLeaderError` if this node resigns first; None where nobody else could lead.

        Raises:
            NotLeaderError: this node does not lead in that epoch.
        """

    def append(self, epoch: LeaderEpoch, batches: Sequence[NewBatch]) -> asyncio.Future[Committed]:
        """Append batches at the end of the log.

        Args:
            epoch: Leader epoch of the caller.
            batches: At least one; the first begins at the log's end, each other behind the one
                before.

        Returns:
            A future of the commit. It fails with `NotLeaderError` if this node resigns first, and
            with `LogDirError` if the metadata directory failed.

        Raises:
            NotLeaderError: this node does not lead in that epoch.
        """


def encoded(batch: NewBatch, epoch: LeaderEpoch) -> bytes:
    """Return a batch as it will be in the log.

    Raises:
        BatchTooLargeError: it has more than `MAX_BATCH_BYTES`.
    """
    data = build_batch(
        batch.records,
        base_offset=batch.base_offset,
        leader_epoch=epoch,
        timestamp_ms=batch.timestamp_ms,
        attributes=batch.attributes,
    )
    if len(data) > MAX_BATCH_BYTES:
        raise BatchTooLargeError(
            f"{len(batch.records)} records need {len(data)} bytes, expected at most "
            f"{MAX_BATCH_BYTES}"
        )
    return data
