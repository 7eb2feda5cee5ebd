"""Opens the files of a partition directory, and repairs them after a crash.

Everything below the recovery point is known to be on the disk and is not read: of each closed
segment only the size and the ends are checked, that is, whether the next segment continues it. From
the segment with the recovery point on, every batch is read and checked, and indexes, leader epochs,
producer state and aborted transactions are rebuilt. After a clean shutdown the recovery point is
the end of the log, and only the indexes of the last segment are read.

A segment is read again if its indexes are not all there: the offset index and the time index always
are, and the snapshot of the producers behind a segment names the size of its index of aborted
transactions. A snapshot that Kafka wrote does not. If it knows of transactions, a segment without
such an index is read once, and the snapshot then names the size. Where no snapshot is behind a
segment, nothing shows whether its index is whole.

The log ends before the first invalid byte. A write that a crash interrupted is the end of the file.
If valid batches follow the invalid byte, records were lost: their offsets are logged, and the bytes
after the damage are kept as `.damaged`. A replica copies the lost records from the other replicas,
if there are any.

A process may die at any moment, also during the load; the next start then repeats the load.

Source: `org.apache.kafka.storage.internals.log.LogLoader`, `ProducerStateManager`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

from jbodlab.record_batch.record_batch import crc_is_valid
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import render_frame
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.directory.partition_metadata import read_topic_id
from jbodlab.storage.log import damage
from jbodlab.storage.log.damage import Damage, LoadPolicy, ReplicaPolicy
from jbodlab.storage.log.directory_files import DirectoryFiles
from jbodlab.storage.log.instructions import (
    CloseSegment,
    CreateSegment,
    CutSegment,
    WriteAborted,
    WriteSnapshot,
)
from jbodlab.storage.log.leader_epochs import LeaderEpochs, read_leader_epochs
from jbodlab.storage.log.leftovers import remove_leftovers
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.producer_replay import ProducerReplay
from jbodlab.storage.log.producer_state import ProducerState, told_aborted
from jbodlab.storage.log.segment_ends import (
    closed_segment,
    last_segment,
)
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment
from jbodlab.storage.log.transactions import read_marker
from jbodlab.vocabulary.errors import CorruptRecordError, DecodeError
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)

SHOWN_MAX = 5
"""Most segments that a line of the log names."""


def load_log(
    fs: FileSystem,
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    shared: DirectoryFiles,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int | None,
    cleaned_to: int | None = None,
    policy: LoadPolicy | None = None,
) -> LoadedLog:
    """Open the log in a partition directory, and recover it if the shutdown was not clean.

    Args:
        fs: The disk.
        directory: The partition directory, of any kind but `-delete`.
        topic_partition: The log's topic partition; the directory's name may be cut.
        config: Settings of the log.
        shared: Open files and indexes of the log directory.
        clean: Whether the log directory was shut down cleanly.
        recovery_point: From `recovery-point-offset-checkpoint`, 0 if it has none.
        log_start_offset: From `log-start-offset-checkpoint`, None if it has none.
        cleaned_to: From `cleaner-offset-checkpoint`, None if it has none. A log that is named there
            may lack offsets, also if its topic is no longer compacted.
        policy: Decides what counts as damage and how it is handled; by default a replica's.

    Raises:
        OSError: a file cannot be read, written or removed.
        ValueError: the directory's name is not that of a partition directory.
        CorruptRecordError: `partition.metadata` is malformed, or the policy refuses the damaged
            batches; that of a replica never does.
    """
    assert names.parse_partition_dir(directory.name).kind is not DirKind.DELETE
    topic_id = read_topic_id(fs, directory / names.PARTITION_METADATA_FILE)
    files = LogFiles(fs, directory, topic_partition, topic_id, shared, config.index_interval_bytes)
    try:
        loader = _Loader(
            files, config, clean, recovery_point, cleaned_to, policy or ReplicaPolicy()
        )
        return LoadedLog(loader.load(log_start_offset), files)
    except BaseException:
        files.abandon()
        raise


class _Loader:
    """One load of one log."""

    def __init__(
        self,
        files: LogFiles,
        config: LogConfig,
        clean: bool,
        recovery_point: int,
        cleaned_to: int | None,
        policy: LoadPolicy,
    ) -> None:
        self._files = files
        self._policy = policy
        self._fs = files.fs
        self._config = config
        self._clean = clean
        self._recovery_point = recovery_point
        self._cleaned_to = cleaned_to
        self._has_gaps = config.compacts or cleaned_to is not None
        listed = remove_leftovers(files.fs, files.directory)
        self._bases = [
            names.parse_offset(name) for name in names.with_suffix(listed, names.LOG_SUFFIX)
        ]
        self._snapshots = [
            names.parse_offset(name)
            for name in names.with_suffix(listed, names.SNAPSHOT_SUFFIX)
            if not policy.has_only_batches
        ]
        # How many entries each has shows when its segment is checked or read.
        self._aborted_counts = {
            names.parse_offset(name): 0
            for name in names.with_suffix(listed, names.TXN_INDEX_SUFFIX)
        }
        self._read_again: list[int] = []
        """Base offsets of the segments whose indexes were not all there."""
        self._closed: list[ClosedSegment] = []
        self._active: ActiveSegment | None = None
        self._epochs = LeaderEpochs()
        self._producers: ProducerState | None = None

    def load(self, known_start: int | None) -> LogState:
        files, config, log_start_offset = self._files, self._config, known_start or 0
        first_unchecked = len(self._bases)
        if not self._clean:
            floors = [n for n, base in enumerate(self._bases) if base <= self._recovery_point]
            first_unchecked = floors[-1] if floors else 0
        trusted = self._trust(first_unchecked)
        if self._read_again:
            logger.warning(
                "read %d segments of %s again, of which the indexes were not all there: %s",
                len(self._read_again),
                files.directory,
                ", ".join(map(names.log_file, self._read_again[:SHOWN_MAX])),
            )
        epochs_before = self._read_epochs(trusted)
        if trusted == first_unchecked and first_unchecked < len(self._bases):
            self._recover(first_unchecked)
        active = self._active
        if active is not None and active.next_offset < log_start_offset:
            for base in (*(each.base_offset for each in self._closed), active.base_offset):
                self._delete(base)
            active = None
        if active is None:
            self._closed, self._aborted_counts = [], {}
            self._producers = ProducerState()
            self._epochs.clear()
            self._remove_snapshots(self._snapshots)
            active = ActiveSegment(log_start_offset)
            files.carry_out((CreateSegment(log_start_offset),))
        end_offset = active.next_offset
        first = self._closed[0].base_offset if self._closed else active.base_offset
        log_start_offset = max(log_start_offset, first)
        damage.report_lost_end(files, self._recovery_point, end_offset)
        self._epochs.truncate_to(end_offset)
        self._epochs.truncate_from(log_start_offset)
        if self._epochs.entries != epochs_before:
            path = files.directory / names.LEADER_EPOCH_FILE
            self._fs.write_atomically(path, render_frame(self._epochs.entries), sync=False)
        self._remove_snapshots([each for each in self._snapshots if each > end_offset])
        if self._producers is None:
            self._producers = self._replayed(active, end_offset)
        self._remove_stray_snapshots(active)
        return LogState(
            config,
            closed=self._closed,
            active=active,
            start_offset=log_start_offset,
            recovery_point=end_offset if self._clean else min(self._recovery_point, end_offset),
            epochs=self._epochs,
            producers=self._producers,
            snapshots=self._snapshots,
            names_unsynced=not self._clean,
            aborted_counts={
                base: count
                for base, count in self._aborted_counts.items()
                if count and base < active.base_offset
            },
            cleaned_to=None if self._cleaned_to is None else min(self._cleaned_to, end_offset),
            lost_from=damage.lost_beginning(files, known_start, first),
        )

    # Segments that need not be read

    def _trust(self, count: int) -> int:
        """Accept the first segments unread, as long as each continues the one before it.

        Returns:
            How many were accepted. Fewer than `count` if one is damaged: the log ends there, and
            the segments behind it were set aside.
        """
        has_gaps = self._has_gaps
        for number in range(count):
            base_offset = self._bases[number]
            is_last = number + 1 == len(self._bases)
            next_base = None if is_last else self._bases[number + 1]
            found = None
            if next_base is not None:
                found = closed_segment(self._files, base_offset, next_base, has_gaps)
            elif (active := last_segment(self._files, base_offset, has_gaps)) is not None and (
                not active.size or self._has_all_aborted(base_offset, active.next_offset)
            ):
                self._active = active
                return count
            if (
                found is not None
                and next_base is not None
                and self._has_all_aborted(base_offset, next_base)
            ):
                self._closed.append(found)
                continue
            # Its indexes are not usable, or it is damaged: only a read of the whole segment shows.
            self._read_again.append(base_offset)
            producers = self._replay([SegmentRange.of(each) for each in self._closed], base_offset)
            active, lost_from = self._read(base_offset, producers, None)
            if lost_from is None and (is_last or self._joins_on(active, next_base)):
                self._write_indexes(active)
                end = active.next_offset if next_base is None else next_base
                self._take_snapshot(end, producers, len(active.aborted))
                if is_last:
                    self._active = active
                else:
                    self._closed.append(active.bounds())
                continue
            self._active = active
            self._damaged(number, active, is_known=True)
            return number + 1
        return count

    def _has_all_aborted(self, base_offset: int, end_offset: int) -> bool:
        """Return whether the index of aborted transactions of a segment is there, and whole."""
        if self._policy.has_only_batches:
            return True
        count = 0
        if base_offset in self._aborted_counts:
            try:
                count = len(self._files.read_aborted(base_offset, None))
            except CorruptRecordError:
                return False
            self._aborted_counts[base_offset] = count
        told = self._told_aborted(end_offset)
        if told is not None:
            return count == told
        return count > 0 and end_offset in self._snapshots

    def _told_aborted(self, end_offset: int) -> int | None:
        """Return how many transactions were aborted in a segment, None if no snapshot tells."""
        behind = min((each for each in self._snapshots if each >= end_offset), default=None)
        if behind is None:
            return None
        path = self._files.directory / names.snapshot_file(behind)
        try:
            told = told_aborted(path, self._fs.read_bytes(path))
        except CorruptRecordError:
            self._remove_snapshots([behind])
            return self._told_aborted(end_offset)
        if behind == end_offset:
            return told.aborted_count
        return None if told.may_have_any else 0

    def _joins_on(self, segment: ActiveSegment, next_base: int | None) -> bool:
        """Return whether the next segment begins where one ends; compaction leaves gaps."""
        if next_base is None or self._has_gaps:
            return next_base is None or segment.next_offset <= next_base
        return segment.next_offset == next_base

    # Segments that have to be read

    def _recover(self, first: int) -> None:
        """Read and check the segments from number `first` on."""
        base_offset = self._bases[first]
        self._remove_snapshots([each for each in self._snapshots if each > base_offset])
        self._epochs.truncate_to(base_offset)
        ranges = [SegmentRange.of(each) for each in self._closed]
        self._producers = self._replay(ranges, base_offset)
        for number in range(first, len(self._bases)):
            base_offset = self._bases[number]
            if number > first:
                previous = self._active
                assert previous is not None
                # A file may have lost its end exactly between two batches; then it has no invalid
                # byte, but the next segment does not continue it.
                if not self._joins_on(previous, base_offset) or self._is_emptied(number, previous):
                    self._damaged(number - 1, previous, is_known=False)
                    return
                self._close(previous)
                self._take_snapshot(base_offset, self._producers, len(previous.aborted))
            self._active, lost_from = self._read(base_offset, self._producers, self._epochs)
            if lost_from is not None:
                self._damaged(number, self._active, is_known=False)
                return

    def _is_emptied(self, number: int, previous: ActiveSegment) -> bool:
        """Return whether only empty files follow a gap that compaction did not leave.

        A new segment begins where the log ends. So a power loss took the batches in the gap, and
        those of the empty files.
        """
        bases = self._bases[number:]
        if previous.next_offset == bases[0] or bases[0] <= (self._cleaned_to or 0):
            return False
        return not any(self._fs.size(self._files.path(base)) for base in bases)

    def _read(
        self, base_offset: int, producers: ProducerState, epochs: LeaderEpochs | None
    ) -> tuple[ActiveSegment, int | None]:
        """Read all batches of a segment, up to the first invalid one.

        Args:
            base_offset: Base offset of the segment.
            producers: State in front of the segment, to update with its batches.
            epochs: Leader epochs to update as well; None where they are known.

        Returns:
            The valid part of the segment, and its end offset if the file has more bytes, else None.
        """
        path = self._files.path(base_offset)
        size = self._fs.size(path)
        segment = ActiveSegment(base_offset)
        reader = self._files.reader(SegmentRange(base_offset, size, -1, 0))
        policy, batch_bytes_max = self._policy, self._policy.batch_bytes_max
        # The log ends in front of bytes that are not a batch.
        with contextlib.suppress(CorruptRecordError, DecodeError):
            for _, header, data in reader.scan(batch_bytes_max=batch_bytes_max):
                if not crc_is_valid(data, 0, header) or not policy.accepts(segment, header):
                    break
                if not policy.has_only_batches:
                    marker = read_marker(data, 0, header) if header.is_control else None
                    completed = producers.update(header, marker)
                    if completed is not None and completed.is_aborted:
                        stable = producers.last_stable_offset_at(completed)
                        segment.aborted.append(completed.aborted(stable))
                if epochs is not None and header.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
                segment.note(header, self._config.index_interval_bytes)
        if segment.aborted or base_offset in self._aborted_counts:
            self._files.carry_out((WriteAborted(base_offset, tuple(segment.aborted)),))
            self._aborted_counts[base_offset] = len(segment.aborted)
        return segment, segment.size if segment.size < size else None

    # Damage

    def _damaged(self, number: int, active: ActiveSegment, *, is_known: bool) -> None:
        """End the log in a damaged segment; the segments behind it are set aside or deleted.

        Args:
            number: Number of the damaged segment.
            active: Its valid part.
            is_known: Whether the segment was known to be on the disk, which rules out a torn write.
        """
        base_offset = active.base_offset
        size = self._fs.size(self._files.path(base_offset))
        behind = self._bases[number + 1 :]
        keeps = self._policy.end_at(self._files, Damage(active, size, behind, is_known))
        if keeps:
            self._recovery_point = min(self._recovery_point, active.next_offset)
        for later in reversed(behind):
            if keeps:
                self._set_aside_damaged(later)
            else:
                self._delete(later)
        if size > active.size:
            self._files.carry_out((CutSegment(base_offset, active.size),))
        self._bases = self._bases[: number + 1]

    def _set_aside_damaged(self, base_offset: int) -> None:
        """Keep a segment behind damage under another name."""
        damage.set_aside(self._files, base_offset)
        if base_offset in self._snapshots:
            self._remove_snapshots([base_offset])
        self._aborted_counts.pop(base_offset, None)

    # Leader epochs

    def _read_epochs(self, trusted: int) -> tuple[tuple[int, int], ...]:
        """Read the leader epochs; rebuilt from the batches if the file is not usable.

        The file is replaced without a sync, so a power loss may have removed it.

        Returns:
            The entries of the file.
        """
        path = self._files.directory / names.LEADER_EPOCH_FILE
        entries: tuple[tuple[int, int], ...] = ()
        try:
            found = read_leader_epochs(self._fs, path)
            entries = found.entries
            if not self._policy.has_only_batches:
                self._epochs = found
        except CorruptRecordError as error:
            logger.warning("rebuilding leader epochs from the batches: %s", error)
        if not entries and trusted:
            segments: list[ClosedSegment | ActiveSegment] = list(self._closed)
            if self._active is not None:
                segments.append(self._active)
            for segment in segments[:trusted]:
                self._epochs_of(segment, segments)
        return entries

    def _epochs_of(
        self,
        segment: ClosedSegment | ActiveSegment,
        segments: Sequence[ClosedSegment | ActiveSegment],
    ) -> None:
        """Add the epochs of one segment, which is read only if it may hold more than one."""
        reader = self._files.reader(SegmentRange.of(segment))
        first = reader.first_header()
        if first is None:
            return
        if first.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(first.partition_leader_epoch, first.base_offset)
        number = segments.index(segment)
        if number + 1 < len(segments):
            following = self._files.reader(SegmentRange.of(segments[number + 1])).first_header()
            if following is not None and (
                following.partition_leader_epoch == first.partition_leader_epoch
            ):
                return
        for _, header, _ in reader.scan():
            if header.partition_leader_epoch > self._epochs.latest_epoch:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    # Producers

    def _replayed(self, active: ActiveSegment, end_offset: int) -> ProducerState:
        """Return the producer state at the end: newest snapshot, then the batches.

        A log without any snapshot is read from its start, also after a clean shutdown. Kafka
        assumes then that no producer was idempotent; if the snapshot was lost, Kafka appends a
        repeated batch a second time.
        """
        ranges = [*map(SegmentRange.of, self._closed), SegmentRange.of(active)]
        return self._replay(ranges, end_offset)

    def _replay(self, ranges: Sequence[SegmentRange], end_offset: int) -> ProducerState:
        if self._policy.has_only_batches:
            return ProducerState()
        usable = [each for each in sorted(self._snapshots, reverse=True) if each <= end_offset]
        replay = ProducerReplay(self._files, usable, ranges, end_offset)
        while not replay.step():
            pass
        self._remove_snapshots(replay.damaged)
        return replay.state

    def _take_snapshot(self, offset: int, producers: ProducerState, aborted_count: int) -> None:
        if self._policy.has_only_batches:
            return
        if offset in self._snapshots:
            self._files.tell_aborted(offset, aborted_count)
        else:
            self._files.carry_out((WriteSnapshot(offset, producers, aborted_count),))
            self._snapshots.append(offset)

    def _remove_snapshots(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            path = self._files.directory / names.snapshot_file(offset)
            self._fs.unlink(path, missing_ok=True)
        self._snapshots = [each for each in self._snapshots if each not in set(offsets)]

    def _remove_stray_snapshots(self, active: ActiveSegment) -> None:
        """Remove the snapshots that belong to no segment, but keep the one at the log's end."""
        bases = {each.base_offset for each in self._closed} | {active.base_offset}
        strays = [each for each in self._snapshots if each not in bases]
        end = max(strays, default=-1)
        self._remove_snapshots(
            [each for each in strays if each != end or each < active.base_offset]
        )

    # Files

    def _close(self, segment: ActiveSegment) -> None:
        self._write_indexes(segment)
        self._closed.append(segment.bounds())

    def _write_indexes(self, segment: ActiveSegment) -> None:
        segment.finish()
        self._files.carry_out(
            (CloseSegment(segment.base_offset, segment.index, segment.time_index),)
        )

    def _delete(self, base_offset: int) -> None:
        self._files.forget(base_offset)
        for suffix in (names.LOG_SUFFIX, *names.INDEX_SUFFIXES):
            self._fs.unlink(self._files.path(base_offset, suffix), missing_ok=True)
