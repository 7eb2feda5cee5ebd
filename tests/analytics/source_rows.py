"""Rows of the data source for tests: as columns give them, and as the plain decoder does."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from analytics.bytes.layout import Layout, Split
from analytics.decode.plain_rows import SourceRow, crc_problem, decode_batch, problem_row
from analytics.decode.split_rows import COLUMNS, check_split, read_all
from analytics.store.log_files import open_files
from jbodlab.protocol.record_batch import crc_is_valid, read_header

_TIMES = ("timestamp", "replay_time")


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
    return from_arrow(read_all(layout))


def plain_rows(layout: Layout) -> list[SourceRow]:
    """Return the same rows, decoded record by record."""
    rows = [problem_row(problem) for problem in layout.problems]
    for split in layout.splits:
        rows += plain_split_rows(split)
    return rows


def plain_split_rows(split: Split) -> list[SourceRow]:
    raw = open_files(split.source).read(split.file, split.start, split.end - split.start)
    batches, rows = check_split(raw, split)
    for position in batches.position.tolist():
        header = read_header(raw, position)
        if crc_is_valid(raw, position, header):
            rows += decode_batch(raw, position, header, split)
        else:
            rows.append(crc_problem(split, position, header.base_offset))
    return rows


def in_order(rows: Iterable[SourceRow]) -> list[str]:
    """Return rows as texts, in an order that does not depend on who decoded them."""
    return sorted(map(repr, rows))


SCHEMA = COLUMNS
