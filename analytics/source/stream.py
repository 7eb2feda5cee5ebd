"""The data source as a stream: a log that is still being written, micro-batch by micro-batch.

    spark.readStream.format("kraft-metadata").load("/var/lib/kafka/metadata/__cluster_metadata-0")

A stream gives the records of segments; snapshots, which repeat them, are left out. How far it has
come is, for each directory, a file, a byte position at a batch boundary and the offset that should
follow. Only whole batches are taken: the rest of a torn tail is waited for, as long as it is at the
end of the log. A segment is left behind when the next one exists. Where retention was faster, the
stream goes on at the oldest segment and says what is missing; where the log was cut back, at the
new end. Whatever is damaged becomes rows with a `problem`, as it does without a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from analytics.bytes.batch_headers import chain, headers
from analytics.bytes.batch_walk import Problem, epoch_problem, walk_batches
from analytics.bytes.boundaries import find_boundary
from analytics.bytes.layout import SPLIT_BYTES, Split, read_chain, segment_splits
from analytics.bytes.metadata_dirs import base_offset_of, is_segment
from analytics.decode.arrow_rows import arrow_rows
from analytics.decode.plain_rows import problem_row
from analytics.decode.split_rows import read_split
from analytics.source.options import SourceOptions
from analytics.store.log_files import LogFiles, open_files
from jbodlab.protocol.record_batch import CONTROL, HEADER_SIZE, MAGIC, SIZE_PREFIX

READ_BYTES = 4 << 20
"""Bytes that are looked through at once for whole batches."""


class Place(TypedDict):
    """How far a stream has come in one directory."""

    file: str
    position: int
    offset: int
    epoch: NotRequired[int]
    """Of the last batch; a checkpoint of an earlier version has none."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a stream reads."""

    options: SourceOptions
    schema: pa.Schema


class StreamPartition(InputPartition):
    """One task: a split, or the problems that planning found."""

    def __init__(
        self, split: Split | None, problems: tuple[Problem, ...], label: str | None
    ) -> None:
        super().__init__(None)
        self.split = split
        self.problems = problems
        self.label = label


class KraftMetadataStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the logs in some directories."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.available: dict[str, dict[str, int]] | None = None
        """Sizes of the segments when all that was available was asked for; None without limit."""

    def initialOffset(self) -> dict[str, Place]:  # noqa: N802 - Spark's name
        """Return the beginning of each log."""
        return {
            source: _beginning(_segments(open_files(source)))
            for source in self.plan.options.sources
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much one micro-batch takes."""
        return ReadMaxBytes(self.plan.options.max_bytes_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the stream at what lies there now."""
        self.available = {
            source: _segments(open_files(source)) for source in self.plan.options.sources
        }

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Place], limit: ReadLimit
    ) -> dict[str, Place]:
        """Return the end of the next micro-batch."""
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        assert budget is not None or isinstance(limit, ReadAllAvailable)
        found = dict(start)
        for source in self.plan.options.sources:
            files = open_files(source)
            try:
                sizes = _segments(files) if self.available is None else self.available[source]
                place = start.get(source) or _beginning(sizes)
                found[source] = _Follower(files, sizes).advance(place, budget)
            except OSError:
                continue  # the directory, or a file in it, is gone for now
        return found

    def partitions(
        self, start: dict[str, Place], end: dict[str, Place]
    ) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        tasks: list[InputPartition] = []
        for source, behind in end.items():
            begin = start.get(source)
            if begin is None:
                begin = Place(file=behind["file"], position=0, offset=_base_offset(behind["file"]))
            if begin != behind:
                tasks += self._tasks(source, begin, behind)
        return tasks

    def _tasks(self, source: str, begin: Place, end: Place) -> Iterator[StreamPartition]:
        files = open_files(source)
        sizes = _segments(files)
        label = source if self.plan.options.has_several else None
        expected, epoch = begin["offset"], begin.get("epoch")
        names = {name for name in sizes if begin["file"] <= name <= end["file"]}
        for name in sorted(names | {begin["file"], end["file"]}):
            first = begin["position"] if name == begin["file"] else 0
            last = end["position"] if name == end["file"] else sizes.get(name, first)
            if name == begin["file"] == end["file"] and last < first:
                text = f"the file was cut back from {first} to {last} bytes"
                yield _problem_task(label, name, last, end["offset"], "order", text)
                return
            if last <= first:
                continue
            base = _base_offset(name) if first == 0 else _first_offset(files, name, first)
            if base is not None and base < expected:
                text = f"batch at offset {base} where offset {expected} should follow"
                yield _problem_task(label, name, first, base, "order", text)
                expected = base
            elif base is not None and base > expected and first == 0:
                text = f"offsets {expected} to {base - 1} are missing"
                yield _problem_task(label, name, first, expected, "gap", text)
                expected = base
            wrong = _epoch_problem(files, name, first, epoch, is_next=base == expected)
            if wrong is not None:
                yield _problem_task(label, name, first, expected, "epoch", wrong)
            split_bytes = self.plan.options.split_bytes or SPLIT_BYTES
            try:
                splits = segment_splits(source, files, name, first, last, split_bytes, expected)
            except OSError:
                splits = [
                    Split(file=name, start=first, end=last, snapshot=None, source=source)
                ]  # its task says that it cannot be read
            yield from (StreamPartition(replace(split, label=label), (), label) for split in splits)
            if name != end["file"]:
                expected, epoch = _end_of(files, splits[-1], _End(expected, epoch))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        assert isinstance(partition, StreamPartition)
        options, schema = self.plan.options, self.plan.schema
        if partition.problems:
            rows = [problem_row(problem, partition.label) for problem in partition.problems]
            yield arrow_rows(rows, schema)
        if partition.split is not None:
            yield from read_split(
                partition.split,
                schema,
                with_payload=options.with_payload,
                selection=options.selection,
            )


