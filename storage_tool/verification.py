"""Reads all of a replica's segments and checks their consistency, to find changes made by a disk.

Every batch of each segment is read. The checks are: its length; its CRC; offsets without a gap from
the name of the file to the name of the next one, unless the log is compacted; leader epochs, which
no CRC covers, that do not descend. Each entry of an offset index must name a batch that is not
behind the entry's offset; the offsets of a time index must be in the segment. No file is changed.

The files may be those of a running broker. Its last segment grows, and is checked up to the last
whole batch; the indexes of that segment are not on the disk yet. A tail torn by a crash is not
damage either: the next start truncates it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from jbodlab.record_batch.record_batch import crc_is_valid
from jbodlab.storage.compaction.compaction_plan import Throttle
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import CopySource, FileSystem, ReadFile
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.segment_reader import ScannedBatch, SegmentReader, next_batch
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import TopicPartition


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One damaged place in a replica.

    Attributes:
        base_offset: Base offset of the segment.
        file: Name of the damaged file.
        position: First damaged byte.
        problem: Description of the damage.
        first_offset: Offset of the first damaged record.
        last_offset: Offset of the last one; None if unknown.
        in_index: Whether the records are intact, and only an index is damaged.
    """

    base_offset: int
    file: str
    position: int
    problem: str
    first_offset: int
    last_offset: int | None
    in_index: bool = False


class VerifiedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """The findings in the folder of a replica; the bytes are those of its segments."""

    topic_partition: TopicPartition
    folder: Path
    segments: int
    size_bytes: int
    damage: tuple[Damage, ...]


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a directory besides its files.

    Attributes:
        in_use: Whether a broker runs that appends to its replicas.
        clean: Whether the broker that used it last had a clean shutdown.
        has_gaps: Whether compaction may have left gaps of offsets in the replica, as the cleaner's
            checkpoint names it; then a lost end of a segment is not detected.
    """

    in_use: bool
    clean: bool
    has_gaps: bool = False


def verify_replica(
    fs: FileSystem,
    folder: Path,
    circumstances: Circumstances,
    recovery_point: int,
    throttle: Throttle,
    forget_cached: Callable[[CopySource], None],
) -> VerifiedReplica:
    """Read a replica.

    Args:
        fs: The disk.
        folder: Partition directory of a current replica.
        circumstances: Facts about its log directory.
        recovery_point: Offset up to which its records are known to have been on the disk.
        throttle: Keeps the rate of reading.
        forget_cached: Drops a file from the page cache.

    Raises:
        OSError: a file cannot be read, or was removed meanwhile.
    """
    logs = names.with_suffix(fs.listdir(folder), names.LOG_SUFFIX)
    bases = [names.parse_offset(name) for name in logs]
    damage: list[Damage] = []
    size_bytes, epochs = 0, _Epochs()
    for number, base_offset in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        segment = _Segment(
            fs, folder, base_offset, next_base, epochs, has_gaps=circumstances.has_gaps
        )
        if circumstances.clean or next_base is not None:
            segment.read_indexes()
        source = fs.open_source(segment.path)
        try:
            size = fs.size(segment.path)
            # A broker's active segment is in the page cache; all others are read from the disk.
            if next_base is not None or not circumstances.in_use:
                forget_cached(source)
            throttled = _Throttled(source, throttle)
            segment.read(throttled, size)
            if next_base is None:
                segment.forgive_tail(throttled, size, circumstances, recovery_point)
        finally:
            source.close()
        segment.end(recovery_point)
        damage += segment.damage
        size_bytes += size
    return VerifiedReplica(
        topic_partition=names.parse_partition_dir(folder.name).topic_partition,
        folder=folder,
        segments=len(bases),
        size_bytes=size_bytes,
        damage=tuple(damage),
    )


class _Open(NamedTuple):
    """Damage behind which no sound batch was found yet."""

    position: int
    first_offset: int
    problem: str
    is_cut_short: bool = False


class _Epochs(msgspec.Struct):
    """Leader epochs of the batches so far.

    An epoch that descends shows that the last rise was wrong, unless it is below the epoch before
    that rise.
    """

    latest: int = -1
    before: int = -1
    """The one before the last rise."""
    base_offset: int = 0
    """Base offset of the segment with the last rise."""
    position: int = 0
    first_offset: int = 0


class _Segment:
    """One pass over a segment."""

    def __init__(
        self,
        fs: FileSystem,
        folder: Path,
        base_offset: int,
        next_base: int | None,
        epochs: _Epochs,
        *,
        has_gaps: bool,
    ) -> None:
        self._fs = fs
        self._has_gaps = has_gaps
        self._base_offset = base_offset
        self._next_base = next_base
        self._position = 0
        """Where the last whole batch ends."""
        self._open: _Open | None = None
        self._entries: deque[tuple[int, int]] = deque()
        """Offset and position of the index entries behind the batches read so far."""
        self._indexed_offset = base_offset - 1
        """The largest offset that an index names."""
        self._index_problems: dict[str, tuple[int, str]] = {}
        """Position and text of the first problem of an index, by its file name."""
        self.path = folder / names.log_file(base_offset)
        self._epochs = epochs
        self.next_offset = base_offset
        self.damage: list[Damage] = []

    def read_indexes(self) -> None:
        """Read the indexes; their entries are compared while the segment is read."""
        base = self._base_offset
        path = self.path.with_name(names.index_file(base))
        times_path = self.path.with_name(names.time_index_file(base))
        try:
            self._entries.extend(OffsetIndex.decode(path, self._fs.read_bytes(path), base).entries)
            if self._entries:
                self._indexed_offset = self._entries[-1][0]
        except FileNotFoundError:
            self._index_problem(path.name, 0, "the index is missing")
        except CorruptRecordError as error:
            self._index_problem(path.name, error.position, error.reason)
        try:
            times = TimeIndex.decode(times_path, self._fs.read_bytes(times_path), base)
            if len(times):
                self._indexed_offset = max(self._indexed_offset, times.last[1])
        except FileNotFoundError:
            self._index_problem(times_path.name, 0, "the index is missing")
        except CorruptRecordError as error:
            self._index_problem(times_path.name, error.position, error.reason)

    def read(self, file: ReadFile, size: int) -> None:
        """Read all batches, as far as there are some."""
        try:
            for batch in SegmentReader(file, self.path, size).scan():
                self._batch(batch)
        except CorruptRecordError as error:
            self._broken(_Open(error.position, self.next_offset, error.reason))
        else:
            if self._position < size:
                problem = (
                    f"the batch at the end is incomplete: it has {size - self._position} bytes"
                )
                self._broken(_Open(self._position, self.next_offset, problem, is_cut_short=True))

    def forgive_tail(
        self, file: ReadFile, size: int, circumstances: Circumstances, recovery_point: int
    ) -> None:
        """Accept an incomplete end of a log: a write in progress, or one torn by a crash."""
        broken = self._open
        if broken is None:
            return
        is_growing = circumstances.in_use and broken.is_cut_short
        # A torn write is at or behind the recovery point, and no batch follows it.
        is_torn = (
            not circumstances.in_use
            and not circumstances.clean
            and broken.first_offset >= recovery_point
            and next_batch(file, broken.position + 1, size, broken.first_offset) is None
        )
        if is_growing or is_torn:
            self._open = None

    def end(self, known_end: int) -> None:
        """Make the checks that need the whole segment; the last one goes to a known end."""
        sound, end = self._open is None, known_end if self._next_base is None else self._next_base
        if self._open is not None:
            self._close(None if self._next_base is None else end - 1)
        elif self.next_offset < end and not self._has_gaps:
            self._note(
                self._position, "the segment ends before this position", self.next_offset, end - 1
            )
        if sound and self._entries:
            self._entry_problem(self._entries[0], "no batch begins there")
        if sound and not self._entries and self._indexed_offset >= self.next_offset:
            name = names.index_file(self._base_offset)
            self._index_problem(name, 0, f"an entry has offset {self._indexed_offset}")
        for file, (position, problem) in self._index_problems.items():
            self.damage.append(
                Damage(
                    base_offset=self._base_offset,
                    file=file,
                    position=position,
                    problem=problem,
                    first_offset=self._base_offset,
                    last_offset=self.next_offset - 1,
                    in_index=True,
                )
            )

    def _batch(self, batch: ScannedBatch) -> None:
        header = batch.header
        problem = self._problem(batch)
        self._meet_entries(batch, judged=problem is None)
        self._position = batch.position + header.size
        if problem is not None:
            self._broken(_Open(batch.position, self.next_offset, problem))
            return
        if self._open is not None:
            self._close(header.base_offset - 1)
        self.next_offset = header.next_offset
        self._meet_epoch(batch)

    def _problem(self, batch: ScannedBatch) -> str | None:
        header = batch.header
        if not crc_is_valid(batch.data, 0, header):
            return "wrong CRC"
        first, last = header.base_offset, header.last_offset
        beyond = self._next_base is not None and last >= self._next_base
        if first < self.next_offset or last < first or beyond:
            return f"expected offset {self.next_offset}, got offsets {first} to {last}"
        if first > self.next_offset and self._open is None and not self._has_gaps:
            return f"expected offset {self.next_offset}, got {first}"
        if header.partition_leader_epoch < self._epochs.before:
            return f"leader epoch {header.partition_leader_epoch} after {self._epochs.latest}"
        return None

    def _meet_epoch(self, batch: ScannedBatch) -> None:
        epochs, header = self._epochs, batch.header
        epoch = header.partition_leader_epoch
        if epoch < epochs.latest:
            problem = f"leader epoch {epochs.latest} before {epoch}"
            last = header.base_offset - 1
            damage = self._damage(epochs.position, problem, epochs.first_offset, last)
            name = names.log_file(epochs.base_offset)
            self.damage.append(replace(damage, base_offset=epochs.base_offset, file=name))
        elif epoch > epochs.latest:
            epochs.before = epochs.latest
            epochs.base_offset, epochs.position = self._base_offset, batch.position
            epochs.first_offset = header.base_offset
        epochs.latest = epoch

    def _meet_entries(self, batch: ScannedBatch, *, judged: bool) -> None:
        """Compare the index entries that name this batch, or a place before its end."""
        entries = self._entries
        while entries and entries[0][1] < batch.position + batch.header.size:
            entry = entries.popleft()
            if not judged:
                continue
            if entry[1] != batch.position:
                self._entry_problem(entry, "no batch begins there")
            elif entry[0] < batch.header.base_offset:
                self._entry_problem(entry, f"offset {batch.header.base_offset} begins there")

    def _entry_problem(self, entry: tuple[int, int], problem: str) -> None:
        offset, position = entry
        name = names.index_file(self._base_offset)
        self._index_problem(name, 0, f"an entry has offset {offset} at byte {position}: {problem}")

    def _index_problem(self, name: str, position: int, problem: str) -> None:
        self._index_problems.setdefault(name, (position, problem))

    def _broken(self, broken: _Open) -> None:
        if self._open is None:
            self._open = broken

    def _close(self, last_offset: int | None) -> None:
        assert self._open is not None
        self._note(self._open.position, self._open.problem, self._open.first_offset, last_offset)
        self._open = None

    def _note(self, position: int, problem: str, first_offset: int, last: int | None) -> None:
        self.damage.append(self._damage(position, problem, first_offset, last))

    def _damage(self, position: int, problem: str, first_offset: int, last: int | None) -> Damage:
        return Damage(
            base_offset=self._base_offset,
            file=self.path.name,
            position=position,
            problem=problem,
            first_offset=first_offset,
            last_offset=last,
        )


class _Throttled:
    """A file that is read at a bounded rate."""

    def __init__(self, file: ReadFile, throttle: Throttle) -> None:
        self._file = file
        self._throttle = throttle

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes, and wait as long as the rate demands."""
        data = self._file.pread(size, position)
        self._throttle(len(data))
        return data
