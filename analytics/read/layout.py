"""Content of a metadata log directory, and how a replay goes through it.

    00000000000000000000.log                     segment, named by its first offset
    00000000000000012345-0000000007.checkpoint   snapshot of everything below 12345, epoch 7

Everything else is left alone, unfinished files (`.checkpoint.part`) and files that wait for their
deletion (`.deleted`) among it. The log is read from its first segment on. Where it does not begin
at offset 0, states can be followed only from a snapshot on: the oldest whose end lies in the log.
Every other complete snapshot is held against the replayed state at its end offset. Where no segment
holds a batch, the newest snapshot is all that is known: nothing leads from one to the next.

Planning reads the beginning and the end of the log, some kilobytes around each cut, and snapshots;
so it takes the same time for segments of any size. Whatever is wrong between two cuts is found by
the task that reads there, `read.split_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from analytics.errors import ReplayInputError, reason_of
from analytics.read.batch_headers import Batches, chain, crc_is_right, headers
from analytics.read.batch_walk import Problem, walk_batches
from analytics.read.boundaries import Boundary, find_boundary, first_epoch
from analytics.read.metadata_dirs import base_offset_of, is_log_or_snapshot, is_segment, is_snapshot
from analytics.read.transport import mangled
from analytics.store.log_files import LogFiles, open_files
from jbodlab.metadata.log.snapshots import parse_name
from jbodlab.metadata.records.control_records import (
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_type,
    decode_control,
)
from jbodlab.record_batch.record_batch import CONTROL, BatchRecord, iterate_records, read_header
from jbodlab.vocabulary.errors import DecodeError

SPLIT_BYTES = 16 << 20
"""Bytes of one task; a batch is never cut."""

SPLITS_MIN = 8
"""Into how many tasks a log is cut at least, if it is not very small."""
SPLIT_BYTES_MIN = 1 << 20

_FIRST_BATCHES_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A complete snapshot: it holds the effect of every record below `end_offset`."""

    name: str
    end_offset: int
    timestamp_ms: int
    """Time of the last record that it contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The work of one task: some bytes of one file, from batch to batch."""

    file: str
    start: int
    end: int
    snapshot: SnapshotFile | None
    """The snapshot that the file is; None for a segment."""
    source: str = ""
    """Directory that the file lies in, a path or URI."""
    expected: int | None = None
    """Offset that the first batch should begin with; None if that is not known."""
    following: Boundary | None = None
    """The batch behind the last one; None at the end of the log."""
    cluster: str | None = None
    """Label of the cluster; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A metadata log directory, as far as planning looks at it."""

    source: str
    """The directory as a path or URI."""
    splits: tuple[Split, ...]
    problems: tuple[Problem, ...]
    """Problems of files as a whole; problems inside a split are found by its task."""
    snapshots: tuple[SnapshotFile, ...]
    """Complete ones, by end offset."""
    start_offset: int | None
    """First offset of the log; None if no segment holds a batch."""
    log_end_offset: int
    """The offset behind the last record of the log; 0 if no segment holds a batch."""
    end_offset: int
    """The offset behind the last record of log and snapshots."""
    size_bytes: int

    @property
    def replay_from(self) -> int:
        """Offset from which on states are followed; what lies before has no known start."""
        start = self.start_offset
        if start == 0:
            return 0
        ends = [snapshot.end_offset for snapshot in self.snapshots]
        if start is None:
            return max(ends, default=0)
        return min((end for end in ends if end >= start), default=max(ends, default=start))

    @property
    def sync_offsets(self) -> tuple[int, ...]:
        """Ends of the snapshots that the replay meets on its way."""
        begin = self.replay_from
        return tuple(sorted({s.end_offset for s in self.snapshots if s.end_offset >= begin}))


