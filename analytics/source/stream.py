"""The data source as a stream: a log that is still being written, micro-batch by micro-batch.

    spark.readStream.format("kraft-metadata").load("/var/lib/kafka/metadata/__cluster_metadata-0")

A stream gives the records of segments; snapshots, which repeat them, are left out. How far it has
come is, for each directory, a file, a byte position at a batch boundary, the offset that should
follow, the cluster, and two batches by which the log is known again. Only whole batches are taken:
the rest of a torn tail is waited for, as long as it is at the end of the log. A segment is left
behind when the next one exists. Where retention was faster, the stream goes on at the oldest
segment and says what is missing. Whatever is damaged becomes rows with a `problem`, as it does
without a stream.

The files that were read may be there no more:

* a file has become shorter: the log was cut back, and is read on from its new end;
* the file is gone and no later one is there, or a batch that was read is another one now: the log
  was written anew, and is read again from its first segment, or from the file that still begins as
  it did. Both are rows with a `problem`, alone in a micro-batch;
* `meta.properties` beside the log names another cluster: that is an error, for its records would
  pass for those of the first one. A directory without `meta.properties` is known by its batches
  only; where one comes or goes while these have changed, that is an error as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from analytics.errors import ReplayInputError
from analytics.read.batch_headers import Batches, chain, headers
from analytics.read.batch_walk import Problem, epoch_problem, walk_batches
from analytics.read.boundaries import find_boundary
from analytics.read.layout import SPLIT_BYTES, Split, read_chain, segment_splits
from analytics.read.log_copies import cluster_id_beside
from analytics.read.metadata_dirs import base_offset_of, is_segment
from analytics.source.options import SourceOptions
from analytics.source.tasks import Task
from analytics.store.log_files import LogFiles, open_files
from jbodlab.record_batch.record_batch import CONTROL, HEADER_SIZE, MAGIC, SIZE_PREFIX

READ_BYTES = 4 << 20
"""Bytes that are looked through at once for whole batches."""


class Known(TypedDict):
    """A batch that was read."""

    file: str
    position: int
    epoch: int
    crc: int


class Place(TypedDict):
    """How far a stream has come in one directory."""

    file: str
    """Empty while the directory holds no segment."""
    position: int
    offset: int
    cluster_id: str | None
    """Id in `meta.properties` beside the log; None without one."""
    first: Known | None
    """The first batch of the file; None while nothing of it was read."""
    last: Known | None
    """The last batch that was read, of this file or of one before."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Plan of a stream."""

    options: SourceOptions
    schema: pa.Schema


class KraftMetadataStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the logs in some directories."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan
        self.available: dict[str, dict[str, int]] | None = None
        """Sizes of the segments when all that was available was asked for; None without limit."""

    def initialOffset(self) -> dict[str, Place]:  # noqa: N802 - Spark's name
        """Return the beginning of each log."""
        return {
            source: _beginning(_segments(open_files(source)), cluster_id_beside(source))
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
        """Return the end of the next micro-batch.

        Raises:
            ReplayInputError: a directory holds another cluster's log than at `start`, or `start`
                does not say which.
        """
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        assert budget is not None or isinstance(limit, ReadAllAvailable)
        found = dict(start)
        for source in self.plan.options.sources:
            files = open_files(source)
            try:
                sizes = _segments(files) if self.available is None else self.available[source]
                cluster_id = cluster_id_beside(source)
                place = _place(start, source) or _beginning(sizes, cluster_id)
                _check_cluster(source, place["cluster_id"], cluster_id)
                follower = _Follower(files, sizes)
                anew = follower.read_anew(place)
                if anew is not None and place["cluster_id"] != cluster_id:
                    raise _another_cluster(source, place["cluster_id"], cluster_id)
                place = Place({**place, "cluster_id": place["cluster_id"] or cluster_id})
                found[source] = follower.advance(place, budget) if anew is None else anew
            except OSError:
                continue  # the directory, or a file in it, is gone for now
        return found

    def partitions(
        self, start: dict[str, Place], end: dict[str, Place]
    ) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch.

        Raises:
            ReplayInputError: as `latestOffset` does.
        """
        tasks: list[InputPartition] = []
        for source in end:
            begin, behind = _place(start, source), _place(end, source)
            if behind is None or begin == behind:
                continue
            # A query that was stopped plans its last micro-batch again, whatever lies there now.
            _check_cluster(source, behind["cluster_id"], cluster_id_beside(source))
            if begin is None:
                begin = _beginning(_segments(open_files(source)), behind["cluster_id"])
            tasks += self._tasks(source, begin, behind)
        return tasks

    def _tasks(self, source: str, begin: Place, end: Place) -> Iterator[Task]:
        files = open_files(source)
        sizes = _segments(files)
        cluster = self.plan.options.sources.get(source)
        if (end["file"], end["position"]) < (begin["file"], begin["position"]):
            text = (
                f"the log was cut back or written anew below offset {begin['offset']}: it is read "
                f"from offset {end['offset']} on"
            )
            yield _problem_task(
                source, cluster, end["file"], end["position"], end["offset"], "order", text
            )
            return
        expected, epoch = begin["offset"], None if begin["last"] is None else begin["last"]["epoch"]
        names = {name for name in sizes if begin["file"] <= name <= end["file"]}
        for name in sorted(names | {begin["file"], end["file"]}):
            first = begin["position"] if name == begin["file"] else 0
            last = end["position"] if name == end["file"] else sizes.get(name, first)
            if last <= first:
                continue
            head = _batch_at(files, name, first)
            base: int | None = _base_offset(name)
            if first:
                base = None if head is None else int(head.base_offset[0])
            is_next = base == expected
            if base is not None and base < expected:
                text = f"batch at offset {base} where offset {expected} should follow"
                yield _problem_task(source, cluster, name, first, base, "order", text)
                expected = base
            elif base is not None and base > expected and first == 0:
                text = f"offsets {expected} to {base - 1} are missing"
                yield _problem_task(source, cluster, name, first, expected, "gap", text)
                expected = base
            wrong = None
            if epoch is not None and head is not None:
                may_begin = bool(head.attributes[0] & CONTROL) or not is_next
                wrong = epoch_problem(epoch, int(head.epoch[0]), may_begin=may_begin)
            if wrong is not None:
                yield _problem_task(source, cluster, name, first, expected, "epoch", wrong)
            split_bytes = self.plan.options.split_bytes or SPLIT_BYTES
            try:
                splits = segment_splits(source, files, name, first, last, split_bytes, expected)
            except OSError:
                splits = [
                    Split(file=name, start=first, end=last, snapshot=None, source=source)
                ]  # its task says that it cannot be read
            yield from (
                Task(replace(split, cluster=cluster), (), source, cluster, end["cluster_id"])
                for split in splits
            )
            if name != end["file"]:
                expected, epoch = _end_of(files, splits[-1], _End(expected, epoch))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        assert isinstance(partition, Task)
        options = self.plan.options
        yield from partition.rows(
            self.plan.schema, options.selection, with_payload=options.with_payload
        )
        if partition.split is None:
            return
        # The directory may have been another one's when it was read: then the task has failed, and
        # nothing of it counts.
        source = partition.split.source
        _check_cluster(source, partition.cluster_id, cluster_id_beside(source))


class _Follower:
    """Finds how far one directory can be read."""

    def __init__(self, files: LogFiles, sizes: Mapping[str, int]) -> None:
        self.files = files
        self.sizes = sizes
        self.names = sorted(sizes)

    def read_anew(self, place: Place) -> Place | None:
        """Return where to begin again if what was read is not there any more; None if it is."""
        name, first, last = place["file"], place["first"], place["last"]
        if name not in self.sizes and self.names and self.names[-1] < name:
            return _beginning(self.sizes, place["cluster_id"])
        if first is not None and not self._may_hold(first):
            return _beginning(self.sizes, place["cluster_id"])
        if last is not None and not self._may_hold(last):
            # The beginning of the file is the same: so is all in front of it.
            is_same = first is not None and first["file"] == last["file"]
            sizes = {name: self.sizes[name]} if is_same else self.sizes
            return _beginning(sizes, place["cluster_id"])
        return None

    def _may_hold(self, batch: Known) -> bool:
        """Return False if there are other bytes in the place of a batch.

        A file that is gone, too short or not to be read says nothing about that.
        """
        if self.sizes.get(batch["file"], 0) < batch["position"] + HEADER_SIZE:
            return True
        found = _header_at(self.files, batch["file"], batch["position"])
        return found is None or int(found.crc[0]) == batch["crc"]

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
            return self._cut_back(place, size)
        is_last = name == self.names[-1]
        if position == size:
            return place if is_last else self._next_file(place)
        try:
            data = self._whole_batches(name, position, size, budget or READ_BYTES)
        except OSError:
            # The end of the log is waited for; what lies behind another file is not kept back by
            # it: its task says that it cannot be read.
            return place if is_last else Place({**place, "position": size})
        if data:
            return _behind(place, data)
        if not is_last:
            # The file will not grow any more: its task says what these bytes are.
            return Place({**place, "position": size})
        # A torn tail may be completed; but batches behind it mean that it is damaged.
        found = find_boundary(
            lambda at, length: self.files.read(name, at, length), name, size, position + 1, -1
        )
        return place if found is None else Place({**place, "position": found.position})

    def _next_file(self, place: Place) -> Place:
        later = bisect_right(self.names, place["file"])
        if later == len(self.names):
            return place
        return Place({**place, "file": self.names[later], "position": 0, "first": None})

    def _cut_back(self, before: Place, size: int) -> Place:
        """Return the last batch boundary of a file that has become smaller."""
        name = before["file"]
        place = _beginning({name: size}, before["cluster_id"])
        while data := self._whole_batches(name, place["position"], size, READ_BYTES):
            place = _behind(place, data)
        return place

    def _whole_batches(self, name: str, position: int, size: int, wanted: int) -> bytes:
        """Return some whole batches of a file, at least one if there is one."""
        length = min(READ_BYTES, size - position, wanted)
        data = self.files.read(name, position, max(length, HEADER_SIZE))
        needed = _batch_size(data)
        if needed is not None and len(data) < needed <= size - position:
            data = self.files.read(name, position, needed)
        return data[: chain(data, 0, len(data))[1]]


def _segments(files: LogFiles) -> dict[str, int]:
    entries = files.entries()
    return {
        name: size
        for name, size in sorted(entries.items())
        if size is not None and is_segment(name)
    }


def _beginning(sizes: Mapping[str, int], cluster_id: str | None) -> Place:
    file = min(sizes, default="")
    return Place(
        file=file,
        position=0,
        offset=_base_offset(file),
        cluster_id=cluster_id,
        first=None,
        last=None,
    )


def _behind(place: Place, data: bytes) -> Place:
    """Return the place behind whole batches that lie at a place."""
    file, position = place["file"], place["position"]
    batches = read_chain(data)
    return Place(
        file=file,
        position=position + len(data),
        offset=_next_offset(data, file, place["offset"] if position else _base_offset(file)),
        cluster_id=place["cluster_id"],
        first=place["first"] if position else _known(batches, file, position, 0),
        last=_known(batches, file, position, -1),
    )


def _known(batches: Batches, file: str, position: int, row: int) -> Known:
    """Return one of some batches of a file; `position` is that of the first one."""
    return Known(
        file=file,
        position=position + int(batches.position[row]),
        epoch=int(batches.epoch[row]),
        crc=int(batches.crc[row]),
    )


def _place(places: Mapping[str, Place], source: str) -> Place | None:
    """Return the place in a directory, None where nothing has been there yet.

    Raises:
        ReplayInputError: an earlier version has written it.
    """
    place = places.get(source)
    if place is not None and "cluster_id" not in place:
        raise ReplayInputError(
            f"the checkpoint of the stream does not say whose log {source} was: an earlier version "
            "wrote it, so start the query with a new checkpointLocation"
        )
    return place if place is not None and place["file"] else None


def _check_cluster(source: str, expected: str | None, found: str | None) -> None:
    """Refuse a directory that is known to hold the log of another cluster."""
    if expected is not None and found is not None and expected != found:
        raise _another_cluster(source, expected, found)


def _another_cluster(source: str, expected: str | None, found: str | None) -> ReplayInputError:
    was, now = (
        "a cluster without meta.properties" if one is None else f"cluster {one}"
        for one in (expected, found)
    )
    return ReplayInputError(
        f"{source} holds the log of {now}, and the stream has followed that of {was}: start a "
        "query with a new checkpointLocation for the one, or put the other one back"
    )


def _batch_size(data: bytes) -> int | None:
    """Return the size of the batch that bytes begin with, None if they cannot be one."""
    if len(data) < HEADER_SIZE:
        return None
    length = int.from_bytes(data[8:SIZE_PREFIX], "big", signed=True)
    is_batch = data[16] == MAGIC and length >= HEADER_SIZE - SIZE_PREFIX
    return length + SIZE_PREFIX if is_batch else None


def _header_at(files: LogFiles, name: str, position: int) -> Batches | None:
    """Return the header that the bytes at a position would be, None if they cannot be read."""
    try:
        data = files.read(name, position, HEADER_SIZE)
    except OSError:
        return None
    if len(data) < HEADER_SIZE:
        return None
    return headers(np.frombuffer(data, dtype=np.uint8), np.zeros(1, dtype=np.int64))


def _batch_at(files: LogFiles, name: str, position: int) -> Batches | None:
    """Return the header of the batch at a position, None if there cannot be one."""
    found = _header_at(files, name, position)
    if found is None or found.magic[0] != MAGIC or found.end[0] < HEADER_SIZE:
        return None
    return found


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
    found = read_chain(data)
    if not len(found):
        return before
    begin = split.expected if split.expected is not None else before.offset
    whole = data[: int(found.end[-1])]
    behind = _next_offset(whole, split.file, max(begin, int(found.base_offset[0])))
    return _End(behind, int(found.epoch[-1]))


def _base_offset(name: str) -> int:
    return base_offset_of(name) if name else 0


def _problem_task(
    source: str,
    cluster: str | None,
    file: str,
    position: int,
    offset: int,
    kind: str,
    message: str,
) -> Task:
    return Task(None, (Problem(file, offset, kind, message, position),), source, cluster)
