"""Work of a task on a split: read its bytes, check the chain of batches, decode.

A split of a sound log is one chain of batches from its first byte to its last, from the offset that
it should begin with to the one that follows it. Whatever differs is walked through batch by batch
(`read.batch_walk`), which says what is wrong and which stretches hold batches. So a split is
checked by itself, and together the splits are checked as a walk over the whole log would.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.errors import reason_of
from analytics.read.arrow_rows import ALL, Selection, arrow_rows, decode_batches
from analytics.read.batch_headers import Batches, chain, headers
from analytics.read.batch_walk import Problem, epoch_problem, walk_batches
from analytics.read.boundaries import Boundary
from analytics.read.layout import Split
from analytics.read.plain_rows import SourceRow, problem_row
from analytics.read.typed_columns import STRUCTS
from analytics.store.log_files import open_files
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Numbers of the settings in glibc's malloc.h."""
_KEPT_BYTES = 32 << 20

PARTITION_TYPES = (PartitionRecord.NAME, PartitionChangeRecord.NAME)

COLUMNS = pa.schema(
    [
        ("cluster", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("snapshot", pa.bool_()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("epoch", pa.int32()),
        ("batch_base_offset", pa.int64()),
        ("batch_last_offset", pa.int64()),
        ("replay_offset", pa.int64()),
        ("replay_time", pa.timestamp("us", tz="UTC")),
        ("replay_position", pa.int64()),
        ("control", pa.bool_()),
        ("type", pa.string()),
        ("version", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("payload", pa.string()),
        ("value", pa.binary()),
        *STRUCTS.items(),
        ("problem", pa.string()),
        ("message", pa.string()),
    ]
)
"""Columns of a row of the data source."""


def read_split(
    split: Split, schema: pa.Schema, *, with_payload: bool = True, selection: Selection = ALL
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, those of problems included; nothing in a file raises.

    Args:
        split: The split to read.
        schema: The columns that are wanted, among those of the data source.
        with_payload: Whether the JSON text of records is wanted; without, it is null.
        selection: Which records are wanted.
    """
    _keep_memory()
    try:
        raw = open_files(split.source).read(split.file, split.start, split.end - split.start)
    except (OSError, ValueError) as error:
        # Retention may delete a segment between planning and reading.
        row = _problem_row(split, split.start, None, "unreadable", reason_of(error))
        yield arrow_rows([row], schema)
        return
    batches, problems = check_split(raw, split)
    if problems:
        yield arrow_rows(problems, schema)
    yield from decode_batches(
        raw, batches, split, schema, with_payload=with_payload, selection=selection
    )


@lru_cache(maxsize=1)
def _keep_memory() -> None:
    """Let this process keep the memory of arrays that are gone: the next ones need as much.

    The C library would give it back to the system and ask for it again, some pages at a time, which
    takes a tenth of the time of decoding. Arrow's own allocator does that, whatever is set.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def check_split(raw: bytes, split: Split) -> tuple[Batches, list[SourceRow]]:
    """Return the batches of a split, and the problems of their chain.

    Args:
        raw: The bytes of the split, fewer if the file has changed since it was planned.
        split: Where they lie, and what should stand there.
    """
    positions, reached = chain(raw, 0, len(raw))
    batches = headers(np.frombuffer(raw, dtype=np.uint8), positions)
    is_whole = reached == len(raw) == split.end - split.start
    if is_whole and _is_as_planned(batches, split):
        return batches, []
    if split.snapshot is not None:
        text = "the snapshot has changed while it was read"
        return batches, [_problem_row(split, split.start + reached, None, "torn_tail", text)]
    return _walk(raw, split)


def _is_as_planned(batches: Batches, split: Split) -> bool:
    if split.snapshot is not None:
        return True
    if not len(batches):
        return split.start == split.end
    following = split.following
    return (
        batches.in_order
        and (split.expected is None or batches.base_offset[0] == split.expected)
        and (
            following is None
            or (
                batches.last_offset[-1] + 1 == following.base_offset
                and _following_epoch_problem(batches, following, is_next=True) is None
            )
        )
    )


def _walk(raw: bytes, split: Split) -> tuple[Batches, list[SourceRow]]:
    """Walk through a split in which something is wrong."""
    following = split.following
    walk = walk_batches(
        raw,
        file=split.file,
        expected=split.expected or 0,
        following=None if following is None else following.base_offset,
        stretch_bytes=len(raw) + 1,
    )
    problems = [
        problem_row(_placed(problem, split), split.source, split.cluster)
        for problem in walk.problems
    ]
    if len(raw) < split.end - split.start and not problems:
        text = f"the file ends {split.end - split.start - len(raw)} bytes before it did"
        problems.append(
            _problem_row(split, split.start + len(raw), walk.next_offset, "torn_tail", text)
        )
    positions = [
        found
        for stretch in walk.stretches
        for found in chain(raw, stretch.start, stretch.end)[0].tolist()
    ]
    data = np.frombuffer(raw, dtype=np.uint8)
    batches = headers(data, np.array(positions, dtype=np.int64))
    if following is None:
        return batches, problems
    place = replace(split, file=following.file)
    if walk.next_offset < following.base_offset:
        text = f"offsets {walk.next_offset} to {following.base_offset - 1} are missing"
        problems.append(_problem_row(place, following.position, walk.next_offset, "gap", text))
    elif walk.next_offset > following.base_offset:
        # The split behind has these offsets: they are its.
        text = (
            f"batch at offset {following.base_offset} where offset {walk.next_offset} should follow"
        )
        offset = following.base_offset
        problems.append(_problem_row(place, following.position, offset, "order", text))
        batches = batches.select(batches.last_offset < following.base_offset)
    # A gap between the two may have begun the epoch.
    is_next = walk.next_offset == following.base_offset
    wrong = _following_epoch_problem(batches, following, is_next=is_next)
    if wrong is not None:
        offset = following.base_offset
        problems.append(_problem_row(place, following.position, offset, "epoch", wrong))
    return batches, problems


def _following_epoch_problem(batches: Batches, following: Boundary, *, is_next: bool) -> str | None:
    if following.epoch is None or not len(batches):
        return None
    may_begin = following.begins_epoch or not is_next
    return epoch_problem(int(batches.epoch[-1]), following.epoch, may_begin=may_begin)


def _placed(problem: Problem, split: Split) -> Problem:
    """Return a problem of a split's bytes as one of the file."""
    position = None if problem.position is None else problem.position + split.start
    following = split.following
    if problem.kind == "torn_tail" and following is not None and following.file == split.file:
        text = problem.message.replace(" at the end are no whole batch", " are no batch")
        return replace(problem, position=position, kind="corrupt", message=text)
    return replace(problem, position=position)


def _problem_row(
    split: Split, position: int, offset: int | None, kind: str, message: str
) -> SourceRow:
    problem = Problem(split.file, offset, kind, message, position)
    return problem_row(problem, split.source, split.cluster)