class _Follower:
    """Finds how far one directory can be read."""

    def __init__(self, files: LogFiles, sizes: Mapping[str, int]) -> None:
        self.files = files
        self.sizes = sizes
        self.names = sorted(sizes)

    def advance(self, place: Place, budget: int | None) -> Place:
        """Return the place behind all whole batches, within a budget of bytes if there is one."""
        begin = place
        left = budget
        while left is None or left > 0:
            following = self._step(place, left)
            if following == place:
                break
            if following["file"] == place["file"]:
                if following["position"] < place["position"]:
                    # Cut back: that alone is a micro-batch, with the problem; if it has begun.
                    return following if place == begin else place
                if left is not None:
                    left -= following["position"] - place["position"]
            place = following
        return place

    def _step(self, place: Place, budget: int | None) -> Place:
        """Return the place one step further, the same if there is nothing to read."""
        name, position = place["file"], place["position"]
        if name not in self.sizes:
            return self._next_file(place)
        size = self.sizes[name]
        if size < position:
            return self._cut_back(name, size)
        is_last = name == self.names[-1]
        if position == size:
            return place if is_last else self._next_file(place)
        length = min(READ_BYTES, size - position, budget or READ_BYTES)
        try:
            data = self.files.read(name, position, max(length, HEADER_SIZE))
            needed = _batch_size(data)
            if needed is not None and len(data) < needed <= size - position:
                data = self.files.read(name, position, needed)
        except OSError:
            # The end of the log is waited for; what lies behind another file is not kept back by
            # it: its task says that it cannot be read.
            return place if is_last else Place({**place, "position": size})
        reached = chain(data, 0, len(data))[1]
        if reached:
            expected = place["offset"] if position else _base_offset(name)
            offset = _next_offset(data[:reached], name, expected)
            end = position + reached
            return Place(file=name, position=end, offset=offset, epoch=_last_epoch(data[:reached]))
        if not is_last:
            # The file will not grow any more: its task says what these bytes are.
            return Place({**place, "position": size})
        # A torn tail may be completed; but batches behind it mean that it is damaged.
        found = find_boundary(
            lambda at, length: self.files.read(name, at, length), name, size, position + 1, -1
        )
        return place if found is None else Place({**place, "position": found.position})

    def _next_file(self, place: Place) -> Place:
        later = [name for name in self.names if name > place["file"]]
        if not later:
            return place
        return Place({**place, "file": later[0], "position": 0})

    def _cut_back(self, name: str, size: int) -> Place:
        """Return the last batch boundary of a file that has become smaller."""
        place = Place(file=name, position=0, offset=_base_offset(name))
        position = 0
        while position < size:
            data = self.files.read(name, position, min(READ_BYTES, size - position))
            needed = _batch_size(data)
            if needed is not None and len(data) < needed <= size - position:
                data = self.files.read(name, position, needed)
            reached = chain(data, 0, len(data))[1]
            if not reached:
                break
            offset = _next_offset(data[:reached], name, place["offset"])
            position += reached
            epoch = _last_epoch(data[:reached])
            place = Place(file=name, position=position, offset=offset, epoch=epoch)
        return place


