"""A runner in this process: no Java virtual machine, no PySpark, and all blocks in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.job.runner import Answer, Item, Mapped, Mapper, Reducer, Row

Buckets = dict[int, list[Row]]


class LocalRunner:
    """Does one piece of work after the other."""

    name = "this process"

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item."""
        rows: Buckets = {}
        answers = [_answer(work, item, rows) for item in items]
        return Mapped(answers, rows, rows.clear)

    def shuffle(
        self, mapped: Mapped[Any], more: pa.Table, buckets: int, work: Reducer[Answer]
    ) -> list[Answer]:
        """Do a piece of work for each bucket that has rows."""
        rows: Buckets = mapped.rows
        _add(more, rows)
        assert all(bucket < buckets for bucket in rows)
        return [work(bucket, _in_order(rows.pop(bucket))) for bucket in sorted(rows)]


def _answer(work: Mapper[Item, Answer], item: Item, rows: Buckets) -> Answer:
    steps = work(item)
    while True:
        try:
            _add(next(steps), rows)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def _add(batch: pa.RecordBatch | pa.Table, rows: Buckets) -> None:
    for row in batch.to_pylist():
        rows.setdefault(row["bucket"], []).append(row)


def _in_order(rows: list[Row]) -> Iterator[Row]:
    return iter(sorted(rows, key=itemgetter("first")))
