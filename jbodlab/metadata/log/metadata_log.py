"""The metadata log on disk: append, sync, read.

All methods block, raise `OSError` untranslated, and run on one thread. A failure of this directory
is fatal for its process, so the state need not survive an error. Records can be read before they
are flushed.

A kill leaves a torn or missing tail, never a gap: segments are synced before they are rolled, and
removed from the newest to the oldest. Opening cuts an invalid tail that no valid record follows.
Any other damage has hit acknowledged records; the open then depends on the owner of the log:

    controller's    no other copy exists: the open fails, and the log is not changed
    broker's copy   the log is cut at the damage, as the controller sends the rest again

Source: `org.apache.kafka.raft.internals.KafkaRaftLog`, `org.apache.kafka.storage.internals.log`.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

from jbodlab.metadata.log import clean_close
from jbodlab.metadata.log.opening import end_of, open_segments
from jbodlab.metadata.log.segment import MetadataSegment
from jbodlab.metadata.log.snapshots import (
    is_complete,
    parse_name,
    remove_leftovers,
    snapshot_paths,
)
from jbodlab.record_batch.record_batch import iterate_headers, read_header
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.partition_metadata import write_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.leader_epochs import LeaderEpochs, read_leader_epochs, write_leader_epochs
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

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        segments: list[MetadataSegment],
        segment_bytes: int,
        segment_ms: int,
        is_copy: bool,
    ) -> None:
        assert segments
        self.directory = directory
        self.fs = fs
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._is_copy = is_copy
        self._has_failed = False
        """Whether a sync has failed; the success of a later sync proves nothing."""
        self._epochs = LeaderEpochs()

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
        metadata_path = directory / names.PARTITION_METADATA_FILE
        if not fs.exists(metadata_path):
            write_topic_id(fs, metadata_path, METADATA_TOPIC_ID)
        remove_leftovers(fs, directory)
        segments = open_segments(fs, directory, is_copy, epoch_max)
        log = cls(fs, directory, segments, segment_bytes, segment_ms, is_copy)
        log._load_epochs()
        further = _snapshot_beyond(fs, directory, log.end_offset)
        if further is not None:
            if not is_copy:
                # A controller's snapshot holds only records that its log had on the disk.
                logger.error(
                    "the metadata log ends before its newest snapshot; later records are lost",
                    extra={"end_offset": log.end_offset, "snapshot_end_offset": further[0]},
                )
            log.reset_to(*further)
        fs.fsync_dir(directory)
        return log

    @property
    def start_offset(self) -> int:
        """First offset that is still in the log."""
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._segments[-1].end_offset

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record; -1 in an empty log."""
        return self._epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self._segments)

    def append(self, data: bytes | memoryview) -> None:
        """Append whole batches that begin at the log's end, in one write; not yet durable."""
        headers = list(iterate_headers(data))
        assert headers
        assert headers[0][1].base_offset == self.end_offset
        assert headers[0][1].partition_leader_epoch >= self._segments[-1].last_epoch
        assert headers[-1][0] + headers[-1][1].size == len(data)
        assert all(one.next_offset == two.base_offset for (_, one), (_, two) in pairwise(headers))
        active = self._segments[-1]
        age_ms = headers[0][1].max_timestamp - active.first_timestamp_ms
        if active.size and (
            active.size + len(data) > self._segment_bytes or age_ms > self._segment_ms
        ):
            active = self._roll()
        active.append(data, headers)
        changed = False
        for _, header in headers:
            if header.partition_leader_epoch > self._epochs.latest_epoch:
                changed |= self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if changed:
            self._write_epochs()

    def flush(self) -> None:
        """Sync the log; returns when all appended records are on the disk."""
        try:
            self._segments[-1].flush()
        except OSError:
            self._has_failed = True
            raise

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
        # Reads are mostly near the end, where the last segment is.
        segment = next(
            segment for segment in reversed(self._segments) if segment.base_offset <= from_offset
        )
        return segment.read(from_offset, max_bytes)

    def reset_to(self, end_offset: int, epoch: int = -1) -> None:
        """Drop all records and restart the log at an offset, after a snapshot was received.

        Args:
            end_offset: End offset of the snapshot.
            epoch: Leader epoch of the record before it, -1 if unknown.
        """
        while self._segments:
            self._segments.pop().delete()
        self._segments.append(MetadataSegment(self.fs, self.directory, end_offset))
        self._epochs = LeaderEpochs([(epoch, end_offset)] if epoch >= 0 else [])
        self._write_epochs()
        self.fs.fsync_dir(self.directory)

    def delete_segments_below(self, offset: int) -> int:
        """Remove the segments whose records are all below an offset; the last one always stays.

        Returns:
            How many bytes of batches were removed.
        """
        before = self.size_bytes
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._segments.pop(0).delete()
        if self._epochs.truncate_from(self.start_offset):
            self._write_epochs()
        return before - self.size_bytes

    def epoch_end_offset(self, epoch: int) -> int:
        """Return the offset behind the last record of an epoch, to find where two logs diverge.

        An epoch without records ends where the next epoch begins; -1 if that is unknown.
        """
        return self._epochs.end_offset_for(epoch, self.end_offset)[1]

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
            # A reset that failed halfway has left no segment.
            if self._segments:
                self.flush()
                if not self._is_copy and not self._has_failed:
                    clean_close.write(self.fs, self.directory, end_of(self._segments[-1]))
        finally:
            for segment in self._segments:
                segment.close()

    def _roll(self) -> MetadataSegment:
        """Begin a new segment at the end of the log."""
        self.flush()
        self._segments[-1].seal()
        self._segments.append(
            MetadataSegment(self.fs, self.directory, self.end_offset, epoch=self.last_epoch)
        )
        self.fs.fsync_dir(self.directory)
        return self._segments[-1]

    def _load_epochs(self) -> None:
        """Load the epochs from the batches; the file gives only those before the log's start."""
        path = self.directory / names.LEADER_EPOCH_FILE
        try:
            recorded = read_leader_epochs(self.fs, path)
        except CorruptRecordError as error:
            logger.warning("rebuilding leader epochs", extra={"reason": str(error)})
            recorded = LeaderEpochs()
        start = self.start_offset
        found = [entry for segment in self._segments for entry in segment.epoch_starts]
        before = [entry for entry in recorded.entries if start > 0 and entry[1] <= start]
        self._epochs = LeaderEpochs([*before, *found])
        if self._epochs.entries != recorded.entries or not self.fs.exists(path):
            self._write_epochs()

    def _write_epochs(self) -> None:
        write_leader_epochs(self.fs, self.directory / names.LEADER_EPOCH_FILE, self._epochs)


def _snapshot_beyond(fs: FileSystem, directory: Path, end_offset: int) -> tuple[int, int] | None:
    """Return end offset and epoch of the newest whole snapshot, if the log ends before it."""
    for path in snapshot_paths(directory, fs=fs):
        found = parse_name(path.name)
        if found[0] <= end_offset:
            break
        if is_complete(fs, path):
            return found
    return None
