"""Frames of Spark as tables, questions to them, and what is done with their rows by columns.

A question is one text of SQL rather than a row of calls: each call is several messages to the
virtual machine, and has it look over the whole plan so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, SparkSession

from analytics.tables.names_in_sql import names_in
from analytics.tables.spark_schema import spark_schema, spark_type
from analytics.tables.table import Table

_IS_BY_DRIVER = "spark.jbodlab.tasksByDriver"
"""Setting of a session: `true` where the driver does itself what tasks would do in Python."""

_BY_DRIVER = {
    _IS_BY_DRIVER: "true",
    # What is one partition anyway needs no exchange, and a side of a join no job of its own.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # It compiles a class for every grouping, interpreted or not; sorting a few rows is nothing.
    "spark.sql.execution.useHashAggregateExec": "false",
}
"""Settings where the driver does what tasks would do: for few rows, then."""

DRIVER_ROWS_MAX = 20_000
"""Up to so many rows the driver has done what is to do before tasks have been told."""

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_sql(sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return what a query gives; frames stand in it by their names in braces.

    Spark gives them names for the time of the call. When it takes the name away, it forgets what
    it has kept of the frame: one that is persisted may not stand there itself, only what is made
    of it.
    """
    asked: dict[str, Any] = {name: frames[name] for name in names_in(sql)}
    spark: SparkSession = next(iter(asked.values())).sparkSession
    return spark.sql(sql, **asked)


def map_batches(rows: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """Return what a function makes of rows, many at a time.

    Tasks call it, or, where the session is set to that, the driver: few rows are done before a
    worker has started and a job was planned. It is called at once then, and not again.

    Args:
        rows: The rows; their order within a partition is kept.
        work: What is done with the batches of a partition, or with all of them.
        schema: Of what it gives.
    """
    spark = rows.sparkSession
    if not is_by_driver(spark):
        return rows.mapInArrow(work, spark_schema(schema))
    return _by_driver(spark, rows.toArrow(), work, schema)


def map_numbers(
    spark: SparkSession, count: int, tasks: int, work: Work, schema: pa.Schema
) -> DataFrame:
    """Return what a function makes of the numbers from 0 on, as `map_batches` does.

    Args:
        spark: The session.
        count: How many numbers there are.
        tasks: To how many tasks they are given.
        work: What is done with batches of one column, the numbers.
        schema: Of what it gives.
    """
    if not is_by_driver(spark):
        return spark.range(0, count, 1, tasks).mapInArrow(work, spark_schema(schema))
    return _by_driver(spark, pa.table({"id": pa.array(range(count))}), work, schema)


def _by_driver(spark: SparkSession, rows: pa.Table, work: Work, schema: pa.Schema) -> DataFrame:
    return local_frame(spark, pa.Table.from_batches(work(iter(rows.to_batches())), schema))


def is_by_driver(spark: SparkSession) -> bool:
    """Return whether the driver does what tasks would do in Python."""
    return spark.conf.get(_IS_BY_DRIVER, "false") == "true"


@contextmanager
def by_driver(spark: SparkSession, is_wanted: bool) -> Iterator[None]:
    """Let the driver do inside what tasks would do in Python, if that is wanted.

    Args:
        spark: The session.
        is_wanted: Whether; otherwise it stays as it is.
    """
    with with_settings(spark, _BY_DRIVER if is_wanted else {}):
        yield


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session, for what is inside."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, former in before.items():
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)


def few_rows_here(rows: DataFrame, count: int) -> tuple[DataFrame, bool]:
    """Bring rows to the driver if they are few, so that it asks them without a task.

    Args:
        rows: The rows.
        count: How many there are.

    Returns:
        The rows, and whether the driver has them now.
    """
    if is_by_driver(rows.sparkSession):
        return rows, True
    if count > DRIVER_ROWS_MAX:
        return rows, False
    return local_frame(rows.sparkSession, rows.toArrow()), True


def local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows that the driver has as a frame."""
    # Of a table without a chunk pyspark does not know the types.
    one = rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
    return spark.createDataFrame(one, spark_schema(one.schema))


def conformed(table: Table) -> list[str]:
    """Return SQL for each of a table's columns, with its type."""
    return [
        f"CAST(`{column.name}` AS {spark_type(column.type).simpleString()}) AS `{column.name}`"
        for column in table.columns
    ]
