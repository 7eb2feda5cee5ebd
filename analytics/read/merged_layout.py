"""Several copies of one metadata log as one log: what no copy has alone, they have together.

Controllers and brokers of a cluster append the same batches at the same offsets, but cut them into
segments, delete old ones, and lag behind as each does by itself. So a copy is a set of runs: sound
batches of one epoch, one behind the other in a file. The log is put together from the front, each
time from the copy that goes on longest:

* of two copies that hold an offset in different epochs the later epoch is right: the other one was
  appended by a leader whose epoch ended before the quorum had it (Raft, section 5.3);
* so epochs never go back: what a copy has of an earlier epoch behind the begin of a later one was
  cut off by the others;
* a batch whose CRC is wrong is in no run, so that another copy's takes its place.

Snapshots are taken from the first copy in which they are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter

import numpy as np

from analytics.errors import ReplayInputError, reason_of
from analytics.read.batch_headers import Batches, chain, crc_is_right, headers
from analytics.read.batch_walk import Problem, walk_batches
from analytics.read.boundaries import Boundary
from analytics.read.layout import (
    SPLIT_BYTES,
    Layout,
    SnapshotFile,
    Split,
    read_chain,
    read_layout,
    segment_splits,
    with_missing_start,
)
from analytics.read.metadata_dirs import is_snapshot
from analytics.store.log_files import open_files
from jbodlab.metadata.log.snapshots import parse_name
from jbodlab.record_batch.record_batch import CONTROL

SEVERAL = ", "
"""Between the directories of several copies, where they are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sound batches of one epoch, one behind the other in a file of a copy.

    Attributes:
        copy: Number of the copy.
        start: Byte at which the first one begins.
        end: The byte behind the last one.
        first: Its first offset.
        behind: The offset behind the last one.
        begins_epoch: Whether the first one is a control batch.
    """

    copy: int
    file: str
    start: int
    end: int
    first: int
    behind: int
    epoch: int
    begins_epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a run that belongs to the log."""

    run: Run
    first: int
    behind: int


def merged_layout(folders: Sequence[str]) -> Layout:
    """Read the layout of a log of which there are copies.

    Raises:
        ReplayInputError: one cannot be listed.
    """
    layouts = [read_layout(folder) for folder in folders]
    runs = [run for number, layout in enumerate(layouts) for run in _runs(number, layout)]
    pieces = put_together(runs)
    splits: list[Split] = []
    for piece in pieces:
        own = _splits(folders[piece.run.copy], piece)
        if splits and own:
            begin = Boundary(
                file=own[0].file,
                position=own[0].start,
                base_offset=piece.first,
                epoch=piece.run.epoch,
                begins_epoch=piece.run.begins_epoch and piece.first == piece.run.first,
            )
            splits[-1] = replace(splits[-1], following=begin)
        splits += own
    snapshots, of_snapshots, problems = _snapshots(layouts)
    last = snapshots[-1].end_offset if snapshots else 0
    log_end = pieces[-1].behind if pieces else 0
    if pieces and last > log_end:
        text = f"log ends at {log_end}, before snapshot {snapshots[-1].name}"
        problems.append(Problem(None, log_end, "gap", text))
    elif not pieces:
        newest = max(layouts, key=attrgetter("end_offset"))
        problems += (problem for problem in newest.problems if problem.file is None)
    splits += of_snapshots
    return with_missing_start(
        Layout(
            source=SEVERAL.join(folders),
            splits=tuple(splits),
            problems=tuple(problems),
            snapshots=tuple(snapshots),
            start_offset=pieces[0].first if pieces else None,
            log_end_offset=log_end,
            end_offset=max(log_end, last),
            size_bytes=sum(split.end - split.start for split in splits),
        )
    )


def put_together(runs: Iterable[Run]) -> list[Piece]:
    """Choose the runs that make the log, in the order of their offsets."""
    ordered = sorted(runs, key=attrgetter("first", "copy"))
    pieces: list[Piece] = []
    # Those that begin at or before `offset`, the best one first; what is over goes when it is met.
    here: list[tuple[int, int, int, int]] = []
    coming = raised = 0
    offset, epoch = (ordered[0].first if ordered else 0), -1
    while True:
        while coming < len(ordered) and ordered[coming].first <= offset:
            run = ordered[coming]
            heappush(here, (-run.epoch, -run.behind, run.copy, coming))
            coming += 1
        while here and (-here[0][1] <= offset or -here[0][0] < epoch):
            heappop(here)
        if not here:
            while coming < len(ordered) and ordered[coming].epoch < epoch:
                coming += 1
            if coming == len(ordered):
                return pieces
            offset = ordered[coming].first
            continue
        best = [heappop(here)]
        while here and here[0][:2] == best[0][:2]:
            best.append(heappop(here))
        last = pieces[-1].run.copy if pieces else -1
        chosen = ordered[next((one for one in best if one[2] == last), best[0])[3]]
        # Epochs and offsets only rise, and so does the place of the first run of a later epoch.
        raised = max(raised, coming)
        while raised < len(ordered) and ordered[raised].epoch <= chosen.epoch:
            raised += 1
        behind = chosen.behind
        if raised < len(ordered):
            behind = min(behind, ordered[raised].first)
        pieces.append(Piece(run=chosen, first=offset, behind=behind))
        offset, epoch = behind, chosen.epoch


