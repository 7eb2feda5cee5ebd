"""The metadata log on disk: append, sync, read, truncate, clean.

A `LogState` and its `LogFiles`, as those of a replica, with the rules of this log around them. All
methods block, raise `OSError` untranslated, and run on one thread. A failure of this directory
is fatal for its process, so the state need not survive an error. Records can be read before they
are flushed.

A kill leaves a torn or missing tail, never a gap: a segment is synced before the next one begins,
and of the segments that go, each name is on the disk before the next one changes. Opening reads
every batch; `damage` says how damage is handled.

Cleaning leaves a state that can be loaded: the newest snapshot always stays, and the log begins at
the end of the oldest snapshot or before it. Each step removes the oldest part, which is the log
below the oldest snapshot, or that snapshot with the log up to the next one.

Source: `org.apache.kafka.raft.internals.KafkaRaftLog`, `org.apache.kafka.storage.internals.log`.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

import msgspec

from jbodlab.metadata.log import clean_close, snapshots
from jbodlab.metadata.log.clean_close import ClosedAt
from jbodlab.metadata.log.damage import MetadataPolicy, refuse_missing_end, rewrite
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.record_batch.record_batch import iterate_headers, read_header
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.partition_metadata import read_topic_id, write_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.directory_files import DirectoryFiles
from jbodlab.storage.log.instructions import (
    CloseSegment,
    Instructions,
    SetAside,
    WriteEpochs,
    WriteSnapshot,
)
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_loader import load_log
from jbodlab.storage.log.log_search import cut_point
from jbodlab.storage.log.segment_ranges import CutPoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError
from jbodlab.vocabulary.ids import METADATA_TOPIC_ID

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 1024 * 1024 * 1024
"""Default of metadata.log.segment.bytes."""
SEGMENT_MS = 7 * 24 * 3_600_000
"""Default of metadata.log.segment.ms."""


class MetadataLog:
    """The log in `<metadata dir>/__cluster_metadata-0`; made by `open`."""

    def __init__(self, loaded: LoadedLog, *, is_copy: bool) -> None:
        self._log, self._state, self._files = loaded, loaded.state, loaded.files
        self._is_copy = is_copy
        self._has_failed = False
        """Whether a call has failed; the success of a later sync proves nothing."""
        self._rest: Instructions = ()
        """The end of a change that a call has failed in."""
        self._indexed: int | None = None
        """Base offset of the last segment, if its index files show that it has records."""

    @classmethod
    def open(
        cls,
        metadata_dir: Path,
        *,
        fs: FileSystem | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        segment_ms: int = SEGMENT_MS,
        is_copy: bool = False,
        epoch_max: int | None = None,
    ) -> MetadataLog:
        """Open the log of a node, or create it.

        If a complete snapshot ends behind the log, the log restarts at the snapshot's end. The
        files of a killed snapshot writer are removed.

        Args:
            metadata_dir: `metadata.log.dir`, or the first of `log.dirs`.
            fs: The disk.
            segment_bytes: Size at which a segment takes no more appends.
            segment_ms: Age of its first batch at which a segment takes no more appends.
            is_copy: Whether a controller can send the records again. Otherwise the last segment is
                rewritten and synced unless the log was closed cleanly, so that no record is
                trusted after a failed sync of it, and a tail that is cut is kept as `.damaged`.
            epoch_max: Highest leader epoch so far; None if unknown.

        Raises:
            CorruptRecordError: valid records follow damaged or missing ones, and the log is not a
                copy. No record was changed.
        """
        fs = PosixFileSystem() if fs is None else fs
        directory = metadata_dir / names.METADATA_DIR_NAME
        if not fs.is_dir(directory):
            fs.mkdir(directory, parents=True, exist_ok=True)
            fs.fsync_dir(directory.parent)
        _write_topic_id(fs, directory / names.PARTITION_METADATA_FILE)
        snapshots.remove_leftovers(fs, directory)
        closed = None
        if not is_copy:
            closed = clean_close.take(fs, directory)
            refuse_missing_end(fs, directory)
        loaded = load_log(
            fs,
            directory,
            names.parse_partition_dir(directory.name).topic_partition,
            LogConfig(segment_bytes=segment_bytes, segment_ms=segment_ms),
            DirectoryFiles(),
            clean=False,
            recovery_point=0,
            log_start_offset=None,
            policy=MetadataPolicy(is_copy=is_copy, epoch_max=epoch_max),
        )
        log = cls(loaded, is_copy=is_copy)
        try:
            log._begin(closed)
        except BaseException:
            log._files.abandon()
            raise
        return log

    @property
    def fs(self) -> FileSystem:
        """The disk."""
        return self._files.fs

    @property
    def directory(self) -> Path:
        """Directory of its files."""
        return self._files.directory

    @property
    def start_offset(self) -> int:
        """First offset that is still in the log."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._state.end_offset

    @property
    def synced_offset(self) -> int:
        """All records below this offset are known to be on the disk."""
        return self._state.recovery_point

    @property
    def last_epoch(self) -> int:
        """Newest leader epoch that has begun in the log; -1 if none has."""
        return self._state.epochs.latest_epoch

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Each leader epoch in the log and its start offset, ascending."""
        return self._state.epochs.entries

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._state.size_bytes

    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log's end, so that each earlier epoch has an end.

        A new leader does that before it appends. Until it has appended a record, the next opening
        knows nothing of the epoch: the records of a log are the source of its epochs.

        Source: `KafkaRaftLog.initializeLeaderEpoch`.
        """
        assert epoch > self.last_epoch
        self._carry_out(self._state.assign_epoch(epoch))

    def append(self, data: bytes | memoryview) -> None:
        """Append whole batches that begin at the log's end, in one write; not yet durable."""
        headers = []
        end_offset, epoch = self.end_offset, self.last_epoch
        for _, header in iterate_headers(data):
            assert header.base_offset == end_offset
            assert header.partition_leader_epoch >= epoch
            end_offset, epoch = header.next_offset, header.partition_leader_epoch
            headers.append(header)
        assert headers
        self._carry_out(self._state.append((data,), headers))

    def finish(self) -> None:
        """Carry out what an append had no room for; its records are in the log already."""
        self._carry_out(self._rest)

    def flush(self) -> None:
        """Sync the log; returns when all appended records are on the disk."""
        active = self._state.active
        request = self._state.sync_request(with_active=True)
        try:
            self._files.flush(active.base_offset)
            # Each closed segment was synced before the next one began, and indexes can be rebuilt.
            if request.names:
                self._files.sync(self.fs, request._replace(segments=(), indexed=()))
            if active.size and self._indexed != active.base_offset:
                self._write_indexes()
        except OSError:
            self._has_failed = True
            raise
        self._state.synced(request)

    def read(self, from_offset: int, max_bytes: int = 1 << 20) -> bytes:
        """Return whole batches from the one that contains an offset.

        Args:
            from_offset: First requested offset; its batch may begin before it.
            max_bytes: Size not to exceed, except that at least one batch is returned.

        Returns:
            The batches, at most to the end of a segment; empty at the end of the log.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the log does not reach that far back or forward.
        """
        if from_offset == self.end_offset:
            return b""
        if not self.start_offset <= from_offset < self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {from_offset} is not in the metadata log, which has "
                f"{self.start_offset} to {self.end_offset}",
            )
        ranges = self._state.ranges(from_offset)
        return self._files.read(ranges, from_offset, max_bytes)

    def truncate_to(self, end_offset: int) -> None:
        """Remove all records from an offset on, durably; of a batch all or none.

        Args:
            end_offset: The log ends there afterwards, or before it where no batch begins.
        """
        assert end_offset >= self.start_offset
        request = self._state.cut_request(end_offset)
        if request is None:
            return
        point = CutPoint(request, cut_point(self._files, request), None)
        self._cut(self._state.truncate(point))

    def reset_to(self, end_offset: int, epoch: int = -1) -> None:
        """Drop all records and restart the log at an offset, after a snapshot was received.

        Args:
            end_offset: End offset of the snapshot.
            epoch: Leader epoch of the record before it, -1 if unknown.
        """
        instructions = self._state.restart_at(end_offset)
        if epoch >= 0:
            instructions += self._state.assign_epoch(epoch)
        self._cut(instructions)

    def clean(self, settings: MetadataLogSettings, now_ms: int) -> int:
        """Remove the oldest parts until log and snapshots are within the limits, if they can go.

        No other code may remove snapshots meanwhile.

        Args:
            settings: The limits of size and age.
            now_ms: Wall clock, ms since 1970.

        Returns:
            How many bytes were removed.
        """
        paths = snapshots.snapshot_paths(self.directory, fs=self.fs)
        kept = deque(_kept(self.fs, path) for path in reversed(paths))
        checked = False
        removed = 0
        while kept and self._is_over(kept, settings, now_ms):
            if not checked and not snapshots.is_complete(self.fs, kept[-1].path):
                # Everything below would go for its sake.
                logger.error(
                    "the newest metadata snapshot is damaged; keeping the log",
                    extra={"path": str(kept[-1].path)},
                )
                return 0
            checked = True
            dropped = self.delete_segments_below(kept[0].end_offset)
            if not dropped:
                if len(kept) == 1:
                    break
                oldest = kept.popleft()
                snapshots.delete_snapshot(self.fs, oldest.path)
                dropped = oldest.size_bytes + self.delete_segments_below(kept[0].end_offset)
            removed += dropped
        if removed:
            logger.info(
                "removed the oldest metadata",
                extra={"removed_bytes": removed, "log_start_offset": self.start_offset},
            )
        return removed

    def delete_segments_below(self, offset: int) -> int:
        """Remove the segments whose records are all below an offset; the last one always stays.

        Returns:
            How many bytes of batches were removed.
        """
        before = self.size_bytes
        first = max((base for base in self._state.base_offsets if base <= offset), default=0)
        self._carry_out(self._state.drop_before(first))
        self._remove_set_aside()
        return before - self.size_bytes

    def epoch_end_offset(self, epoch: int) -> int:
        """Return the offset behind the last record of an epoch, to find where two logs diverge.

        An epoch without records ends where the next epoch begins; -1 if that is unknown.
        """
        return self._state.epochs.end_offset_for(epoch, self.end_offset)[1]

    def crc_before(self, offset: int) -> int | None:
        """Return the CRC of the batch with the offset before this one; None if the log lacks it.

        Two copies of one log have the same batches, and so the same CRC. If the batch of one log
        ends at the offset and that of the other ends behind it, the logs and the CRCs differ.
        """
        if not self.start_offset < offset <= self.end_offset:
            return None
        return read_header(self.read(offset - 1, 1)).crc

    def close(self) -> None:
        """Sync and close the files; an error of the sync is raised after the files are closed."""
        try:
            if self._has_failed:
                return
            self.flush()
            self._write_indexes()
            if not self._is_copy:
                clean_close.write(self.fs, self.directory, self._closed_at())
        finally:
            self._files.abandon()

    def _begin(self, closed: ClosedAt | None) -> None:
        """Make a log that was loaded ready for use.

        Args:
            closed: Where the log was closed in order; None if it was not, or is a copy.
        """
        fs, directory, active = self.fs, self.directory, self._state.active
        if not fs.exists(directory / names.LEADER_EPOCH_FILE):
            self._carry_out((WriteEpochs(self._state.epochs.entries),))
        if active.size and not self._is_copy and closed != self._closed_at():
            rewrite(self._files, active)
        newest = _snapshot_from(fs, directory, self.end_offset + bool(self.size_bytes))
        if newest is not None and newest[0] > self.end_offset:
            if not self._is_copy:
                # A controller's snapshot holds only records that its log had on the disk.
                logger.error(
                    "the metadata log ends before its newest snapshot; later records are lost",
                    extra={"end_offset": self.end_offset, "snapshot_end_offset": newest[0]},
                )
            self.reset_to(*newest)
        elif newest is not None and newest[0]:
            self._carry_out(self._state.assign_epoch(newest[1]))
        if self._is_copy:
            fs.fsync_dir(directory)
        else:
            self.flush()

    def _carry_out(self, instructions: Instructions) -> None:
        """Carry instructions out, with the syncs without which a power loss could leave a gap."""
        count = 0
        try:
            for count, instruction in enumerate(instructions):  # noqa: B007 - used on an error
                match instruction:
                    case WriteSnapshot():
                        # No producer of this log is idempotent.
                        continue
                    case CloseSegment():
                        self._files.flush(instruction.base_offset)
                        self.fs.fsync_dir(self.directory)
                self._files.carry_out((instruction,))
                if isinstance(instruction, SetAside):
                    self.fs.fsync_dir(self.directory)
        except OSError:
            self._has_failed, self._rest = True, instructions[count:]
            raise
        self._rest = ()

    def _cut(self, instructions: Instructions) -> None:
        self._carry_out(instructions)
        self._indexed = None
        self.flush()
        self._remove_set_aside()

    def _remove_set_aside(self) -> None:
        self._files.remove_set_aside(self.fs, self._state.expired(0))

    def _write_indexes(self) -> None:
        """Write the index files of the last segment, of which they show that it has records."""
        active = self._state.active.copy()
        active.finish()
        self._files.carry_out((CloseSegment(active.base_offset, active.index, active.time_index),))
        self._indexed = active.base_offset

    def _closed_at(self) -> ClosedAt:
        active = self._state.active
        return ClosedAt(base_offset=active.base_offset, size=active.size)

    def _is_over(self, kept: deque[_Kept], settings: MetadataLogSettings, now_ms: int) -> bool:
        size_bytes = self.size_bytes + sum(each.size_bytes for each in kept)
        if 0 <= settings.retention_bytes < size_bytes:
            return True
        oldest = kept[0].timestamp_ms
        return oldest is not None and 0 <= settings.retention_ms < now_ms - oldest


class _Kept(msgspec.Struct, frozen=True):
    """A snapshot that is kept."""

    path: Path
    end_offset: int
    size_bytes: int
    timestamp_ms: int | None


def _kept(fs: FileSystem, path: Path) -> _Kept:
    end_offset, _ = snapshots.parse_name(path.name)
    return _Kept(path, end_offset, fs.size(path), snapshots.read_timestamp_ms(fs, path))


def _write_topic_id(fs: FileSystem, path: Path) -> None:
    """Write `partition.metadata`, unless it is right: its content is always the same."""
    try:
        found = read_topic_id(fs, path)
    except CorruptRecordError as error:
        logger.warning("writing the topic id of the metadata log again: %s", error)
        found = None
    if found != METADATA_TOPIC_ID:
        write_topic_id(fs, path, METADATA_TOPIC_ID)


def _snapshot_from(fs: FileSystem, directory: Path, end_offset: int) -> tuple[int, int] | None:
    """Return end offset and epoch of the newest whole snapshot that ends at or behind an offset."""
    for path in snapshots.snapshot_paths(directory, fs=fs):
        found = snapshots.parse_name(path.name)
        if found[0] < end_offset:
            break
        if snapshots.is_complete(fs, path):
            return found
    return None
