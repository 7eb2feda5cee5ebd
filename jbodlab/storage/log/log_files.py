"""The files of one replica's log: carries out the instructions of `LogState`, and reads.

Everything here blocks and passes `OSError` to the caller, which takes the directory offline.
Methods run on the thread of the log's directory, in the order of the calls. Methods that get a file
system run beside the others: they touch only files that are not appended to or truncated at that
time, or that may disappear without harm.

Source: `org.apache.kafka.storage.internals.log.LogSegment`, `LocalLog`.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import assert_never
from uuid import UUID

from jbodlab.storage.directory import disk_errors, names
from jbodlab.storage.directory.checkpoints import render_frame
from jbodlab.storage.directory.filesystem import AppendFile, Buffer, FileSystem
from jbodlab.storage.log.directory_files import DirectoryFiles, SegmentIndexes
from jbodlab.storage.log.instructions import (
    CloseSegment,
    CreateSegment,
    CutSegment,
    Instruction,
    RemoveSnapshots,
    ReplaceSegments,
    SetAside,
    SyncRequest,
    WriteAborted,
    WriteAt,
    WriteEpochs,
    WriteSnapshot,
)
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.producer_state import with_aborted_count
from jbodlab.storage.log.segment_ranges import SegmentRange
from jbodlab.storage.log.segment_reader import SegmentReader
from jbodlab.storage.log.segment_swap import complete_swap
from jbodlab.storage.log.segments import ActiveSegment
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.storage.log.transactions import (
    AbortedTransaction,
    aborted_between,
    encode_aborted,
    read_aborted,
)
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.limits import POSITIONS_REMEMBERED_MAX, WRITE_BACK_BYTES

SEGMENT_SUFFIXES = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES)

logger = logging.getLogger(__name__)


class LogFiles:
    """The partition directory of one log.

    Args:
        fs: The disk.
        directory: The partition directory.
        topic_partition: The log's topic partition; the directory's name may be cut.
        topic_id: From `partition.metadata`; None if that file is missing.
        shared: Open files and indexes of all logs of the log directory.
        index_interval_bytes: Bytes between two entries of a rebuilt index.

    Attributes:
        is_behind: Whether the disk had no room for an instruction, so that the files may lack an
            end that the state has. Set by the caller that carries the instruction out later.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        shared: DirectoryFiles,
        index_interval_bytes: int = 4096,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.topic_id = topic_id
        self.topic_partition = topic_partition
        self._shared = shared
        self._index_interval_bytes = index_interval_bytes
        self._positions: dict[int, tuple[int, int]] = {}
        self.is_behind = False

    @property
    def is_future(self) -> bool:
        """Whether this is a copy being built by a move between directories."""
        return names.parse_partition_dir(self.directory.name).kind is names.DirKind.FUTURE

    @property
    def is_current(self) -> bool:
        """Whether it has the name of a replica that is used."""
        return names.parse_partition_dir(self.directory.name).kind is names.DirKind.CURRENT

    @property
    def is_moved(self) -> bool:
        """Whether this is the old copy that a move between directories has left in its source."""
        return names.parse_partition_dir(self.directory.name).is_moved

    def path(self, base_offset: int, suffix: str = names.LOG_SUFFIX) -> Path:
        """Return one of the files of a segment."""
        return self.directory / (names.offset_text(base_offset) + suffix)

    # Instructions

    def carry_out(self, instructions: Sequence[Instruction]) -> None:
        """Carry instructions out in their order; writes that follow each other are one call.

        Raises:
            OutOfRoomError: the disk took no more, or the process lacks descriptors or memory; the
                rest may be carried out later. Writes that are one call are done all or not at all.
        """
        carried_out = 0
        try:
            while carried_out < len(instructions):
                carried_out += self._carry_out_next(instructions, carried_out)
        except (OSError, MemoryError) as error:
            found = disk_errors.as_os_error(error)
            if disk_errors.is_no_space(found) or disk_errors.is_shortage(found):
                raise disk_errors.OutOfRoomError(found, carried_out) from error
            raise

    def _carry_out_next(self, instructions: Sequence[Instruction], number: int) -> int:
        """Carry out one instruction, or all writes from there on; returns how many that was."""
        instruction = instructions[number]
        if not isinstance(instruction, WriteAt):
            self._change(instruction)
            return 1
        base_offset, position, buffers = instruction
        end = number + 1
        if end < len(instructions):
            joined = list(buffers)
            while end < len(instructions):
                following = instructions[end]
                if not isinstance(following, WriteAt) or following.base_offset != base_offset:
                    break
                joined += following.buffers
                end += 1
            buffers = joined
        self._write(base_offset, position, buffers)
        return end - number

    def _change(self, instruction: Instruction) -> None:
        match instruction:
            case WriteAt():
                raise AssertionError("writes are joined before")
            case WriteEpochs():
                path = self.directory / names.LEADER_EPOCH_FILE
                self.fs.write_atomically(path, render_frame(instruction.entries), sync=False)
            case CreateSegment():
                self._create(instruction.base_offset)
            case CloseSegment():
                self._close(instruction)
            case CutSegment():
                self._cut(instruction.base_offset, instruction.size)
            case SetAside():
                self._set_aside(instruction.base_offset)
            case ReplaceSegments():
                self._replace(instruction)
            case WriteSnapshot():
                path = self.directory / names.snapshot_file(instruction.offset)
                data = instruction.producers.encode(
                    with_earlier=True, aborted_count=instruction.aborted_count
                )
                self.fs.write_bytes(path, data, sync=False)
            case RemoveSnapshots():
                for offset in instruction.offsets:
                    path = self.directory / names.snapshot_file(offset)
                    self.fs.unlink(path, missing_ok=True)
            case WriteAborted():
                self._write_aborted(instruction.base_offset, instruction.entries)
            case _:
                assert_never(instruction)

    def rename_to(self, name: str, *, sync: bool = True) -> None:
        """Rename the partition directory, durably if `sync`; open files remain usable."""
        target = self.directory.with_name(name)
        self.fs.rename(self.directory, target, sync=False)
        self.directory = target
        if sync:
            self.fs.fsync_dir(target.parent)

    def flush(self, base_offset: int) -> None:
        """Return when all that was written to a segment is on the disk, on this thread."""
        key = (self, base_offset)
        self._shared.file(key, lambda: self._opened(base_offset, 0)).fsync()

    def forget(self, base_offset: int) -> None:
        """Close the file of a segment that is not this log's any more."""
        self._shared.forget((self, base_offset))

    def abandon(self) -> None:
        """Give the files back without a write and without an error."""
        self._shared.forget_all(self)

    # Reading

    def read(
        self,
        ranges: Sequence[SegmentRange],
        offset: int,
        max_bytes: int,
        max_offset: int | None = None,
        *,
        at_least_one: bool = True,
        read_ahead: int = 4096,
    ) -> bytes:
        """Read whole batches from the one that contains an offset, out of one segment.

        Args:
            ranges: Where to begin, from `SegmentList.ranges`.
            offset: The first requested offset; the batch may begin before it.
            max_bytes: Most bytes to return.
            max_offset: Only batches entirely below it, such as the high watermark; None for all.
            at_least_one: Whether a first batch larger than `max_bytes` is returned all the same.
            read_ahead: Estimated distance in bytes from an index entry's position to the batch.

        Raises:
            CorruptRecordError: the bytes where a batch should begin are not a batch.
        """
        for part in self.existing(ranges):
            known = self._positions.get(offset)
            if known is not None and known[0] == part.base_offset and known[1] <= part.size:
                position, ahead = known[1], 0
            elif part.position is not None:
                position, ahead = part.position, read_ahead
            else:
                position, ahead = self.indexes(part).offset_index.lookup(offset), read_ahead
            if position >= part.size:
                continue
            found = self.reader(part).read(
                offset,
                position,
                max_bytes=max_bytes,
                max_offset=max_offset,
                at_least_one=at_least_one,
                read_ahead=ahead,
            )
            if found.data:
                self._remember(found.next_offset, part.base_offset, found.next_position)
                return found.data
            if found.next_position < part.size:
                return b""
            # The rest of this segment was compacted away.
        return b""

    def existing(self, ranges: Sequence[SegmentRange]) -> Sequence[SegmentRange]:
        """Return the parts of ranges that the files have: they may end before the state does."""
        if not self.is_behind:
            return ranges
        existing = []
        for part in ranges:
            path = self.path(part.base_offset)
            # Opening must not create a segment before its `CreateSegment` is carried out.
            if self.fs.exists(path):
                key = (self, part.base_offset)
                file = self._shared.file(key, partial(self.fs.open_append, path))
                existing.append(part._replace(size=min(part.size, file.size())))
        return existing

    def aborted(
        self, indexes: Sequence[tuple[int, int]], fetch_offset: int, upper_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in a range, out of closed segments.

        Args:
            indexes: Base offset and number of entries of each index of them, from that of the
                segment with `fetch_offset` on.
            fetch_offset: First offset of the range.
            upper_offset: Behind the range.

        Raises:
            CorruptRecordError: somebody removed or changed the index of a segment; without it,
                aborted records would look like committed ones.
        """
        found: list[AbortedTransaction] = []
        for base_offset, count in indexes:
            try:
                entries = self.read_aborted(base_offset, None if self.is_behind else count)
            except CorruptRecordError:
                if not self.fs.exists(self.path(base_offset)):
                    continue
                raise
            found += aborted_between(entries, fetch_offset, upper_offset)
            if entries and entries[-1].last_stable_offset >= upper_offset:
                break
        return found

    def read_aborted(self, base_offset: int, count: int | None) -> list[AbortedTransaction]:
        """Return the entries of a segment's index of aborted transactions.

        Args:
            base_offset: Of the segment.
            count: Number of entries that the log knows of; None if it does not.

        Raises:
            CorruptRecordError: the file is damaged, or has another number of entries.
        """
        return read_aborted(self.fs, self.path(base_offset, names.TXN_INDEX_SUFFIX), count)

    # Beside the directory's thread

    def sync(self, fs: FileSystem, request: SyncRequest, *, with_parent: bool = True) -> None:
        """Return when the files of a request are on the disk.

        Args:
            fs: The disk, as the calling thread may use it.
            request: The files.
            with_parent: Whether the name of the partition directory is part of it.
        """
        for base_offset, size in request.segments:
            _sync_file(fs, self.path(base_offset), size)
        for base_offset in request.indexed:
            for suffix in names.INDEX_SUFFIXES:
                _sync_file(fs, self.path(base_offset, suffix), 0)
        for offset in request.snapshots:
            _sync_file(fs, self.directory / names.snapshot_file(offset), 0)
        if request.epochs:
            _sync_file(fs, self.directory / names.LEADER_EPOCH_FILE, 0)
        if request.names:
            if request.metadata:
                fs.fsync_file(self.directory / names.PARTITION_METADATA_FILE)
            fs.fsync_dir(self.directory)
            if with_parent:
                fs.fsync_dir(self.directory.parent)

    def remove_set_aside(self, fs: FileSystem, base_offsets: Sequence[int]) -> None:
        """Remove the files of segments that were set aside."""
        for base_offset in base_offsets:
            for suffix in SEGMENT_SUFFIXES:
                fs.unlink(self.path(base_offset, suffix + names.DELETED_SUFFIX), missing_ok=True)

    # Inside

    def _write(self, base_offset: int, position: int, buffers: Sequence[Buffer]) -> None:
        key = (self, base_offset)
        file = self._shared.file(key, lambda: self._opened_to_write(base_offset, position))
        try:
            file.writev(buffers)
        except (OSError, MemoryError) as error:
            try:
                # A full disk may even refuse to truncate; most often it has written no byte.
                if file.size() != position:
                    file.truncate(position)
            except OSError as failed:
                if disk_errors.is_shortage(failed):
                    # The partial write is truncated when the file is opened again.
                    self._shared.close_file(key)
                elif disk_errors.is_no_space(disk_errors.as_os_error(error)):
                    text = f"{error}, and the partial write cannot be truncated: {failed}"
                    raise OSError(errno.EIO, text, str(self.path(base_offset))) from error
            raise

    def _opened_to_write(self, base_offset: int, position: int) -> AppendFile:
        """Open a segment; truncates a partial write that an earlier failure left at its end."""
        file = self._opened(base_offset, position)
        try:
            if file.size() > position:
                file.truncate(position)
        except BaseException:
            file.close()
            raise
        return file

    def _opened(self, base_offset: int, size: int) -> AppendFile:
        path = self.path(base_offset)
        # Opening must not recreate a file that was removed by hand.
        try:
            self.fs.size(path)
        except FileNotFoundError as error:
            raise CorruptRecordError(path, 0, "segment is missing") from error
        file = self.fs.open_append(path)
        found = file.size()
        if found < size:
            file.close()
            raise CorruptRecordError(path, found, f"segment ends before {size}")
        return file

    def reader(self, part: SegmentRange) -> SegmentReader:
        """Return a reader of a segment."""
        base_offset, size = part.base_offset, part.size
        file = self._shared.file((self, base_offset), lambda: self._opened(base_offset, size))
        return SegmentReader(file, self.path(base_offset), size, part.next_offset)

    def indexes(self, part: SegmentRange) -> SegmentIndexes:
        """Return the indexes of a closed segment."""
        return self._shared.indexes((self, part.base_offset), lambda: self._load_indexes(part))

    def _load_indexes(self, part: SegmentRange) -> SegmentIndexes:
        """Read the index files; if they are not usable they are rebuilt from the batches."""
        base_offset = part.base_offset
        path = self.path(base_offset, names.INDEX_SUFFIX)
        times_path = self.path(base_offset, names.TIME_INDEX_SUFFIX)
        try:
            index = OffsetIndex.decode(path, self.fs.read_bytes(path), base_offset)
            times = TimeIndex.decode(times_path, self.fs.read_bytes(times_path), base_offset)
        except (FileNotFoundError, CorruptRecordError) as error:
            logger.warning("rebuilding an index: %s", error)
            segment = ActiveSegment(base_offset)
            for _, header, _ in self.reader(part).scan():
                segment.note(header, self._index_interval_bytes)
            segment.finish()
            try:
                self._write_indexes(base_offset, segment.index, segment.time_index)
            except OSError as error:
                # The next load rebuilds the indexes again.
                if not (disk_errors.is_no_space(error) or disk_errors.is_shortage(error)):
                    raise
            return SegmentIndexes(segment.index, segment.time_index)
        return SegmentIndexes(index, times)

    def _create(self, base_offset: int) -> None:
        key = (self, base_offset)
        self._shared.forget(key)
        file = self._shared.file(key, lambda: self.fs.open_append(self.path(base_offset)))
        if file.size():
            file.truncate(0)
        for suffix in (names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX):
            self.fs.write_bytes(self.path(base_offset, suffix), b"", sync=False)

    def _close(self, instruction: CloseSegment) -> None:
        base_offset = instruction.base_offset
        index, times = instruction.offset_index, instruction.time_index
        self._write_indexes(base_offset, index, times)
        self._shared.put_indexes((self, base_offset), SegmentIndexes(index, times))

    def _write_indexes(self, base_offset: int, index: OffsetIndex, times: TimeIndex) -> None:
        self.fs.write_bytes(self.path(base_offset, names.INDEX_SUFFIX), index.encode(), sync=False)
        self.fs.write_bytes(
            self.path(base_offset, names.TIME_INDEX_SUFFIX), times.encode(), sync=False
        )

    def _cut(self, base_offset: int, size: int) -> None:
        self._positions.clear()
        self._shared.forget_indexes((self, base_offset))
        file = self._shared.file((self, base_offset), lambda: self._opened(base_offset, size))
        file.truncate(size)

    def _set_aside(self, base_offset: int) -> None:
        self._positions.clear()
        self._shared.forget((self, base_offset))
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(base_offset, suffix)
            target = path.with_name(path.name + names.DELETED_SUFFIX)
            # A file may be missing: it was removed by hand, the segment has no aborted
            # transactions, or a full disk has stopped an earlier attempt halfway.
            if self.fs.exists(path) or (suffix == names.LOG_SUFFIX and not self.fs.exists(target)):
                self.fs.rename(path, target, sync=False)

    def _replace(self, instruction: ReplaceSegments) -> None:
        self._positions.clear()
        for base_offset in (*instruction.former, *instruction.cleaned):
            self._shared.forget((self, base_offset))
        complete_swap(self.fs, self.directory, instruction.former, instruction.cleaned)
        for offset, count in instruction.aborted_counts:
            self.tell_aborted(offset, count)

    def tell_aborted(self, offset: int, count: int) -> None:
        """Note in a snapshot how many transactions were aborted in the segment that ends there.

        A snapshot that is missing or damaged tells nothing; the next load then reads the segment.
        """
        path = self.directory / names.snapshot_file(offset)
        with contextlib.suppress(FileNotFoundError, CorruptRecordError):
            data = with_aborted_count(path, self.fs.read_bytes(path), count)
            self.fs.write_atomically(path, data, sync=False)

    def _write_aborted(self, base_offset: int, entries: Sequence[AbortedTransaction]) -> None:
        path = self.path(base_offset, names.TXN_INDEX_SUFFIX)
        if entries:
            # If the disk has no room, readers keep the former content.
            self.fs.write_atomically(path, encode_aborted(entries), sync=False)
        else:
            self.fs.unlink(path, missing_ok=True)

    def _remember(self, offset: int, base_offset: int, position: int) -> None:
        """Note where the batch at an offset begins, or will begin."""
        positions = self._positions
        if len(positions) >= POSITIONS_REMEMBERED_MAX:
            del positions[next(iter(positions))]
        positions[offset] = (base_offset, position)


def _sync_file(fs: FileSystem, path: Path, size: int) -> None:
    """Sync a file; one that was removed since the request needs no sync."""
    with contextlib.suppress(FileNotFoundError):
        position = 0
        while position + WRITE_BACK_BYTES < size:
            written = fs.write_back(path, position, WRITE_BACK_BYTES)
            if not written:
                break
            position += written
        fs.fsync_file(path)
