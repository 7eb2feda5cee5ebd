"""One round of compaction of one log: reads closed segments, writes cleaned ones beside them.

The new files end with `.cleaned`, and no log uses them until they replace the segments that they
were made of; see `segment_swap`. A crash at any moment leaves the log unchanged. Every method
blocks, without a limit on its time; `Throttle` keeps the rate, and raises to stop the round.

    1  the keys of the dirty part are mapped to their newest offsets, as far as the map has room
    2  the segments below the end of the mapped part are put into groups
    3  each group is copied batch by batch, with only the records that stay

Source: `org.apache.kafka.storage.internals.log.Cleaner`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from jbodlab.record_batch.compression import decompress
from jbodlab.record_batch.record_batch import HEADER_SIZE, BatchHeader, crc_is_valid, read_header
from jbodlab.record_batch.record_slices import slice_records
from jbodlab.storage.compaction.cleaned_transactions import CleanedTransactions
from jbodlab.storage.compaction.compacted_batch import BatchFilter
from jbodlab.storage.compaction.compaction import SourceSegment, group_segments
from jbodlab.storage.compaction.compaction_plan import (
    CleanedGroup,
    CleanedSegment,
    CleaningStoppedError,
    Mapped,
    RoundPlan,
    Throttle,
)
from jbodlab.storage.compaction.offset_map import OffsetMap
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import AppendFile, FileSystem
from jbodlab.storage.log.segment_reader import ScannedBatch, SegmentReader
from jbodlab.storage.log.segments import (
    POSITION_MAX,
    RELATIVE_OFFSET_MAX,
    ActiveSegment,
    ClosedSegment,
)
from jbodlab.storage.log.transactions import (
    AbortedTransaction,
    Marker,
    encode_aborted,
    read_aborted,
    read_marker,
)
from jbodlab.vocabulary.errors import CorruptRecordError, DecodeError
from jbodlab.vocabulary.limits import COMPACTED_WRITE_BYTES


class CompactionRound:
    """See the module's text.

    Args:
        fs: The disk.
        plan: The work on the log.
        throttle: See `Throttle`.
    """

    def __init__(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle) -> None:
        self._fs = fs
        self._plan = plan
        self._throttle = throttle
        self._offsets = OffsetMap(plan.map_bytes, plan.map_load_factor)
        self._aborted: tuple[AbortedTransaction, ...] = ()
        self._groups: Sequence[tuple[SourceSegment, ...]] = ()
        self._filter: BatchFilter | None = None

    def begin(self) -> Mapped:
        """Map the keys, and group the segments to clean.

        Raises:
            CorruptRecordError: a batch is damaged.
            CleaningStoppedError: see there.
        """
        plan = self._plan
        with _gone_is_no_failure():
            remove_cleaned(self._fs, plan.folder)
            self._aborted = tuple(self._read_aborted())
            end = self._map()
            self._groups = self._group(end)
        self._filter = BatchFilter(
            offsets=self._offsets,
            mapped_end=end,
            round_end=plan.first_uncleanable,
            producers=plan.producers,
            transactions=CleanedTransactions(self._aborted),
            now_ms=plan.now_ms,
            keeps_deletes=plan.keeps_deletes,
            delete_retention_ms=plan.delete_retention_ms,
        )
        sizes = [sum(each.segment.size for each in group) for group in self._groups]
        return Mapped(
            end,
            len(self._offsets),
            self._offsets.utilization,
            len(self._groups),
            max(sizes, default=0),
        )

    def clean(self, number: int) -> CleanedGroup:
        """Write the records of a group that stay; call it once per group, in their order.

        Raises:
            CorruptRecordError: a batch is damaged.
            CleaningStoppedError: see there.
        """
        assert self._filter is not None
        group, plan = self._groups[number], self._plan
        size = sum(each.segment.size for each in group)
        # A batch that is compressed again may become larger (KAFKA-20036).
        size_max = min(max(size, plan.segment_bytes), POSITION_MAX)
        with (
            _gone_is_no_failure(),
            contextlib.closing(_Writer(self._fs, plan, self._throttle, size_max)) as writer,
        ):
            writer.begin(group[0].segment.base_offset)
            for source in group:
                for batch in self._batches(source.segment):
                    path = self._path(source.segment)
                    try:
                        left = self._filter.keep(batch.data, batch.header)
                    except DecodeError as error:
                        if batch.header.next_offset <= plan.start_offset:
                            # Its records are below the log start: the damaged batch is dropped.
                            continue
                        raise CorruptRecordError(path, batch.position, str(error)) from error
                    writer.aborted += self._filter.transactions.take_kept()
                    if left is not None:
                        writer.add(left)
            cleaned = writer.end()
        self._fs.fsync_dir(plan.folder)
        return CleanedGroup(tuple(each.segment for each in group), cleaned)

    # Step 1

    def _map(self) -> int:
        """Map the keys of the dirty part; returns below which offset all of them are mapped."""
        plan = self._plan
        transactions = CleanedTransactions(self._aborted)
        for segment in plan.closed:
            if segment.next_offset <= plan.first_dirty:
                continue
            if segment.base_offset >= plan.first_uncleanable:
                break
            for batch in self._batches(segment):
                header = batch.header
                if header.base_offset >= plan.first_uncleanable:
                    return plan.first_uncleanable
                if header.is_control:
                    transactions.may_drop(header, self._marker(segment, batch))
                elif not transactions.is_aborted(header) and header.last_offset >= plan.first_dirty:
                    end = self._map_batch(segment, batch)
                    if end is not None:
                        return end
        return plan.first_uncleanable

    def _map_batch(self, segment: ClosedSegment, batch: ScannedBatch) -> int | None:
        """Map the keys of a batch; returns the first offset without room in the map, if any."""
        header = batch.header
        if not crc_is_valid(batch.data, 0, header):
            raise CorruptRecordError(self._path(segment), batch.position, "wrong CRC")
        try:
            records = decompress(header.compression, batch.data[HEADER_SIZE:])
            for record in slice_records(records, header.records_count):
                offset = header.base_offset + record.offset_delta
                if (
                    record.key is not None
                    and offset >= self._plan.first_dirty
                    and not self._offsets.put(record.key, offset)
                ):
                    return offset
        except DecodeError as error:
            raise CorruptRecordError(self._path(segment), batch.position, str(error)) from error
        return None

    def _marker(self, segment: ClosedSegment, batch: ScannedBatch) -> Marker | None:
        try:
            return read_marker(batch.data, 0, batch.header)
        except DecodeError as error:
            raise CorruptRecordError(self._path(segment), batch.position, str(error)) from error

    # Step 2

    def _group(self, end: int) -> Sequence[tuple[SourceSegment, ...]]:
        plan = self._plan
        sources = []
        for number, segment in enumerate(plan.closed):
            if segment.base_offset >= end:
                break
            is_last = number + 1 == len(plan.closed)
            sources.append(
                SourceSegment(
                    segment,
                    plan.active_base if is_last else plan.closed[number + 1].base_offset,
                    self._size(names.index_file(segment.base_offset)),
                    self._size(names.time_index_file(segment.base_offset)),
                )
            )
        return group_segments(sources, plan.segment_bytes, plan.segment_index_bytes)

    def _size(self, name: str) -> int:
        try:
            return self._fs.size(self._plan.folder / name)
        except FileNotFoundError:
            return 0

    # Reading

    def _batches(self, segment: ClosedSegment) -> Iterator[ScannedBatch]:
        """Yield all batches of a segment."""
        path = self._path(segment)
        file = self._fs.open_source(path)
        end, next_offset = 0, segment.base_offset
        try:
            for batch in SegmentReader(file, path, segment.size).scan():
                self._throttle(batch.header.size)
                # The offset of a batch is not covered by its CRC.
                if not next_offset <= batch.header.base_offset < segment.next_offset:
                    reason = f"expected offset {next_offset}, got {batch.header.base_offset}"
                    raise CorruptRecordError(path, batch.position, reason)
                next_offset = batch.header.next_offset
                end = batch.position + batch.header.size
                yield batch
        finally:
            file.close()
        if end != segment.size:
            raise CorruptRecordError(path, end, "batch is incomplete")

    def _read_aborted(self) -> Iterator[AbortedTransaction]:
        for base_offset, count in self._plan.aborted_counts:
            path = self._plan.folder / names.txn_index_file(base_offset)
            yield from read_aborted(self._fs, path, count)
        yield from self._plan.aborted

    def _path(self, segment: ClosedSegment) -> Path:
        return self._plan.folder / names.log_file(segment.base_offset)


class _Writer:
    """Writes the cleaned segments of one group."""

    def __init__(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle, size_max: int) -> None:
        self._fs = fs
        self._plan = plan
        self._throttle = throttle
        self._size_max = size_max
        self._segment = ActiveSegment(0)
        self._file: AppendFile | None = None
        self._buffers: list[bytes | memoryview] = []
        self._buffered = 0
        self._done: list[CleanedSegment] = []
        self.aborted: list[AbortedTransaction] = []
        """Aborted transactions of the segment that is being written."""

    def begin(self, base_offset: int) -> None:
        """Begin a segment."""
        self._segment = ActiveSegment(base_offset)
        self._file = self._fs.open_append(self._path(names.LOG_SUFFIX))

    def add(self, batch: bytes | memoryview) -> None:
        """Append a batch; to another segment if this one has no room for it."""
        header = read_header(batch)
        if self._segment.size and not self._has_room(header):
            # The aborted transactions read with this batch belong to the batch's segment.
            aborted = [each for each in self.aborted if each.last_offset >= header.base_offset]
            self.aborted = self.aborted[: len(self.aborted) - len(aborted)]
            self._end_segment()
            self.begin(header.base_offset)
            self.aborted = aborted
        self._segment.note(header, self._plan.index_interval_bytes)
        # The reader's memory is good for one batch only.
        self._buffers.append(bytes(batch))
        self._buffered += header.size
        if self._buffered >= COMPACTED_WRITE_BYTES:
            self._write()

    def end(self) -> tuple[CleanedSegment, ...]:
        """Bring all to the disk; returns the segments."""
        self._end_segment()
        return tuple(self._done)

    def close(self) -> None:
        """Give the file back."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _has_room(self, header: BatchHeader) -> bool:
        segment, index_bytes = self._segment, self._plan.segment_index_bytes
        return (
            segment.size + header.size <= self._size_max
            and header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
            and not segment.index.is_full(index_bytes)
            and not segment.time_index.is_full(index_bytes)
        )

    def _write(self) -> None:
        assert self._file is not None
        if self._buffers:
            self._throttle(self._buffered)
            self._file.writev(self._buffers)
            self._buffers, self._buffered = [], 0

    def _end_segment(self) -> None:
        segment = self._segment
        self._write()
        assert self._file is not None
        self._file.fsync()
        self.close()
        segment.finish()
        for suffix, content in (
            (names.INDEX_SUFFIX, segment.index.encode()),
            (names.TIME_INDEX_SUFFIX, segment.time_index.encode()),
            (names.TXN_INDEX_SUFFIX, encode_aborted(self.aborted)),
        ):
            if content or suffix != names.TXN_INDEX_SUFFIX:
                self._fs.write_bytes(self._path(suffix), content, sync=True)
        self._done.append(CleanedSegment(segment.bounds(), len(self.aborted)))
        self.aborted = []

    def _path(self, suffix: str) -> Path:
        name = names.offset_text(self._segment.base_offset) + suffix + names.CLEANED_SUFFIX
        return self._plan.folder / name


@contextlib.contextmanager
def _gone_is_no_failure() -> Iterator[None]:
    """Stop the round if a file was removed meanwhile; a missing directory is detected elsewhere."""
    try:
        yield
    except FileNotFoundError as error:
        raise CleaningStoppedError(str(error)) from error


def remove_cleaned(fs: FileSystem, folder: Path) -> None:
    """Remove the `.cleaned` files of a stopped round."""
    for name in names.with_suffix(fs.listdir(folder), names.CLEANED_SUFFIX):
        fs.unlink(folder / name, missing_ok=True)
