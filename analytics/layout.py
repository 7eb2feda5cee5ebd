"""What lies in a metadata log directory, and how a replay goes through it.

    00000000000000000000.log                     segment, named by its first offset
    00000000000000012345-0000000007.checkpoint   snapshot of everything below 12345, epoch 7

Everything else is left alone, unfinished files (`.checkpoint.part`) and files that wait for their
deletion (`.deleted`) among it. The log is read from its first segment on. Where it does not begin
at offset 0, states can be followed only from a snapshot on: the oldest whose end lies in the log.
Every other complete snapshot is held against the replayed state at its end offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path

from analytics.batch_walk import Buffer, Problem, header_at, walk_batches
from analytics.errors import ReplayInputError
from jbodlab.errors import DecodeError
from jbodlab.log.names import LOG_SUFFIX, METADATA_DIR_NAME
from jbodlab.metadata_log.snapshots import parse_name
from jbodlab.protocol.record_batch import crc_is_valid, iterate_records
from jbodlab.records.control_records import (
    ControlRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    decode_control,
)

SPLIT_BYTES = 4 << 20
"""Bytes of one task; a batch is never cut."""

_SEGMENT = re.compile(rf"[0-9]{{20}}{re.escape(LOG_SUFFIX)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A complete snapshot: it holds the effect of every record below `end_offset`."""

    name: str
    end_offset: int
    timestamp_ms: int
    """Time of the last record that it contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The work of one task: a chain of whole batches in one file."""

    file: str
    start: int
    end: int
    snapshot: SnapshotFile | None
    """The snapshot that the file is; None for a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A metadata log directory, read as far as its batch headers tell."""

    directory: Path
    splits: tuple[Split, ...]
    problems: tuple[Problem, ...]
    snapshots: tuple[SnapshotFile, ...]
    """Complete ones, by end offset."""
    start_offset: int | None
    """First offset of the log; None if no segment holds a batch."""
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
            return min(ends, default=0)
        return min((end for end in ends if end >= start), default=max(ends, default=start))

    @property
    def sync_offsets(self) -> tuple[int, ...]:
        """Ends of the snapshots that the replay meets on its way."""
        return tuple(
            sorted({s.end_offset for s in self.snapshots if s.end_offset >= self.replay_from})
        )


def find_metadata_dir(path: Path) -> Path:
    """Return the directory of the metadata log.

    Args:
        path: That directory, or the log directory that contains it.

    Raises:
        ReplayInputError: there is none, or it cannot be read.
    """
    try:
        if not path.exists():
            raise ReplayInputError(f"input {path} does not exist")
        for candidate in (path, path / METADATA_DIR_NAME):
            if candidate.is_dir() and any(map(_is_log_or_snapshot, _names(candidate))):
                return candidate
    except OSError as error:
        raise ReplayInputError(f"input {path} cannot be read: {error.strerror}") from error
    raise ReplayInputError(f"input {path} holds no metadata log")


def read_layout(directory: Path, split_bytes: int = SPLIT_BYTES) -> Layout:
    """Read the layout of a metadata log directory.

    Raises:
        ReplayInputError: the directory cannot be listed.
    """
    names = _names(directory)
    reader = _LayoutReader(directory, split_bytes)
    reader.read_segments([name for name in names if _SEGMENT.fullmatch(name)])
    reader.read_snapshots([name for name in names if _is_snapshot(name)])
    layout = reader.layout()
    missing = _missing_start(layout)
    return layout if missing is None else replace(layout, problems=(*layout.problems, missing))


