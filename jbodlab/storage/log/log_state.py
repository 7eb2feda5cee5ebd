"""One replica's log without its files: its content, and the instructions that a change gives.

How to think about it: the event loop owns a `LogState`. Each change is complete, for all readers of
the state, when its method returns; the method returns the instructions for the files. The caller
has these instructions carried out in the order of the changes, on the thread of the log's
directory. So the state runs ahead of the files and is never behind them, the state takes no result
from a thread, and a cancelled task cannot make the two diverge. If an instruction fails for another
reason than lack of room, the state is wrong and the replica is offline for good.

    start_offset    <= high watermark (the caller's) <= end_offset
    recovery_point  <= end_offset       all records below it are known to be on the disk

Segments are in order and do not overlap; the last one is the active one, which always exists.
Compaction leaves gaps of offsets, within segments and between them.

Only the file shows the position of a truncation. So a truncation has two steps: `CutRequest` asks
for the position, which stays valid until the next cut, and `truncate` cuts the log there.

Source: `kafka.log.UnifiedLog`, `kafka.log.LocalLog`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jbodlab.record_batch.record_batch import SIZE_PREFIX, BatchHeader
from jbodlab.storage.log.disk_progress import DiskProgress
from jbodlab.storage.log.instructions import (
    CloseSegment,
    CreateSegment,
    CutSegment,
    Instruction,
    Instructions,
    ReplaceSegments,
    SetAside,
    SyncRequest,
    WriteAborted,
    WriteAt,
    WriteEpochs,
)
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.retention import Ahead, deletable_count, segments_ahead
from jbodlab.storage.log.segment_list import SegmentList
from jbodlab.storage.log.segment_ranges import CutPoint, CutRequest, SegmentRange
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment, fitting_count
from jbodlab.storage.log.transactions import Marker, UndecidedTransactions
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from jbodlab.storage.directory.filesystem import Buffer

NO_MARKERS: Mapping[int, Marker] = {}


class LogState:
    """See the module's text. The parts that a loader found are handed in.

    The fields are for `storage/log` and for a replica's log; all other code reads properties, which
    the owner of a log has for some of the fields, and changes the state by methods.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        closed: Sequence[ClosedSegment],
        active: ActiveSegment,
        start_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: Sequence[int] = (),
        aborted_counts: Mapping[int, int] | None = None,
        names_unsynced: bool = True,
        cleaned_to: int | None = None,
        lost_from: int | None = None,
    ) -> None:
        self.config = config
        self.start_offset = start_offset
        self.lost_from = lost_from
        """First offset of the segments lost in front of the log start; None if none are known."""
        self.epochs = epochs
        self.producers = producers
        self.segments = SegmentList(closed, active, aborted_counts)
        self.disk = DiskProgress(recovery_point, snapshots, names_unsynced=names_unsynced)
        self.disk.cleaned_to = cleaned_to
        self._cut_to: int | None = None
        self._ahead: dict[int, Ahead] = {}
        self.undecided = UndecidedTransactions()

    @classmethod
    def empty(cls, config: LogConfig, start_offset: int = 0) -> tuple[LogState, Instructions]:
        """Return a new log, and the instructions that create its files."""
        state = cls(
            config,
            closed=(),
            active=ActiveSegment(start_offset),
            start_offset=start_offset,
            recovery_point=start_offset,
            epochs=LeaderEpochs(),
            producers=ProducerState(),
        )
        return state, (CreateSegment(start_offset),)

    # Content

    @property
    def active(self) -> ActiveSegment:
        """The segment at the end."""
        return self.segments.active

    @property
    def end_offset(self) -> int:
        """Offset of the next batch."""
        return self.segments.active.next_offset

    @property
    def recovery_point(self) -> int:
        """All records below this offset are known to be on the disk."""
        return self.disk.recovery_point

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Base offsets of all segments."""
        return self.segments.base_offsets

    @property
    def first_base_offset(self) -> int:
        """Base offset of the first segment."""
        return self.segments.first_base_offset

    @property
    def closed(self) -> Sequence[ClosedSegment]:
        """All segments but the active one."""
        return self.segments.closed

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self.segments.size_bytes

    @property
    def has_aborted(self) -> bool:
        """Whether a segment has an index of aborted transactions."""
        return self.segments.has_aborted

    @property
    def aborted_counts(self) -> Mapping[int, int]:
        """Number of aborted transactions in the index of each closed segment that has one."""
        return self.segments.aborted_counts

    @property
    def cut_count(self) -> int:
        """How often a truncation or a compaction has changed the bytes at a known position."""
        return self.disk.cut_count

    @property
    def cleaned_to(self) -> int | None:
        """Offset below which the log was compacted; None if no offsets are missing in it."""
        return self.disk.cleaned_to

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """First and last offset that the disk lost in front of the log; None if none are known."""
        return None if self.lost_from is None else (self.lost_from, self.start_offset - 1)

    def due_sync(self) -> SyncRequest | None:
        """Return the sync that `flush.messages` asks for, if so much is not synced."""
        end_offset, flush_messages = self.segments.active.next_offset, self.config.flush_messages
        # By default it is far larger than any log.
        if end_offset < flush_messages or end_offset - self.disk.recovery_point < flush_messages:
            return None
        return self.sync_request(with_active=True)

    def bounded(self, offset: int) -> int:
        """Return the offset between log start and log end that is next to an offset."""
        return min(max(offset, self.start_offset), self.end_offset)

    def ranges(self, offset: int) -> tuple[SegmentRange, ...]:
        """Return where to look in each segment for the batch of an offset, and behind it."""
        return self.segments.ranges(offset)

    def closed_from(self, offset: int) -> list[ClosedSegment]:
        """Return the closed segments with records at or behind an offset."""
        return self.segments.from_offset(offset)

    def has_closed(self, segments: Sequence[ClosedSegment]) -> bool:
        """Return whether closed segments are still in the log, unchanged and side by side."""
        return self.segments.has(segments)

    def has_segments_below(self, offset: int) -> bool:
        """Return whether `drop_below` would drop a segment."""
        return self.segments.count_below(offset) > 0

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return below which offset every transaction is decided, and known to be replicated.

        It is not below the log start, which retention may raise above an open transaction.
        """
        bound = self.undecided.bound(high_watermark)
        first_open = self.producers.first_open_offset
        return max(bound if first_open is None else min(bound, first_open), self.start_offset)

    # Changes at the end

    def append(
        self,
        buffers: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        markers: Mapping[int, Marker] = NO_MARKERS,
    ) -> Instructions:
        """Append whole batches that already carry their offsets and leader epoch.

        Args:
            buffers: The bytes of the batches in order, cut anywhere.
            headers: Their headers, as they are in the bytes; not empty. The first begins at the
                end of the log, or behind it where the leader's log has a gap.
            markers: Markers of the control batches among them, by base offset.
        """
        active = self.segments.active
        end_offset = active.next_offset
        size = 0
        before: Instructions = ()
        latest_epoch = self.epochs.latest_epoch
        for header in headers:
            assert header.base_offset >= end_offset, (
                f"batch at {header.base_offset} appended at {end_offset}"
            )
            if header.base_offset > end_offset:
                self.disk.may_have_gaps(self.start_offset)
            end_offset = header.base_offset + header.last_offset_delta + 1
            size += SIZE_PREFIX + header.batch_length
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                before = self._assign(latest_epoch, header.base_offset)
        assert size == sum(map(len, buffers))
        if not active.has_room(headers, size, self.config):
            return before + self._append_rolling(buffers, headers, markers)
        return before + self._append_to_active(buffers, headers, markers)

    def assign_epoch(self, epoch: int) -> Instructions:
        """Begin a leader epoch at the end of the log; it becomes the latest epoch."""
        self.lost_from = None
        return self._assign(epoch, self.end_offset)

    def roll(self, base_offset: int | None = None) -> Instructions:
        """Close the active segment off and begin a new one, at the log end if not said."""
        active = self.active
        if base_offset is None:
            base_offset = active.next_offset
        if active.size == 0 and base_offset == active.base_offset:
            return ()
        self.disk.names_unsynced = True
        if active.size == 0:
            self.segments.active = ActiveSegment(base_offset)
            return SetAside(active.base_offset), CreateSegment(base_offset)
        self.segments.close_active(base_offset)
        close = CloseSegment(active.base_offset, active.index, active.time_index)
        snapshot = self.disk.snapshot(base_offset, self.producers, len(active.aborted))
        return (close, *snapshot, CreateSegment(base_offset))

    # Cuts

    def cut_request(self, offset: int) -> CutRequest | None:
        """Return the request for the position at which to truncate the log to an offset.

        None if the files need not be read: the log ends before the offset, or begins behind it.
        """
        assert offset >= 0
        if offset >= self.end_offset or offset < self.segments.first_base_offset:
            return None
        segment_range = self.segments.ranges(offset)[0]
        is_active = segment_range.base_offset == self.active.base_offset
        snapshots = None
        segments: tuple[SegmentRange, ...] = ()
        is_simple = not (self.segments.has_aborted or self.undecided.reach(offset))
        if not (is_simple and self.producers.can_go_back_to(offset)):
            snapshots = tuple(each for each in reversed(self.disk.snapshots) if each <= offset)
            segments = self.segments.ranges_before(offset)
        active = self.active.copy() if is_active else None
        return CutRequest(
            offset,
            segment_range,
            active,
            self.segments.aborted_counts.get(segment_range.base_offset, 0),
            snapshots,
            segments,
            self.disk.cut_count,
        )

    def truncate(self, point: CutPoint) -> Instructions:
        """Truncate the log at a cut point; epochs and producers return to their state there."""
        assert point.request.cut_count == self.disk.cut_count
        active, end_offset = point.active, point.active.next_offset
        assert end_offset <= point.request.offset <= self.end_offset
        aborted_before = self.active.aborted
        has_index = active.base_offset in self.segments.aborted_counts
        changes = self._put_aside(self.segments.cut(active), 0)
        changes.append(CutSegment(active.base_offset, active.size))
        if has_index or len(aborted_before) != len(active.aborted):
            changes.append(WriteAborted(active.base_offset, tuple(active.aborted)))
        changes += self.disk.remove_snapshots(self.disk.snapshots_above(end_offset))
        if point.producers is not None:
            self.producers = point.producers
        else:
            self.producers.go_back_to(end_offset)
        self.undecided.cut(end_offset)
        self._was_cut(end_offset)
        return (*changes, *self.truncate_epochs(end_offset))

    def truncate_epochs(self, end_offset: int) -> Instructions:
        """Drop the leader epochs that begin at or behind an offset."""
        return self._write_epochs() if self.epochs.truncate_to(end_offset) else ()

    def restart_at(self, offset: int) -> Instructions:
        """Drop all records and restart the log at an offset."""
        changes = self._put_aside(self.segments.restart(offset), 0)
        changes += self.disk.remove_snapshots(self.disk.snapshots)
        self.undecided = UndecidedTransactions()
        self.start_offset, self.lost_from = offset, None
        self.producers = ProducerState()
        self._was_cut(0)
        self.epochs = LeaderEpochs()
        return (*changes, CreateSegment(offset), *self._write_epochs())

    # Changes at the beginning

    def advance_start(self, offset: int) -> Instructions:
        """Raise the log start to an offset; the next retention drops the segments below it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, behind the log end.
        """
        if offset > self.end_offset:
            message = f"start {offset} of the log is after its end {self.end_offset}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if offset <= self.start_offset:
            return ()
        self.start_offset = offset
        return self._write_epochs() if self.epochs.truncate_from(offset) else ()

    def retain(self, now_ms: int, high_watermark: int) -> Instructions:
        """Raise the log start above segments that retention expires; `drop_below` deletes them.

        Only segments below the high watermark expire.
        """
        segments = self.segments.all
        self._ahead = segments_ahead(segments, self._ahead, now_ms)
        count = deletable_count(
            segments,
            self.config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.start_offset,
            ahead=self._ahead,
        )
        if not count:
            return ()
        behind = segments[count].base_offset if count < len(segments) else self.end_offset
        return self.advance_start(behind)

    def drop_below(self, offset: int, now_ms: int) -> Instructions:
        """Drop the segments below an offset, which is a log start that is on the disk.

        Their files are renamed at once and may be removed after `file.delete.delay.ms`.
        """
        count = self.segments.count_below(min(offset, self.start_offset))
        return self._drop_first(count, now_ms + self.config.file_delete_delay_ms)

    def drop_before(self, base_offset: int) -> Instructions:
        """Drop the segments before the one with a base offset, as the copied log has done."""
        count = sum(base < base_offset for base in self.segments.base_offsets)
        if count == len(self.segments.closed) + 1:
            return self.restart_at(base_offset)
        return self._drop_first(count, 0)

    def replace(
        self,
        former: Sequence[ClosedSegment],
        cleaned: Sequence[tuple[ClosedSegment, int]],
        now_ms: int,
    ) -> Instructions:
        """Replace segments by the cleaned segments that compaction has made of them.

        Args:
            former: Closed segments that follow each other.
            cleaned: Segments, and the size of their index of aborted transactions. Their files are
                there as `.swap`, on the disk.
            now_ms: Milliseconds since 1970.
        """
        self.segments.replace(former, cleaned)
        bases = tuple(each.base_offset for each in former)
        new = tuple(bounds.base_offset for bounds, _ in cleaned)
        for base_offset in bases:
            self.segments.set_aside(base_offset, now_ms + self.config.file_delete_delay_ms)
        self.disk.was_replaced()
        gone = [base_offset for base_offset in bases if base_offset not in new]
        following = dict(pairwise(self.segments.base_offsets))
        counts = tuple((following[bounds.base_offset], count) for bounds, count in cleaned)
        return (ReplaceSegments(bases, new, counts), *self.disk.remove_snapshots(gone))

    def expired(self, now_ms: int) -> list[int]:
        """Return, and forget, base offsets of dropped segments whose files may be removed."""
        return self.segments.expired(now_ms)

    def not_removed(self, base_offsets: Sequence[int], now_ms: int) -> None:
        """Record that files of dropped segments may still be there; see `expired`."""
        for base_offset in base_offsets:
            self.segments.set_aside(base_offset, now_ms)

    def will_lack_offsets(self, start_offset: int) -> None:
        """Record, before it is so, that compaction takes offsets away from this one on."""
        self.disk.may_have_gaps(start_offset)

    def compacted(self, end_offset: int) -> None:
        """Record that all below an offset is compacted."""
        self.disk.cleaned_to = end_offset

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config

    # Durability

    @property
    def needs_sync(self) -> bool:
        """Whether a closed segment is not known to be on the disk.

        Until that is done a recovery has to read it.
        """
        return self.recovery_point < self.active.base_offset

    def sync_request(self, *, with_active: bool) -> SyncRequest:
        """Return the files to sync so that the recovery point may advance; see `synced`.

        Args:
            with_active: Whether to sync the active segment too, or only closed ones.
        """
        return self.disk.request(self.segments, with_active=with_active)

    def synced(self, request: SyncRequest) -> None:
        """Record that a sync request was carried out."""
        self.disk.synced(request, self.end_offset)

    def not_synced(self, request: SyncRequest) -> None:
        """Record that a sync request was cancelled; the next one has its files again."""
        self.disk.not_synced(request)

    def copy_is_on_disk(self, copied_to: int) -> None:
        """Record that all copied records below an offset are on the disk, with their names."""
        self.disk.copy_is_on_disk(copied_to, self.end_offset)

    # Copies

    def take_cut_to(self) -> int | None:
        """Return the smallest offset to which the log was cut since the last call."""
        cut_to, self._cut_to = self._cut_to, None
        return cut_to

    def become(
        self,
        closed: Sequence[ClosedSegment],
        active: ActiveSegment,
        epochs: LeaderEpochs,
        producers: ProducerState | None,
    ) -> Instructions:
        """Add segments whose bytes were copied from the source log of this copy.

        Segments before them, which the source log has dropped, are dropped here too.

        Args:
            closed: All segments but the last.
            active: The last one.
            epochs: Leader epochs of the source log, up to there.
            producers: Producer state there; None if it is not known yet.
        """
        assert active.next_offset >= self.end_offset
        first = closed[0].base_offset if closed else active.base_offset
        gone = [base for base in self.segments.base_offsets if base < first]
        former = self.active
        self.segments.become(closed, active)
        changes = [*self._put_aside(gone, 0), *self.disk.remove_snapshots(gone)]
        # The index of a whole segment was copied with it; that of the active one still grows.
        known = former.aborted if former.base_offset == active.base_offset else []
        if active.aborted and active.aborted != known:
            self.disk.names_unsynced = True
            changes.append(WriteAborted(active.base_offset, tuple(active.aborted)))
        if producers is not None:
            self.producers = producers
        if epochs.entries == self.epochs.entries:
            return tuple(changes)
        self.epochs = epochs
        return (*changes, *self._write_epochs())

    def moved_to(self, copy: LogState) -> None:
        """Record that the log has switched to the files of a copy, which have the same content."""
        assert copy.end_offset == self.end_offset
        self.disk.moved_to(copy.disk)
        self.segments.put_aside = copy.segments.put_aside

    def close(self) -> Instructions:
        """Return the instructions after which the next start need not read the data."""
        active = self.active
        active.finish()
        close = CloseSegment(active.base_offset, active.index, active.time_index)
        snapshot = self.disk.snapshot(self.end_offset, self.producers, len(active.aborted))
        return (close, *snapshot)

    # Inside

    def _append_to_active(
        self,
        buffers: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        markers: Mapping[int, Marker],
    ) -> Instructions:
        active = self.segments.active
        write = WriteAt(active.base_offset, active.size, buffers)
        interval = self.config.index_interval_bytes
        aborted = len(active.aborted)
        for header in headers:
            active.note(header, interval)
            if header.producer_id >= 0:
                completed = self.producers.update(header, markers.get(header.base_offset))
                if completed is not None:
                    self.undecided.add(completed)
                    if completed.is_aborted:
                        stable = self.producers.last_stable_offset_at(completed)
                        active.aborted.append(completed.aborted(stable))
        if len(active.aborted) != aborted:
            self.disk.names_unsynced = True
            return write, WriteAborted(active.base_offset, tuple(active.aborted))
        return (write,)

    def _append_rolling(
        self,
        buffers: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        markers: Mapping[int, Marker],
    ) -> Instructions:
        """Append batches that the active segment has no room for, as many to a segment as fit."""
        data = memoryview(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        changes: list[Instruction] = []
        first = start = 0
        while first < len(headers):
            changes += self.roll(headers[first].base_offset)
            last = first + fitting_count(headers[first:], self.active, self.config)
            end = start + sum(header.size for header in headers[first:last])
            changes += self._append_to_active((data[start:end],), headers[first:last], markers)
            first, start = last, end
        return tuple(changes)

    def _assign(self, epoch: int, start_offset: int) -> Instructions:
        return self._write_epochs() if self.epochs.assign(epoch, start_offset) else ()

    def _write_epochs(self) -> Instructions:
        self.disk.epochs_unsynced = self.disk.names_unsynced = True
        return (WriteEpochs(self.epochs.entries),)

    def _put_aside(self, base_offsets: Sequence[int], due_ms: int) -> list[Instruction]:
        for base_offset in base_offsets:
            self.segments.set_aside(base_offset, due_ms)
        return [SetAside(base_offset) for base_offset in base_offsets]

    def _drop_first(self, count: int, due_ms: int) -> Instructions:
        if not count:
            return ()
        changes: list[Instruction] = []
        if count > len(self.segments.closed):
            changes += self.roll()
        dropped = self.segments.drop_first(count)
        changes += self._put_aside(dropped, due_ms)
        changes += self.disk.remove_snapshots(dropped)
        self.disk.names_unsynced = True
        first = self.segments.first_base_offset
        return (*changes, *self.advance_start(max(self.start_offset, first)))

    def _was_cut(self, cut_to: int) -> None:
        self._cut_to = cut_to if self._cut_to is None else min(self._cut_to, cut_to)
        self.disk.was_cut(self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