def _segments(files: LogFiles) -> dict[str, int]:
    entries = files.entries()
    return {
        name: size
        for name, size in sorted(entries.items())
        if size is not None and is_segment(name)
    }


def _beginning(sizes: Mapping[str, int]) -> Place:
    if not sizes:
        return Place(file="", position=0, offset=0)
    first = min(sizes)
    return Place(file=first, position=0, offset=_base_offset(first))


def _batch_size(data: bytes) -> int | None:
    """Return the size of the batch that bytes begin with, None if they cannot be one."""
    if len(data) < HEADER_SIZE:
        return None
    length = int.from_bytes(data[8:SIZE_PREFIX], "big", signed=True)
    is_batch = data[16] == MAGIC and length >= HEADER_SIZE - SIZE_PREFIX
    return length + SIZE_PREFIX if is_batch else None


def _first_offset(files: LogFiles, name: str, position: int) -> int | None:
    try:
        data = files.read(name, position, HEADER_SIZE)
    except OSError:
        return None
    return None if _batch_size(data) is None else int.from_bytes(data[:8], "big", signed=True)


def _next_offset(data: bytes, name: str, expected: int) -> int:
    """Return the offset that follows a chain of whole batches."""
    batches = read_chain(data)
    base = int(batches.base_offset[0])
    if batches.in_order and base <= expected:
        return int(batches.last_offset[-1]) + 1
    return walk_batches(
        data,
        file=name,
        expected=min(base, expected),
        following=None,
        stretch_bytes=len(data) + 1,
    ).next_offset


class _End(NamedTuple):
    """The offset that follows a file, and the epoch of its last batch, if it is known."""

    offset: int
    epoch: int | None


def _end_of(files: LogFiles, split: Split, before: _End) -> _End:
    """Return what follows the last split of a file; `before` if it cannot be read."""
    try:
        data = files.read(split.file, split.start, split.end - split.start)
    except OSError:
        return before
    positions, reached = chain(data, 0, len(data))
    if not len(positions):
        return before
    begin = split.expected if split.expected is not None else before.offset
    found = headers(np.frombuffer(data, dtype=np.uint8), positions)
    base = int(found.base_offset[0])
    return _End(_next_offset(data[:reached], split.file, max(begin, base)), int(found.epoch[-1]))


def _last_epoch(data: bytes) -> int:
    """Return the epoch of the last batch of a chain of whole batches."""
    return int(read_chain(data).epoch[-1])


def _epoch_problem(
    files: LogFiles, name: str, position: int, previous: int | None, *, is_next: bool
) -> str | None:
    """Return what is wrong with the epoch of the batch that a stretch begins with.

    Args:
        files: The log.
        name: Its segment.
        position: Where the stretch begins.
        previous: Epoch of the batch in front of it, if it is known.
        is_next: Whether no offset is missing between the two.
    """
    if previous is None:
        return None
    try:
        data = files.read(name, position, HEADER_SIZE)
    except OSError:
        return None
    if _batch_size(data) is None:
        return None
    found = headers(np.frombuffer(data, dtype=np.uint8), np.zeros(1, dtype=np.int64))
    may_begin = bool(found.attributes[0] & CONTROL) or not is_next
    return epoch_problem(previous, int(found.epoch[0]), may_begin=may_begin)


def _base_offset(name: str) -> int:
    return base_offset_of(name) if name else 0


def _problem_task(
    label: str | None, file: str, position: int, offset: int, kind: str, message: str
) -> StreamPartition:
    problem = Problem(file=file, position=position, offset=offset, kind=kind, message=message)
    return StreamPartition(None, (problem,), label)