class _LayoutReader:
    """What has been found so far, file after file."""

    def __init__(self, directory: Path, split_bytes: int) -> None:
        self.directory = directory
        self.split_bytes = split_bytes
        self.splits: list[Split] = []
        self.problems: list[Problem] = []
        self.snapshots: list[SnapshotFile] = []
        self.start_offset: int | None = None
        self.end_offset = 0
        self.size_bytes = 0

    def layout(self) -> Layout:
        return Layout(
            directory=self.directory,
            splits=tuple(self.splits),
            problems=tuple(self.problems),
            snapshots=tuple(self.snapshots),
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            size_bytes=self.size_bytes,
        )

    def read_segments(self, names: list[str]) -> None:
        followers = [*map(_base_offset, names[1:]), None]
        for name, following in zip(names, followers, strict=False):
            try:
                self._read_segment(name, following)
            except OSError as error:
                self.problems.append(_unreadable(name, error))

    def read_snapshots(self, names: list[str]) -> None:
        for name in names:
            try:
                with _contents(self.directory / name) as data:
                    self.size_bytes += len(data)
                    read = _read_snapshot(name, data, self.split_bytes)
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
            self.problems.append(_problem(None, self.end_offset, "gap", text))
        self.end_offset = newest.end_offset

    def _read_segment(self, name: str, following: int | None) -> None:
        expected = _base_offset(name) if self.start_offset is None else self.end_offset
        with _contents(self.directory / name) as data:
            self.size_bytes += len(data)
            walk = walk_batches(
                data,
                file=name,
                expected=expected,
                following=following,
                stretch_bytes=self.split_bytes,
            )
        if self.start_offset is None:
            self.start_offset = walk.first_offset
        self.end_offset = walk.next_offset
        self.problems += walk.problems
        self.splits += (
            Split(file=name, start=stretch.start, end=stretch.end, snapshot=None)
            for stretch in walk.stretches
        )

    def _add_snapshot(self, snapshot: SnapshotFile, splits: list[Split]) -> None:
        """Take a snapshot; of two with the same end offset, that of the later epoch counts."""
        if self.snapshots and self.snapshots[-1].end_offset == snapshot.end_offset:
            older = self.snapshots.pop()
            self.splits = [split for split in self.splits if split.snapshot != older]
            text = f"another snapshot of the same end offset, {snapshot.name}, is newer"
            self.problems.append(_problem(older.name, older.end_offset, "disagreement", text))
        self.snapshots.append(snapshot)
        self.splits += splits


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
    return _problem(None, known, "gap", text)


def _read_snapshot(
    name: str, data: Buffer, split_bytes: int
) -> tuple[SnapshotFile, list[Split]] | Problem:
    """Check a snapshot from end to end: a damaged one must not pass for the truth."""
    position = 0
    cuts = [0]
    controls: list[ControlRecord] = []
    with memoryview(data) as view:
        while position < len(data):
            header = header_at(view, position)
            if header is None:
                return _problem(name, None, "torn_tail", "the snapshot is cut short", position)
            if not crc_is_valid(view, position, header):
                text = f"CRC of the batch at position {position} of the snapshot is wrong"
                return _problem(name, None, "crc", text, position)
            if header.is_control:
                try:
                    with view[position : position + header.size] as batch:
                        controls += (
                            decode_control(record.key, record.value)
                            for record in iterate_records(batch, 0, header)
                        )
                except DecodeError as error:
                    return _problem(name, None, "undecodable", str(error), position)
            position += header.size
            if position - cuts[-1] >= split_bytes:
                cuts.append(position)
    if not controls or not isinstance(controls[0], SnapshotHeaderRecord):
        return _problem(name, None, "incomplete_snapshot", "the snapshot has no header")
    if not isinstance(controls[-1], SnapshotFooterRecord):
        return _problem(name, None, "incomplete_snapshot", "the snapshot has no footer")
    snapshot = SnapshotFile(
        name=name,
        end_offset=parse_name(name)[0],
        timestamp_ms=controls[0].last_contained_log_timestamp,
    )
    ends = [*cuts[1:], position] if cuts[-1] < position else cuts[1:]
    pairs = zip(cuts, ends, strict=False)
    return snapshot, [
        Split(file=name, start=start, end=end, snapshot=snapshot) for start, end in pairs
    ]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise ReplayInputError(f"input {directory} cannot be read: {error.strerror}") from error


def _is_log_or_snapshot(name: str) -> bool:
    return bool(_SEGMENT.fullmatch(name)) or _is_snapshot(name)


def _is_snapshot(name: str) -> bool:
    try:
        parse_name(name)
    except ValueError:
        return False
    return True


def _base_offset(name: str) -> int:
    return int(name.removesuffix(LOG_SUFFIX))


@contextmanager
def _contents(path: Path) -> Iterator[Buffer]:
    """Give the bytes of a file without reading those that nobody looks at."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""  # an empty file cannot be mapped
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            yield data


def _unreadable(name: str, error: OSError) -> Problem:
    return _problem(name, None, "unreadable", f"{error.strerror or error}")


def _problem(
    file: str | None, offset: int | None, kind: str, message: str, position: int | None = None
) -> Problem:
    return Problem(file=file, position=position, offset=offset, kind=kind, message=message)
