"""The stage that goes through the buckets of partitions once more, for what is derived of them.

A task reads the files of its buckets and writes rows of its own; what concerns several buckets it
gives to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.bytes.arrays import Longs
from analytics.derive.bucket_rows import RowsOfFiles
from analytics.derive.bucket_tables import OF_PARTITIONS, derive
from analytics.derive.directory_failures import Failure, failure_row
from analytics.derive.failure_parts import (
    FAILURE_PART,
    TOUCHED_BY,
    touched_counts,
)
from analytics.derive.failures import Failures
from analytics.derive.log_end import LogEnd
from analytics.job.row_kinds import KIND, Kinds, task_label, told
from analytics.job.scan_stage import FILE
from analytics.store.part_files import PartFiles, PartWriters
from analytics.store.store import Store
from analytics.tables import catalog as t
from analytics.tables.frames import Work, map_batches, map_numbers
from analytics.tables.table import INT, LONG, STRING

FAILURE = "failure"

BY_TASKS = (*OF_PARTITIONS, t.DIRECTORY_FAILURES, t.BROKER_FAILURES)
"""Tables that tasks write by themselves."""

Batches = Iterator[pa.RecordBatch]

OUTPUT = Kinds(
    pa.schema(
        [
            pa.field(KIND, STRING),
            pa.field("file", pa.struct(FILE)),
            pa.field(FAILURE, pa.struct(FAILURE_PART)),
        ]
    )
)
"""One row of one kind; the columns of the other kinds are null."""

_COUNT = pa.schema([pa.field("failure", INT), pa.field("touched", LONG)])


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of the buckets, and where to write."""

    files: Mapping[int, Mapping[str, Sequence[str]]]
    """For each bucket the names in the store, by the name of the table."""
    parts: PartFiles


def count_touched(spark: SparkSession, failures: Failures, files: BucketFiles) -> Longs:
    """Return how many replicas each failure touched."""
    counts: Longs = np.zeros(len(failures), dtype=np.int64)
    if not len(failures):
        return counts
    found = _map_buckets(spark, files, _counter(files, failures), _COUNT)
    for row in found.groupBy("failure").agg(F.sum("touched").alias("touched")).collect():
        counts[row["failure"]] = row["touched"]
    return counts


def derive_buckets(
    spark: SparkSession, failures: Failures, end: LogEnd, files: BucketFiles
) -> DataFrame:
    """Derive what each bucket gives.

    Args:
        spark: The session.
        failures: With `since`.
        end: End of the log.
        files: The files of the buckets.

    Returns:
        Rows of the schema of `OUTPUT`.
    """
    return _map_buckets(spark, files, _deriver(files, failures, end), OUTPUT.schema)


def tell(of_buckets: DataFrame) -> tuple[tuple[Row, ...], int]:
    """Collect in one job which files tasks have written, and how many parts of failures there are.

    Args:
        of_buckets: What `derive_buckets` returned.
    """
    files, count = told(of_buckets, "collect_list(file)", f"count_if({KIND} = '{FAILURE}')")
    return tuple(files), count


def sum_up_failures(found: DataFrame, failures: Sequence[Failure], parts: PartFiles) -> DataFrame:
    """Write the tables of directory failures and broker failures.

    Args:
        found: The rows of failures of what `derive_buckets` returned.
        failures: All of them, in the order of their numbers; those of a table in its order.
        parts: Where tasks write the tables.

    Returns:
        The files that were written, rows of `scan.FILE`.
    """
    # Every failure has a row, also one that touched nothing.
    numbers = found.sparkSession.range(len(failures)).select(
        F.col("id").cast("int").alias("failure")
    )
    rows = found.unionByName(numbers, allowMissingColumns=True)
    # The numbers have the order of the tables, and the files of tasks follow one another.
    rows = rows.repartitionByRange("failure")
    return map_batches(rows, _summer_up(failures, parts), FILE)


def _map_buckets(
    spark: SparkSession, files: BucketFiles, work: Work, schema: pa.Schema
) -> DataFrame:
    count = max(1, len(files.files))
    return map_numbers(spark, count, count, work, schema)


def _counter(files: BucketFiles, failures: Failures) -> Callable[[Batches], Batches]:
    buckets = list(files.files.values())

    def count(batches: Batches) -> Batches:
        store = Store(files.parts.folder)
        for number in _numbers(batches, len(buckets)):
            rows = RowsOfFiles(store, buckets[number]).rows(t.REPLICA_PLACEMENT, TOUCHED_BY)
            yield _counts(touched_counts(rows, failures))

    return count


def _counts(touched: Longs) -> pa.RecordBatch:
    some = np.nonzero(touched)[0]
    arrays = [pa.array(some.astype(np.int32)), pa.array(touched[some])]
    return pa.RecordBatch.from_arrays(arrays, schema=_COUNT)


def _deriver(files: BucketFiles, failures: Failures, end: LogEnd) -> Callable[[Batches], Batches]:
    buckets = list(files.files.items())

    def derive_files(batches: Batches) -> Batches:
        store = Store(files.parts.folder)
        for number in _numbers(batches, len(buckets)):
            bucket, own = buckets[number]
            found = derive(RowsOfFiles(store, own), failures, end)
            with PartWriters(files.parts, f"{bucket:05d}") as writers:
                for table, rows in (*found.rows.items(), *found.small.items()):
                    writers.write(table, rows, still=True)
            if writers.files:
                yield OUTPUT.of_rows("file", writers.files)
            if found.failures:
                yield OUTPUT.of_rows(FAILURE, found.failures)

    return derive_files


def _summer_up(failures: Sequence[Failure], parts: PartFiles) -> Callable[[Batches], Batches]:
    def sum_up(batches: Batches) -> Batches:
        found: dict[int, list[dict[str, object]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                own = found.setdefault(row["failure"], [])
                if row["touched"] is not None or row["costs"] is not None:
                    own.append(row)
        if not found:
            return
        made: dict[t.Table, list[dict[str, object]]] = {}
        for number in sorted(found):
            failure = failures[number]
            of_broker = failure.directory is None
            table = t.BROKER_FAILURES if of_broker else t.DIRECTORY_FAILURES
            made.setdefault(table, []).append(failure_row(failure, found[number]))
        with PartWriters(parts, task_label()) as writers:
            for table, rows in made.items():
                writers.write(table, pa.Table.from_pylist(rows, table.schema), still=True)
        yield pa.RecordBatch.from_pylist(writers.files, schema=FILE)

    return sum_up


def _numbers(batches: Batches, count: int) -> Iterator[int]:
    for batch in batches:
        yield from (number for number in batch.column(0).to_pylist() if number < count)
