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
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from analytics.errors import ReplayInputError
from analytics.job.local_runner import RowsInMemory, add_rows, of_bucket
from analytics.job.runner import ROWS, Answer, Item, Mapped, Mapper, Reducer
from analytics.store.arrow_alone import use_arrow_alone
from analytics.tables.spark_schema import spark_schema

Batches = Iterator[pa.RecordBatch]

TASKS_MAX = 1024
"""More items than that share tasks."""


class SparkRunner:
    """Spark's tasks do the work, and their rows stay on the disks of the executors.

    Args:
        spark: The session, a classic one or one of Spark Connect.
        close: Hears that no more work comes.
    """

    def __init__(self, spark: SparkSession, close: Callable[[], object] = int) -> None:
        self.spark = spark
        self._close = close
        self.name = f"Spark {spark.version}, {spark.conf.get('spark.master')}"

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item."""
        if not items:
            return Mapped([], None)
        # Two queries look at the result, and nothing may be read twice.
        done = self.mapped(work, items).persist(StorageLevel.DISK_ONLY)
        try:
            answers = _answers(done.where(done["bucket"].isNull()).toArrow())
        except BaseException:
            done.unpersist()
            raise
        return Mapped(answers, done.where(done["bucket"].isNotNull()), done.unpersist)

    def mapped(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> DataFrame:
        """Return what a piece of work gives for each item: its rows, and its answer."""
        numbers = self.spark.range(0, len(items), 1, min(len(items), TASKS_MAX))
        return numbers.mapInArrow(partial(_map, work, items), spark_schema(ROWS))

    def shuffle(
        self, mapped: Mapped[Any], more: pa.Table, buckets: int, work: Reducer[Answer]
    ) -> Sequence[Answer]:
        """Do a piece of work for each bucket that has rows; a bucket is a task."""
        schema = spark_schema(ROWS)
        # Of a table without a chunk PySpark does not know the types.
        added = self.spark.createDataFrame(more.combine_chunks() if len(more) else [], schema)
        rows = added if mapped.rows is None else mapped.rows.union(added)
        in_order = rows.repartitionById(buckets, "bucket").sortWithinPartitions("bucket")
        return _answers(in_order.mapInArrow(partial(_reduce, work), schema).toArrow())

    def close(self) -> None:
        """Hear that no more work comes."""
        self._close()


class SmallSparkRunner(RowsInMemory):
    """Spark's tasks do the work on a small log, whose rows pass through the driver.

    A job for each stage is all: to plan and to compile a shuffle takes Spark a second.

    Args:
        spark: The runner of other logs.
    """

    def __init__(self, spark: SparkRunner) -> None:
        self._spark = spark
        self.name = spark.name

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item."""
        if not items:
            return Mapped([], {})
        done = self._spark.mapped(work, items).toArrow()
        is_row = pc.is_valid(done.column("bucket"))
        rows = add_rows([done.filter(is_row)], {})
        return Mapped(_answers(done.filter(pc.invert(is_row))), rows, rows.clear)

    def close(self) -> None:
        """Hear that no more work comes."""
        self._spark.close()


def _map(work: Mapper[Item, Answer], items: Sequence[Item], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _closed(number, partial(work, items[number]))


def _reduce(work: Reducer[Answer], batches: Batches) -> Batches:
    rows = (row for batch in batches for row in batch.to_pylist())
    for bucket, own in groupby(rows, itemgetter("bucket")):
        yield from _closed(bucket, partial(of_bucket, work, (bucket, list(own))))


def _closed(number: int, work: Callable[[], Generator[pa.RecordBatch, None, Any]]) -> Batches:
    """Yield the rows of a piece of work, and behind them its answer, a row without a bucket."""
    use_arrow_alone()
    answer: object
    try:
        answer = yield from work()
    except ReplayInputError as error:
        answer = error
    row = {"first": number, "blob": pickle.dumps(answer)}
    yield pa.RecordBatch.from_pylist([row], schema=ROWS)


def _answers(found: pa.Table) -> list[Any]:
    """Return the answers in the order of their numbers.

    Raises:
        ReplayInputError: one of them is such an error.
    """
    blobs = found.sort_by("first").column("blob").to_pylist()
    answers = [pickle.loads(blob) for blob in blobs]
    for answer in answers:
        if isinstance(answer, ReplayInputError):
            raise answer
    return answers
