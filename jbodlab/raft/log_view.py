"""The log of a node as its core knows it, and where a position of another log stands in it.

The bytes belong to the thread of the log. The thread carries out in order what it was handed, so
the core decides on the log as it *will* be: `end_offset` moves when an append is handed over.
Another offset follows it when the thread reports what a loss of power would leave.

    start_offset <= synced_offset <= end_offset

Each append has a number. A report names the number, not an offset: an append that was handed over
before a truncation is reported after it, and its end offset is not the end of anything then.

Source: `org.apache.kafka.raft.internals.KafkaRaftLog`, `...RaftLog`; KIP-595, KIP-630.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from jbodlab.metadata.records.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    KRaftVotersRecord,
)
from jbodlab.raft.voters import History, VoterSet
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset


class OffsetAndEpoch(NamedTuple):
    """An end offset, and the epoch of the record before it; also the id of a snapshot."""

    offset: Offset
    epoch: LeaderEpoch

    def is_up_to_date_with(self, other: OffsetAndEpoch) -> bool:
        """Return whether a log that ends here may lead one that ends there; epochs count first."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class Position(NamedTuple):
    """Where a follower's log stands in the leader's; valid if both fields are None.

    Attributes:
        diverging: The largest epoch that both logs may share, and where it ends at the leader.
        snapshot: The follower needs this snapshot first.
    """

    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None


VALID = Position()


