"""The files of a node of the quorum: log, quorum-state and snapshots; on the thread of the log.

All methods block. After an error nothing more is written: what a failed write has left is unknown,
and the process ends.

A full disk shall not cost a vote: others may need it to elect a leader that has room. A file of
zeros keeps room for that, and goes when quorum-state or an epoch finds none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from controller.quorum.recent_batches import LogBatch
from jbodlab.metadata.log import quorum_state, snapshots
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState
from jbodlab.metadata.log.snapshots import Snapshot
from jbodlab.raft.batches import controls_of, quorum_of
from jbodlab.raft.instructions import ElectionState, WriteQuorumState
from jbodlab.raft.log_view import LogView, OffsetAndEpoch
from jbodlab.raft.voters import History, ReplicaKey, VoterSet
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.filesystem import AppendFile
from jbodlab.vocabulary.errors import (
    CorruptRecordError,
    DecodeError,
    KafkaError,
    LogDirError,
    QuorumViolationError,
)
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

T = TypeVar("T")

RESERVE_FILE = ".reserve"
"""In the metadata directory."""
SNAPSHOT_BYTES_AT_ONCE = 1 << 20
LOG_BYTES_AT_ONCE = 1 << 20


class LogDirFullError(LogDirError):
    """There is no room on the disk for an append, and there may be some later."""


class SnapshotPart(NamedTuple):
    """A part of a snapshot, and the size of the whole."""

    data: bytes
    size: int


class InstalledSnapshot(NamedTuple):
    """A snapshot that was fetched: its content, and what it says about the quorum."""

    content: Snapshot
    voters: VoterSet | None
    kraft_version: int | None


def election_state(stored: QuorumState | None) -> ElectionState | None:
    """Return what a quorum-state file says."""
    if stored is None:
        return None
    voted = ReplicaKey(BrokerId(stored.voted_id), stored.voted_directory_id)
    return ElectionState(
        epoch=LeaderEpoch(stored.leader_epoch),
        leader_id=None if stored.leader_id < 0 else BrokerId(stored.leader_id),
        voted=None if stored.voted_id < 0 else voted,
    )


def quorum_state_of(instruction: WriteQuorumState) -> QuorumState:
    """Return the content of a quorum-state file, in the version that kraft.version has."""
    state, version = instruction.state, min(instruction.kraft_version, 1)
    known = QuorumState(
        leader_id=-1 if state.leader_id is None else state.leader_id,
        leader_epoch=state.epoch,
        voted_id=-1 if state.voted is None else state.voted.node_id,
        data_version=version,
    )
    if version == 0:
        return replace(known, voters=instruction.voters)
    if state.voted is None:
        return known
    return replace(known, voted_directory_id=state.voted.directory_id)


class RaftFiles:
    """The files below one metadata directory; see the module.

    Args:
        log: The open log; its owner from now on.
        reserve_bytes: Room that is kept for votes; 0 for none.
    """

    def __init__(self, log: MetadataLog, reserve_bytes: int = 0) -> None:
        self._log = log
        self._reserve_bytes = reserve_bytes
        self._reserve = log.directory.parent / RESERVE_FILE
        self._failure: LogDirError | None = None
        """The first write that failed."""
        self._download: AppendFile | None = None

    def begin(self, static_voters: VoterSet) -> LogView:
        """Keep room for votes, and return the log; see `view`."""
        self.keep_reserve()
        return self.view(static_voters)

    def view(self, static_voters: VoterSet) -> LogView:
        """Return the log as the core wants it, by reading its control records.

        Args:
            static_voters: Voters where neither log nor snapshot names any.

        Raises:
            CorruptRecordError: the newest snapshot cannot be read.
        """
        voters, versions = History(static_voters), History(0)
        ids = self.snapshot_ids()
        newest = snapshots.latest_snapshot(self._log.directory, fs=self._log.fs)
        offset = self._log.start_offset
        if newest is not None:
            end_offset, _ = snapshots.parse_name(newest.name)
            named, level = self._quorum_in(newest)
            voters.restart(end_offset - 1, named)
            versions.restart(end_offset - 1, level)
            offset = max(offset, end_offset)
        view = LogView(
            voters=voters,
            kraft_versions=versions,
            start_offset=self._log.start_offset,
            end_offset=self._log.end_offset,
            epochs=self._log.epochs,
            snapshots=ids,
        )
        while data := self._log.read(offset, LOG_BYTES_AT_ONCE):
            # The checksums were looked at when the log was opened.
            for position, header in iterate_headers(data):
                if header.is_control and header.base_offset >= offset:
                    view.add_controls(controls_of(data, position, header))
            offset = Offset(header.next_offset)
        return view

    def _quorum_in(self, path: Path) -> tuple[VoterSet | None, int | None]:
        file = self._log.fs.open_source(path)
        try:
            return quorum_of(file.pread(snapshots.HEADER_BATCH_BYTES_MAX, 0))
        except DecodeError as error:
            raise CorruptRecordError(path, 0, str(error)) from error
        finally:
            file.close()

    def snapshot_ids(self) -> tuple[OffsetAndEpoch, ...]:
        """Return the snapshots that the log begins with or behind, ascending, without (0, 0)."""
        found = snapshots.snapshot_paths(self._log.directory, fs=self._log.fs)
        ids = (snapshots.parse_name(path.name) for path in reversed(found))
        return tuple(
            OffsetAndEpoch(Offset(offset), LeaderEpoch(epoch))
            for offset, epoch in ids
            if offset > 0 and offset >= self._log.start_offset
        )

    def snapshots_and_start(self) -> tuple[tuple[OffsetAndEpoch, ...], Offset]:
        """Return the snapshots and the start of the log, as they are now."""
        return self.snapshot_ids(), Offset(self._log.start_offset)

    # Writing.

    def write_state(self, instruction: WriteQuorumState) -> None:
        """Replace quorum-state, durably."""
        state = quorum_state_of(instruction)
        write = partial(
            quorum_state.write_quorum_state, self._log.directory, state, fs=self._log.fs
        )
        self._write(partial(self._with_reserve, write, write))

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Begin an epoch at the end of the log."""
        begin = partial(self._log.begin_epoch, epoch)
        self._write(partial(self._with_reserve, begin, self._log.finish))

    def append(self, data: bytes) -> None:
        """Append whole batches.

        Raises:
            LogDirFullError: `finish` may be tried later.
        """
        self._write(partial(self._log.append, data))

    def finish(self) -> None:
        """Append the rest of an append that failed for lack of room; raises as `append`."""
        self._write(self._log.finish)

    def then_flush(self, write: Callable[[], None]) -> None:
        """Write by `append` or `finish`, and sync all that was appended; raises as they do."""
        write()
        self._write(self._log.flush)

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log, durably."""
        self._write(partial(self._log.truncate_to, end_offset))

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Open the file that a snapshot is fetched into."""
        self._write(partial(self._begin_snapshot, self._part(snapshot)))

    def _begin_snapshot(self, part: Path) -> None:
        self._download = self._log.fs.open_append(part)
        self._download.truncate(0)

    def write_piece(self, data: bytes) -> None:
        """Write the next piece of the snapshot that is fetched."""
        assert self._download is not None
        self._write(partial(self._download.write, data))

    def abandon_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Remove the file of a snapshot that was being fetched."""
        self._write(partial(self._abandon, self._part(snapshot)))

    def _abandon(self, part: Path) -> None:
        download, self._download = self._download, None
        if download is not None:
            download.close()
        self._log.fs.unlink(part, missing_ok=True)

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> InstalledSnapshot | None:
        """Check the snapshot that was fetched, and begin the log anew at its end, durably.

        Returns:
            Its content; None if it is damaged, in which case its file is removed.
        """
        return self._write(partial(self._install, snapshot))

    def _install(self, snapshot: OffsetAndEpoch) -> InstalledSnapshot | None:
        fs, directory, part = self._log.fs, self._log.directory, self._part(snapshot)
        assert self._download is not None
        self._download.fsync()
        self._download.close()
        self._download = None
        data = fs.read_bytes(part)
        try:
            header, records = snapshots.decode_snapshot(data)
            voters, kraft_version = quorum_of(data)
        except (DecodeError, QuorumViolationError):
            fs.unlink(part)
            return None
        older = snapshots.snapshot_paths(directory, fs=fs)
        fs.make_read_only(part)
        fs.rename(part, directory / snapshots.snapshot_name(*snapshot))
        self._log.reset_to(*snapshot)
        for path in older:
            snapshots.delete_snapshot(fs, path)
        content = Snapshot(
            end_offset=snapshot.offset,
            epoch=snapshot.epoch,
            timestamp_ms=header.last_contained_log_timestamp,
            records=records,
        )
        return InstalledSnapshot(content, voters, kraft_version)

    def _part(self, snapshot: OffsetAndEpoch) -> Path:
        name = snapshots.snapshot_name(*snapshot)
        return self._log.directory / f"{name}.part"

    def keep_reserve(self) -> None:
        """Keep room for votes, if there is any."""
        self._write(self._keep_reserve)

    def _keep_reserve(self) -> None:
        fs = self._log.fs
        if not self._reserve_bytes or fs.exists(self._reserve):
            return
        try:
            fs.write_bytes(self._reserve, bytes(self._reserve_bytes), sync=False)
        except OSError as error:
            if not disk_errors.is_no_space(error):
                raise
            fs.unlink(self._reserve, missing_ok=True)
            logger.warning("no room to keep for votes: %s", error)

    def _with_reserve(self, write: Callable[[], None], again: Callable[[], None]) -> None:
        """Write in the room that was kept, if there is no other; an append never gets it."""
        try:
            write()
        except OSError as error:
            if not disk_errors.is_no_space(error) or not self._log.fs.exists(self._reserve):
                raise
            logger.warning("no space left: giving up the room that was kept for votes")
            self._log.fs.unlink(self._reserve)
            again()

    def _write(self, write: Callable[[], T]) -> T:
        if self._failure is not None:
            raise self._failure
        try:
            return write()
        except disk_errors.OutOfRoomError as error:
            # Of the last write nothing is left in the file.
            raise LogDirFullError(self._log.directory, None, str(error)) from error
        except OSError as error:
            self._failure = LogDirError(self._log.directory, None, str(error))
            raise self._failure from error

    # Reading.

    def read(self, first: Offset, end: Offset, bytes_max: int) -> bytes:
        """Return whole batches from an offset on and below another one; at least one.

        Empty if the log has been cut there meanwhile.
        """
        try:
            data = self._log.read(first, bytes_max)
        except KafkaError:
            return b""
        except OSError as error:
            raise LogDirError(self._log.directory, None, str(error)) from error
        size = 0
        for position, header in iterate_headers(data):
            if header.next_offset > end:
                break
            size = position + header.size
        return data[:size]

    def read_snapshot(
        self, snapshot: OffsetAndEpoch, position: int, bytes_max: int
    ) -> SnapshotPart | None:
        """Return a piece of a snapshot; None if it is gone."""
        path = self._log.directory / snapshots.snapshot_name(*snapshot)
        try:
            size = self._log.fs.size(path)
            file = self._log.fs.open_source(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogDirError(self._log.directory, None, str(error)) from error
        try:
            return SnapshotPart(file.pread(min(bytes_max, SNAPSHOT_BYTES_AT_ONCE), position), size)
        except OSError as error:
            raise LogDirError(self._log.directory, None, str(error)) from error
        finally:
            file.close()


def read_log(files: RaftFiles, first: Offset, end: Offset) -> list[LogBatch]:
    """Return the batches from an offset on and below another one, as many as are read at once."""
    data = files.read(first, end, LOG_BYTES_AT_ONCE)
    return [
        LogBatch(
            Offset(header.base_offset), Offset(header.next_offset), data[at : at + header.size]
        )
        for at, header in iterate_headers(data)
    ]
