"""A runner whose work Spark's tasks do.

Only PySpark's public API is used, and of that nothing that Spark Connect lacks: no SparkContext.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError
from analytics.job.runner import ROWS, Answer, Item, Mapped, Mapper, Reducer, Row
from analytics.tables.spark_schema import spark_schema

Batches = Iterator[pa.RecordBatch]

TASKS_MAX = 1024
"""More items than that share tasks."""


class SparkRunner:
    """Spark's tasks do the work.

    Args:
        spark: The session, a classic one or one of Spark Connect.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def name(self) -> str:
        """What it is, for the report."""
        return f"Spark {self.spark.version}, {self.spark.conf.get('spark.master')}"

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item; its rows are kept on the disks of the executors."""
        if not items:
            return Mapped([], None)
        tasks = min(len(items), TASKS_MAX)
        numbers = self.spark.range(0, len(items), 1, tasks)
        done = numbers.mapInArrow(partial(_map, work, items), spark_schema(ROWS))
        # Two queries look at the result, and nothing may be read twice.
        done = done.persist(StorageLevel.DISK_ONLY)
        try:
            answers = done.where("bucket IS NULL").select("first", "blob").toArrow()
            found = dict(zip(*(column.to_pylist() for column in answers.columns), strict=True))
            own = [_opened(found[number]) for number in range(len(items))]
        except BaseException:
            done.unpersist()
            raise
        return Mapped(own, done.where("bucket IS NOT NULL"), done.unpersist)

    def shuffle(
        self, mapped: Mapped[Any], more: pa.Table, buckets: int, work: Reducer[Answer]
    ) -> list[Answer]:
        """Do a piece of work for each bucket that has rows; a bucket is a task."""
        schema = spark_schema(ROWS)
        # Of a table without a chunk PySpark does not know the types.
        added = self.spark.createDataFrame(more.combine_chunks() if len(more) else [], schema)
        rows = added if mapped.rows is None else mapped.rows.union(added)
        in_order = rows.repartitionById(buckets, "bucket").sortWithinPartitions("bucket", "first")
        answers = in_order.mapInArrow(partial(_reduce, work), spark_schema(ROWS)).toArrow()
        return [_opened(blob) for blob in answers.column("blob").to_pylist()]


def _map(work: Mapper[Item, Answer], items: Sequence[Item], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _closed(number, partial(work, items[number]))


def _reduce(work: Reducer[Answer], batches: Batches) -> Batches:
    rows = (row for batch in batches for row in batch.to_pylist())
    for bucket, own in groupby(rows, itemgetter("bucket")):
        yield from _closed(bucket, partial(_reduced, work, bucket, own))


def _reduced(work: Reducer[Answer], bucket: int, rows: Iterator[Row]) -> Generator[Any, None, Any]:
    yield from ()
    return work(bucket, rows)


def _closed(number: int, work: Callable[[], Generator[pa.RecordBatch, None, Any]]) -> Batches:
    """Yield the rows of a piece of work, and behind them its answer, a row without a bucket."""
    answer: object
    try:
        answer = yield from work()
    except ReplayInputError as error:
        answer = error
    row = {"first": number, "blob": pickle.dumps(answer)}
    yield pa.RecordBatch.from_pylist([row], schema=ROWS)


def _opened(blob: bytes) -> Any:
    answer = pickle.loads(blob)
    if isinstance(answer, ReplayInputError):
        raise answer
    return answer