class LogView:
    """The log of a node, as its core has ordered it to be.

    Args:
        start_offset: First offset of the log.
        end_offset: Offset behind the last record; all below is synced.
        epochs: Epoch and start offset of each epoch in the log, both ascending.
        snapshots: Ids of the complete snapshots, ascending, without (0, 0).
        voters: Voter sets by offset.
        kraft_versions: Levels of kraft.version by offset.
    """

    def __init__(
        self,
        *,
        voters: History[VoterSet],
        kraft_versions: History[int],
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        snapshots: Iterable[OffsetAndEpoch] = (),
    ) -> None:
        self.start_offset = Offset(start_offset)
        self.end_offset = Offset(end_offset)
        self.synced_offset = self.end_offset
        self.snapshots = tuple(snapshots)
        self.voters = voters
        self.kraft_versions = kraft_versions
        self._epochs = [(LeaderEpoch(epoch), Offset(start)) for epoch, start in epochs]
        self._appends = 0
        self._unsynced: deque[tuple[int, Offset]] = deque()
        """Number and end offset of each append that the thread has not reported yet."""

    @property
    def is_synced(self) -> bool:
        """Whether all that was handed over survives a loss of power."""
        return self.synced_offset == self.end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Epoch of the last record, else of the snapshot that the log begins with, else 0."""
        if self._epochs:
            return self._epochs[-1][0]
        return self.snapshots[-1].epoch if self.snapshots else LeaderEpoch(0)

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log, as elections compare it."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def epochs(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        """Epoch and start offset of each epoch, ascending."""
        return tuple(self._epochs)

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch not above another one, and where it ends here.

        If all epochs of the log are larger, it is the epoch itself, which ends where they begin.
        """
        floor = None
        for known, start in self._epochs:
            if known > epoch:
                return self._or_oldest_snapshot(
                    OffsetAndEpoch(start, LeaderEpoch(epoch) if floor is None else floor), epoch
                )
            floor = known
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def _or_oldest_snapshot(self, end: OffsetAndEpoch, epoch: int) -> OffsetAndEpoch:
        oldest = self.snapshots[0] if self.snapshots else None
        if oldest is not None and oldest.offset == end.offset and end.epoch == epoch:
            return oldest
        return end

    def position_of(self, offset: int, epoch: int) -> Position:
        """Return where a follower stands.

        Args:
            offset: Its end offset.
            epoch: Of its last record.
        """
        if self.start_offset == 0 and offset == 0:
            return VALID
        oldest = self.snapshots[0] if self.snapshots else None
        if oldest is not None and (
            offset < self.start_offset
            or (offset == self.start_offset and epoch != oldest.epoch)
            or epoch < oldest.epoch
        ):
            return Position(snapshot=self.snapshots[-1])
        end = self.end_of(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Position(diverging=end)
        return VALID

    def truncation_for(self, diverging: OffsetAndEpoch) -> Offset:
        """Return where this log is cut after a leader's answer that it diverges.

        The answer goes back at least one epoch each time, so the questions end.
        """
        if diverging.epoch == 0:
            return min(diverging.offset, self.end_offset)
        own = self.end_of(diverging.epoch)
        if own.epoch == diverging.epoch:
            return min(diverging.offset, own.offset)
        return own.offset

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Begin an epoch at the end of the log, so that each earlier epoch has an end."""
        assert epoch > self.last_epoch or not self._epochs, (epoch, self._epochs)
        self._epochs.append((epoch, self.end_offset))

    def append(self, end_offset: Offset) -> int:
        """Take note of an append that is handed over; returns its number."""
        assert end_offset > self.end_offset
        self._appends += 1
        self.end_offset = end_offset
        self._unsynced.append((self._appends, end_offset))
        return self._appends

    def add_controls(self, controls: Iterable[tuple[Offset, ControlRecord]]) -> None:
        """Take note of control records, by their offsets.

        Raises:
            QuorumViolationError: a voter set has no common majority with the one before.
        """
        for offset, record in controls:
            match record:
                case KRaftVersionRecord():
                    self.kraft_versions.add(offset, record.k_raft_version)
                case KRaftVotersRecord():
                    voters = VoterSet.of(record.voters)
                    # The first set of a log replaces a static one, which names no directories,
                    # and the one that the node was formatted with, which is in no log.
                    if self.voters.last_offset not in (None, -1):
                        self.voters.last.check_next(voters)
                    self.voters.add(offset, voters)

    def note_synced(self, number: int) -> None:
        """Take note that an append, and all before it, survives a loss of power."""
        while self._unsynced and self._unsynced[0][0] <= number:
            self.synced_offset = self._unsynced.popleft()[1]

    def truncate_to(self, end_offset: Offset) -> None:
        """Cut the log."""
        assert self.start_offset <= end_offset <= self.end_offset
        self.end_offset = end_offset
        self.synced_offset = min(self.synced_offset, end_offset)
        for index, (number, end) in enumerate(self._unsynced):
            self._unsynced[index] = number, min(end, end_offset)
        while self._epochs and self._epochs[-1][1] >= end_offset:
            self._epochs.pop()
        self.voters.truncate_to(end_offset)
        self.kraft_versions.truncate_to(end_offset)

    def restart_at(
        self, snapshot: OffsetAndEpoch, voters: VoterSet | None, kraft_version: int | None
    ) -> None:
        """Begin the log anew at the end of a snapshot that is complete and synced.

        Raises:
            QuorumViolationError: the log reaches further than the snapshot in the same epoch.
        """
        if self.end.is_up_to_date_with(snapshot) and self.end != snapshot:
            raise QuorumViolationError(
                f"snapshot {snapshot} does not reach the log's end {self.end}"
            )
        self.start_offset = self.end_offset = snapshot.offset
        self.synced_offset = snapshot.offset
        self._unsynced.clear()
        self._epochs.clear()
        self.snapshots = (snapshot,)
        self.voters.restart(snapshot.offset - 1, voters)
        self.kraft_versions.restart(snapshot.offset - 1, kraft_version)

    def set_snapshots(self, snapshots: tuple[OffsetAndEpoch, ...], start_offset: Offset) -> None:
        """Take note of a new or removed snapshot, and of the log start after cleaning."""
        assert self.start_offset <= start_offset <= self.end_offset
        self.snapshots = snapshots
        self.start_offset = start_offset
        later = [entry for entry in self._epochs if entry[1] > start_offset]
        if len(later) < len(self._epochs):
            current = self._epochs[len(self._epochs) - len(later) - 1][0]
            later.insert(0, (current, start_offset))
        self._epochs = later
        self.voters.trim_to(start_offset)
        self.kraft_versions.trim_to(start_offset)
