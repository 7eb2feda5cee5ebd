"""The stage that goes through the buckets of partitions once more, for what is derived of them.

Where tasks wrote the tables by themselves, each reads the files of its buckets and writes its rows
likewise; else Spark brings the rows of a bucket together and takes what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from analytics import tables as t
from analytics.columns.arrays import Longs
from analytics.derived.bucket_rows import NEEDED, RowsInMemory, RowsOfFiles
from analytics.derived.bucket_tables import OF_PARTITIONS, SMALL_KINDS, BucketTables, derive
from analytics.derived.directory_failures import Failure, failure_row
from analytics.derived.failure_parts import (
    FAILURE_PART,
    TOUCHED_BY,
    Failures,
    touched_counts,
)
from analytics.derived.log_end import LogEnd
from analytics.kinds import KIND, Kinds, of_kind, task_label
from analytics.part_files import PartFiles, PartWriters
from analytics.scan import FILE
from analytics.table import INT, LONG, STRING, Table

FAILURE = "failure"

BY_TASKS = (*OF_PARTITIONS, t.DIRECTORY_FAILURES)
"""Tables that tasks write by themselves where they may."""

Batches = Iterator[pa.RecordBatch]

OUTPUT = Kinds(
    StructType(
        [
            StructField(KIND, STRING),
            StructField("file", FILE),
            StructField(FAILURE, FAILURE_PART),
            *(StructField(kind, columns) for kind, columns in SMALL_KINDS.items()),
            *(StructField(table.name, table.schema) for table in BY_TASKS),
        ]
    )
)
"""One row of one kind; the columns of the other kinds are null."""

_COUNT = StructType([StructField("failure", INT), StructField("touched", LONG)])


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of the buckets, and where to write."""

    files: Mapping[int, Mapping[str, Sequence[str]]]
    """For each bucket the paths by the name of the table."""
    parts: PartFiles


def count_touched(
    tables: Mapping[str, DataFrame], failures: Failures, files: BucketFiles | None
) -> Longs:
    """Return how many replicas each failure touched."""
    counts: Longs = np.zeros(len(failures), dtype=np.int64)
    if not len(failures):
        return counts
    placement = tables[t.REPLICA_PLACEMENT.name]
    if files is None:
        needed = placement.select(*TOUCHED_BY)
        found = needed.mapInArrow(_counter_of_rows(failures), _COUNT)
    else:
        found = _per_bucket(placement, files).mapInArrow(_counter_of_files(files, failures), _COUNT)
    for row in found.groupBy("failure").agg(F.sum("touched").alias("touched")).collect():
        counts[row["failure"]] = row["touched"]
    return counts


def derive_buckets(
    tables: Mapping[str, DataFrame],
    failures: Failures,
    end: LogEnd,
    files: BucketFiles | None,
) -> DataFrame:
    """Derive what each bucket gives.

    Args:
        tables: The tables of facts as they were written.
        failures: With `since`.
        end: End of the log.
        files: The files of the buckets; None if there are none.

    Returns:
        Rows of the schema of `OUTPUT`.
    """
    if files is not None:
        numbers = _per_bucket(tables[t.REPLICA_PLACEMENT.name], files)
        return numbers.mapInArrow(_deriver_of_files(files, failures, end), OUTPUT.schema)
    mixed = _mixed(tables).repartition("topic_id", "partition")
    return mixed.mapInArrow(_deriver_of_rows(failures, end), OUTPUT.schema)


def sum_up_failures(
    of_buckets: DataFrame, failures: Sequence[Failure], parts: PartFiles | None
) -> DataFrame:
    """Return the table of directory failures.

    Args:
        of_buckets: What `derive_buckets` returned.
        failures: All of them, in the order of their numbers.
        parts: Where tasks write the table by themselves; None if they do not.

    Returns:
        Rows of `OUTPUT`: the table, or the files that were written.
    """
    found = of_kind(of_buckets, FAILURE)
    # Every failure has a row, also one that touched nothing.
    numbers = found.sparkSession.range(len(failures)).select(F.col("id").cast(INT).alias("failure"))
    rows = found.unionByName(numbers, allowMissingColumns=True)
    # The numbers have the order of the table, and the files of tasks follow one another.
    rows = rows.repartitionByRange("failure")
    return rows.mapInArrow(_summer_up(failures, parts), OUTPUT.schema)


