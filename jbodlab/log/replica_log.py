"""The log of one replica: segments in order, with all that belongs to them.

A log belongs to its directory's thread: every call touches files or may do so, blocks, and lets
`OSError` pass to the caller, which takes the directory offline. Offsets:

    log_start_offset <= high watermark (the caller's) <= log_end_offset
    recovery_point   <= log_end_offset       below it everything is known to be on the disk

Segments join without gaps; the last one is the active one, and there always is one. What a crash
can leave behind is put right by `log_loader`.

Source: `kafka.log.UnifiedLog`, `kafka.log.LocalLog`.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import TopicPartition
from jbodlab.log import names
from jbodlab.log.filesystem import Buffer, FileSystem
from jbodlab.log.leader_epochs import LeaderEpochs, write_leader_epochs
from jbodlab.log.log_config import LogConfig
from jbodlab.log.log_loader import (
    LoadedFiles,
    delete_segment_files,
    delete_segments,
    load_files,
    rebuild_producers,
)
from jbodlab.log.partition_metadata import read_topic_id, write_topic_id
from jbodlab.log.producer_snapshots import ProducerSnapshots
from jbodlab.log.producer_state import ProducerState
from jbodlab.log.replica_copy import CopyPoint, SegmentExtent, SegmentFiles
from jbodlab.log.retention import DeletedFiles, deletable_count
from jbodlab.log.segment import POSITION_MAX, RELATIVE_OFFSET_MAX, Segment, SegmentState
from jbodlab.log.timestamps import first_record_at
from jbodlab.protocol.record_batch import SIZE_PREFIX, BatchHeader

__all__ = ["LogConfig", "ReplicaLog"]

POSITIONS_REMEMBERED_MAX = 64
"""Places where a reader is expected next; followers and consumers read in sequence."""


class ReplicaLog:
    """One replica's log, current or future."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        files: LoadedFiles,
    ) -> None:
        self._fs = fs
        self._segments = files.segments
        self._base_offsets = [segment.base_offset for segment in files.segments]
        self._active = files.segments[-1]
        self._snapshots = files.snapshots
        self._deleted = DeletedFiles(fs)
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._names_unsynced = True
        self._cut_to: int | None = None
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = files.log_start_offset
        self.log_end_offset = files.segments[-1].next_offset
        self.recovery_point = files.recovery_point
        self.epochs: LeaderEpochs = files.epochs
        self.producers: ProducerState = files.producers

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        log_dir: Path,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        *,
        log_start_offset: int = 0,
        future_hex: str | None = None,
        folder: str | None = None,
    ) -> ReplicaLog:
        """Make the directory and the files of a new log.

        Args:
            fs: The disk.
            log_dir: The log directory.
            topic_partition: The partition.
            topic_id: Written to `partition.metadata`.
            config: Settings of the log.
            log_start_offset: Offset of the first record it may hold.
            future_hex: 32 hexadecimal digits for a future replica, None for a current one.
            folder: Another name to begin with, until `rename_to_current`.

        Raises:
            FileExistsError: there is a log in the partition's directory already.
            ValueError: the name of a future replica would be too long.
        """
        name = names.partition_dir(topic_partition)
        if future_hex is not None:
            name = names.future_dir(topic_partition, future_hex)
        directory = log_dir / (folder or name)
        # A creation that was interrupted may have left the directory, but no segment.
        if fs.exists(directory) and names.with_suffix(fs.listdir(directory), names.LOG_SUFFIX):
            raise FileExistsError(errno.EEXIST, "there is a log already", str(directory))
        fs.mkdir(directory, exist_ok=True)
        write_topic_id(fs, directory / names.PARTITION_METADATA_FILE, topic_id)
        files = LoadedFiles(
            segments=[Segment.create(fs, directory, log_start_offset)],
            log_start_offset=log_start_offset,
            recovery_point=log_start_offset,
            epochs=LeaderEpochs(),
            producers=ProducerState(),
            snapshots=ProducerSnapshots(fs, directory),
        )
        return cls(fs, directory, topic_partition, topic_id, config, files)

    @classmethod
    def load(
        cls,
        fs: FileSystem,
        directory: Path,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
    ) -> ReplicaLog:
        """Open the log in a partition directory, and make it whole if the shutdown was not clean.

        Args:
            fs: The disk.
            directory: The partition directory, of any kind but `-delete`.
            config: Settings of the log.
            clean: Whether the log directory was shut down cleanly.
            recovery_point: From `recovery-point-offset-checkpoint`, 0 if it has none.
            log_start_offset: From `log-start-offset-checkpoint`, 0 if it has none.

        Raises:
            ValueError: the directory's name is no partition directory's.
            CorruptRecordError: a small file of the directory is malformed; damaged batches are no
                error, the log is cut there.
        """
        parsed = names.parse_partition_dir(directory.name)
        assert parsed.kind is not names.DirKind.DELETE
        topic_id = read_topic_id(fs, directory / names.PARTITION_METADATA_FILE)
        files = load_files(
            fs,
            directory,
            config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )
        return cls(fs, directory, parsed.topic_partition, topic_id, config, files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, without indexes and small files."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """How many segments there are, at least one."""
        return len(self._segments)

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        """Base offsets of the segments, ascending."""
        return tuple(self._base_offsets)

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of all records in ms, -1 without any."""
        return max(segment.max_timestamp for segment in self._segments)

    @property
    def is_future(self) -> bool:
        """Whether this is a copy being built by a move between directories."""
        return names.parse_partition_dir(self.directory.name).kind is names.DirKind.FUTURE

    @property
    def is_moved(self) -> bool:
        """Whether this is what a move between directories has left in its source."""
        return names.parse_partition_dir(self.directory.name).is_moved

    @property
    def needs_flush(self) -> bool:
        """Whether a segment that is closed off is not known to be on the disk.

        Kafka flushes it in the background; until that is done a recovery has to read it.
        """
        return self.recovery_point < self._active.base_offset

    def append(self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Append whole batches that already carry their offsets and leader epoch.

        Args:
            buffers: The bytes of the batches in order, cut anywhere.
            headers: Their headers, as they are in the bytes; not empty. The first begins at
                `log_end_offset`.
        """
        assert headers[0].base_offset == self.log_end_offset, (
            f"batch at {headers[0].base_offset} appended at {self.log_end_offset}"
        )
        size = 0
        latest_epoch = self.epochs.latest_epoch
        for header in headers:
            size += SIZE_PREFIX + header.batch_length
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.assign_epoch(latest_epoch, header.base_offset)
        assert size == sum(map(len, buffers))
        if self._does_not_fit(size, headers):
            self._append_rolling(buffers, headers)
        else:
            self._append_to_active(buffers, headers)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Let a leader epoch begin at an offset; on the disk at return."""
        updated = self.epochs.copy()
        if updated.assign(epoch, start_offset):
            self._write_epochs(updated)

    def read(
        self, offset: int, max_bytes: int, max_offset: int | None = None, at_least_one: bool = True
    ) -> bytes:
        """Read whole batches from the one that contains an offset, out of one segment.

        Args:
            offset: The first offset wanted; the batch may begin before it.
            max_bytes: Most bytes to return.
            max_offset: Only batches entirely below it, such as the high watermark; None for all.
            at_least_one: Whether a first batch larger than `max_bytes` is returned all the same.

        Returns:
            The batches; empty if there are none within the limits.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, below the log start or behind the log end.
            CorruptRecordError: bytes where a batch should begin are none.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is outside "
                f"{self.log_start_offset} to {self.log_end_offset}",
            )
        if offset == self.log_end_offset or (max_offset is not None and offset >= max_offset):
            return b""
        number = self._segment_number(offset)
        while number < len(self._segments):
            segment = self._segments[number]
            known = self._positions.get(offset)
            if known is not None and known[0] is segment:
                position, read_ahead = known[1], 0
            else:
                position = segment.index.lookup(offset)
                read_ahead = self.config.index_interval_bytes
            if position < segment.size:
                found = segment.read(
                    offset,
                    position,
                    max_bytes=max_bytes,
                    max_offset=max_offset,
                    at_least_one=at_least_one,
                    read_ahead=read_ahead,
                )
                if found.data:
                    self._remember(found.next_offset, segment, found.next_position)
                    return found.data
                if found.next_position < segment.size:
                    return b""
            # The rest of this segment was compacted away.
            number += 1
        return b""

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Find the first record with a timestamp or a larger one.

        Returns:
            Its timestamp and offset; None if there is none.
        """
        return first_record_at(self._segments, timestamp, self.log_start_offset)

    def offset_of_largest_timestamp(self) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record with the largest timestamp."""
        largest = self.largest_timestamp
        return None if largest < 0 else self.offset_for_timestamp(largest)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log so that it ends at an offset, or where the batch with that offset begins.

        Producer state and leader epochs go back to what they were; the log start and the recovery
        point never stay behind the end.

        Returns:
            Whether anything was cut.
        """
        assert offset >= 0
        if offset >= self.log_end_offset:
            self._truncate_epochs(offset)
            return False
        if offset < self._base_offsets[0]:
            self.truncate_fully_to(offset)
            return True
        self._positions.clear()
        self._note_cut(offset)
        keep = self._segment_number(offset)
        position = self._segments[keep].position_of(offset)
        delete_segments(self._fs, self._segments, self._snapshots, keep + 1)
        active = self._segments[-1]
        active.cut(position)
        active.rebuild(
            check_crc=False,
            index_interval_bytes=self.config.index_interval_bytes,
            on_batch=lambda _header: None,
        )
        self._segments_changed()
        self._truncate_epochs(self.log_end_offset)
        self.producers = rebuild_producers(self._snapshots, self._segments)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        return True

    def truncate_fully_to(self, offset: int) -> None:
        """Drop everything and go on at an offset."""
        self._positions.clear()
        self._note_cut(0)
        delete_segments(self._fs, self._segments, self._snapshots, 0)
        self._snapshots.delete_above(-1)
        self._segments.append(Segment.create(self._fs, self.directory, offset))
        self._segments_changed()
        self.log_start_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.producers = ProducerState()
        self._write_epochs(LeaderEpochs())

    def advance_start_to(self, offset: int) -> bool:
        """Let the log begin at a later offset; segments below it go with the next retention.

        Returns:
            Whether the start moved.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, behind the log end.
        """
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"start {offset} of {self.topic_partition} is behind its end {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        updated = self.epochs.copy()
        if updated.truncate_from(offset):
            self._write_epochs(updated)
        return True

    def copy_point(self) -> CopyPoint:
        """Return what there is to copy at this moment, and what was cut since the last one."""
        cut_to, self._cut_to = self._cut_to, None
        return CopyPoint(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            extents=tuple(
                SegmentExtent(segment.base_offset, segment.size, segment.next_offset)
                for segment in self._segments
            ),
            active=self._active.state(),
            epochs=self.epochs.copy(),
            producers=self.producers.copy(),
            cut_to=cut_to,
        )

    @property
    def cut_to(self) -> int | None:
        """Where it was cut since the last copy point, None if it was not."""
        return self._cut_to

    def segment_files(self, base_offset: int) -> SegmentFiles | None:
        """Return what a copy of a segment needs beside its bytes; None if it is not there."""
        number = self._segment_number(base_offset)
        segment = self._segments[number]
        if segment.base_offset != base_offset:
            return None
        return SegmentFiles(segment.state(), self._snapshots.read(base_offset), self._cut_to)

    def adopt(
        self,
        state: SegmentState,
        epochs: LeaderEpochs,
        producers: ProducerState | None,
        *,
        has_snapshot: bool,
    ) -> None:
        """Take in a segment whose bytes were copied from the log that this is a copy of.

        Args:
            state: Of the segment; it is the last one here, or the one behind that.
            epochs: Of the log that is copied.
            producers: State at the end of the segment; None if that is not known, which is only
                right while more segments are to come.
            has_snapshot: Whether there is a snapshot for its start.
        """
        if state.base_offset != self._active.base_offset:
            assert state.base_offset >= self.log_end_offset
            if self._active.size == 0:
                delete_segments(self._fs, self._segments, self._snapshots, len(self._segments) - 1)
            self._segments.append(Segment(self._fs, self.directory, state.base_offset))
        self._segments[-1].take_over(state)
        self._segments_changed()
        self._positions.clear()
        if has_snapshot:
            self._snapshots.found(state.base_offset)
        if producers is not None:
            self.producers = producers
        mine = epochs.copy()
        if self.log_end_offset < epochs.last_start:
            mine.truncate_to(self.log_end_offset)
        mine.truncate_from(self.log_start_offset)
        if mine.entries != self.epochs.entries:
            self._write_epochs(mine)

    def adopted_on_disk(self, end_offset: int) -> None:
        """Take notice that what was adopted below an offset is on the disk, names included."""
        self._snapshots.on_disk(end_offset)
        self.recovery_point = max(self.recovery_point, min(end_offset, self.log_end_offset))

    def drop_before(self, base_offset: int) -> None:
        """Delete the segments before the one with a base offset, as the copied log has done."""
        count = sum(base < base_offset for base in self._base_offsets)
        if count == len(self._segments):
            self.truncate_fully_to(base_offset)
            return
        for segment in self._segments[:count]:
            segment.close()
            self._snapshots.delete(segment.base_offset)
            delete_segment_files(self._fs, segment)
        del self._segments[:count]
        if count:
            self._segments_changed()
            self.advance_start_to(max(self.log_start_offset, self._base_offsets[0]))

    def flush(self) -> int:
        """Return when everything appended so far is on the disk.

        Returns:
            The new recovery point, which is the log end.
        """
        if self.recovery_point < self.log_end_offset:
            for segment in self._segments[self._segment_number(self.recovery_point) :]:
                segment.flush()
                if segment is not self._active:
                    segment.write_indexes(sync=True)
        self._snapshots.flush()
        if self._names_unsynced:
            self._fs.fsync_dir(self.directory)
            self._fs.fsync_dir(self.directory.parent)
            self._names_unsynced = False
        self.recovery_point = self.log_end_offset
        return self.recovery_point

    def roll(self) -> None:
        """Close the active segment off and begin a new one at the log end."""
        if self._active.size == 0:
            return
        self._active.finish()
        self._active.write_indexes(sync=False)
        self._snapshots.take(self.log_end_offset, self.producers, sync=False)
        self._segments.append(Segment.create(self._fs, self.directory, self.log_end_offset))
        self._segments_changed()

    def retention(self, now_ms: int, high_watermark: int) -> bool:
        """Delete old segments by time, size and log start; only data below the high watermark.

        Their files are renamed at once and removed by `delete_expired` later.

        Returns:
            Whether anything was deleted.
        """
        count = deletable_count(
            self._segments,
            self.config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
        )
        if count == 0:
            return False
        if count == len(self._segments):
            self.roll()
        self._positions.clear()
        for segment in self._segments[:count]:
            self._deleted.add(segment, now_ms + self.config.file_delete_delay_ms)
            self._snapshots.delete(segment.base_offset)
        del self._segments[:count]
        self._segments_changed()
        self.advance_start_to(max(self.log_start_offset, self._base_offsets[0]))
        return True

    def delete_expired(self, now_ms: int) -> int:
        """Remove the files of segments deleted long enough ago; returns how many segments."""
        return self._deleted.remove_expired(self.directory, now_ms)

    def rename_to(self, name: str, *, sync: bool = True) -> None:
        """Rename the partition directory, durably if `sync`; open files go on being used."""
        target = self.directory.with_name(name)
        self._fs.rename(self.directory, target, sync=sync)
        self.directory = target
        self._snapshots.directory = target
        for segment in self._segments:
            segment.directory = target

    def rename_to_current(self, *, sync: bool = True) -> None:
        """Make a future replica the current one."""
        self.rename_to(names.partition_dir(self.topic_partition), sync=sync)

    def rename_to_delete(self, unique_id: str | None = None) -> None:
        """Mark the directory for removal; the name is unique, so that any number can wait."""
        self.rename_to(names.delete_dir(self.topic_partition, unique_id or uuid.uuid4().hex))

    def close(self, clean: bool) -> None:
        """Give the files back.

        Args:
            clean: Whether all is flushed and written that the next start needs so as not to read
                the data; the recovery point is then the log end.
        """
        if clean:
            self._active.finish()
            self._active.write_indexes(sync=True)
            if not self.is_future:
                # The producers of a copy are not known until it is complete.
                self._snapshots.take(self.log_end_offset, self.producers, sync=True)
            self.flush()
        for segment in self._segments:
            segment.close()

    def abandon(self) -> None:
        """Give the files back without a write and without an error, after the directory failed."""
        for segment in self._segments:
            with contextlib.suppress(OSError):
                segment.close()

    def _append_to_active(self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        active = self._active
        position = active.size
        active.append(buffers, headers, self.config.index_interval_bytes)
        self._remember(self.log_end_offset, active, position)
        self.log_end_offset = active.next_offset
        for header in headers:
            if header.producer_id >= 0:
                self.producers.update(header)

    def _append_rolling(self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Append batches that the active segment has no room for, as many to a segment as fit."""
        data = memoryview(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        first = start = 0
        while first < len(headers):
            self.roll()
            last, end = first + 1, start + headers[first].size
            limit = start + self.config.segment_bytes
            while last < len(headers) and end + headers[last].size <= limit:
                end += headers[last].size
                last += 1
            self._append_to_active((data[start:end],), headers[first:last])
            first, start = last, end

    def _does_not_fit(self, size: int, headers: Sequence[BatchHeader]) -> bool:
        """Return whether the active segment is to be closed off before an append.

        An empty segment takes any single batch. Records without timestamps never age a segment:
        this code has no clock.
        """
        active, config = self._active, self.config
        if active.size + size > min(config.segment_bytes, POSITION_MAX):
            return active.size > 0 or len(headers) > 1
        if active.size == 0:
            return False
        first_timestamp = active.first_timestamp()
        newest = headers[-1].max_timestamp
        return (
            (first_timestamp >= 0 and newest - first_timestamp > config.segment_ms)
            or headers[-1].last_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or active.index.is_full(config.segment_index_bytes)
            or active.time_index.is_full(config.segment_index_bytes)
        )

    def _segment_number(self, offset: int) -> int:
        if offset >= self._active.base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def _note_cut(self, offset: int) -> None:
        self._cut_to = offset if self._cut_to is None else min(self._cut_to, offset)

    def _segments_changed(self) -> None:
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._active = self._segments[-1]
        self.log_end_offset = self._active.next_offset
        self._names_unsynced = True

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        """Note where the batch at an offset begins, or will begin."""
        if len(self._positions) >= POSITIONS_REMEMBERED_MAX:
            del self._positions[next(iter(self._positions))]
        self._positions[offset] = (segment, position)

    def _truncate_epochs(self, end_offset: int) -> None:
        updated = self.epochs.copy()
        if updated.truncate_to(end_offset):
            self._write_epochs(updated)

    def _write_epochs(self, epochs: LeaderEpochs) -> None:
        write_leader_epochs(self._fs, self.directory / names.LEADER_EPOCH_FILE, epochs)
        self.epochs = epochs
