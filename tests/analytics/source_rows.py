"""Rows of the data source for tests: as columns give them, and as the plain decoder does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from analytics.read.arrow_rows import arrow_rows
from analytics.read.layout import Layout, Split, read_chain
from analytics.read.plain_rows import SourceRow, crc_problem, decode_batch, problem_row
from analytics.read.split_rows import COLUMNS, check_split, read_split
from analytics.store.log_files import open_files
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record
from jbodlab.record_batch.record_batch import crc_is_valid, read_header
from tests.jbodlab.metadata.records.strategies import structs

VERSIONS = [
    (cls, version) for cls in RECORD_TYPES.values() for version in range(cls.HIGHEST_VERSION + 1)
]
_TIMES = ("timestamp", "replay_time")


def records_of(cls: type[Record], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for records of a type and version."""
    return structs(cls, version, unknown_tags=st.just(()))


def from_arrow(batches: Iterable[pa.RecordBatch]) -> list[SourceRow]:
    """Return the rows of Arrow batches; times are microseconds."""
    rows: list[SourceRow] = []
    for batch in batches:
        columns = []
        for name in SourceRow._fields:
            column = batch.column(name)
            columns.append((column.cast(pa.int64()) if name in _TIMES else column).to_pylist())
        rows += map(SourceRow._make, zip(*columns, strict=True))
    return rows


def column_rows(layout: Layout) -> list[SourceRow]:
    """Return all rows of a layout, as tasks give them."""
    rows = from_arrow([arrow_rows(list(map(problem_row, layout.problems)), COLUMNS)])
    return rows + from_arrow(batch for one in layout.splits for batch in read_split(one, COLUMNS))


def agreed_rows(layout: Layout) -> list[SourceRow]:
    """Return all rows of a layout by their offsets, after a look at those of the plain decoder."""
    rows = column_rows(layout)
    assert in_order(rows) == in_order(plain_rows(layout))
    return sorted(rows, key=lambda row: -1 if row.offset is None else row.offset)


def plain_rows(layout: Layout) -> list[SourceRow]:
    """Return the same rows, decoded record by record."""
    rows = [problem_row(problem) for problem in layout.problems]
    for split in layout.splits:
        raw = open_files(split.source).read(split.file, split.start, split.end - split.start)
        batches, problems = check_split(raw, split)
        rows += problems
        rows += decoded(raw, split, batches.position.tolist())
    return rows


def decode_split(data: bytes, split: Split) -> Iterator[SourceRow]:
    """Yield the rows of the batches that bytes begin with, record by record."""
    return decoded(data, split, read_chain(data).position.tolist())


def decoded(data: bytes, split: Split, positions: Iterable[int]) -> Iterator[SourceRow]:
    for position in positions:
        header = read_header(data, position)
        if crc_is_valid(data, position, header):
            yield from decode_batch(data, position, header, split)
        else:
            yield crc_problem(split, position, header.base_offset)


def in_order(rows: Iterable[SourceRow]) -> list[str]:
    """Return rows as texts, in an order that does not depend on who decoded them."""
    return sorted(map(repr, rows))
