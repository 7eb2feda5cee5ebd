"""A runner in this process: no Java virtual machine, no PySpark, and all blocks in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.job.runner import Answer, Item, Mapped, Mapper, Reducer, Row

Buckets = dict[int, list[Row]]


class RowsInMemory(ABC):
    """The half of a runner that does not depend on who does the work: the driver holds all rows."""

    @abstractmethod
    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item; the rows it yields are kept as Buckets."""

    def shuffle(
        self, mapped: Mapped[Any], more: pa.Table, buckets: int, work: Reducer[Answer]
    ) -> Sequence[Answer]:
        """Do a piece of work for each bucket that has rows."""
        rows: Buckets = mapped.rows
        assert all(bucket < buckets for bucket in add_rows([more], rows))
        items = [(bucket, rows.pop(bucket)) for bucket in sorted(rows)]
        return self.map(partial(of_bucket, work), items).answers


class LocalRunner(RowsInMemory):
    """Does one piece of work after the other."""

    name = "this process"

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item."""
        answers: list[Answer] = []
        rows = add_rows((row for item in items for row in _steps(work(item), answers)), {})
        return Mapped(answers, rows, rows.clear)

    def close(self) -> None:
        """Hear that no more work comes."""


def add_rows(batches: Iterable[pa.RecordBatch | pa.Table], rows: Buckets) -> Buckets:
    """Add rows of ROWS to those of their buckets."""
    for batch in batches:
        for row in batch.to_pylist():
            rows.setdefault(row["bucket"], []).append(row)
    return rows


def _steps(
    work: Generator[pa.RecordBatch, None, Answer], answers: list[Answer]
) -> Iterator[pa.RecordBatch]:
    answers.append((yield from work))


def of_bucket(
    work: Reducer[Answer], item: tuple[int, list[Row]]
) -> Generator[pa.RecordBatch, None, Answer]:
    """Do a piece of work for a bucket."""
    yield from ()
    bucket, rows = item
    return work(bucket, _in_order(rows))


def _in_order(rows: list[Row]) -> Iterator[Row]:
    """Yield rows by `first`, and hold no row that was yielded."""
    rows.sort(key=itemgetter("first"))
    rows.reverse()
    while rows:
        yield rows.pop()