def _runs(copy: int, layout: Layout) -> Iterator[Run]:
    """Yield the runs of a copy."""
    current: Run | None = None
    for split in layout.splits:
        if split.snapshot is not None:
            continue
        try:
            data = open_files(split.source).read(split.file, split.start, split.end - split.start)
        except OSError as error:
            raise ReplayInputError(
                f"input {split.source} cannot be read: {split.file}: {reason_of(error)}"
            ) from error
        for batches in _sound(data, split):
            for part in _of_one_epoch(batches):
                run = Run(
                    copy=copy,
                    file=split.file,
                    start=split.start + int(part.position[0]),
                    end=split.start + int(part.end[-1]),
                    first=int(part.base_offset[0]),
                    behind=int(part.last_offset[-1]) + 1,
                    epoch=int(part.epoch[0]),
                    begins_epoch=bool(part.attributes[0] & CONTROL),
                )
                if current is not None and _goes_on(current, run):
                    current = replace(current, end=run.end, behind=run.behind)
                    continue
                if current is not None:
                    yield current
                current = run
    if current is not None:
        yield current


def _goes_on(run: Run, other: Run) -> bool:
    return (run.file, run.end, run.behind, run.epoch) == (
        other.file,
        other.start,
        other.first,
        other.epoch,
    )


def _sound(data: bytes, split: Split) -> Iterator[Batches]:
    """Yield the batches of bytes that are what they say, chain by chain."""
    batches = read_chain(data)
    if len(batches) and int(batches.end[-1]) == len(data) and batches.in_order:
        chains = [batches]
    else:
        walk = walk_batches(
            data,
            file=split.file,
            expected=split.expected or 0,
            following=None if split.following is None else split.following.base_offset,
            stretch_bytes=len(data) + 1,
        )
        array = np.frombuffer(data, dtype=np.uint8)
        chains = [headers(array, chain(data, one.start, one.end)[0]) for one in walk.stretches]
    for found in chains:
        right = crc_is_right(data, found)
        # Where one is damaged, or offsets do not follow one another, a run ends.
        cut = ~right[1:] | ~right[:-1] | (found.base_offset[1:] != found.last_offset[:-1] + 1)
        edges = [0, *(np.nonzero(cut)[0] + 1).tolist(), len(found)]
        for begin, end in pairwise(edges):
            if end > begin and right[begin]:
                yield found.select(slice(begin, end))


def _of_one_epoch(batches: Batches) -> Iterator[Batches]:
    changes = np.nonzero(batches.epoch[1:] != batches.epoch[:-1])[0] + 1
    edges = [0, *changes.tolist(), len(batches)]
    for begin, end in pairwise(edges):
        yield batches.select(slice(begin, end))


def _splits(folder: str, piece: Piece) -> list[Split]:
    """Return the splits of a piece."""
    run = piece.run
    files = open_files(folder)
    start, end = run.start, run.end
    if piece.first > run.first or piece.behind < run.behind:
        data = files.read(run.file, run.start, run.end - run.start)
        batches = read_chain(data)
        inside = (batches.last_offset >= piece.first) & (batches.base_offset < piece.behind)
        rows = np.nonzero(inside)[0]
        if not len(rows):
            return []
        start = run.start + int(batches.position[rows[0]])
        end = run.start + int(batches.end[rows[-1]])
    return segment_splits(folder, files, run.file, start, end, SPLIT_BYTES, piece.first)


def _snapshots(layouts: Sequence[Layout]) -> tuple[list[SnapshotFile], list[Split], list[Problem]]:
    """Return the snapshots of all copies, their splits, and what is wrong with others."""
    found: dict[str, tuple[SnapshotFile, list[Split]]] = {}
    for layout in layouts:
        splits: dict[str, list[Split]] = {}
        for split in layout.splits:
            if split.snapshot is not None:
                splits.setdefault(split.file, []).append(split)
        for snapshot in layout.snapshots:
            found.setdefault(snapshot.name, (snapshot, splits[snapshot.name]))
    problems: list[Problem] = []
    by_end: dict[int, str] = {}
    for name in sorted(found, key=parse_name):
        end = found[name][0].end_offset
        if end in by_end:
            text = f"another snapshot of the same end offset, {name}, is newer"
            problems.append(Problem(by_end[end], end, "disagreement", text))
            found.pop(by_end[end])
        by_end[end] = name
    # Problems inside segments are found by the tasks; they read only what the log is made of.
    problems += dict.fromkeys(
        problem
        for layout in layouts
        for problem in layout.problems
        if problem.file is not None and problem.file not in found and is_snapshot(problem.file)
    )
    ordered = [found[name] for name in sorted(found, key=parse_name)]
    return [one for one, _ in ordered], [split for _, own in ordered for split in own], problems