def read_layout(directory: Path | str, split_bytes: int | None = None) -> Layout:
    """Read the layout of a metadata log directory.

    Args:
        directory: A path, or the URI of a directory on a Hadoop file system.
        split_bytes: Bytes of one task; without it, what suits the size of the log.

    Raises:
        ReplayInputError: the directory cannot be listed.
    """
    source = str(directory)
    try:
        files = open_files(source)
        entries = files.entries()
    except (OSError, ValueError) as error:
        raise ReplayInputError(f"input {source} cannot be read: {reason_of(error)}") from error
    sizes = {name: size for name, size in sorted(entries.items()) if size is not None}
    sizes = {name: size for name, size in sizes.items() if is_log_or_snapshot(name)}
    if split_bytes is None:
        split_bytes = min(SPLIT_BYTES, max(SPLIT_BYTES_MIN, sum(sizes.values()) // SPLITS_MIN))
    reader = _LayoutReader(source, files, split_bytes)
    reader.read_segments({name: size for name, size in sizes.items() if is_segment(name)})
    reader.read_snapshots({name: size for name, size in sizes.items() if is_snapshot(name)})
    return with_missing_start(reader.layout(sum(sizes.values())))


def with_missing_start(layout: Layout) -> Layout:
    """Return a layout with the problem of what is missing in front of the log, if there is one."""
    missing = _missing_start(layout)
    return layout if missing is None else replace(layout, problems=(*layout.problems, missing))


def segment_splits(
    source: str, files: LogFiles, file: str, start: int, end: int, split_bytes: int, expected: int
) -> list[Split]:
    """Cut a part of a segment into splits; the last one has nothing following it.

    Args:
        source: Directory of the segment.
        files: It, opened.
        file: Name of the segment.
        start: Where the part begins, at a batch.
        end: Where it ends.
        split_bytes: Size of a split, from which on the next batch is looked for.
        expected: Offset that should stand at `start`.
    """
    splits: list[Split] = []
    begin = Boundary(file=file, position=start, base_offset=expected, epoch=None)
    target = start + split_bytes
    while target < end:
        found = find_boundary(
            lambda at, length: files.read(file, at, min(length, end - at)),
            file,
            end,
            target,
            begin.base_offset,
        )
        if found is not None:
            splits.append(_split(source, begin, found.position, found))
            begin = found
        target = max(target, begin.position) + split_bytes
    splits.append(_split(source, begin, end, None))
    return splits


def _split(source: str, begin: Boundary, end: int, following: Boundary | None) -> Split:
    return Split(
        file=begin.file,
        start=begin.position,
        end=end,
        snapshot=None,
        source=source,
        expected=begin.base_offset,
        following=following,
    )


class _LayoutReader:
    """State of reading a layout, file after file."""

    def __init__(self, source: str, files: LogFiles, split_bytes: int) -> None:
        self.source = source
        self.files = files
        self.split_bytes = split_bytes
        self.splits: list[Split] = []
        self.problems: list[Problem] = []
        self.snapshots: list[SnapshotFile] = []
        self.start_offset: int | None = None
        self.next_base = 0
        """Name of the last segment, which may be empty."""
        self.log_end_offset = 0
        self.end_offset = 0

    def layout(self, size_bytes: int) -> Layout:
        return Layout(
            source=self.source,
            splits=tuple(self.splits),
            problems=tuple(self.problems),
            snapshots=tuple(self.snapshots),
            start_offset=self.start_offset,
            log_end_offset=self.log_end_offset,
            end_offset=self.end_offset,
            size_bytes=size_bytes,
        )

    def read_segments(self, sizes: Mapping[str, int]) -> None:
        segments: list[list[Split]] = []
        for name, size in sizes.items():
            base = self.next_base = base_offset_of(name)
            if size == 0:
                continue
            try:
                splits = segment_splits(
                    self.source, self.files, name, 0, size, self.split_bytes, base
                )
                beginning = self.files.read(name, 0, _FIRST_BATCHES_BYTES)
                epoch, begins_epoch = first_epoch(beginning)
            except OSError as error:
                self.problems.append(_unreadable(name, error))
                continue
            if segments:
                begin = Boundary(
                    file=name, position=0, base_offset=base, epoch=epoch, begins_epoch=begins_epoch
                )
                segments[-1][-1] = replace(segments[-1][-1], following=begin)
            segments.append(splits)
        self.splits += (split for splits in segments for split in splits)
        try:
            self._find_ends()
        except OSError as error:
            self.problems.append(_unreadable(self.splits[-1].file, error))

    def _find_ends(self) -> None:
        """Find the first and the last offset of the log."""
        for split in self.splits:
            first = self._walk(split, _FIRST_BATCHES_BYTES)[0]
            if first is None:
                first = self._walk(split, split.end - split.start)[0]
            if first is not None:
                self.start_offset = first
                break
        for split in reversed(self.splits):
            first, behind = self._walk(split, split.end - split.start)
            if first is not None:
                self.log_end_offset = self.end_offset = behind
                break

    def _walk(self, split: Split, length: int) -> tuple[int | None, int]:
        """Return the first offset in the beginning of a split, and the one behind the last."""
        data = self.files.read(split.file, split.start, min(length, split.end - split.start))
        batches = read_chain(data)
        whole = len(batches) and int(batches.end[-1]) == len(data) == split.end - split.start
        if len(batches) > 1 and batches.in_order and batches.base_offset[0] == split.expected:
            if whole or length < split.end - split.start:
                return int(batches.base_offset[0]), int(batches.last_offset[-1]) + 1
        elif length < split.end - split.start:
            return None, 0
        assert split.expected is not None
        following = None if split.following is None else split.following.base_offset
        walk = walk_batches(
            data,
            file=split.file,
            expected=split.expected,
            following=following,
            stretch_bytes=self.split_bytes,
        )
        return walk.first_offset, walk.next_offset

    def read_snapshots(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            try:
                read = self._read_snapshot(name, self.files.read(name, 0, size))
            except OSError as error:
                read = _unreadable(name, error)
            if isinstance(read, Problem):
                self.problems.append(read)
            else:
                self._add_snapshot(*read)
        newest = max(self.snapshots, key=lambda snapshot: snapshot.end_offset, default=None)
        if newest is None or newest.end_offset <= self.end_offset:
            return
        if self.start_offset is not None:
            text = f"log ends at {self.end_offset}, before snapshot {newest.name}"
            self.problems.append(Problem(None, self.end_offset, "gap", text))
        elif self.next_base != newest.end_offset:
            # Else the log was begun anew behind a snapshot that was received.
            last = max(self.next_base, newest.end_offset) - 1
            text = f"offsets 0 to {last} are missing: the log has no record, {newest.name} is known"
            self.problems.append(Problem(None, 0, "gap", text))
        self.end_offset = newest.end_offset

    def _read_snapshot(self, name: str, data: bytes) -> tuple[SnapshotFile, list[Split]] | Problem:
        """Check a snapshot from end to end: a damaged one must not pass for the truth."""
        batches = read_chain(data)
        reached = int(batches.end[-1]) if len(batches) else 0
        if reached != len(data) or not batches.in_order:
            hint = mangled(data, reached)
            text = f"the snapshot is cut short{hint and f': {hint} ({name})'}"
            return Problem(name, None, "torn_tail", text, reached)
        end_offset, epoch = parse_name(name)
        strange = np.nonzero(batches.epoch != epoch)[0]
        if len(strange):
            found, position = int(batches.epoch[strange[0]]), int(batches.position[strange[0]])
            text = f"epoch {found} in the snapshot of epoch {epoch}"
            return Problem(name, None, "epoch", text, position)
        wrong = np.nonzero(~crc_is_right(data, batches))[0]
        if len(wrong):
            position = int(batches.position[wrong[0]])
            text = f"CRC of the batch at position {position} of the snapshot is wrong"
            return Problem(name, None, "crc", text, position)
        controls: list[BatchRecord] = []
        header = None
        for position in batches.position[batches.attributes & CONTROL != 0].tolist():
            try:
                controls += iterate_records(data, position, read_header(data, position))
                if header is None and controls:
                    header = decode_control(controls[0].key, controls[0].value)
            except DecodeError as error:
                return Problem(name, None, "undecodable", str(error), position)
        if not isinstance(header, SnapshotHeaderRecord):
            return Problem(name, None, "incomplete_snapshot", "the snapshot has no header")
        # Between the two there may be records of a later release, which nobody here knows.
        if control_type(controls[-1].key) != SnapshotFooterRecord.CONTROL_TYPE:
            return Problem(name, None, "incomplete_snapshot", "the snapshot has no footer")
        snapshot = SnapshotFile(
            name=name, end_offset=end_offset, timestamp_ms=header.last_contained_log_timestamp
        )
        return snapshot, self._snapshot_splits(snapshot, batches.end.tolist())

    def _snapshot_splits(self, snapshot: SnapshotFile, ends: list[int]) -> list[Split]:
        cuts = [0]
        for end in ends:
            if end - cuts[-1] >= self.split_bytes:
                cuts.append(end)
        if cuts[-1] < ends[-1]:
            cuts.append(ends[-1])
        return [
            Split(file=snapshot.name, start=start, end=end, snapshot=snapshot, source=self.source)
            for start, end in pairwise(cuts)
        ]

    def _add_snapshot(self, snapshot: SnapshotFile, splits: list[Split]) -> None:
        """Take a snapshot; of two with the same end offset, that of the later epoch counts."""
        if self.snapshots and self.snapshots[-1].end_offset == snapshot.end_offset:
            older = self.snapshots.pop()
            while self.splits and self.splits[-1].snapshot == older:
                self.splits.pop()
            text = f"another snapshot of the same end offset, {snapshot.name}, is newer"
            self.problems.append(Problem(older.name, older.end_offset, "disagreement", text))
        self.snapshots.append(snapshot)
        self.splits += splits


def read_chain(data: bytes) -> Batches:
    """Return the headers of the whole batches that bytes begin with."""
    positions, _ = chain(data, 0, len(data))
    return headers(np.frombuffer(data, dtype=np.uint8), positions)


def _missing_start(layout: Layout) -> Problem | None:
    """Return the problem of a log that begins where no snapshot leads to."""
    start = layout.start_offset
    if start is None or start == 0 or layout.replay_from > start:
        return None
    ends = [snapshot.end_offset for snapshot in layout.snapshots]
    if start in ends:
        return None
    known = max(ends, default=0)
    text = f"offsets {known} to {start - 1} are missing: the log begins at {start}"
    return Problem(None, known, "gap", text)


def _unreadable(name: str, error: OSError) -> Problem:
    return Problem(name, None, "unreadable", reason_of(error))