def _per_bucket(frame: DataFrame, files: BucketFiles) -> DataFrame:
    count = max(1, len(files.files))
    return frame.sparkSession.range(0, count, 1, count)


def _mixed(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of all tables that are needed, each in a struct column of its own."""
    parts = [
        tables[table.name].select(
            "topic_id",
            "partition",
            *(
                (F.struct(*names) if one is table else F.lit(None).cast(_needed(one))).alias(
                    one.name
                )
                for one in NEEDED
            ),
        )
        for table, names in NEEDED.items()
    ]
    return reduce(DataFrame.unionByName, parts)


def _needed(table: Table) -> StructType:
    return StructType([table.schema[name] for name in NEEDED[table]])


def _counter_of_rows(failures: Failures) -> Callable[[Batches], Batches]:
    def count(batches: Batches) -> Batches:
        for batch in batches:
            yield _counts(touched_counts(pa.Table.from_batches([batch]), failures))

    return count


def _counter_of_files(files: BucketFiles, failures: Failures) -> Callable[[Batches], Batches]:
    buckets = list(files.files.values())

    def count(batches: Batches) -> Batches:
        for number in _numbers(batches, len(buckets)):
            rows = RowsOfFiles(buckets[number]).rows(t.REPLICA_PLACEMENT, TOUCHED_BY)
            yield _counts(touched_counts(rows, failures))

    return count


def _counts(touched: Longs) -> pa.RecordBatch:
    some = np.nonzero(touched)[0]
    arrays = [pa.array(some.astype(np.int32)), pa.array(touched[some])]
    return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(_COUNT))


def _deriver_of_files(
    files: BucketFiles, failures: Failures, end: LogEnd
) -> Callable[[Batches], Batches]:
    buckets = list(files.files.items())

    def derive_files(batches: Batches) -> Batches:
        for number in _numbers(batches, len(buckets)):
            bucket, own = buckets[number]
            found = derive(RowsOfFiles(own), failures, end)
            with PartWriters(files.parts, f"{bucket:05d}") as writers:
                for table, rows in found.rows.items():
                    writers.write(table, rows, still=True)
            if writers.files:
                yield OUTPUT.of_rows("file", writers.files)
            yield from _small_rows(found)

    return derive_files


def _deriver_of_rows(failures: Failures, end: LogEnd) -> Callable[[Batches], Batches]:
    def derive_rows(batches: Batches) -> Batches:
        held: dict[str, list[pa.Table]] = {table.name: [] for table in NEEDED}
        for batch in batches:
            for name, parts in held.items():
                structs = batch.column(name)
                own = structs.filter(pc.is_valid(structs))
                if len(own):
                    parts.append(pa.Table.from_struct_array(own))
        tables = {name: pa.concat_tables(parts) for name, parts in held.items() if parts}
        if not tables:
            return
        found = derive(RowsInMemory(tables), failures, end)
        for table, rows in found.rows.items():
            yield from OUTPUT.of_table(table.name, rows)
        yield from _small_rows(found)

    return derive_rows


def _summer_up(
    failures: Sequence[Failure], parts: PartFiles | None
) -> Callable[[Batches], Batches]:
    def sum_up(batches: Batches) -> Batches:
        found: dict[int, list[dict[str, object]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                own = found.setdefault(row["failure"], [])
                if row["touched"] is not None:
                    own.append(row)
        made = [failure_row(failures[number], found[number]) for number in sorted(found)]
        if not made:
            return
        table = t.DIRECTORY_FAILURES
        if parts is None:
            yield OUTPUT.of_rows(table.name, made)
            return
        schema = to_arrow_schema(table.schema, timezone="UTC")
        with PartWriters(parts, task_label()) as writers:
            writers.write(table, pa.Table.from_pylist(made, schema), still=True)
        yield OUTPUT.of_rows("file", writers.files)

    return sum_up


def _small_rows(found: BucketTables) -> Batches:
    for kind, rows in found.small.items():
        yield from OUTPUT.of_table(kind, rows)
    if found.failures:
        yield OUTPUT.of_rows(FAILURE, found.failures)


def _numbers(batches: Batches, count: int) -> Iterator[int]:
    for batch in batches:
        yield from (number for number in batch.column(0).to_pylist() if number < count)
